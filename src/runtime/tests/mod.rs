//! Claims about every kind of work and every fault.

#[cfg(feature = "emulator")]
mod fault_policy;
#[cfg(feature = "emulator")]
mod fault_sweep;
mod kinds;
