//! An open device that the products of a runtime share, and the memory that one vector or product has on it alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam::channel::{Sender, unbounded};

use super::device_memory::DeviceMemory;
use super::operation_queue::{COMPUTE, FaultLog, OperationQueue, OperationRecord};
use crate::device::{
    Completion, CudaOptions, Description, Device, EmulatedOptions, Fault, FaultKind, Fence, Memory,
    Operation, Pinned, Registration, Reports, StableBytes, StreamHandle,
};
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::trace::Clock;

/// How long a drop waits for launches on the stream of another library. This work may be long, and a drop that waits for it for ever would
/// be a deadlock where the stream waits for the program.
const DROP_TIMEOUT: Duration = Duration::from_secs(10);

/// A device that stays open between runs.
pub type AnyDevice = Box<dyn for<'run> Device<'run> + Send>;

/// An open device. A product locks it for the duration of a run.
pub struct SharedDevice {
    state: Mutex<OpenDevice>,
    closed: Arc<AtomicBool>,
    faults: Arc<FaultLog>,
    memory: DeviceMemory,
}

/// The device itself.
pub struct OpenDevice {
    device: AnyDevice,
    reports: Reports,
    /// Submitted operations that no caller has waited for.
    queue: OperationQueue,
    closed: Arc<AtomicBool>,
    /// Whether launches on a stream of another library had not ended when memory was to be freed. No later drop waits for them again.
    is_stuck: bool,
    /// Memory that is freed after they have ended, each with its bytes of memory that is not shared.
    unfreed: Vec<(Memory, u64)>,
}

impl SharedDevice {
    /// Opens the device named `name`, a CUDA or an emulated one, with the options of its kind.
    pub fn open(name: &str, emulated: EmulatedOptions, cuda: CudaOptions, clock: Clock) -> Result<Self> {
        let reports = Reports::new(DeviceId::HOST, unbounded().0);
        let device = open_device(name, emulated, cuda, clock, reports.clone())?;
        let (queue, closed) = (OperationQueue::new(), Arc::new(AtomicBool::new(false)));
        let faults = queue.faults().clone();
        let state = OpenDevice {
            device,
            reports,
            queue,
            closed: closed.clone(),
            is_stuck: false,
            unfreed: Vec::new(),
        };
        Ok(Self { state: Mutex::new(state), closed, faults, memory: DeviceMemory::default() })
    }

    /// The faults of queued operations so far. Does not wait for a product that uses the device.
    pub fn faults(&self) -> &FaultLog {
        &self.faults
    }

