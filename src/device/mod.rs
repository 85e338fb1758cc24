//! Devices: one trait, and the back ends that keep it.
//!
//! A device runs operations on lanes. A lane works through what it is given in order; operations of different lanes
//! run side by side unless one waits for the other's fence. Whatever ends, well or badly, is reported exactly once as a
//! [`Completion`] on the channel the device was opened with: nobody has to ask.
//!
//! A back end that checks what is ordered before what does so in [`Device::submit`], in the order of the calls: only the
//! order within a lane, explicit waits and [`Device::mark_synchronized`] count, so a missing wait is found whatever the timing was.
//!
//! Devices know neither plans nor matrices, only bytes, kernels and jobs.

mod borrow_scope;
#[cfg(test)]
pub(crate) mod conformance;
mod cpu;
pub mod cuda;
pub mod emulated;
mod operation;
mod pinned;
mod product;
pub mod simulated;

use crossbeam::channel::Sender;

pub use borrow_scope::{BorrowScope, Registration, borrow_scope};
pub use cpu::{COPY_LANES, Cpu};
pub use cuda::{CudaDevice, CudaOptions};
pub use emulated::{EmulatedDevice, EmulatedOptions};
pub use operation::{Argument, Launch, MemoryRange, Operation, PinnedRange, RowBytes, Transfer};
pub use pinned::{Pinned, PinnedWrite};
pub use product::Operands;

use crate::error::Error;
use crate::graph::{Demand, DeviceId};

/// The end of an operation, by the order in which its device took it. Never used twice by one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub u64);

/// Memory of a device, allocated once and freed when the device closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Memory(pub u32);

/// What a lane is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaneKind {
    /// Copies to the device.
    Upload,
    /// Kernels.
    Compute,
    /// Copies from the device.
    Download,
    /// Chunks on the host's pool.
    Pool,
    /// Copies within the host's memory.
    Copy,
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneInfo {
    /// Its name in a trace.
    pub name: String,
    /// What it is for.
    pub kind: LaneKind,
    /// Operations that it may be given before the first of them has ended.
    pub depth: usize,
}

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its name, as `--devices` takes it.
    pub name: String,
    /// Bytes of its own memory; none where it computes in the host's.
    pub memory_bytes: Option<u64>,
    /// Its lanes.
    pub lanes: Vec<LaneInfo>,
    /// Whether an operation may be submitted while what it waits for is still under way. Elsewhere the caller submits
    /// it when all of that has ended.
    pub stream_ordered: bool,
}

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// An allocation was refused.
    OutOfMemory,
    /// A launch failed; the device goes on.
    Launch,
    /// A copy failed; the device goes on.
    Copy,
    /// The device is gone: this and all later operations fail.
    Lost,
    /// An operation did not end in time.
    Hang,
    /// The operation itself is wrong: out of bounds, unwritten memory, used before ready, reused too early.
    Misuse,
    /// A job on the host failed or panicked.
    Job,
}

/// Something that went wrong on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind of thing.
    pub kind: FaultKind,
    /// What happened, in words.
    pub message: String,
}

impl Fault {
    /// A fault of that kind.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The error that ends the program if nobody can take over.
    pub fn into_error(self, device: &str) -> Error {
        Error::Device { device: device.into(), reason: self.message }
    }
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// On which device.
    pub device: DeviceId,
    /// Which operation.
    pub fence: Fence,
    /// When it began, on the device's clock.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Whether it did what it should.
    pub result: Result<(), Fault>,
}

/// Where a device reports to.
#[derive(Debug, Clone)]
pub struct Reports {
    /// The number it goes by.
    pub device: DeviceId,
    /// The coordinator's channel.
    pub sender: Sender<Completion>,
}

impl Reports {
    /// Reports an end. A coordinator that has gone away needs none.
    pub fn send(&self, fence: Fence, start_ns: u64, end_ns: u64, result: Result<(), Fault>) {
        let _ = self.sender.send(Completion { device: self.device, fence, start_ns, end_ns, result });
    }
}

/// A device that operations can be submitted to; host jobs may borrow what lives as long as `'run`.
pub trait Device<'run> {
    /// What it is.
    fn describe(&self) -> &Description;

    /// Memory of its own, contents unknown. Where there is none, or not enough, [`FaultKind::OutOfMemory`].
    fn allocate(&mut self, bytes: u64) -> Result<Memory, Fault>;

    /// Host memory that the device copies from and to at full speed.
    fn allocate_pinned(&mut self, bytes: u64) -> Result<Pinned, Fault>;

    /// Locks host memory that somebody lends in its place, so that the device copies from and to it at full speed, until
    /// the registration is dropped. A refusal is no loss of the device: copies of memory that is not locked are slower
    /// and right.
    fn register<'a>(&mut self, bytes: &'a [u8]) -> Result<Registration<'a>, Fault>;

    /// Gives `operation` to lane number `lane`; it starts after what the lane was given before and after `waits`,
    /// which are fences of this device. Returns at once. An error means that nothing was submitted.
    fn submit(
        &mut self,
        lane: usize,
        operation: Operation<'run>,
        demand: Demand,
        waits: &[Fence],
    ) -> Result<Fence, Fault>;

    /// Gets everything ready that these launches need, so that none of them is slower for being the first. A fault names
    /// something that could not be made better; the launches go on without it.
    fn prepare(&mut self, _launches: &[Launch]) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether forms of kernels that are not built in can be made.
    fn compiles(&self) -> bool {
        false
    }

    /// Says that the caller has seen the end of everything submitted so far, so all that follows happens after it.
    fn mark_synchronized(&mut self);

    /// Lets virtual time pass until the next end is reported; `false` where time passes by itself or nothing is under
    /// way.
    fn advance(&mut self) -> bool;

    /// Nanoseconds on the clock that its completions carry.
    fn now_ns(&self) -> u64;

    /// By how much the times of its completions may be off against the host's clock, where it has a clock of its own.
    fn clock_error_ns(&self) -> Option<u64> {
        None
    }

    /// Gives everything back. What is still under way is abandoned, hung operations included; later calls fail.
    fn close(&mut self);
}
