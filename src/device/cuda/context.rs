//! RAII wrappers of the CUDA driver: context, stream, event and device memory.
//!
//! Each is freed when dropped and keeps its context alive until then. After a kernel fault the driver refuses every call,
//! also to free; the resources are then freed with the context. An abandoned context refuses every call too: an operation
//! in it hangs and may use any of its resources, which are freed when the process ends.

#![allow(unsafe_code)] // calls the CUDA driver

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::{result, sys};

use super::driver::{Driver, fault};
use crate::device::{Fault, FaultKind, ForeignMemory, StreamHandle};

/// Whether any context of the process was abandoned.
static ANY_ABANDONED: AtomicBool = AtomicBool::new(false);

/// A CUDA context on one card.
#[derive(Debug)]
pub struct Context {
    raw: sys::CUcontext,
    device: sys::CUdevice,
    /// Whether it is the card's primary context, which is shared with other libraries and not destroyed.
    is_primary: bool,
    abandoned: AtomicBool,
}

// SAFETY: any thread that has made a context current may use it.
unsafe impl Send for Context {}
// SAFETY: the driver synchronises its calls.
unsafe impl Sync for Context {}

impl Context {
    /// The primary context of card number `card`.
    pub fn primary(card: u32) -> Result<Arc<Self>, Fault> {
        let device = device_of(card)?;
        // SAFETY: `device` is a valid device of the driver; the context is released once, when this object is dropped.
        let raw = unsafe { result::primary_ctx::retain(device) }
            .map_err(|error| fault(FaultKind::Lost, "the card's primary context cannot be used", error))?;
        Ok(Arc::new(Self { raw, device, is_primary: true, abandoned: AtomicBool::new(false) }))
    }

    /// Creates a context on card number `card`.
    pub fn create(card: u32) -> Result<Arc<Self>, Fault> {
        let device = device_of(card)?;
        let lost = |error| fault(FaultKind::Lost, "a context on the card cannot be created", error);
        let mut raw = ptr::null_mut();
        // SAFETY: the driver writes one handle; `device` is a valid device of it.
        unsafe { sys::cuCtxCreate_v2(&raw mut raw, 0, device) }.result().map_err(lost)?;
        let context = Arc::new(Self { raw, device, is_primary: false, abandoned: AtomicBool::new(false) });
        let mut popped = ptr::null_mut();
        // SAFETY: pops the new context, which creating it pushed onto this thread.
        unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) }.result().map_err(lost)?;
        Ok(context)
    }

    /// Abandons the context because an operation in it hangs: nothing in it is freed any more.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        ANY_ABANDONED.store(true, Ordering::SeqCst);
    }

    /// Whether any context of the process was abandoned. Its hung operation may use registered memory, which is
    /// registered for all contexts.
    pub fn any_abandoned() -> bool {
        ANY_ABANDONED.load(Ordering::SeqCst)
    }

    /// Makes this the calling thread's current context until the guard is dropped.
    pub fn enter(&self) -> Result<Entered<'_>, Fault> {
        if self.abandoned.load(Ordering::SeqCst) {
            return Err(Fault::new(FaultKind::Lost, "the context was abandoned because an operation hangs"));
        }
        // SAFETY: the context lives as long as `self`, which the guard borrows.
        unsafe { sys::cuCtxPushCurrent_v2(self.raw) }
            .result()
            .map_err(|error| fault(FaultKind::Lost, "the context cannot be entered", error))?;
        Ok(Entered { _context: self, stays: PhantomData })
    }

    /// Makes this the calling thread's current context until another one is.
    pub fn make_current(&self) -> Result<(), Fault> {
        if self.abandoned.load(Ordering::SeqCst) {
            return Err(Fault::new(FaultKind::Lost, "the context was abandoned because an operation hangs"));
        }
        // SAFETY: the context is alive. Destroyed while it is current, it makes later calls of this thread fail, and nothing else.
        unsafe { result::ctx::set_current(self.raw) }
            .map_err(|error| fault(FaultKind::Lost, "the context cannot be made current", error))
    }

    /// Free and total bytes of the card's memory.
    pub fn memory(&self) -> Result<(u64, u64), Fault> {
        let _entered = self.enter()?;
        let (free, total) = result::mem_get_info()
            .map_err(|error| fault(FaultKind::Lost, "the card's memory size cannot be queried", error))?;
        Ok((free as u64, total as u64))
    }

    /// An attribute of the card.
    pub fn attribute(&self, attribute: sys::CUdevice_attribute) -> Option<u64> {
        // SAFETY: `device` is a valid device of the driver.
        let value = unsafe { result::device::get_attribute(self.device, attribute) }.ok()?;
        u64::try_from(value).ok()
    }

    /// The card's compute capability, major and minor.
    pub fn compute_capability(&self) -> Option<(u32, u32)> {
        use sys::CUdevice_attribute as a;
        let major = self.attribute(a::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(a::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Some((major as u32, minor as u32))
    }

    /// Whether the driver copies directly from memory of `source` to memory of this context. Between contexts of one card it always
    /// does. The memory of another card is made accessible to this context if the cards allow it.
    pub fn can_copy_from(&self, source: &Self) -> bool {
        if self.device == source.device {
            return true;
        }
        let mut accessible = 0;
        // SAFETY: the driver writes one integer; both are valid devices of it.
        let asked =
            unsafe { sys::cuDeviceCanAccessPeer(&raw mut accessible, self.device, source.device) }.result();
        let Ok(_entered) = self.enter() else { return false };
        if asked.is_err() || accessible == 0 {
            return false;
        }
        // SAFETY: both contexts are alive, and this one is current.
        match unsafe { sys::cuCtxEnablePeerAccess(source.raw, 0) }.result() {
            Ok(()) => true,
            Err(error) => error.0 == sys::cudaError_enum::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
        }
    }

    /// The card's name.
    pub fn card_name(&self) -> Option<String> {
        result::device::get_name(self.device).ok()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.abandoned.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: every resource keeps its context alive, so none is left. After a fault the call may fail, which does no
        // harm. A primary context was retained once.
        let _ = match self.is_primary {
            true => unsafe { result::primary_ctx::release(self.device) },
            false => unsafe { sys::cuCtxDestroy_v2(self.raw) }.result(),
        };
    }
}

/// The driver's handle of card number `card`.
fn device_of(card: u32) -> Result<sys::CUdevice, Fault> {
    let driver = Driver::get().map_err(|missing| Fault::new(FaultKind::Lost, missing))?;
    if card >= driver.cards {
        let cards = match driver.cards {
            1 => "the only card here is cuda:0".into(),
            count => format!("the cards here are cuda:0 to cuda:{}", count - 1),
        };
        return Err(Fault::new(FaultKind::Lost, format!("card {card} does not exist; {cards}")));
    }
    let lost = |error| fault(FaultKind::Lost, "a context on the card cannot be created", error);
    result::device::get(card as i32).map_err(lost)
}

/// Guard: the context is current on this thread.
pub struct Entered<'a> {
    _context: &'a Context,
    /// Not `Send`: the thread that entered must drop it.
    stays: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: the driver writes one handle.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) };
    }
}

