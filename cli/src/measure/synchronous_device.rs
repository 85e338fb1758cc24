//! A device with memory of its own that runs one operation at a time: each call returns when its operation has ended.
//!
//! Memory is an arena: ranges are allocated one after another and all freed at once, by [`SynchronousDevice::clear`].

use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};

use rowloom::internal::device::{
    Completion, Fault, FaultKind, HostTransfer, LaneKind, Launch, Memory, MemoryRange, Operation, Pinned,
    PinnedRange, Reports, RowBytes,
};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::graph::{Demand, DeviceId};
use rowloom::internal::runtime::{BoxedDevice, Runtime};

/// Bytes of the smallest allocation that the arena makes on the device.
const SLAB_BYTES: u64 = 16 << 20;

/// Every range begins at a multiple of this, as separate allocations of a device do.
const ALIGNMENT: u64 = 256;

/// An operation that takes longer counts as hung.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(600);

/// An allocation on the device, of which the first `used` bytes belong to ranges.
struct Slab {
    memory: Memory,
    bytes: u64,
    used: u64,
}

/// A device, its arena, and the channel on which it reports completed operations.
pub struct SynchronousDevice {
    device: BoxedDevice,
    completions: Receiver<Completion>,
    slabs: Vec<Slab>,
    pinned: Option<Pinned>,
}

impl SynchronousDevice {
    /// Opens a device of the runtime by name, apart from the one that its products use; none for the host's CPU.
    pub fn open_unless_cpu(runtime: &Runtime, name: &str) -> Result<Option<Self>> {
        if name == "cpu" {
            return Ok(None);
        }
        Self::open(runtime, name).map(Some)
    }

    /// Opens a device of the runtime by name, apart from the one that its products use.
    pub fn open(runtime: &Runtime, name: &str) -> Result<Self> {
        let (sender, completions) = unbounded();
        let reports = Reports::new(DeviceId(1), sender);
        let device = runtime.open_apart(name, reports)?;
        Ok(Self { device, completions, slabs: Vec::new(), pinned: None })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.device.describe().name
    }

    /// Whether the device compiles kernels, so that forms beyond the built-in ones can run.
    pub fn compiles(&self) -> bool {
        self.device.compiles()
    }

    /// Frees all ranges. The device's allocations stay, since devices free memory only when they close; later ranges reuse them.
    pub fn clear(&mut self) {
        self.slabs.iter_mut().for_each(|slab| slab.used = 0);
    }

    /// Allocates a range of device memory.
    pub fn allocate(&mut self, bytes: u64) -> Result<MemoryRange> {
        let rounded = bytes.max(1).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
        let fitting = self.slabs.iter().position(|slab| slab.bytes - slab.used >= rounded);
        let index = match fitting {
            Some(index) => index,
            None => {
                let wanted = rounded.max(SLAB_BYTES);
                let memory = self.device.allocate(wanted).map_err(self.error())?;
                self.slabs.push(Slab { memory, bytes: wanted, used: 0 });
                self.slabs.len() - 1
            }
        };
        let slab = &mut self.slabs[index];
        let begin = slab.used;
        slab.used += rounded;
        Ok(MemoryRange { memory: slab.memory, begin, end: begin + bytes })
    }

    /// Copies to `to` the bytes that `write` fills in; it gets a buffer as long as the range.
    pub fn upload(&mut self, to: MemoryRange, write: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        let pinned = self.pinned(to.bytes())?;
        {
            let mut bytes = pinned.write().map_err(self.error())?;
            write(&mut bytes[..to.bytes() as usize])?;
        }
        let from = PinnedRange { pinned, begin: 0, end: to.bytes() };
        self.run(LaneKind::Upload, Operation::upload(from, to)).map(drop).map_err(self.error())
    }

    /// Copies `from` to the host and returns what `read` makes of the bytes.
    pub fn download<R>(
        &mut self,
        from: MemoryRange,
        rows: RowBytes,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        let pinned = self.pinned(from.bytes())?;
        let host = PinnedRange { pinned: pinned.clone(), begin: 0, end: from.bytes() };
        self.run(LaneKind::Download, Operation::Download(HostTransfer { host, device: from, rows }))
            .map_err(self.error())?;
        let bytes = pinned.read().map_err(self.error())?;
        Ok(read(&bytes[..from.bytes() as usize]))
    }

    /// Compiles or loads the kernels of these launches.
    pub fn prepare(&mut self, launches: &[Launch]) -> std::result::Result<(), Fault> {
        self.device.prepare(launches)
    }

    /// Runs a kernel and returns the seconds it took by the device's clock.
    pub fn launch(&mut self, launch: Launch) -> std::result::Result<f64, Fault> {
        let completion = self.run(LaneKind::Compute, Operation::Launch(launch))?;
        Ok(completion.end_ns.saturating_sub(completion.start_ns) as f64 * 1e-9)
    }

    fn run(
        &mut self,
        kind: LaneKind,
        operation: Operation<'static>,
    ) -> std::result::Result<Completion, Fault> {
        let lane = self.device.describe().lanes.iter().position(|lane| lane.kind == kind);
        let missing = || Fault::new(FaultKind::Misuse, format!("{} has no lane {kind:?}", self.name()));
        self.device.submit(lane.ok_or_else(missing)?, operation, Demand::default(), &[])?;
        let completion = self.completions.recv_timeout(OPERATION_TIMEOUT).map_err(|_| {
            let message = format!("an operation has not ended after {} s", OPERATION_TIMEOUT.as_secs());
            Fault::new(FaultKind::Hang, message)
        })?;
        self.device.mark_synchronized();
        completion.result.clone().map(|()| completion)
    }

    fn error(&self) -> impl Fn(Fault) -> Error + use<> {
        let name = self.name().to_string();
        move |fault| fault.into_error(&name)
    }

    /// A page-locked buffer of at least so many bytes, kept for the next call.
    fn pinned(&mut self, bytes: u64) -> Result<Pinned> {
        match &self.pinned {
            Some(pinned) if pinned.bytes() as u64 >= bytes => Ok(pinned.clone()),
            _ => {
                // The smaller buffer is freed before the larger one is allocated.
                self.pinned = None;
                let pinned = self.device.allocate_pinned(bytes).map_err(self.error())?;
                Ok(self.pinned.insert(pinned).clone())
            }
        }
    }
}

impl Drop for SynchronousDevice {
    fn drop(&mut self) {
        self.device.close();
    }
}
