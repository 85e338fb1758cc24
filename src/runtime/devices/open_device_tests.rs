//! Launches on streams of other libraries follow the policy of [`completion`](crate::device::completion).

use std::time::Duration;

use super::*;
use crate::device::completion::{DROP_TIMEOUT, OperationOwner, STREAM_TIMEOUT, Timeouts};
use crate::device::{
    Description, Device, Fault, FaultKind, Fence, Memory, Operation, Pinned, Registration, StableBytes,
    StreamHandle,
};
use crate::graph::Demand;
use crate::runtime::devices::{Allocations, COMPUTE, MemoryUse, Submission, UPLOAD};

/// What a [`WithStream`] was asked, and what it answers.
#[derive(Default)]
struct Script {
    /// Whether the launches on the stream have ended.
    has_ended: AtomicBool,
    /// The timeouts of waits for them.
    waits: Mutex<Vec<Duration>>,
    /// The predicted times of submitted operations.
    predicted_ns: Mutex<Vec<u64>>,
    freed: Mutex<Vec<Memory>>,
    /// Whether no memory is left until some is freed.
    is_full: AtomicBool,
}

/// The elements of a list. A failed assertion does not keep it locked.
fn listed<T: Clone>(list: &Mutex<Vec<T>>) -> Vec<T> {
    list.lock().unwrap().clone()
}

/// A device with launches on the stream of another library, which may never end. Waits that are in vain take no time.
struct WithStream {
    description: Description,
    script: Arc<Script>,
    allocated: u32,
}

