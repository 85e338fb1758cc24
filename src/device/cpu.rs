//! The host as a device: jobs on a private rayon pool, computing in host memory.
//!
//! Jobs may borrow, because the device lives inside a rayon scope, which ends only after every job. A lane limits how
//! many jobs are in flight; it is not a thread. A chunk's job forks inside the pool. A short job runs on the thread that submits it.

use std::panic::{self, AssertUnwindSafe};

use rayon::Scope;

use super::{
    Description, Device, Fault, FaultKind, Fence, LaneInfo, LaneKind, Memory, Operation, Pinned,
    Registration, Reports, StableBytes,
};
use crate::graph::Demand;
use crate::trace::Clock;

/// Chunks that run concurrently. One, because a chunk uses all threads: with two, a thread waiting for the rest of its
/// chunk would steal work of the other, and the measured times of both would be meaningless.
const POOL_LANES: usize = 1;
/// Copies within host memory that run concurrently.
pub const COPY_LANES: usize = 2;

/// The host's pool for the duration of a rayon scope.
pub struct Cpu<'pool, 'run> {
    scope: &'pool Scope<'run>,
    clock: Clock,
    reports: Reports,
    description: Description,
    next_fence: u64,
    closed: bool,
}

impl<'pool, 'run> Cpu<'pool, 'run> {
    /// The host as a device. Jobs are spawned in `scope` and timed by `clock`.
    pub fn new(scope: &'pool Scope<'run>, clock: Clock, reports: Reports) -> Self {
        let description = Self::description();
        Self { scope, clock, reports, description, next_fence: 0, closed: false }
    }

    /// The host's description.
    pub fn description() -> Description {
        let lane = |name: String, kind| LaneInfo { name, kind, depth: 1 };
        let pool = (0..POOL_LANES).map(|index| lane(format!("chunks {index}"), LaneKind::Pool));
        let copy = (0..COPY_LANES).map(|index| lane(format!("copies {index}"), LaneKind::Copy));
        Description {
            name: "cpu".into(),
            memory_bytes: None,
            lanes: pool.chain(copy).collect(),
            stream_ordered: false,
        }
    }
}

impl<'run> Device<'run> for Cpu<'_, 'run> {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&mut self, _bytes: u64) -> Result<Memory, Fault> {
        Err(Fault::new(FaultKind::OutOfMemory, "the host has no device memory; it computes in host memory"))
    }

    fn allocate_pinned(&mut self, bytes: u64) -> Result<Pinned, Fault> {
        Pinned::pageable(bytes as usize).map_err(|error| Fault::new(FaultKind::OutOfMemory, error.message()))
    }

    fn register<'a>(&mut self, _bytes: StableBytes<'a>) -> Result<Registration<'a>, Fault> {
        Ok(Registration::nothing())
    }

    fn submit(
        &mut self,
        lane: usize,
        operation: Operation<'run>,
        _demand: Demand,
        _waits: &[Fence],
    ) -> Result<Fence, Fault> {
        if self.closed {
            return Err(Fault::new(FaultKind::Lost, "the host's pool is closed"));
        }
        if lane >= self.description.lanes.len() {
            return Err(Fault::new(FaultKind::Misuse, format!("the host has no lane {lane}")));
        }
        let (job, is_short) = match operation {
            Operation::Job(job) => (job, false),
            Operation::ShortJob(job) => (job, true),
            _ => {
                let message = "the host runs jobs only: no copies to devices and no kernel launches";
                return Err(Fault::new(FaultKind::Misuse, message));
            }
        };
        #[cfg(test)]
        let job = injected_panic::replace(job);
        let fence = Fence(self.next_fence);
        self.next_fence += 1;
        let (reports, clock) = (self.reports.clone(), self.clock);
        let run = move || {
            let start_ns = clock.now_ns();
            // Output of a job that panicked is not used: its strand counts as unfinished and is run again or abandoned.
            let result = match panic::catch_unwind(AssertUnwindSafe(job)) {
                Ok(result) => result.map_err(|error| Fault::new(FaultKind::Job, error.message())),
                Err(_) => Err(Fault::new(FaultKind::Job, "a host job panicked")),
            };
            reports.send(fence, start_ns, clock.now_ns(), result);
        };
        if is_short {
            run();
        } else {
            self.scope.spawn(move |_| run());
        }
        Ok(fence)
    }

    fn mark_synchronized(&mut self) {}

    fn advance(&mut self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn close(&mut self) {
        self.closed = true;
    }
}

/// A panic of a host job, injected by tests.
#[cfg(test)]
pub(crate) mod injected_panic {
    use std::cell::Cell;

    use crate::error::Result;

    thread_local! {
        /// Number of jobs that this thread submits until one panics; 0 for none.
        pub static JOBS_LEFT: Cell<u64> = const { Cell::new(0) };
    }

    type Job<'run> = Box<dyn FnOnce() -> Result<()> + Send + 'run>;

    /// `job`, or one that panics if it is its turn.
    pub(super) fn replace(job: Job<'_>) -> Job<'_> {
        let left = JOBS_LEFT.get();
        JOBS_LEFT.set(left.saturating_sub(1));
        if left == 1 {
            // Without the message and the backtrace of a panic that is a bug.
            Box::new(|| std::panic::resume_unwind(Box::new("injected fault")))
        } else {
            job
        }
    }
}
