#![allow(unsafe_code)] // The emulator's bridge: accesses device memory in the order that the race detector has checked.
//! A lane: a host thread that runs its operations in order and reports each completion.

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

/// The longest random delay before an operation.
const MAX_DELAY_NS: u64 = 300_000;

/// A checked range of device memory.
pub struct DeviceBytes {
    pub memory: Arc<Allocation>,
    pub number: u32,
    pub range: Range<usize>,
}

/// A copy with its range of device memory.
pub struct Copy {
    pub place: DeviceBytes,
    pub transfer: Transfer,
}

/// An action of a lane.
pub enum Action {
    Upload(Vec<Copy>),
    Download(Copy),
    Launch(BoundLaunch, u32),
    Pass,
}

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injected {
    Failure,
    Lost,
    Hang,
}

/// An operation that was submitted to a lane.
pub struct Job {
    pub stamp: Stamp,
    pub waits: Vec<Stamp>,
    /// The operations that wrote its input; if one failed, this one fails too.
    pub sources: Vec<Fence>,
    pub action: Action,
    pub injected: Option<Injected>,
}

/// State shared by all lanes of a device.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The device is closing: kernels stop at the next block.
    pub closing: AtomicBool,
}

#[derive(Default)]
struct State {
    /// For each lane the number of completed operations.
    ended: [u64; LANES],
    failed: HashMap<Fence, FaultKind>,
    lost: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For each lane the number of completed operations.
    pub fn ended(&self) -> [u64; LANES] {
        self.state().ended
    }

    /// Whether the device is lost.
    pub fn is_lost(&self) -> bool {
        self.state().lost
    }

    /// Ends all current and later waits.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        drop(self.state());
        self.changed.notify_all();
    }

    /// Waits until `holds`. Returns `false` if the device is closed first.
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

/// The state of a lane's thread.
pub struct Lane {
    pub shared: Arc<Shared>,
    pub jobs: Receiver<Box<Job>>,
    pub reports: Reports,
    pub clock: Clock,
    pub delay_seed: Option<u64>,
}

impl Lane {
    /// Runs until the device is closed.
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
        // Taken before the waiting operations are notified, so that they start later than this.
        let end_ns = self.clock.now_ns();
        let mut state = self.shared.state();
        state.ended[job.stamp.lane] = job.stamp.sequence;
        if let Err(fault) = &result {
            state.failed.insert(job.stamp.fence, fault.kind);
            state.lost |= fault.kind == FaultKind::Lost;
        }
        // Before the waiting operations start: one that is skipped because of this fault must be reported after the fault.
        self.reports.send(job.stamp.fence, start_ns, end_ns, result);
        drop(state);
        self.shared.changed.notify_all();
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
                "{what} {} was skipped because operation {} failed, whose \
                 output it reads",
                fence.0, source.0
            );
            return Err(Fault::new(kind, message));
        }
        if job.injected == Some(Injected::Failure) {
            let kind =
                if matches!(job.action, Action::Launch(..)) { FaultKind::Launch } else { FaultKind::Copy };
            return Err(Fault::new(kind, format!("{what} {} failed (injected fault)", fence.0)));
        }
        match &job.action {
            Action::Pass => Ok(()),
            Action::Upload(copies) => {
                for Copy { place, transfer } in copies {
                    let bytes = transfer.host.pinned.read()?;
                    for (at, host_at, length) in transfer.pieces() {
                        let from = bytes.get(within(transfer.host.begin, host_at, length));
                        let from = from.ok_or_else(|| short(what, fence))?;
                        // SAFETY: inside, as checked at submission; the race detector excludes other accesses.
                        unsafe { place.memory.write(place.range.start + at as usize, from) };
                    }
                }
                Ok(())
            }
            Action::Download(Copy { place: from, transfer }) => {
                if let Some(at) = first_unwritten(from, &transfer.rows) {
                    let message = format!(
                        "{what} {} reads byte {at} of memory {}, which is unwritten",
                        fence.0, from.number
                    );
                    return Err(Fault::new(FaultKind::Misuse, message));
                }
                let mut bytes = transfer.host.pinned.write()?;
                for (at, host_at, length) in transfer.pieces() {
                    let to = bytes.get_mut(within(transfer.host.begin, host_at, length));
                    let to = to.ok_or_else(|| short(what, fence))?;
                    // SAFETY: inside, as checked at submission; the race detector excludes writes.
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
                // SAFETY: inside and of the parameters' kinds, as checked at submission. The race detector excludes other
                // accesses to its outputs and writes to its inputs.
                (0..*times).try_for_each(|_| unsafe { launch.run(processor, &self.shared.closing) })
            }
        }
    }
}

/// The first unwritten byte of the rows.
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
    Fault::new(FaultKind::Misuse, format!("{what} {} exceeds its pinned memory", fence.0))
}

/// A pseudo-random number from `seed` (SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
