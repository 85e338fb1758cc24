//! Host memory that a card copies from and to by itself: allocated page-locked, or locked where it lies.

#![allow(unsafe_code)] // pinned memory

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::context::Context;
use super::driver::fault;
use crate::device::pinned::HostBytes;
use crate::device::{Fault, FaultKind, Pinned, Registration};

/// Page-locked memory, zeroed; any context of the process may copy from and to it. Not write-combined, which the host
/// would read far too slowly.
struct Allocated {
    address: NonNull<u8>,
    bytes: usize,
    context: Arc<Context>,
}

// SAFETY: the bytes are reached through `Pinned`, which lets users in one by one; freeing works from any thread.
unsafe impl Send for Allocated {}
// SAFETY: the same.
unsafe impl Sync for Allocated {}

/// Page-locked memory of so many bytes, zeroed.
pub fn allocate(context: &Arc<Context>, bytes: u64) -> Result<Pinned, Fault> {
    let what = format!("{bytes} bytes of page-locked memory");
    let no_memory = |why: &str| Fault::new(FaultKind::OutOfMemory, format!("{what}: {why}"));
    let bytes = usize::try_from(bytes).map_err(|_| no_memory("more than the host can address"))?;
    let _entered = context.enter()?;
    // SAFETY: a plain allocation.
    let address = unsafe { result::malloc_host(bytes.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) }
        .map_err(|error| fault(FaultKind::OutOfMemory, &what, error))?;
    let address = NonNull::new(address.cast::<u8>()).ok_or_else(|| no_memory("the driver gave none"))?;
    // SAFETY: the driver gave that many bytes, and nobody else knows of them.
    unsafe { address.write_bytes(0, bytes) };
    let owner = Allocated { address, bytes, context: context.clone() };
    // SAFETY: just initialised, at a fixed place, freed by the owner's drop and known to nobody else.
    Ok(unsafe { Pinned::new(Box::new(owner)) })
}

impl HostBytes for Allocated {
    fn address(&mut self) -> NonNull<u8> {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: allocated by `allocate` and freed once; whoever copies holds the `Pinned` that owns this.
            let _ = unsafe { result::free_host(self.address.as_ptr().cast::<c_void>()) };
        }
    }
}

/// Locks borrowed memory where it lies, for as long as it is borrowed.
pub fn register<'a>(context: &Arc<Context>, bytes: &'a [u8]) -> Result<Registration<'a>, Fault> {
    if bytes.is_empty() {
        return Ok(Registration::nothing());
    }
    // SAFETY: the bytes are borrowed for as long as the registration lives.
    let locked = unsafe { Registered::lock(context, NonNull::from(bytes).cast(), bytes.len()) }?;
    Ok(Registration::new(Box::new(locked)))
}

/// A range of the host's memory that is page-locked where it lies, until this is dropped.
#[derive(Debug)]
pub struct Registered {
    address: usize,
    context: Arc<Context>,
    /// Whether this locked it; else another one did, for another device.
    own: bool,
}

impl Registered {
    /// Locks the pages of `bytes` bytes at `address` for every context of the process.
    ///
    /// # Safety
    /// The memory stays mapped until what is returned is dropped.
    pub unsafe fn lock(context: &Arc<Context>, address: NonNull<u8>, bytes: usize) -> Result<Self, Fault> {
        use sys::cudaError_enum as e;
        let _entered = context.enter()?;
        let lock = |flags: u32| {
            // SAFETY: the caller's promise; what is not mapped is an error of the driver and not of ours.
            unsafe { sys::cuMemHostRegister_v2(address.as_ptr().cast(), bytes, flags) }.result()
        };
        let portable = sys::CU_MEMHOSTREGISTER_PORTABLE;
        let own = match lock(portable) {
            Ok(()) => true,
            Err(error) if error.0 == e::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED => {
                if !is_locked(address, bytes) {
                    return Err(refused(bytes, error));
                }
                false
            }
            // A file that is mapped to be read can be locked to be read.
            Err(_) => {
                let locked = lock(portable | sys::CU_MEMHOSTREGISTER_READ_ONLY);
                locked.map_err(|error| refused(bytes, error))?;
                true
            }
        };
        Ok(Self { address: address.as_ptr() as usize, context: context.clone(), own })
    }
}

fn refused(bytes: usize, error: result::DriverError) -> Fault {
    fault(FaultKind::Copy, &format!("{bytes} bytes cannot be page-locked"), error)
}

/// Whether one earlier lock covers all of these bytes.
fn is_locked(address: NonNull<u8>, bytes: usize) -> bool {
    let ask = |attribute: sys::CUpointer_attribute| {
        let mut answer: u64 = 0;
        // SAFETY: both attributes asked for have eight bytes, which is what there is to write to.
        let told = unsafe {
            sys::cuPointerGetAttribute((&raw mut answer).cast(), attribute, address.as_ptr() as u64)
        };
        told.result().ok().map(|()| answer)
    };
    let begin = ask(sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
    let size = ask(sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE);
    let (Some(begin), Some(size)) = (begin, size) else { return false };
    let (first, last) = (address.as_ptr() as u64, address.as_ptr() as u64 + bytes as u64);
    begin <= first && last <= begin.saturating_add(size)
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.own
            && let Ok(_entered) = self.context.enter()
        {
            // SAFETY: locked by `lock` and unlocked once.
            let _ = unsafe { sys::cuMemHostUnregister(self.address as *mut c_void) };
        }
    }
}