    /// The memory that its products share. Locked after the device, where both are.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// Whether it can still be used. Does not wait for a product that uses it.
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }

    /// Waits until no other product uses the device.
    pub fn lock(&self) -> MutexGuard<'_, OpenDevice> {
        // A panic while it was locked leaves no invariant broken: the device checks every call itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenDevice {
    /// Reports later completions to `sender`, with the number `device`. Waits for queued operations first. Their faults are those of the
    /// vectors that they belong to; a device that hangs is closed.
    pub fn report_to(&mut self, device: DeviceId, sender: &Sender<Completion>) {
        if matches!(self.drain(), Err(Fault { kind: FaultKind::Hang, .. })) {
            self.close();
        }
        self.reports.redirect(device, sender);
    }

    /// Submits an operation without waiting for it; [`OperationQueue::submit`].
    pub fn submit(
        &mut self,
        name: &'static str,
        lane: usize,
        operation: Operation<'static>,
        alone_s: f64,
        waits: &[Fence],
    ) -> std::result::Result<Fence, Fault> {
        self.finish_issued()?;
        self.reports.redirect(OperationQueue::DEVICE, self.queue.sender());
        self.queue.submit(&mut self.device, name, lane, operation, alone_s, waits)
    }

    /// Issues kernel launches on the calling thread, in the order of `stream`, and does not wait for them; [`Device::issue`]. They come
    /// after all queued operations.
    pub fn issue(
        &mut self,
        name: &'static str,
        stream: StreamHandle,
        launches: Vec<Operation<'static>>,
    ) -> std::result::Result<(), Fault> {
        self.queue.drain(&mut self.device)?;
        Device::issue(&mut *self.device, stream, launches).inspect_err(|fault| self.queue.note(fault))?;
        if self.queue.records.is_some() {
            let times = self.last_issued_ns()?;
            let record = |(start_ns, end_ns)| OperationRecord { name, lane: COMPUTE, start_ns, end_ns };
            self.queue.records.iter_mut().for_each(|records| records.extend(times.map(record)));
        }
        Ok(())
    }

    /// Runs kernel launches of a device without streams.
    pub fn run(
        &mut self,
        name: &'static str,
        launches: Vec<Operation<'static>>,
    ) -> std::result::Result<(), Fault> {
        self.queue.drain(&mut self.device)?;
        self.queue.start_span();
        for launch in launches {
            self.submit(name, COMPUTE, launch, 0.0, &[])?;
        }
        self.drain()
    }

    /// When the last issued launches, or those that [`Self::run`] ran, began and ended. Waits for them.
    pub fn last_issued_ns(&mut self) -> std::result::Result<Option<(u64, u64)>, Fault> {
        let times = self.device.last_issued_ns().inspect_err(|fault| self.queue.note(fault))?;
        Ok(times.or_else(|| self.queue.span_ns()))
    }

    /// Waits for all issued launches.
    pub fn finish_issued(&mut self) -> std::result::Result<(), Fault> {
        self.device.finish_issued().inspect_err(|fault| self.queue.note(fault))
    }

    /// Waits for a queued operation.
    pub fn wait(&mut self, fence: Fence) -> std::result::Result<(), Fault> {
        self.queue.wait(&mut self.device, fence)
    }

    /// Waits for all queued operations and issued launches.
    pub fn drain(&mut self) -> std::result::Result<(), Fault> {
        self.finish_issued()?;
        self.queue.drain(&mut self.device)
    }

    /// Waits for all queued operations and issued launches, so that memory can be freed; `false` if some may still use it. Launches on a
    /// stream of another library come after its other work, which may never end, so the wait for them has a limit.
    fn drain_for_drop(&mut self) -> bool {
        let timeout = if self.is_stuck { Duration::ZERO } else { DROP_TIMEOUT };
        match self.device.finish_issued_within(timeout) {
            Ok(has_ended) => self.is_stuck = !has_ended,
            Err(fault) => self.queue.note(&fault),
        }
        !self.is_stuck && !matches!(self.drain(), Err(Fault { kind: FaultKind::Hang, .. }))
    }

    /// Frees memory, each with its bytes of memory that is not shared, after the operations that use it. Returns how many of these bytes
    /// were freed. Memory that may still be in use stays allocated until a later call.
    pub fn free_after_use(&mut self, memories: impl IntoIterator<Item = (Memory, u64)>) -> u64 {
        self.unfreed.extend(memories);
        if !self.drain_for_drop() {
            let (name, allocations) = (self.description().name, self.unfreed.len());
            tracing::warn!(
                device = name,
                allocations,
                "memory is not freed yet: operations that use it have not ended"
            );
            return 0;
        }
        let mut freed_bytes = 0;
        for (memory, bytes) in std::mem::take(&mut self.unfreed) {
            self.device.free(memory);
            freed_bytes += bytes;
        }
        freed_bytes
    }

    /// Starts to record queued operations.
    pub fn start_recording(&mut self) {
        self.queue.records.get_or_insert_default();
    }

    /// The recorded operations since the last call.
    pub fn take_records(&mut self) -> Vec<OperationRecord> {
        self.queue.records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The device, to submit operations to.
    pub fn device(&mut self) -> &mut AnyDevice {
        &mut self.device
    }

    /// Its description.
    pub fn description(&self) -> Description {
        self.device.describe().clone()
    }

    /// The error of its clock in nanoseconds, where it has its own.
    pub fn clock_error_ns(&self) -> Option<u64> {
        self.device.clock_error_ns()
    }

    /// Page-locks host memory; [`Device::register`].
    pub fn register<'a>(&mut self, bytes: StableBytes<'a>) -> std::result::Result<Registration<'a>, Fault> {
        self.device.register(bytes)
    }

    /// Closes it for all products. Its operations in flight no longer access host memory afterwards.
    pub fn close(&mut self) {
        self.device.close();
        self.queue.abandon();
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether a queued operation found the device lost or hung.
    pub fn is_lost(&self) -> bool {
        self.queue.is_lost()
    }

    /// Whether it can still be used.
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }
}