/// A non-blocking stream, which does not synchronise with the default stream, or a stream of another library.
#[derive(Debug)]
pub struct Stream {
    raw: sys::CUstream,
    is_foreign: bool,
    context: Arc<Context>,
}

// SAFETY: any thread may use a stream.
unsafe impl Send for Stream {}
// SAFETY: the driver synchronises its calls.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream.
    pub fn create(context: &Arc<Context>) -> Result<Self, Fault> {
        let _entered = context.enter()?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|error| fault(FaultKind::Lost, "a stream cannot be created", error))?;
        Ok(Self { raw, is_foreign: false, context: context.clone() })
    }

    /// A stream of another library, which is not destroyed.
    pub fn foreign(context: &Arc<Context>, stream: StreamHandle) -> Self {
        let raw = ptr::with_exposed_provenance_mut(stream.handle() as usize);
        Self { raw, is_foreign: true, context: context.clone() }
    }

    /// The driver's handle.
    pub fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Its handle, for other libraries.
    pub fn handle(&self) -> StreamHandle {
        // SAFETY: a stream of this context. The device that hands it out destroys it when it is closed, and refuses it afterwards.
        unsafe { StreamHandle::new(self.raw.expose_provenance() as u64) }
    }

    /// Whether work on this stream is captured as a graph instead of being run.
    pub fn is_capturing(&self) -> Result<bool, result::DriverError> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is alive; the driver writes one value.
        unsafe { sys::cuStreamIsCapturing(self.raw, &raw mut status) }.result()?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Makes later work on this stream wait for `event`.
    pub fn wait(&self, event: &Event) -> Result<(), result::DriverError> {
        // SAFETY: both are alive.
        unsafe { sys::cuStreamWaitEvent(self.raw, event.raw, 0) }.result()
    }

    /// Copies `bytes` bytes from memory of `source` to memory of this stream's context, in the order of the stream.
    ///
    /// # Safety
    /// Both ranges are inside allocations of their contexts that live until the copy completes. Until then no other work writes
    /// either of them.
    pub unsafe fn copy_from_peer(
        &self,
        to: sys::CUdeviceptr,
        from: sys::CUdeviceptr,
        source: &Context,
        bytes: usize,
    ) -> Result<(), result::DriverError> {
        // SAFETY: as promised by the caller; both contexts are alive.
        unsafe { sys::cuMemcpyPeerAsync(to, self.context.raw, from, source.raw, bytes, self.raw) }.result()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_foreign {
            return;
        }
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: this is the last use. Work that is still on the stream continues.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

/// How a thread waits for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventWait {
    /// The thread can block on the event.
    Blocking,
    /// The thread polls the event.
    Spinning,
}

/// A timed event.
#[derive(Debug)]
pub struct Event {
    raw: sys::CUevent,
    context: Arc<Context>,
}

