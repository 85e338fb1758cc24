//! Devices: the [`Device`] trait and its back ends.
//!
//! A device runs operations on lanes. A lane runs its operations in order (first in, first out). Operations of different
//! lanes run concurrently unless one waits for the other's fence. A device reports every operation exactly once, success
//! or fault, as a [`Completion`] on the channel it was opened with.
//!
//! A back end with a race detector checks the happens-before order in [`Device::submit`], in the order of the calls. Only
//! three things create order: the sequence within a lane, explicit waits and [`Device::mark_synchronized`]. A missing
//! wait is therefore found whatever the timing was.
//!
//! Devices know bytes, kernels and jobs. They do not know plans or matrices.

#[cfg(test)]
mod ability_tests;
mod borrow_scope;
pub mod completion;
#[cfg(test)]
pub(crate) mod conformance;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "cuda_absent.rs"]
pub mod cuda;
mod cuda_options;
mod dense;
#[cfg(test)]
pub(crate) mod dense_conformance;
mod direct;
#[cfg(feature = "emulator")]
pub mod emulated;
mod emulated_options;
mod foreign;
mod host_transfer;
mod launch;
mod memories;
#[cfg(test)]
mod model;
pub mod network;
mod operation;
mod page_locks;
mod peer;
mod pinned;
#[cfg(test)]
mod pinned_tests;
mod product;
pub mod simulated;
mod sync;
#[cfg(test)]
pub(crate) mod vector_conformance;
mod vectors;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam::channel::Sender;

pub use borrow_scope::{BorrowScope, Registration, StableBytes, borrow_scope};
#[cfg(all(test, feature = "emulator"))]
pub(crate) use cpu::injected_panic;
pub use cpu::{COPY_LANES, Cpu};
#[cfg(feature = "cuda")]
pub use cuda::CudaDevice;
pub use cuda_options::CudaOptions;
pub use direct::{
    DirectAccess, DirectBytes, DirectMemory, DirectRange, HeldContext, MessageBytes, MessageRead,
    MessageWrite,
};
#[cfg(feature = "emulator")]
pub use emulated::EmulatedDevice;
pub use emulated_options::{EmulatedOptions, Faults};
pub use foreign::{ForeignMemory, MemoryPlace, StreamHandle};
pub use host_transfer::{HostTransfer, MemoryRange, PinnedRange, RowBytes};
pub use launch::{Argument, EntryLaunch, Launch};
pub use network::NetworkDevice;
pub use operation::{LaunchWithCopies, LibraryGemm, Operation, RankMessage};
pub use peer::{PeerCopy, PeerMemory};
pub use pinned::{Pinned, PinnedRead, PinnedWrite};
pub use product::Operands;
pub use vectors::{DeviceFactor, DeviceRows, VectorLaunch};

use crate::error::Error;
use crate::graph::{Demand, DeviceId};
use crate::matrix::AlignedBuffer;

/// The completion of an operation, numbered in the order of submission. A device never uses a number twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub u64);

/// An allocation in a device's memory. It is freed by [`Device::free`], or when the device closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Memory(pub u32);

/// The kind of operation that a lane runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaneKind {
    /// Copies to the device.
    Upload,
    /// Kernels.
    Compute,
    /// Copies from the device.
    Download,
    /// Chunks on the host's thread pool.
    Pool,
    /// Copies within the host's memory.
    Copy,
    /// Messages to other ranks.
    Send,
    /// Messages from other ranks.
    Receive,
}

/// A kind of host memory, by how a device copies from it and to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostMemory {
    /// Memory that the system may move: the driver copies it through buffers of its own.
    Pageable,
    /// Page-locked memory that the driver allocated.
    PageLocked,
    /// Pageable memory that was page-locked in place.
    Registered,
    /// Page-locked memory that the host writes past its caches; reading it is slow.
    WriteCombined,
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneInfo {
    /// The lane's name in a trace.
    pub name: String,
    /// The kind of operation that it runs.
    pub kind: LaneKind,
    /// The most operations that may be in flight on it.
    pub depth: usize,
}

/// A device's name, memory and lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The device's name, as `--devices` takes it.
    pub name: String,
    /// Bytes of its own memory. `None` for the host, which computes in host memory.
    pub memory_bytes: Option<u64>,
    /// Its lanes.
    pub lanes: Vec<LaneInfo>,
    /// Whether the device itself enforces waits between its operations, as CUDA streams do. If so, the caller may submit
    /// an operation while its predecessors are in flight. If not, the caller submits it after they have completed.
    pub stream_ordered: bool,
}

