//! Operations whose callers were interrupted. They may still wait for a lock, or compute: the next operation lets them end first, so that
//! none of them changes what a later one wrote.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Whether an operation has ended.
#[derive(Default)]
pub struct Ending {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Ending {
    /// A value whose drop says that the operation has ended.
    pub fn guard(self: &Arc<Self>) -> EndingGuard {
        EndingGuard(self.clone())
    }

    fn ended(&self) -> MutexGuard<'_, bool> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let mut ended = self.ended();
        while !*ended {
            ended = self.changed.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Says at its drop that an operation has ended.
pub struct EndingGuard(Arc<Ending>);

impl Drop for EndingGuard {
    fn drop(&mut self) {
        *self.0.ended() = true;
        self.0.changed.notify_all();
    }
}

/// The operations on the vectors of a product that were interrupted and may not have ended.
#[derive(Default)]
pub struct Abandoned {
    operations: Mutex<Vec<Arc<Ending>>>,
    any: AtomicBool,
}

impl Abandoned {
    /// Whether there may be one.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Adds an operation, unless it has ended.
    pub fn add(&self, operation: Arc<Ending>) {
        if !*operation.ended() {
            self.operations().push(operation);
            self.any.store(true, Ordering::Release);
        }
    }

    /// Waits until all have ended.
    pub fn wait(&self) {
        let before = self.operations().clone();
        before.iter().for_each(|operation| operation.wait());
        let mut operations = self.operations();
        operations.retain(|operation| !*operation.ended());
        self.any.store(!operations.is_empty(), Ordering::Release);
    }

    fn operations(&self) -> MutexGuard<'_, Vec<Arc<Ending>>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
