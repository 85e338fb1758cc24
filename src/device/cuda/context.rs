//! What a card gives a logical device: a context of its own, its streams, events and memory.
//!
//! Each frees itself when dropped and keeps its context alive until then. After a kernel fault the driver refuses
//! everything, freeing included; what is left goes with the context.

#![allow(unsafe_code)] // calls the CUDA driver

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::driver::{Driver, fault};
use crate::device::{Fault, FaultKind};

/// A context on one card.
#[derive(Debug)]
pub struct Context {
    raw: sys::CUcontext,
    device: sys::CUdevice,
}

// SAFETY: contexts may be used from any thread that has made them current.
unsafe impl Send for Context {}
// SAFETY: the driver locks what its calls share.
unsafe impl Sync for Context {}

impl Context {
    /// A new context on the card with that number.
    pub fn create(card: u32) -> Result<Arc<Self>, Fault> {
        let driver = Driver::get().map_err(|missing| Fault::new(FaultKind::Lost, missing))?;
        if card >= driver.cards {
            let cards = match driver.cards {
                1 => "the only card here is cuda:0".into(),
                count => format!("the cards here are cuda:0 to cuda:{}", count - 1),
            };
            return Err(Fault::new(FaultKind::Lost, format!("there is no card {card}; {cards}")));
        }
        let lost = |error| fault(FaultKind::Lost, "no context on the card", error);
        let device = result::device::get(card as i32).map_err(lost)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the driver writes one handle to the address of one; `device` came from it just now.
        unsafe { sys::cuCtxCreate_v2(&raw mut raw, 0, device) }.result().map_err(lost)?;
        let context = Arc::new(Self { raw, device });
        let mut popped = ptr::null_mut();
        // SAFETY: takes the new context off this thread again, which creating it has put there.
        unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) }.result().map_err(lost)?;
        Ok(context)
    }

    /// Makes this the context of the calling thread until what is returned is dropped.
    pub fn enter(&self) -> Result<Entered<'_>, Fault> {
        // SAFETY: the context lives as long as `self`, which the guard borrows.
        unsafe { sys::cuCtxPushCurrent_v2(self.raw) }
            .result()
            .map_err(|error| fault(FaultKind::Lost, "the context cannot be entered", error))?;
        Ok(Entered { _context: self, stays: PhantomData })
    }

    /// Free and total bytes of the card's memory.
    pub fn memory(&self) -> Result<(u64, u64), Fault> {
        let _entered = self.enter()?;
        let (free, total) = result::mem_get_info()
            .map_err(|error| fault(FaultKind::Lost, "the card does not tell its memory", error))?;
        Ok((free as u64, total as u64))
    }

    /// A property of the card.
    pub fn attribute(&self, attribute: sys::CUdevice_attribute) -> Option<u64> {
        // SAFETY: `device` came from the driver.
        let value = unsafe { result::device::get_attribute(self.device, attribute) }.ok()?;
        u64::try_from(value).ok()
    }

    /// Major and minor number of the card's compute capability.
    pub fn compute_capability(&self) -> Option<(u32, u32)> {
        use sys::CUdevice_attribute as a;
        let major = self.attribute(a::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(a::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Some((major as u32, minor as u32))
    }

    /// The card's name.
    pub fn card_name(&self) -> Option<String> {
        result::device::get_name(self.device).ok()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: everything made in it holds it alive, so nothing uses it any more. What a fault has spoiled cannot be
        // helped.
        let _ = unsafe { sys::cuCtxDestroy_v2(self.raw) };
    }
}

/// The calling thread works in a context.
pub struct Entered<'a> {
    _context: &'a Context,
    /// Dropped by the thread that entered.
    stays: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: the driver writes one handle to the address of one.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) };
    }
}

