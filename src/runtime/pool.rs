//! The threads that everything parallel runs on: a private pool, each worker bound to a hardware thread of its own.

use std::sync::OnceLock;

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};
use crate::machine::{Machine, bind_current_thread};

/// Of so many workers one stands back for the threads that give work to devices.
const WORKERS_PER_SPARED_THREAD: usize = 8;
/// Workers that stand back at most: devices are mostly waited for.
const MAX_SPARED_THREADS: usize = 2;

/// A private pool of bound threads.
#[derive(Debug)]
pub struct Pool {
    inner: ThreadPool,
    placement: Vec<usize>,
    /// The same with fewer workers, once that was needed.
    smaller: OnceLock<Option<Box<Pool>>>,
}

impl Pool {
    /// `threads` workers, or as many as the machine lets this process use.
    ///
    /// With more workers than usable hardware threads none is bound: the system then shares them out better.
    pub fn new(machine: &Machine, threads: Option<usize>) -> Result<Self> {
        let threads = threads.unwrap_or(machine.usable_threads).max(1);
        let placement =
            if threads <= machine.usable_cpus.len() { machine.placement(threads) } else { Vec::new() };
        Self::placed(threads, placement)
    }

    /// `threads` workers, the first of them bound to these hardware threads.
    fn placed(threads: usize, placement: Vec<usize>) -> Result<Self> {
        let bound_to = placement.clone();
        let inner = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("rowloom-{index}"))
            .start_handler(move |index| {
                // Binding is for speed alone; a system that forbids it still computes the same.
                let _ = bound_to.get(index).map(|&cpu| bind_current_thread(cpu));
            })
            .build()
            .map_err(|error| {
                Error::Usage(format!(
                    "{threads} threads cannot be started: {error}; take a smaller --threads"
                ))
            })?;
        Ok(Self { inner, placement, smaller: OnceLock::new() })
    }

    /// The pool for a job that is shared with devices: of many workers a few less, so that hardware threads are left to the threads
    /// that give those devices their work. Where all are busy, such a thread may wait for half a millisecond until it is
    /// let in, and so does the device; and the worker that it interrupts is waited for by all others.
    pub fn sparing_threads_for_devices(&self) -> &Self {
        let smaller = self.smaller.get_or_init(|| {
            let spared = (self.threads() / WORKERS_PER_SPARED_THREAD).min(MAX_SPARED_THREADS);
            let smaller = || Self::placed(self.threads() - spared, self.placement.clone());
            (spared > 0).then(smaller)?.ok().map(Box::new)
        });
        smaller.as_deref().unwrap_or(self)
    }

    /// Runs `work` on the pool; parallel iterators inside use its threads.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.inner.install(work)
    }

    /// Runs `work` on this thread; jobs that it spawns run on the pool and have ended when this returns.
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
    fn workers_are_as_many_as_asked_for_and_bound() {
        let machine = Machine::detect();
        let pool = Pool::new(&machine, Some(1)).unwrap();
        assert_eq!((pool.threads(), pool.install(rayon::current_num_threads)), (1, 1));
        assert_eq!(pool.install(affinity), machine.placement(1));
        let crowd = Pool::new(&machine, Some(machine.usable_cpus.len() + 3)).unwrap();
        assert_eq!(crowd.install(affinity), machine.usable_cpus);
        assert_eq!(Pool::new(&machine, None).unwrap().threads(), machine.usable_threads);
        assert!(
            pool.install(|| pool.is_worker()) && !pool.is_worker() && !crowd.install(|| pool.is_worker())
        );
    }

    #[test]
    fn a_pool_of_eight_or_more_workers_spares_threads_for_devices() {
        let machine = Machine::detect();
        for (threads, beside) in [(1, 1), (7, 7), (8, 7), (15, 14), (16, 14), (64, 62)] {
            let pool = Pool::new(&machine, Some(threads)).unwrap();
            assert_eq!(pool.sparing_threads_for_devices().threads(), beside, "of {threads}");
        }
    }
}
