//! Page-locked host memory: allocated by the driver, or existing memory registered in place.

#![allow(unsafe_code)] // pinned memory

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{result, sys};

use super::context::Context;
use super::driver::fault;
use crate::device::page_locks::PageLocks;
use crate::device::pinned::HostBytes;
use crate::device::{Fault, FaultKind, Pinned, Registration, StableBytes};
use crate::matrix::AlignedBuffer;

/// Zeroed page-locked memory for all contexts of the process.
struct Allocated {
    address: NonNull<u8>,
    bytes: usize,
    context: Arc<Context>,
}

// SAFETY: `Pinned` controls access to the bytes; any thread may free them.
unsafe impl Send for Allocated {}
// SAFETY: the same.
unsafe impl Sync for Allocated {}

/// Allocates `bytes` bytes of zeroed page-locked memory. It is not write-combined, because host reads of such memory are slow.
pub fn allocate(context: &Arc<Context>, bytes: u64) -> Result<Pinned, Fault> {
    allocate_with(context, bytes, sys::CU_MEMHOSTALLOC_PORTABLE)
}

/// Allocates `bytes` bytes of zeroed page-locked memory that is write-combined: host reads of it are slow.
pub fn allocate_write_combined(context: &Arc<Context>, bytes: u64) -> Result<Pinned, Fault> {
    allocate_with(context, bytes, sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_WRITECOMBINED)
}

/// Allocates `bytes` bytes of zeroed pageable memory and registers (page-locks) them in place.
pub fn allocate_registered(context: &Arc<Context>, bytes: u64) -> Result<Pinned, Fault> {
    let no_memory = |why: String| Fault::new(FaultKind::OutOfMemory, why);
    let size =
        usize::try_from(bytes).map_err(|_| no_memory(format!("{bytes} bytes exceed the address space")))?;
    let buffer = AlignedBuffer::<u8>::zeroed(size).map_err(|error| no_memory(error.message()))?;
    page_lock(context, buffer)
}

/// Registers (page-locks) a buffer in place.
pub fn page_lock(context: &Arc<Context>, mut buffer: AlignedBuffer<u8>) -> Result<Pinned, Fault> {
    if buffer.is_empty() {
        return Ok(Pinned::of_buffer(buffer));
    }
    let bytes = buffer.len();
    // SAFETY: the buffer stays mapped until `RegisteredBuffer` drops the registration, which it does first.
    let registered = unsafe { Registered::lock(context, NonNull::from(&mut *buffer).cast(), bytes) }?;
    let owner = RegisteredBuffer { _registered: registered, buffer, bytes };
    // SAFETY: an aligned buffer owns its bytes, which do not move with it, and no other code has the address.
    Ok(unsafe { Pinned::new(Box::new(owner)) })
}

/// Memory that is registered for as long as it exists.
struct RegisteredBuffer {
    // Dropped before the buffer.
    _registered: Registered,
    buffer: AlignedBuffer<u8>,
    bytes: usize,
}

impl HostBytes for RegisteredBuffer {
    fn address(&mut self) -> NonNull<u8> {
        self.buffer.address()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

fn allocate_with(context: &Arc<Context>, bytes: u64, flags: u32) -> Result<Pinned, Fault> {
    let what = format!("{bytes} bytes of page-locked memory");
    let no_memory = |why: &str| Fault::new(FaultKind::OutOfMemory, format!("{what}: {why}"));
    let bytes = usize::try_from(bytes).map_err(|_| no_memory("exceeds the address space"))?;
    let _entered = context.enter()?;
    // SAFETY: a plain allocation.
    let address = unsafe { result::malloc_host(bytes.max(1), flags) }
        .map_err(|error| fault(FaultKind::OutOfMemory, &what, error))?;
    let address =
        NonNull::new(address.cast::<u8>()).ok_or_else(|| no_memory("the driver returned no memory"))?;
    // SAFETY: the driver allocated that many bytes, and no other code has the address.
    unsafe { address.write_bytes(0, bytes) };
    let owner = Allocated { address, bytes, context: context.clone() };
    // SAFETY: initialised, at a fixed address, freed by the owner's drop, and no other code has the address.
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
            // SAFETY: allocated by `allocate` and freed once; every copy holds the `Pinned` that owns this.
            let _ = unsafe { result::free_host(self.address.as_ptr().cast::<c_void>()) };
        }
    }
}