/// A stream that waits for no other.
#[derive(Debug)]
pub struct Stream {
    raw: sys::CUstream,
    context: Arc<Context>,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: the driver locks them.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream.
    pub fn create(context: &Arc<Context>) -> Result<Self, Fault> {
        let _entered = context.enter()?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|error| fault(FaultKind::Lost, "the card gives no stream", error))?;
        Ok(Self { raw, context: context.clone() })
    }

    /// The driver's handle.
    pub fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// What follows on this stream starts after `event`.
    pub fn wait(&self, event: &Event) -> Result<(), result::DriverError> {
        // SAFETY: both live.
        unsafe { sys::cuStreamWaitEvent(self.raw, event.raw, 0) }.result()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: nobody uses it any more; work that is still on it goes on.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

/// How a thread waits for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventWait {
    /// It sleeps.
    Blocking,
    /// It spins, or does not wait at all.
    Spinning,
}

/// An event with a time.
#[derive(Debug)]
pub struct Event {
    raw: sys::CUevent,
    context: Arc<Context>,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: the driver locks them.
unsafe impl Sync for Event {}

impl Event {
    /// A new event.
    pub fn create(context: &Arc<Context>, waiting: EventWait) -> Result<Self, Fault> {
        let _entered = context.enter()?;
        let flags = match waiting {
            EventWait::Blocking => sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC,
            EventWait::Spinning => sys::CUevent_flags::CU_EVENT_DEFAULT,
        };
        let raw = result::event::create(flags)
            .map_err(|error| fault(FaultKind::Lost, "the card gives no event", error))?;
        Ok(Self { raw, context: context.clone() })
    }

    /// Happens once all that `stream` was given so far has ended.
    pub fn record(&self, stream: &Stream) -> Result<(), result::DriverError> {
        // SAFETY: both live.
        unsafe { result::event::record(self.raw, stream.raw) }
    }

    /// Whether it has happened.
    pub fn is_complete(&self) -> Result<bool, result::DriverError> {
        // SAFETY: it lives.
        match unsafe { result::event::query(self.raw) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == sys::cudaError_enum::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until it has happened.
    pub fn wait(&self) -> Result<(), result::DriverError> {
        // SAFETY: it lives.
        unsafe { result::event::synchronize(self.raw) }
    }

    /// Nanoseconds from `earlier` to this one; both have happened.
    pub fn ns_since(&self, earlier: &Self) -> Result<f64, result::DriverError> {
        // SAFETY: both live.
        let milliseconds = unsafe { result::event::elapsed(earlier.raw, self.raw) }?;
        Ok(f64::from(milliseconds) * 1e6)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: nobody uses it any more.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}

/// Memory of the card.
#[derive(Debug)]
pub struct DeviceMemory {
    address: sys::CUdeviceptr,
    bytes: u64,
    context: Arc<Context>,
}

impl DeviceMemory {
    /// So many bytes, all zero: what is between rows and nobody computes is copied to the host with them, and must not be what
    /// another program left there.
    pub fn allocate(context: &Arc<Context>, bytes: u64) -> Result<Self, Fault> {
        let _entered = context.enter()?;
        let what = format!("{bytes} bytes of the card's memory");
        let size = usize::try_from(bytes.max(1)).map_err(|_| {
            Fault::new(FaultKind::OutOfMemory, format!("{what} are more than it can address"))
        })?;
        // SAFETY: a plain allocation.
        let address = unsafe { result::malloc_sync(size) }
            .map_err(|error| fault(FaultKind::OutOfMemory, &what, error))?;
        let memory = Self { address, bytes, context: context.clone() };
        // Streams that do not wait for the default one could overtake it: it has to have ended.
        // SAFETY: as many bytes as were allocated just now.
        unsafe { result::memset_d8_sync(address, 0, size) }
            .and_then(|()| result::ctx::synchronize())
            .map_err(|error| fault(FaultKind::Lost, "the card's memory cannot be cleared", error))?;
        Ok(memory)
    }

    /// Where it begins.
    pub fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: allocated in this context and freed once.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}
