//! Claims about pinned memory and the threads of a card that hold in every schedule of threads that shuttle tries.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::RandomScheduler;
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, MaxSteps, Runner};

use super::card::{Action, Address, Architecture, CardClock, Context, EventWait, SharedHostTime, Stream};
use super::cuda::completion_thread::{CompletionThread, HeldMemory};
use super::cuda::events::EventPool;
use super::cuda::owner::{Command, Owner, Request};
use super::cuda::shared::Shared;
use super::pinned::Pinned;
use super::sync::{Receiver, Sender, channel, switch};
use super::{Fault, Fence, LaneKind, Reports};
use crate::trace::Clock;

/// Schedules per claim.
const SCHEDULES: usize = 400;
/// A model that takes more steps has a thread that polls for ever.
const MAX_STEPS: usize = 200_000;
const KINDS: [LaneKind; 3] = [LaneKind::Upload, LaneKind::Compute, LaneKind::Download];

fn in_every_schedule(claim: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    Runner::new(RandomScheduler::new(SCHEDULES), config).run(claim);
}

fn chance(one_of: u32) -> bool {
    thread_rng().gen_range(0..one_of) == 0
}

/// A card with its threads, as a device opens it.
struct Device {
    context: Arc<Context>,
    orders: Sender<Request>,
    completions: Receiver<(Fence, Result<(), Fault>)>,
    threads: Vec<JoinHandle<()>>,
    card: JoinHandle<()>,
    /// The memory of every operation.
    submitted: Vec<Vec<(Pinned, Address)>>,
}

impl Device {
    fn open(queries_to_panic: Option<u32>) -> Self {
        let context = Context::new(queries_to_panic);
        let (shared, clock) = (Arc::new(Shared::default()), Clock::start());
        let (orders, to_do) = channel();
        let (reports, completions) = channel();
        let (reports, (seen, ended)) = (Reports(reports), channel());
        let (mut threads, mut completion_threads) = (Vec::new(), Vec::new());
        for kind in KINDS {
            let (sender, issued) = channel();
            completion_threads.push(sender);
            let thread = CompletionThread {
                shared: shared.clone(),
                context: context.clone(),
                kind,
                issued,
                ended: seen.clone(),
                host_time: SharedHostTime,
                clock,
                reports: reports.clone(),
            };
            threads.push(thread::spawn(move || thread.work()));
        }
        let owner = Owner {
            shared,
            context: context.clone(),
            architecture: Architecture,
            driver_major: 13,
            streams: KINDS.map(|_| Stream::create(&context).unwrap()).into(),
            completion_threads,
            ended,
            card_clock: CardClock,
            clock,
            reports,
            event_pool: EventPool::default(),
            in_flight: Default::default(),
            last: vec![None; KINDS.len()],
            failed: HashSet::new(),
        };
        threads.push(thread::spawn(move || owner.work(&to_do)));
        let card = context.clone();
        let card = thread::spawn(move || card.work());
        Self { context, orders, completions, threads, card, submitted: Vec::new() }
    }

    /// Submits an operation that uses `copies` new buffers.
    fn submit(&mut self, lane: usize, copies: usize, action: impl FnOnce(Vec<Address>) -> Action) -> Fence {
        let fence = Fence(self.submitted.len() as u64);
        let (mut memory, mut held) = (Vec::new(), Vec::new());
        for _ in 0..copies {
            let pinned = Pinned::pageable(8).unwrap();
            let address = pinned.read().unwrap().as_ptr() as usize;
            held.push(match KINDS[lane] {
                LaneKind::Download => HeldMemory::Written(pinned.write().unwrap()),
                _ => HeldMemory::Read(pinned.read().unwrap()),
            });
            memory.push((pinned, address));
        }
        let action = action(memory.iter().map(|(_, address)| *address).collect());
        let waits = if fence.0 > 0 && chance(2) { vec![Fence(fence.0 - 1)] } else { Vec::new() };
        let waiting = if chance(2) { EventWait::Blocking } else { EventWait::Spinning };
        let predicted_ns = if chance(2) { 0 } else { 300_000 };
        self.submitted.push(memory);
        let command = Command { fence, lane, waits, waiting, predicted_ns, action, what: "operation", held };
        assert!(self.orders.send(Request::Issue(Box::new(command))).is_ok());
        fence
    }

    /// A few operations of all kinds. Some uploads are refused after their first copy.
    fn submit_some(&mut self) {
        // Without checks between them, operations queue up.
        let checks = chance(2);
        for _ in 0..thread_rng().gen_range(1..8) {
            match thread_rng().gen_range(0..4) {
                0 => self.submit(0, thread_rng().gen_range(1..3), Action::Upload),
                1 => self.submit(0, 1, Action::RefusedAfter),
                2 => self.submit(1, 0, |_| Action::Kernel),
                _ => self.submit(2, 1, |to| Action::Download(to[0])),
            };
            if checks {
                self.check_memory();
            }
        }
    }

    /// Memory that can be written is not used by the card.
    fn check_memory(&self) {
        for (pinned, address) in self.submitted.iter().flatten() {
            if let Ok(_access) = pinned.write() {
                assert!(!self.context.is_copying(*address), "memory was released while the card copies it");
            }
        }
    }

