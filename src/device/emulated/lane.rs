#![allow(unsafe_code)] // The emulator's bridge: touches the device's memory, as the race_detector allows.
//! A lane: a host thread that does what it is given, in order, and reports each end.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam::channel::Receiver;

use super::launch::BoundLaunch;
use super::memory::Allocation;
use super::processor::Processor;
use super::race_detector::{LANES, Stamp};
use crate::device::{Fault, FaultKind, Fence, Reports, RowBytes, Transfer};
use crate::trace::Clock;

/// Longest delay that a seed puts before an operation.
const MAX_DELAY_NS: u64 = 300_000;

/// Bytes of the device's memory, checked to lie inside.
pub struct DeviceBytes {
    pub memory: Arc<Allocation>,
    pub number: u32,
    pub range: Range<usize>,
}

/// A copy, and where in the device's memory.
pub struct Copy {
    pub place: DeviceBytes,
    pub transfer: Transfer,
}

/// What a lane does.
pub enum Action {
    Upload(Vec<Copy>),
    Download(Copy),
    Launch(BoundLaunch, u32),
    Pass,
}

/// Something that goes wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injected {
    Failure,
    Lost,
    Hang,
}

/// One operation, on its way to its lane.
pub struct Job {
    pub stamp: Stamp,
    pub waits: Vec<Stamp>,
    /// Those that wrote what it reads; if one failed, so does this.
    pub sources: Vec<Fence>,
    pub action: Action,
    pub injected: Option<Injected>,
}

/// What all lanes of a device know.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The device is closing: kernels stop at the next block.
    pub closing: AtomicBool,
}

#[derive(Default)]
struct State {
    /// How many operations of each lane have ended.
    ended: [u64; LANES],
    failed: HashMap<Fence, FaultKind>,
    lost: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many operations of each lane have ended.
    pub fn ended(&self) -> [u64; LANES] {
        self.state().ended
    }

    /// Whether the device is gone.
    pub fn is_lost(&self) -> bool {
        self.state().lost
    }