/// The kind of a fault; [`completion`] decides by it what closes the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// An allocation was refused.
    OutOfMemory,
    /// A launch failed; the device remains usable.
    Launch,
    /// A copy failed; the device remains usable.
    Copy,
    /// The device is lost: this and all later operations fail.
    Lost,
    /// An operation did not complete before the watchdog timeout.
    Hang,
    /// The operation is invalid: out of bounds, a read of unwritten memory, or a missing wait.
    Misuse,
    /// A job on the host failed or panicked.
    Job,
    /// A copy failed because the other device, from which it copies, is lost; this device remains usable.
    PeerLost,
    /// Launches on a stream did not complete in time, perhaps because of work of other libraries; the device remains usable.
    BusyStream,
}

/// A fault on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// The message for the user.
    pub message: String,
}

impl Fault {
    /// A fault of kind `kind`.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The error that ends the program if no other device can take over the work.
    pub fn into_error(self, device: &str) -> Error {
        Error::device(device, self.message)
    }
}

/// The completion of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The device that ran it.
    pub device: DeviceId,
    /// The operation's fence.
    pub fence: Fence,
    /// When the operation began, on the device's clock.
    pub start_ns: u64,
    /// When it completed, on the same clock.
    pub end_ns: u64,
    /// Success, or the fault.
    pub result: Result<(), Fault>,
}

/// The channel on which a device reports completions. It can be redirected: an open device serves one plan after the
/// other, with another number in each.
#[derive(Debug, Clone)]
pub struct Reports {
    target: Arc<Mutex<(DeviceId, Sender<Completion>)>>,
}

impl Reports {
    /// Completions carry the number `device` and go to `sender`.
    pub fn new(device: DeviceId, sender: Sender<Completion>) -> Self {
        Self { target: Arc::new(Mutex::new((device, sender))) }
    }

    /// Sends later completions, of this and of all cloned channels, to `sender` with the number `device`.
    pub fn redirect(&self, device: DeviceId, sender: &Sender<Completion>) {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if target.0 != device || !target.1.same_channel(sender) {
            *target = (device, sender.clone());
        }
    }

    /// Sends a completion. If the coordinator has dropped its receiver, the completion is discarded.
    pub fn send(&self, fence: Fence, start_ns: u64, end_ns: u64, result: Result<(), Fault>) {
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let (device, sender) = &*target;
        let _ = sender.send(Completion { device: *device, fence, start_ns, end_ns, result });
    }
}

