//! The threads that everything parallel runs on: a private pool, each worker bound to a hardware thread of its own.

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};
use crate::machine::{Machine, bind_current_thread};

/// A private pool of bound threads.
#[derive(Debug)]
pub struct Pool {
    inner: ThreadPool,
}

impl Pool {
    /// `threads` workers, or as many as the machine lets this process use.
    ///
    /// With more workers than usable hardware threads none is bound: the system then shares them out better.
    pub fn new(machine: &Machine, threads: Option<usize>) -> Result<Self> {
        let threads = threads.unwrap_or(machine.usable_threads).max(1);
        let placement =
            if threads <= machine.usable_cpus.len() { machine.placement(threads) } else { Vec::new() };
        let inner = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("rowloom-{index}"))
            .start_handler(move |index| {
                // Binding is for speed alone; a system that forbids it still computes the same.
                let _ = placement.get(index).map(|&cpu| bind_current_thread(cpu));
            })
            .build()
            .map_err(|error| {
                Error::Usage(format!(
                    "{threads} threads cannot be started: {error}; take a smaller --threads"
                ))
            })?;
        Ok(Self { inner })
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
}