/// Registers (page-locks in place) memory until the registration is dropped.
pub fn register<'a>(context: &Arc<Context>, bytes: StableBytes<'a>) -> Result<Registration<'a>, Fault> {
    if bytes.bytes() == 0 {
        return Ok(Registration::nothing());
    }
    // SAFETY: the bytes are not freed before the registration is dropped.
    let locked = unsafe { Registered::lock(context, bytes.address(), bytes.bytes()) }?;
    Ok(Registration::new(Box::new(locked)))
}

/// The ranges that this process has locked. The context that locked a range lives until the range is unlocked.
static LOCKS: Mutex<PageLocks<Arc<Context>>> = Mutex::new(PageLocks::new());

fn locks() -> MutexGuard<'static, PageLocks<Arc<Context>>> {
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A range of host memory that is page-locked in place until this is dropped.
#[derive(Debug)]
pub struct Registered {
    /// `None` if another library has locked the pages.
    bytes: Option<Range<usize>>,
}

impl Registered {
    /// Page-locks `bytes` bytes at `address` for all contexts of the process.
    ///
    /// # Safety
    /// The memory stays mapped until the returned value is dropped.
    pub unsafe fn lock(context: &Arc<Context>, address: NonNull<u8>, bytes: usize) -> Result<Self, Fault> {
        use sys::cudaError_enum as e;
        let _entered = context.enter()?;
        let begin = address.as_ptr() as usize;
        let range = begin..begin + bytes;
        let mut locks = locks();
        if locks.share(&range) {
            return Ok(Self { bytes: Some(range) });
        }
        match lock_pages(&range) {
            Ok(()) => {
                locks.add(&range, context.clone());
                Ok(Self { bytes: Some(range) })
            }
            Err(error)
                if error.0 == e::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED && is_locked(address, bytes) =>
            {
                Ok(Self { bytes: None })
            }
            Err(error) => Err(refused(bytes, error)),
        }
    }
}

/// Page-locks a range in the current context. It stays mapped until it is unlocked; for unmapped memory the driver returns an error.
fn lock_pages(range: &Range<usize>) -> Result<(), result::DriverError> {
    let lock = |flags: u32| {
        // SAFETY: the callers of `Registered::lock` keep the memory mapped as long as a registration has it.
        unsafe { sys::cuMemHostRegister_v2(range.start as *mut c_void, range.len(), flags) }.result()
    };
    let portable = sys::CU_MEMHOSTREGISTER_PORTABLE;
    match lock(portable) {
        Err(error) if error.0 != sys::cudaError_enum::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED => {
            // A read-only file mapping can only be registered read-only.
            lock(portable | sys::CU_MEMHOSTREGISTER_READ_ONLY)
        }
        locked => locked,
    }
}

fn refused(bytes: usize, error: result::DriverError) -> Fault {
    fault(FaultKind::Copy, &format!("{bytes} bytes cannot be page-locked"), error)
}

/// Whether one earlier registration covers all of these bytes.
fn is_locked(address: NonNull<u8>, bytes: usize) -> bool {
    let ask = |attribute: sys::CUpointer_attribute| {
        let mut answer: u64 = 0;
        // SAFETY: both queried attributes have eight bytes, the size of `answer`.
        let status = unsafe {
            sys::cuPointerGetAttribute((&raw mut answer).cast(), attribute, address.as_ptr() as u64)
        };
        status.result().ok().map(|()| answer)
    };
    let begin = ask(sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
    let size = ask(sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE);
    let (Some(begin), Some(size)) = (begin, size) else { return false };
    let (first, last) = (address.as_ptr() as u64, address.as_ptr() as u64 + bytes as u64);
    begin <= first && last <= begin.saturating_add(size)
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A hung operation of any context may still use the pages, which then stay locked until the process ends.
        let Some(bytes) = self.bytes.as_ref().filter(|_| !Context::any_abandoned()) else { return };
        let unlock = |begin: usize, context: &Arc<Context>| {
            if let Ok(_entered) = context.enter() {
                // SAFETY: locked by `lock_pages` and unlocked once.
                let _ = unsafe { sys::cuMemHostUnregister(begin as *mut c_void) };
            }
        };
        let lock_again = |part: &Range<usize>, context: &Arc<Context>| {
            context.enter().is_ok_and(|_entered| lock_pages(part).is_ok())
        };
        locks().remove(bytes, unlock, lock_again);
    }
}