    /// Wakes everybody who waits, for good.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        drop(self.state());
        self.changed.notify_all();
    }

    /// Waits until `holds`; `false` where the device is closed first.
    fn wait_until(&self, holds: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state();
        loop {
            if self.closing.load(Ordering::Relaxed) {
                return false;
            }
            if holds(&state) {
                return true;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What a lane's thread works with.
pub struct Lane {
    pub shared: Arc<Shared>,
    pub jobs: Receiver<Box<Job>>,
    pub reports: Reports,
    pub clock: Clock,
    pub delay_seed: Option<u64>,
}

impl Lane {
    /// Works until the device is closed.
    pub fn work(self) {
        let mut processor = None;
        while let Ok(job) = self.jobs.recv() {
            let may_begin = self
                .shared
                .wait_until(|state| job.waits.iter().all(|wait| wait.sequence <= state.ended[wait.lane]));
            if !may_begin {
                return;
            }
            if let Some(seed) = self.delay_seed {
                thread::sleep(Duration::from_nanos(mixed(seed ^ job.stamp.fence.0) % MAX_DELAY_NS));
            }
            if job.injected == Some(Injected::Hang) {
                self.shared.wait_until(|_| false);
                return;
            }
            let start_ns = self.clock.now_ns();
            let result = self.perform(&job, &mut processor);
            if self.shared.closing.load(Ordering::Relaxed) {
                return;
            }
            self.end(&job, start_ns, result);
        }
    }

    fn end(&self, job: &Job, start_ns: u64, result: Result<(), Fault>) {
        // Whoever waits for it begins later than this.
        let end_ns = self.clock.now_ns();
        let mut state = self.shared.state();
        state.ended[job.stamp.lane] = job.stamp.sequence;
        if let Err(fault) = &result {
            state.failed.insert(job.stamp.fence, fault.kind);
            state.lost |= fault.kind == FaultKind::Lost;
        }
        drop(state);
        self.shared.changed.notify_all();
        self.reports.send(job.stamp.fence, start_ns, end_ns, result);
    }

    fn perform(&self, job: &Job, processor: &mut Option<Processor>) -> Result<(), Fault> {
        let Stamp { fence, what, .. } = job.stamp;
        if job.injected == Some(Injected::Lost) || self.shared.is_lost() {
            return Err(Fault::new(FaultKind::Lost, format!("the device was lost at {what} {}", fence.0)));
        }
        let failed = {
            let state = self.shared.state();
            job.sources.iter().find_map(|source| Some((*source, *state.failed.get(source)?)))
        };
        if let Some((source, kind)) = failed {
            let message = format!(
                "{what} {} was not done: operation {} failed, and it reads what that \
                 should have written",
                fence.0, source.0
            );
            return Err(Fault::new(kind, message));
        }
        if job.injected == Some(Injected::Failure) {
            let kind =
                if matches!(job.action, Action::Launch(..)) { FaultKind::Launch } else { FaultKind::Copy };
            return Err(Fault::new(kind, format!("{what} {} failed, as it was told to", fence.0)));
        }
        match &job.action {
            Action::Pass => Ok(()),
            Action::Upload(copies) => {
                for Copy { place, transfer } in copies {
                    let bytes = transfer.host.pinned.read()?;
                    for (at, host_at, length) in transfer.pieces() {
                        let from = bytes.get(within(transfer.host.begin, host_at, length));
                        let from = from.ok_or_else(|| short(what, fence))?;
                        // SAFETY: inside, as checked when it was submitted, and the race_detector keeps everybody else away.
                        unsafe { place.memory.write(place.range.start + at as usize, from) };
                    }
                }
                Ok(())
            }
            Action::Download(Copy { place: from, transfer }) => {
                if let Some(at) = first_unwritten(from, &transfer.rows) {
                    let message = format!(
                        "{what} {} reads byte {at} of memory {}, which nobody has written",
                        fence.0, from.number
                    );
                    return Err(Fault::new(FaultKind::Misuse, message));
                }
                let mut bytes = transfer.host.pinned.write()?;
                for (at, host_at, length) in transfer.pieces() {
                    let to = bytes.get_mut(within(transfer.host.begin, host_at, length));
                    let to = to.ok_or_else(|| short(what, fence))?;
                    // SAFETY: inside, as checked when it was submitted, and the race_detector keeps writers away.
                    unsafe { from.memory.read(from.range.start + at as usize, to) };
                }
                Ok(())
            }
            Action::Launch(launch, times) => {
                if processor.is_none() {
                    *processor = Processor::new();
                }
                let no_memory =
                    || Fault::new(FaultKind::OutOfMemory, "the host has no memory for a processor");
                let processor = processor.as_mut().ok_or_else(no_memory)?;
                // SAFETY: inside and of the parameters' kinds, as checked when it was submitted, and the race_detector keeps
                // everybody else away from what it writes, and writers from what it reads.
                (0..*times).try_for_each(|_| unsafe { launch.run(processor, &self.shared.closing) })
            }
        }
    }
}

/// The first byte of the rows that nobody has written.
fn first_unwritten(from: &DeviceBytes, rows: &RowBytes) -> Option<usize> {
    let end = from.range.end;
    from.range.clone().step_by((rows.pitch_bytes as usize).max(1)).find_map(|row| {
        let row_end = row.saturating_add(rows.bytes as usize).min(end);
        from.memory.first_unwritten(row..row_end)
    })
}

fn within(begin: u64, offset: u64, length: u64) -> Range<usize> {
    let begin = (begin + offset) as usize;
    begin..begin + length as usize
}

fn short(what: &str, fence: Fence) -> Fault {
    Fault::new(FaultKind::Misuse, format!("{what} {} goes beyond its pinned memory", fence.0))
}

/// A number that looks random, from one that does not (SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