    /// Waits for all operations, of which each must be reported once. Returns the memory of every operation.
    fn finish(self) -> Vec<Vec<(Pinned, Address)>> {
        let mut reported = HashSet::new();
        while reported.len() < self.submitted.len() {
            let (fence, _) =
                self.completions.recv().expect("the threads end before they report all operations");
            assert!(reported.insert(fence), "{fence:?} is reported twice");
            self.check_memory();
        }
        self.close()
    }

    /// Waits for all threads. No operation may be reported after this call.
    fn close(self) -> Vec<Vec<(Pinned, Address)>> {
        let Self { context, orders, completions, threads, card, submitted } = self;
        drop(orders);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(completions.try_recv().is_err(), "an operation is reported twice");
        context.close();
        card.join().unwrap();
        submitted
    }
}

fn is_held(memory: &[(Pinned, Address)]) -> bool {
    memory.iter().any(|(pinned, _)| pinned.write().is_err())
}

#[test]
fn memory_is_held_while_the_card_copies_it_and_released_before_the_report() {
    in_every_schedule(|| {
        let mut device = Device::open(None);
        device.submit_some();
        for _ in 0..device.submitted.len() {
            let (fence, _) = device.completions.recv().unwrap();
            assert!(!is_held(&device.submitted[fence.0 as usize]), "memory is held after the report");
            device.check_memory();
        }
        device.close();
    });
}

#[test]
fn every_operation_is_reported_once_and_its_memory_is_released() {
    in_every_schedule(|| {
        let mut device = Device::open(None);
        device.submit_some();
        assert!(!device.finish().iter().any(|memory| is_held(memory)), "memory is held for ever");
    });
}

#[test]
fn a_kernel_that_destroys_the_context_leaves_no_operation_unreported_and_no_memory_held() {
    in_every_schedule(|| {
        let mut device = Device::open(None);
        device.submit_some();
        device.submit(1, 0, |_| Action::IllegalAddress);
        device.submit_some();
        assert!(!device.finish().iter().any(|memory| is_held(memory)), "memory is held for ever");
    });
}

#[test]
fn an_owner_that_panics_reports_every_operation_and_holds_only_memory_that_the_card_may_use() {
    in_every_schedule(|| {
        let mut device = Device::open(None);
        device.submit_some();
        let in_flight = match thread_rng().gen_range(0..3) {
            0 => Some(device.submit(0, 2, Action::PanicAfter)),
            1 => {
                device.submit(0, 1, |_| Action::PanicBefore);
                None
            }
            _ => {
                let (answer, _) = channel();
                assert!(device.orders.send(Request::Prepare(Vec::new(), answer)).is_ok());
                None
            }
        };
        device.submit_some();
        for (fence, memory) in device.finish().iter().enumerate() {
            let is_in_flight = in_flight == Some(Fence(fence as u64));
            // It was refused before the panic if it waits for a refused operation.
            assert!(is_in_flight || !is_held(memory), "memory is held for ever");
        }
    });
}

#[test]
fn a_completion_thread_that_panics_reports_every_operation_and_releases_no_memory_in_flight() {
    in_every_schedule(|| {
        let mut device = Device::open(Some(thread_rng().gen_range(1..40)));
        // A backlog on one lane, whose thread then also queries events between two operations.
        for _ in 0..6 {
            device.submit(0, 1, Action::Upload);
        }
        device.submit_some();
        device.finish();
    });
}

#[test]
fn revoked_memory_is_not_used_by_the_card() {
    in_every_schedule(|| {
        let mut device = Device::open(None);
        device.submit(0, 1, Action::Upload);
        device.submit(2, 1, |to| Action::Download(to[0]));
        for (pinned, address) in device.submitted.iter().flatten() {
            assert!(pinned.revoke(Duration::from_secs(60)));
            assert!(!device.context.is_copying(*address));
            assert!(pinned.read().is_err() && pinned.write().is_err());
        }
        device.finish();
    });
}

#[test]
fn a_write_access_excludes_all_others() {
    in_every_schedule(|| {
        let (pinned, users) = (Pinned::pageable(8).unwrap(), Arc::new(AtomicIsize::new(0)));
        let threads = [true, false, true, false].map(|writes| {
            let (pinned, users) = (pinned.clone(), users.clone());
            thread::spawn(move || {
                for _ in 0..3 {
                    if writes && let Ok(_access) = pinned.write() {
                        assert_eq!(users.swap(-1, Ordering::SeqCst), 0, "a write meets another access");
                        switch();
                        assert_eq!(users.swap(0, Ordering::SeqCst), -1, "another access meets a write");
                    } else if !writes && let Ok(_access) = pinned.read() {
                        assert!(users.fetch_add(1, Ordering::SeqCst) >= 0, "a read meets a write");
                        switch();
                        assert!(users.fetch_sub(1, Ordering::SeqCst) > 0, "a write meets a read");
                    }
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(pinned.write().is_ok(), "an access did not end");
    });
}
