//! One device to measure on: its memory, given out again for each matrix, and operations one at a time.

use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};

use crate::device::{
    Completion, CudaOptions, EmulatedOptions, Fault, FaultKind, LaneKind, Launch, Memory, MemoryRange,
    Operation, Pinned, PinnedRange, Reports, RowBytes, Transfer,
};
use crate::error::{Error, Result};
use crate::graph::{Demand, DeviceId};
use crate::runtime::{AnyDevice, open_device};
use crate::trace::Clock;

/// Least bytes that are asked of a device at once.
const SLAB_BYTES: u64 = 16 << 20;

/// Where ranges begin: a multiple of this, as whole allocations do.
const ALIGNMENT: u64 = 256;

/// How long an operation may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Memory of the device, of which the first `used` bytes are given out.
struct Slab {
    memory: Memory,
    bytes: u64,
    used: u64,
}

/// A device, its memory and what it reports.
pub struct Room {
    device: AnyDevice,
    completions: Receiver<Completion>,
    slabs: Vec<Slab>,
    pinned: Option<Pinned>,
}

impl Room {
    /// Opens a device by name.
    pub fn open(name: &str, emulated: EmulatedOptions) -> Result<Self> {
        let (sender, completions) = unbounded();
        let reports = Reports { device: DeviceId(1), sender };
        let device = open_device(name, emulated, CudaOptions::default(), Clock::start(), reports)?;
        Ok(Self { device, completions, slabs: Vec::new(), pinned: None })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.device.describe().name
    }

    /// Whether forms of kernels that are not built in can be made.
    pub fn compiles(&self) -> bool {
        self.device.compiles()
    }

    /// Takes back all memory that was given out. Devices free none before they close, so it is given out again.
    pub fn clear(&mut self) {
        self.slabs.iter_mut().for_each(|slab| slab.used = 0);
    }

    /// Memory of the device.
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

    /// Has `write` write as many bytes as `to` has, and copies them there.
    pub fn upload(&mut self, to: MemoryRange, write: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        let pinned = self.pinned(to.bytes())?;
        {
            let mut bytes = pinned.write().map_err(self.error())?;
            write(&mut bytes[..to.bytes() as usize])?;
        }
        let from = PinnedRange { pinned, begin: 0, end: to.bytes() };
        self.run(LaneKind::Upload, Operation::upload(from, to)).map(drop).map_err(self.error())
    }

    /// Copies `from` to the host and has `read` read it.
    pub fn download<R>(
        &mut self,
        from: MemoryRange,
        rows: RowBytes,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        let pinned = self.pinned(from.bytes())?;
        let host = PinnedRange { pinned: pinned.clone(), begin: 0, end: from.bytes() };
        self.run(LaneKind::Download, Operation::Download(Transfer { host, device: from, rows }))
            .map_err(self.error())?;
        let bytes = pinned.read().map_err(self.error())?;
        Ok(read(&bytes[..from.bytes() as usize]))
    }

    /// Gets everything ready that these launches need.
    pub fn prepare(&mut self, launches: &[Launch]) -> std::result::Result<(), Fault> {
        self.device.prepare(launches)
    }

    /// Runs a kernel and gives the seconds it took by the device's own clock.
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
        let completion = self.completions.recv_timeout(PATIENCE).map_err(|_| {
            let message = format!("an operation has not ended after {} s", PATIENCE.as_secs());
            Fault::new(FaultKind::Hang, message)
        })?;
        self.device.mark_synchronized();
        completion.result.clone().map(|()| completion)
    }

    fn error(&self) -> impl Fn(Fault) -> Error + use<> {
        let name = self.name().to_string();
        move |fault| fault.into_error(&name)
    }

    /// Pinned memory of at least so many bytes; nobody else uses it.
    fn pinned(&mut self, bytes: u64) -> Result<Pinned> {
        match &self.pinned {
            Some(pinned) if pinned.bytes() as u64 >= bytes => Ok(pinned.clone()),
            _ => {
                // The old one is given back first.
                self.pinned = None;
                let pinned = self.device.allocate_pinned(bytes).map_err(self.error())?;
                Ok(self.pinned.insert(pinned).clone())
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.device.close();
    }
}