impl<'run> Device<'run> for WithStream {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&mut self, _bytes: u64) -> std::result::Result<Memory, Fault> {
        if self.script.is_full.load(Ordering::Relaxed) && listed(&self.script.freed).is_empty() {
            return Err(Fault::new(FaultKind::OutOfMemory, "full"));
        }
        self.allocated += 1;
        Ok(Memory(self.allocated))
    }

    fn free(&mut self, memory: Memory) {
        self.script.freed.lock().unwrap().push(memory);
    }

    fn issue(&mut self, _: StreamHandle, _: Vec<Operation<'run>>) -> std::result::Result<(), Fault> {
        Ok(())
    }

    fn finish_issued(&mut self, timeout: Duration) -> std::result::Result<bool, Fault> {
        let has_ended = self.script.has_ended.load(Ordering::Relaxed);
        if !has_ended {
            self.script.waits.lock().unwrap().push(timeout);
        }
        Ok(has_ended)
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
        demand: Demand,
        _waits: &[Fence],
    ) -> std::result::Result<Fence, Fault> {
        self.script.predicted_ns.lock().unwrap().push(demand.alone_ns);
        Err(Fault::new(FaultKind::Launch, "refused"))
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

fn shared() -> (Arc<OpenDevice>, Arc<Script>) {
    let script = Arc::new(Script::default());
    let description =
        Description { name: "cuda:0".into(), memory_bytes: None, lanes: Vec::new(), stream_ordered: true };
    let device: BoxedDevice = Box::new(WithStream { description, script: script.clone(), allocated: 0 });
    (Arc::new(OpenDevice::new(device, Reports::new(DeviceId::HOST, unbounded().0))), script)
}

#[allow(unsafe_code)]
fn stream() -> StreamHandle {
    // SAFETY: the device of these tests does not use the handle.
    unsafe { StreamHandle::new(7) }
}

#[test]
fn a_stream_that_never_ends_does_not_block_drops_and_keeps_its_memory() {
    let (shared, script) = shared();
    let allocated = |count: usize| {
        let mut all = Allocations::on(&shared);
        assert!((0..count).all(|_| all.allocate(8).is_ok()));
        all
    };
    // The first drop before the stream has ended waits for a bounded time, and later ones do not wait.
    let (first, second, third, last) = (allocated(2), allocated(1), allocated(1), allocated(1));
    drop((first, second, third));
    assert_eq!(listed(&script.waits), [DROP_TIMEOUT, Duration::ZERO, Duration::ZERO]);
    assert!(listed(&script.freed).is_empty(), "the stream may still use the memory");
    script.has_ended.store(true, Ordering::Relaxed);
    drop(last);
    assert_eq!((listed(&script.freed).len(), shared.memory().private_bytes()), (5, 0));
}

#[test]
fn a_stream_that_never_ends_is_an_error_of_each_call_that_needs_the_device_and_does_not_close_it() {
    let (shared, script) = shared();
    let mut device = shared.lock();
    let (sender, _receiver) = unbounded();
    let owner = Arc::new(OperationOwner::default());
    let pass = || (Operation::Pass, 0.0);
    let errors = [
        device.submit(Submission::new(&owner, "fill", COMPUTE, 0.0), Operation::Pass, &[]).map(drop),
        device.run(Timeouts::default(), "weights", UPLOAD, [pass()]),
        device.last_issued_ns().map(drop),
        device.drain(),
        device.report_to(DeviceId(1), &sender),
    ];
    for error in errors {
        assert_eq!(error.unwrap_err().kind, FaultKind::BusyStream);
    }
    assert!(listed(&script.waits).iter().all(|&timeout| timeout == STREAM_TIMEOUT));
    assert!(listed(&script.predicted_ns).is_empty(), "an operation came before the launches");
    assert!(device.is_open() && !device.is_lost() && owner.check_faults_after(0) == Ok(()));
    script.has_ended.store(true, Ordering::Relaxed);
    assert_eq!(device.report_to(DeviceId(1), &sender), Ok(()));
}

#[test]
fn memory_that_launches_on_a_stream_may_use_is_not_freed_for_other_products() {
    let (shared, script) = shared();
    let memory = MemoryUse::new(&shared, None);
    let hold = |bytes| memory.hold(&mut shared.lock(), bytes).unwrap();
    hold(1 << 10);
    // Memory of products that do not run is not evicted meanwhile.
    script.is_full.store(true, Ordering::Relaxed);
    assert_eq!(Allocations::on(&shared).allocate(8).unwrap_err().kind, FaultKind::OutOfMemory);
    assert!(listed(&script.freed).is_empty());
    script.is_full.store(false, Ordering::Relaxed);
    // A larger workspace replaces the first one, which stays allocated until the launches have ended.
    hold(1 << 20);
    assert!(listed(&script.freed).is_empty());
    script.has_ended.store(true, Ordering::Relaxed);
    hold(1 << 22);
    assert_eq!(listed(&script.freed).len(), 2);
}

#[test]
fn operations_that_run_to_their_end_have_their_predicted_times_and_their_fault_is_the_error() {
    let (shared, script) = shared();
    script.has_ended.store(true, Ordering::Relaxed);
    let ran = shared.lock().run(Timeouts::default(), "product", COMPUTE, [(Operation::Pass, 60.0)]);
    assert_eq!(ran.unwrap_err().kind, FaultKind::Launch);
    assert_eq!(listed(&script.predicted_ns), [60_000_000_000]);
    assert!(shared.is_open() && !shared.lock().is_lost());
}

#[test]
fn launches_on_streams_have_twenty_times_their_predicted_time_if_that_is_more() {
    let (shared, script) = shared();
    let mut device = shared.lock();
    for (predicted_s, timeout_s) in [(1.0, 600), (60.0, 1200), (2.0, 1200)] {
        device.issue("product", stream(), Vec::new(), predicted_s).unwrap();
        assert!(device.finish_issued().is_err());
        assert_eq!(listed(&script.waits).last().copied(), Some(Duration::from_secs(timeout_s)));
    }
    // After they have ended, later ones have their own times.
    script.has_ended.store(true, Ordering::Relaxed);
    device.finish_issued().unwrap();
    script.has_ended.store(false, Ordering::Relaxed);
    assert!(device.finish_issued().is_err());
    assert_eq!(listed(&script.waits).last().copied(), Some(STREAM_TIMEOUT));
}
