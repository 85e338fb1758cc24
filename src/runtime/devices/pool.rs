//! The thread pool for all parallel host work: private, with each worker bound to its own hardware thread.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rayon::{Scope, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use crate::device::completion::Timeouts;
use crate::error::{Advice, Error, Result};
use crate::exec::ExecOptions;
use crate::machine::{Machine, bind_current_thread};

/// One of this many hardware threads is spared for the threads that issue work to devices.
const WORKERS_PER_SPARED_THREAD: usize = 8;
/// The most hardware threads spared. More are not needed, since those threads mostly wait.
const MAX_SPARED_THREADS: usize = 2;

/// How long a caller waits for its work without sleeping.
const SPIN_TIME: Duration = Duration::from_micros(100);
/// From this number of workers on, a caller that waits keeps its hardware thread.
const SPINNING_THREADS: usize = 8;

/// A private pool of bound threads.
#[derive(Debug)]
pub struct Pool {
    inner: ThreadPool,
    placement: Vec<usize>,
    /// The pool with spared threads, created on first use; `None` if no thread is spared.
    smaller: OnceLock<Option<Arc<Pool>>>,
}

impl Pool {
    /// A pool of `asked` workers, by default one per hardware thread that the process may use.
    ///
    /// If there are more workers than usable hardware threads, none is bound and the system schedules them.
    pub fn new(machine: &Machine, asked: Option<usize>) -> Result<Self> {
        let threads = asked.unwrap_or(machine.usable_threads).max(1);
        let placement =
            if threads <= machine.usable_cpus.len() { machine.placement(threads) } else { Vec::new() };
        Self::placed(threads, placement).map_err(|error| match asked {
            Some(_) => {
                let reason = format!("{threads} threads cannot be started: {error}");
                Error::usage(reason).advise([Advice::FewerThreads])
            }
            None => crate::threads::refused(error),
        })
    }

    /// A pool of `threads` workers, the first ones bound to the hardware threads of `placement`.
    fn placed(threads: usize, placement: Vec<usize>) -> std::result::Result<Self, ThreadPoolBuildError> {
        let bound_to = placement.clone();
        let inner = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("rowloom-{index}"))
            .start_handler(move |index| {
                // Binding only affects speed, so a failure is ignored.
                let _ = bound_to.get(index).map(|&cpu| bind_current_thread(cpu));
            })
            .build()?;
        Ok(Self { inner, placement, smaller: OnceLock::new() })
    }

    /// The pool for a product that also runs on devices. It has fewer workers, so that hardware threads stay free for the
    /// threads that issue work to the devices. If all hardware threads are busy, such a thread may wait half a millisecond
    /// to be scheduled. The device then idles, and all workers wait for the one that was interrupted.
    pub fn sparing_threads_for_devices(self: &Arc<Self>) -> Arc<Self> {
        let smaller = self.smaller.get_or_init(|| {
            let spared = (self.threads() / WORKERS_PER_SPARED_THREAD).min(MAX_SPARED_THREADS);
            let smaller = || Self::placed(self.threads() - spared, self.placement.clone());
            (spared > 0).then(smaller)?.ok().map(Arc::new)
        });
        smaller.as_ref().unwrap_or(self).clone()
    }

    /// Runs `work` on the pool; parallel iterators inside use its threads.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.inner.install(work)
    }

    /// Runs `work` on the pool, as [`Self::install`], and waits for short work without sleeping: to be woken takes longer than a
    /// small product. In a small pool the caller yields its hardware thread, which a worker may need: on two threads a caller that kept
    /// it doubled the time of small products. A large pool loses little by one worker, and to yield takes 2 µs more per product.
    pub fn install_spinning<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        if self.is_worker() {
            return work();
        }
        let (done, mut result) = (AtomicBool::new(false), None);
        self.inner.in_place_scope(|scope| {
            let (done, result) = (&done, &mut result);
            scope.spawn(move |_| {
                *result = Some(panic::catch_unwind(AssertUnwindSafe(work)));
                done.store(true, Ordering::Release);
            });
            let begin = Instant::now();
            while !done.load(Ordering::Acquire) && begin.elapsed() < SPIN_TIME {
                if self.caller_may_spin() {
                    std::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        });
        match result {
            Some(Ok(result)) => result,
            Some(Err(panic)) => panic::resume_unwind(panic),
            None => unreachable!("a scope ends after its jobs"),
        }
    }

    /// Whether a caller that waits keeps its hardware thread.
    pub fn caller_may_spin(&self) -> bool {
        self.threads() >= SPINNING_THREADS
    }

    /// How a graph is run whose host jobs are on this pool.
    pub(crate) fn exec_options<'a>(
        &self,
        cancel: Option<&'a AtomicBool>,
        timeouts: Timeouts,
    ) -> ExecOptions<'a> {
        ExecOptions { cancel, timeouts, may_poll: self.caller_may_spin() }
    }

    /// Runs `work` on this thread. Jobs that it spawns run on the pool and have finished when this returns.
    pub fn in_place_scope<'scope, R>(&self, work: impl FnOnce(&Scope<'scope>) -> R) -> R {
        self.inner.in_place_scope(work)
    }

    /// Whether the calling thread is one of the workers.
    pub fn is_worker(&self) -> bool {
        self.inner.current_thread_index().is_some()
    }

    /// Number of workers.
    pub fn threads(&self) -> usize {
        self.inner.current_num_threads()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::affinity;

    #[test]
    fn a_pool_has_the_requested_number_of_bound_workers() {
        let machine = Machine::detect();
        let pool = Pool::new(&machine, Some(1)).unwrap();
        assert_eq!((pool.threads(), pool.install(rayon::current_num_threads)), (1, 1));
        assert_eq!(pool.install(affinity), machine.placement(1));
        let oversubscribed = Pool::new(&machine, Some(machine.usable_cpus.len() + 3)).unwrap();
        assert_eq!(oversubscribed.install(affinity), machine.usable_cpus);
        assert_eq!(Pool::new(&machine, None).unwrap().threads(), machine.usable_threads);
        assert!(
            pool.install(|| pool.is_worker())
                && !pool.is_worker()
                && !oversubscribed.install(|| pool.is_worker())
        );
    }

    #[test]
    fn a_pool_of_eight_or_more_workers_spares_threads_for_devices() {
        let machine = Machine::detect();
        for (threads, expected) in [(1, 1), (7, 7), (8, 7), (15, 14), (16, 14), (64, 62)] {
            let pool = Arc::new(Pool::new(&machine, Some(threads)).unwrap());
            assert_eq!(pool.sparing_threads_for_devices().threads(), expected, "of {threads}");
        }
    }
}