/// A device that runs operations. Host jobs may borrow data that lives as long as `'run`.
pub trait Device<'run> {
    /// The device's name, memory and lanes; constant for its lifetime.
    fn describe(&self) -> &Description;

    /// Allocates device memory with unspecified contents. Fails with [`FaultKind::OutOfMemory`].
    fn allocate(&mut self, bytes: u64) -> Result<Memory, Fault>;

    /// Frees an allocation. No operation in flight may use it; later operations that name it are refused.
    fn free(&mut self, _memory: Memory) {}

    /// Uses memory of another library as an allocation of this device. [`Device::free`] ends its use and does not free it.
    fn adopt(&mut self, _memory: ForeignMemory) -> Result<Memory, Fault> {
        Err(Fault::new(FaultKind::Misuse, "this device cannot use the memory of other libraries"))
    }

    /// Where its memory is, for other libraries; `None` if they cannot use it.
    fn place(&self) -> Option<MemoryPlace> {
        None
    }

    /// The address of an allocation, for other libraries.
    fn address_of(&self, _memory: Memory) -> Option<u64> {
        None
    }

    /// The stream that runs kernels, for libraries that let it wait for their own work; `None` if the device has no streams.
    fn compute_stream(&self) -> Option<StreamHandle> {
        None
    }

    /// Issues kernel launches on the calling thread, in the order of a stream of this device or of another library, and returns
    /// without waiting. They come after all launches that were issued before, on any stream. They are not ordered with the
    /// operations of lanes, so the caller waits for those that it needs. A fault during the launches is reported by a later call.
    fn issue(&mut self, _stream: StreamHandle, _launches: Vec<Operation<'run>>) -> Result<(), Fault> {
        Err(Fault::new(FaultKind::Misuse, "this device has no streams"))
    }

    /// Waits for all issued launches, at most `timeout`. Returns whether they have ended. They come after other work on the stream of
    /// another library, which may never end.
    fn finish_issued(&mut self, _timeout: Duration) -> Result<bool, Fault> {
        Ok(true)
    }

    /// When the launches of the last [`Device::issue`] began and ended, on the clock of completions; `None` before [`Self::finish_issued`]
    /// has seen their end.
    fn last_issued_ns(&mut self) -> Result<Option<(u64, u64)>, Fault> {
        Ok(None)
    }

    /// Allocates page-locked host memory, which the device copies from and to at full bandwidth.
    fn allocate_pinned(&mut self, bytes: u64) -> Result<Pinned, Fault>;

    /// Page-locks memory that is written already: several times faster than to allocate page-locked memory, whose pages one thread clears.
    fn page_lock(&mut self, buffer: AlignedBuffer<u8>) -> Result<Pinned, Fault> {
        Ok(Pinned::of_buffer(buffer))
    }

    /// Allocates zeroed host memory of a kind, for measurements. Devices that do not distinguish kinds give pageable memory.
    fn allocate_host(&mut self, bytes: u64, kind: HostMemory) -> Result<Pinned, Fault> {
        let _ = kind;
        Pinned::pageable(bytes as usize).map_err(|error| Fault::new(FaultKind::OutOfMemory, error.message()))
    }

    /// An allocation of this device, for copies by other devices. `None` if other devices cannot copy from this one.
    fn peer_memory(&self, _memory: Memory) -> Option<PeerMemory> {
        None
    }

    /// Whether this device can run [`Operation::PeerCopy`] from `peer`. Prepares such copies.
    fn can_copy_from(&mut self, _peer: &PeerMemory) -> bool {
        false
    }

    /// An allocation of this device, for communicators that send from it and receive into it. `None` if they cannot access it.
    fn direct_memory(&self, _memory: Memory) -> Option<Arc<dyn DirectMemory>> {
        None
    }

    /// Page-locks existing host memory in place until the registration is dropped, so that copies run at full bandwidth.
    /// If the device refuses, it remains usable: copies of pageable memory are correct and slower.
    fn register<'a>(&mut self, bytes: StableBytes<'a>) -> Result<Registration<'a>, Fault>;

    /// Submits `operation` to lane number `lane` and returns without waiting. It starts after the lane's earlier
    /// operations and after `waits`, which are fences of this device. On an error nothing was submitted. A short job on the host has
    /// run when this returns; the caller submits it to a lane without operations.
    fn submit(
        &mut self,
        lane: usize,
        operation: Operation<'run>,
        demand: Demand,
        waits: &[Fence],
    ) -> Result<Fence, Fault>;

    /// Compiles and loads the kernels of these launches, so that no first launch pays for it. A fault names a specialised
    /// kernel that could not be compiled; the launches still work with the generic one.
    fn prepare(&mut self, _launches: &[Launch]) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether the device can compile kernel forms that are not built in.
    fn compiles(&self) -> bool {
        false
    }

    /// Whether the device runs [`Operation::LibraryGemm`]. The first call may load the library.
    fn has_cublas(&self) -> bool {
        false
    }

    /// Stops to report the messages from other ranks that are in flight, and keeps them: the same message that is submitted again
    /// continues the one that is kept. Completions from before are reported when this returns. `false` if this device receives no
    /// messages that it can keep.
    fn keep_receives(&mut self) -> bool {
        false
    }

    /// Declares that the caller has received the completion of everything submitted so far. All later operations are
    /// ordered after it.
    fn mark_synchronized(&mut self);

    /// Advances virtual time to the next completion. Returns `false` for devices in real time, and when nothing is in
    /// flight.
    fn advance(&mut self) -> bool;

    /// The current time on the clock of its completions, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// The largest error of its completions' times against the host's clock; `None` if it uses the host's clock.
    fn clock_error_ns(&self) -> Option<u64> {
        None
    }

    /// Number of allocations that are not freed and of registrations that have not ended, for tests of leaks; 0 if the
    /// device does not count them.
    fn resources_in_use(&self) -> usize {
        0
    }

    /// Frees everything. Operations in flight are abandoned, hung ones included. Later calls fail.
    fn close(&mut self);
}