// SAFETY: any thread may use an event.
unsafe impl Send for Event {}
// SAFETY: the driver synchronises its calls.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event that is waited for in the way of `waiting`.
    pub fn create(context: &Arc<Context>, waiting: EventWait) -> Result<Self, Fault> {
        let _entered = context.enter()?;
        let flags = match waiting {
            EventWait::Blocking => sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC,
            EventWait::Spinning => sys::CUevent_flags::CU_EVENT_DEFAULT,
        };
        let raw = result::event::create(flags)
            .map_err(|error| fault(FaultKind::Lost, "an event cannot be created", error))?;
        Ok(Self { raw, context: context.clone() })
    }

    /// Records the event: it completes after all work submitted to `stream` so far.
    pub fn record(&self, stream: &Stream) -> Result<(), result::DriverError> {
        // SAFETY: both are alive.
        unsafe { result::event::record(self.raw, stream.raw) }
    }

    /// Whether the event is complete.
    pub fn is_complete(&self) -> Result<bool, result::DriverError> {
        // SAFETY: the event is alive.
        match unsafe { result::event::query(self.raw) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == sys::cudaError_enum::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Blocks until the event is complete.
    pub fn wait(&self) -> Result<(), result::DriverError> {
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.raw) }
    }

    /// Nanoseconds from `earlier` to this event. Both must be complete.
    pub fn ns_since(&self, earlier: &Self) -> Result<f64, result::DriverError> {
        // SAFETY: both are alive.
        let milliseconds = unsafe { result::event::elapsed(earlier.raw, self.raw) }?;
        Ok(f64::from(milliseconds) * 1e6)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: this is the last use.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}

/// An allocation in card memory, or memory of another library.
#[derive(Debug)]
pub struct DeviceMemory {
    address: sys::CUdeviceptr,
    bytes: u64,
    is_foreign: bool,
    context: Arc<Context>,
}

impl DeviceMemory {
    /// Allocates `bytes` zeroed bytes. Padding between rows is copied to the host without being computed, so it must not
    /// contain data of another process.
    pub fn allocate(context: &Arc<Context>, bytes: u64) -> Result<Self, Fault> {
        let _entered = context.enter()?;
        let what = format!("{bytes} bytes of the card's memory");
        let size = usize::try_from(bytes.max(1))
            .map_err(|_| Fault::new(FaultKind::OutOfMemory, format!("{what} exceed the address space")))?;
        // SAFETY: a plain allocation.
        let address = unsafe { result::malloc_sync(size) }
            .map_err(|error| fault(FaultKind::OutOfMemory, &what, error))?;
        let memory = Self { address, bytes, is_foreign: false, context: context.clone() };
        // On a stream of its own: the default stream, and the whole context, would wait for the work of other libraries in the primary
        // context. Other streams do not wait for this one, so the memset must complete here.
        let stream = Stream::create(context)?;
        // SAFETY: exactly the bytes of the new allocation, which no other work knows; the stream is alive.
        unsafe {
            result::memset_d8_async(address, 0, size, stream.raw())
                .and_then(|()| result::stream::synchronize(stream.raw()))
        }
        .map_err(|error| fault(FaultKind::Lost, "the card's memory cannot be cleared", error))?;
        Ok(memory)
    }

    /// Memory of another library, which is not freed.
    pub fn foreign(context: &Arc<Context>, memory: &ForeignMemory) -> Self {
        let (address, bytes) = (memory.address(), memory.bytes());
        Self { address, bytes, is_foreign: true, context: context.clone() }
    }

    /// Whether another library has allocated it.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Address of the first byte.
    pub fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies the bytes from `begin` on, which are inside, to host memory, and waits for the copy.
    ///
    /// # Safety
    /// Until this returns, no work writes the bytes.
    pub unsafe fn read(&self, begin: u64, to: &mut [u8]) -> Result<(), Fault> {
        let _entered = self.context.enter()?;
        // SAFETY: inside, and not written, as promised by the caller.
        unsafe { result::memcpy_dtoh_sync(to, self.address + begin) }
            .map_err(|error| fault(FaultKind::Copy, "a copy from the card", error))
    }

    /// Copies host memory to the bytes from `begin` on, which are inside, and waits for the copy.
    ///
    /// # Safety
    /// Until this returns, no other work accesses the bytes.
    pub unsafe fn write(&self, begin: u64, from: &[u8]) -> Result<(), Fault> {
        let _entered = self.context.enter()?;
        // The driver may return when it has read pageable memory, before the card has all bytes.
        // SAFETY: inside, and not accessed, as promised by the caller. The default stream is one of the current context.
        unsafe {
            result::memcpy_htod_sync(self.address + begin, from)
                .and_then(|()| result::stream::synchronize(ptr::null_mut()))
        }
        .map_err(|error| fault(FaultKind::Copy, "a copy to the card", error))
    }

    /// Its context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.is_foreign {
            return;
        }
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: allocated in this context and freed once.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}
