//! Synchronisation primitives at which shuttle may switch threads.
//!
//! Shuttle runs all threads of a model on one thread of the operating system, so the primitives of the standard library are enough. No
//! switch happens during a panic: a thread that unwinds must not be mistaken for another.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::yield_now;

/// A point at which another thread may run.
pub fn switch() {
    if !std::thread::panicking() {
        let _ = shuttle::sync::atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
    }
}

pub fn spin_loop() {
    yield_now();
}

pub fn sleep(_duration: Duration) {
    yield_now();
}

/// The next message; `None` once the channel is closed.
pub fn receive<T>(receiver: &Receiver<T>) -> Option<T> {
    receiver.recv().ok()
}

/// A moment. The time since then is random, below and above the limits of spinning, and below every timeout.
pub struct Instant;

impl Instant {
    pub fn now() -> Self {
        Self
    }

    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(thread_rng().gen_range(0..400))
    }
}

pub mod atomic {
    pub use std::sync::atomic::Ordering;

    use super::switch;

    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            #[derive(Debug, Default)]
            pub struct $name(std::sync::atomic::$name);

            impl $name {
                pub fn new(value: $value) -> Self {
                    Self(std::sync::atomic::$name::new(value))
                }

                pub fn load(&self, order: Ordering) -> $value {
                    switch();
                    self.0.load(order)
                }

                pub fn store(&self, value: $value, order: Ordering) {
                    switch();
                    self.0.store(value, order);
                    switch();
                }
            }
        };
    }
    atomic!(AtomicBool, bool);
    atomic!(AtomicUsize, usize);
    atomic!(AtomicIsize, isize);

    impl AtomicIsize {
        pub fn fetch_update(
            &self,
            set: Ordering,
            fetch: Ordering,
            update: impl FnMut(isize) -> Option<isize>,
        ) -> Result<isize, isize> {
            switch();
            let updated = self.0.fetch_update(set, fetch, update);
            switch();
            updated
        }

        pub fn compare_exchange(
            &self,
            current: isize,
            new: isize,
            success: Ordering,
            failure: Ordering,
        ) -> Result<isize, isize> {
            switch();
            let exchanged = self.0.compare_exchange(current, new, success, failure);
            switch();
            exchanged
        }

        pub fn fetch_sub(&self, value: isize, order: Ordering) -> isize {
            switch();
            let before = self.0.fetch_sub(value, order);
            switch();
            before
        }
    }
}

#[derive(Debug)]
struct Channel<T> {
    queue: VecDeque<T>,
    senders: usize,
    received: bool,
}

type Shared<T> = Arc<Mutex<Channel<T>>>;

fn lock<T>(channel: &Shared<T>) -> MutexGuard<'_, Channel<T>> {
    channel.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A channel without a limit.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Mutex::new(Channel { queue: VecDeque::new(), senders: 1, received: true }));
    (Sender(channel.clone()), Receiver(channel))
}

#[derive(Debug)]
pub struct Sender<T>(Shared<T>);

impl<T> Sender<T> {
    pub fn send(&self, message: T) -> Result<(), T> {
        switch();
        {
            let mut channel = lock(&self.0);
            if !channel.received {
                drop(channel);
                return Err(message);
            }
            channel.queue.push_back(message);
        }
        switch();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.0).senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        lock(&self.0).senders -= 1;
        switch();
    }
}

#[derive(Debug)]
pub struct Receiver<T>(Shared<T>);

impl<T> Receiver<T> {
    /// The next message; `Err(true)` once the channel is closed, `Err(false)` if it is only empty.
    pub fn try_recv(&self) -> Result<T, bool> {
        switch();
        let mut channel = lock(&self.0);
        let closed = channel.senders == 0;
        channel.queue.pop_front().ok_or(closed)
    }

    pub fn recv(&self) -> Result<T, bool> {
        loop {
            match self.try_recv() {
                Err(false) => yield_now(),
                received => return received,
            }
        }
    }

    pub fn len(&self) -> usize {
        switch();
        lock(&self.0).queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn try_iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.try_recv().ok())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // The messages are dropped outside the lock: they may hold channels themselves.
        let left = {
            let mut channel = lock(&self.0);
            channel.received = false;
            std::mem::take(&mut channel.queue)
        };
        drop(left);
    }
}

pub struct Messages<'a, T>(&'a Receiver<T>);

impl<T> Iterator for Messages<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Messages<'a, T>;

    fn into_iter(self) -> Messages<'a, T> {
        Messages(self)
    }
}