/// Opens the device named `name`, a CUDA or an emulated one, with the options of its kind.
pub fn open_device(
    name: &str,
    emulated: EmulatedOptions,
    cuda: CudaOptions,
    clock: Clock,
    reports: Reports,
) -> Result<AnyDevice> {
    if name.starts_with("cuda:") {
        return open_cuda(name, cuda, clock, reports);
    }
    if name.starts_with("emu:") {
        return open_emulated(name, emulated, clock, reports);
    }
    Err(Error::usage(format!(
        "{name} cannot be opened: simulated devices compute no values, only times; use cpu, cuda:0 or emu:0"
    )))
}

#[cfg(feature = "cuda")]
fn open_cuda(name: &str, options: CudaOptions, clock: Clock, reports: Reports) -> Result<AnyDevice> {
    let device = crate::device::CudaDevice::open(name, options, clock, reports);
    Ok(Box::new(device.map_err(|fault| fault.into_error(name))?))
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(name: &str, _: CudaOptions, _: Clock, _: Reports) -> Result<AnyDevice> {
    Err(Error::device(name, crate::device::cuda::ABSENT).advise([crate::error::Advice::CudaBuild]))
}

#[cfg(feature = "emulator")]
fn open_emulated(name: &str, options: EmulatedOptions, clock: Clock, reports: Reports) -> Result<AnyDevice> {
    let device = crate::device::EmulatedDevice::open(name, options, clock, reports);
    Ok(Box::new(device.map_err(|fault| fault.into_error(name))?))
}

#[cfg(not(feature = "emulator"))]
fn open_emulated(name: &str, _: EmulatedOptions, _: Clock, _: Reports) -> Result<AnyDevice> {
    Err(Error::device(name, "this build has no emulator").advise([crate::error::Advice::EmulatorBuild]))
}

/// The memory of one product or vector on a device. It is freed when this is dropped.
pub struct Allocations {
    device: Arc<SharedDevice>,
    /// Each with its size in bytes.
    memories: Vec<(Memory, u64)>,
}

impl Allocations {
    /// No memory yet.
    pub fn on(device: &Arc<SharedDevice>) -> Self {
        Self { device: device.clone(), memories: Vec::new() }
    }

    /// Allocates device memory. Memory of products that do not run is evicted if there is too little.
    pub fn allocate(&mut self, bytes: u64) -> std::result::Result<Memory, Fault> {
        let memory = self.device.memory().allocate_private(&mut self.device.lock(), bytes)?;
        self.memories.push((memory, bytes));
        Ok(memory)
    }

    /// The device.
    pub fn device(&self) -> &Arc<SharedDevice> {
        &self.device
    }

    /// Allocates page-locked host memory.
    pub fn allocate_pinned(&mut self, bytes: u64) -> std::result::Result<Pinned, Fault> {
        self.device.lock().device.allocate_pinned(bytes)
    }
}

impl Drop for Allocations {
    fn drop(&mut self) {
        let mut device = self.device.lock();
        // A closed device has freed its memory, or keeps it for an operation that hangs.
        if !device.is_open() {
            return;
        }
        let freed_bytes = device.free_after_use(std::mem::take(&mut self.memories));
        self.device.memory().freed_private(freed_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::device::LaneInfo;
    use crate::graph::Demand;

    /// A device with launches on the stream of another library, which may never end.
    struct WithStream {
        description: Description,
        has_ended: Arc<AtomicBool>,
        freed: Arc<Mutex<Vec<Memory>>>,
        allocated: u32,
    }

    impl<'run> Device<'run> for WithStream {
        fn describe(&self) -> &Description {
            &self.description
        }

        fn allocate(&mut self, _bytes: u64) -> std::result::Result<Memory, Fault> {
            self.allocated += 1;
            Ok(Memory(self.allocated))
        }

        fn free(&mut self, memory: Memory) {
            self.freed.lock().unwrap().push(memory);
        }

        fn finish_issued(&mut self) -> std::result::Result<(), Fault> {
            while !self.has_ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }

        fn finish_issued_within(&mut self, timeout: Duration) -> std::result::Result<bool, Fault> {
            let start = Instant::now();
            while !self.has_ended.load(Ordering::Relaxed) {
                // A tenth, so that the test is short.
                if start.elapsed() >= timeout / 10 {
                    return Ok(false);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(true)
        }

        fn allocate_pinned(&mut self, bytes: u64) -> std::result::Result<Pinned, Fault> {
            Ok(Pinned::pageable(bytes as usize).unwrap())
        }

        fn register<'a>(&mut self, _bytes: StableBytes<'a>) -> std::result::Result<Registration<'a>, Fault> {
            Ok(Registration::nothing())
        }

        fn submit(
            &mut self,
            _lane: usize,
            _operation: Operation<'run>,
            _demand: Demand,
            _waits: &[Fence],
        ) -> std::result::Result<Fence, Fault> {
            Err(Fault::new(FaultKind::Misuse, "no lanes"))
        }

        fn mark_synchronized(&mut self) {}

        fn advance(&mut self) -> bool {
            false
        }

        fn now_ns(&self) -> u64 {
            0
        }

        fn close(&mut self) {}
    }

    #[test]
    fn a_stream_that_never_ends_does_not_block_drops_and_keeps_its_memory() {
        let (has_ended, freed) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let lanes: Vec<LaneInfo> = Vec::new();
        let description =
            Description { name: "cuda:0".into(), memory_bytes: None, lanes, stream_ordered: true };
        let device =
            WithStream { description, has_ended: has_ended.clone(), freed: freed.clone(), allocated: 0 };
        let (queue, closed) = (OperationQueue::new(), Arc::new(AtomicBool::new(false)));
        let faults = queue.faults().clone();
        let reports = Reports::new(DeviceId::HOST, unbounded().0);
        let device: AnyDevice = Box::new(device);
        let state = OpenDevice {
            device,
            reports,
            queue,
            closed: closed.clone(),
            is_stuck: false,
            unfreed: Vec::new(),
        };
        let memory = DeviceMemory::default();
        let shared = Arc::new(SharedDevice { state: Mutex::new(state), closed, faults, memory });
        let allocated = |count: usize| {
            let mut all = Allocations::on(&shared);
            assert!((0..count).all(|_| all.allocate(8).is_ok()));
            all
        };
        // A drop before the stream has ended returns in bounded time, and later ones at once: in all less than two timeouts.
        let (first, second, third, last) = (allocated(2), allocated(1), allocated(1), allocated(1));
        let start = Instant::now();
        drop((first, second, third));
        assert!(start.elapsed() < DROP_TIMEOUT / 5, "{:?}", start.elapsed());
        assert!(freed.lock().unwrap().is_empty(), "the stream may still use the memory");
        has_ended.store(true, Ordering::Relaxed);
        drop(last);
        assert_eq!((freed.lock().unwrap().len(), shared.memory().private_bytes()), (5, 0));
    }
}
