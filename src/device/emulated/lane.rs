#![allow(unsafe_code)] // The emulator's bridge: accesses device memory in the order that the race detector has checked.
//! A lane: a host thread that runs its operations in order and reports each completion.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam::channel::Receiver;

use super::launch::BoundLaunch;
use super::memory::Allocation;
use super::peer::{FromPeer, Hold};
use super::processor::Processor;
use super::race_detector::{LANES, Stamp};
use super::silent_fault::SilentFault;
use crate::device::pinned::{PinnedRead, PinnedWrite};
use crate::device::{Fault, FaultKind, Fence, HostTransfer, Reports, RowBytes};
use crate::trace::Clock;

/// The longest random delay before an operation.
const MAX_DELAY_NS: u64 = 300_000;

/// A checked range of device memory.
pub struct DeviceBytes {
    pub memory: Arc<Allocation>,
    pub number: u32,
    pub range: Range<usize>,
}

/// A copy with its range of device memory. It holds its host memory from submission to completion, as a card does.
pub struct Copy<Host> {
    pub place: DeviceBytes,
    pub transfer: HostTransfer,
    pub host: Host,
}

/// An action of a lane.
pub enum Action {
    Upload(Vec<Copy<PinnedRead>>),
    Download(Copy<PinnedWrite>),
    PeerCopy(FromPeer),
    /// Launches one after the other; all of them so many times.
    Launch(Vec<BoundLaunch>, u32),
    /// Launches, after bytes were written to the device's memory and before a copy to the host.
    LaunchWithCopies {
        numbers: Option<(DeviceBytes, Vec<u8>)>,
        launches: Vec<BoundLaunch>,
        download: Option<Copy<PinnedWrite>>,
    },
    Pass,
}

impl Action {
    /// Marks the bytes that a failed copy was to write as unwritten, so that a later read of them is reported. A launch that failed
    /// has changed nothing.
    fn forget_copied(&self) {
        let forget = |place: &DeviceBytes, begin: usize, bytes: usize| {
            let begin = place.range.start + begin;
            // SAFETY: inside, as checked at submission; the race detector excludes other accesses.
            unsafe { place.memory.forget(begin..begin + bytes) };
        };
        match self {
            Self::Upload(copies) => {
                for Copy { place, transfer, .. } in copies {
                    transfer.pieces().for_each(|(at, _, bytes)| forget(place, at as usize, bytes as usize));
                }
            }
            Self::PeerCopy(copy) => forget(&copy.to, 0, copy.to.range.len()),
            Self::LaunchWithCopies { numbers: Some((place, bytes)), .. } => forget(place, 0, bytes.len()),
            Self::Download(_) | Self::Launch(..) | Self::LaunchWithCopies { .. } | Self::Pass => {}
        }
    }

    /// Whether this launches kernels.
    pub fn is_launch(&self) -> bool {
        match self {
            Self::Launch(..) => true,
            Self::LaunchWithCopies { launches, .. } => !launches.is_empty(),
            _ => false,
        }
    }

    /// Whether this copies bytes, also before or after a launch.
    pub fn copies(&self) -> bool {
        match self {
            Self::Upload(_) | Self::Download(_) | Self::PeerCopy(_) => true,
            Self::LaunchWithCopies { numbers, download, .. } => numbers.is_some() || download.is_some(),
            Self::Launch(..) | Self::Pass => false,
        }
    }
}

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injected {
    Failure,
    Lost,
    Hang,
    Panic,
}

/// An operation that was submitted to a lane.
pub struct Job {
    pub stamp: Stamp,
    pub waits: Vec<Stamp>,
    /// The operations that wrote its input and whose result its submitter may not have known; if one failed, this one is skipped.
    pub needs: Vec<Fence>,
    pub action: Action,
    /// The bytes that it reads and writes, from submission to completion.
    pub holds: Vec<Hold>,
    pub injected: Option<Injected>,
    pub silent: Option<SilentFault>,
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
    /// Whether an operation hangs. Operations that wait for it never complete either, also after the device was closed.
    hung: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For each lane the number of completed operations.
    pub fn ended(&self) -> [u64; LANES] {
        self.state().ended
    }

    /// The fences of those operations that have not ended or are in `waits`. The results of others have been reported: what is
    /// submitted after a failed one without a wait for it is meant to run.
    pub fn unknown(&self, operations: &[Stamp], waits: &[Fence]) -> Vec<Fence> {
        let ended = self.ended();
        let unknown = |stamp: &&Stamp| stamp.sequence > ended[stamp.lane] || waits.contains(&stamp.fence);
        operations.iter().filter(unknown).map(|stamp| stamp.fence).collect()
    }

    /// Whether the device is lost.
    pub fn is_lost(&self) -> bool {
        self.state().lost
    }

    /// Whether the device is neither lost nor closed.
    pub fn is_usable(&self) -> bool {
        !self.is_lost() && !self.closing.load(Ordering::Relaxed)
    }

    /// Ends all current and later waits. Returns whether an operation hangs, so that lanes never end.
    pub fn close(&self) -> bool {
        let state = self.state();
        self.closing.store(true, Ordering::Relaxed);
        self.changed.notify_all();
        state.hung
    }

    /// Never returns, unless the device is closing already.
    fn hang(&self) {
        let mut state = self.state();
        if !self.closing.load(Ordering::Relaxed) {
            state.hung = true;
            drop(state);
            park_forever();
        }
    }

    /// Waits until `holds`. Returns `false` if the device is closed first.
    fn wait_until(&self, holds: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state();
        loop {
            if self.closing.load(Ordering::Relaxed) {
                if state.hung {
                    drop(state);
                    park_forever();
                }
                return false;
            }
            if holds(&state) {
                return true;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Stops the calling thread with everything that it holds.
fn park_forever() -> ! {
    loop {
        thread::park();
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
    /// Runs until the device is closed. After a panic, which is a bug, the device is lost and every operation is reported as
    /// failed.
    pub fn work(self) {
        let running = Cell::new(None);
        if catch_unwind(AssertUnwindSafe(|| self.serve(&running))).is_err() {
            let queued = self.jobs.iter().map(|job| job.stamp);
            for stamp in running.get().into_iter().chain(queued) {
                let lost = Fault::new(FaultKind::Lost, "the thread of a lane has panicked");
                self.end(stamp, self.clock.now_ns(), Err(lost));
            }
        }
    }

    fn serve(&self, running: &Cell<Option<Stamp>>) {
        let mut processor = None;
        while let Ok(mut job) = self.jobs.recv() {
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
                self.shared.hang();
                return;
            }
            let start_ns = self.clock.now_ns();
            running.set(Some(job.stamp));
            if let Some(fault) = &mut job.silent {
                // SAFETY: the race detector excludes other accesses to the bytes of this operation.
                unsafe { fault.begin() };
            }
            let result = self.perform(&mut job, &mut processor);
            if let Some(fault) = job.silent.as_mut().filter(|_| result.is_ok()) {
                // SAFETY: as above.
                unsafe { fault.end() };
            }
            if result.is_err() {
                job.action.forget_copied();
            }
            if self.shared.closing.load(Ordering::Relaxed) {
                return;
            }
            // Releases its memory before the report: the receiver may use the memory at once.
            job.action = Action::Pass;
            job.holds.clear();
            self.end(job.stamp, start_ns, result);
        }
    }

    fn end(&self, stamp: Stamp, start_ns: u64, result: Result<(), Fault>) {
        // Taken before the waiting operations are notified, so that they start later than this.
        let end_ns = self.clock.now_ns();
        let mut state = self.shared.state();
        state.ended[stamp.lane] = stamp.sequence;
        if let Err(fault) = &result {
            state.failed.insert(stamp.fence, fault.kind);
            state.lost |= fault.kind == FaultKind::Lost;
        }
        // Before the waiting operations start: one that is skipped because of this fault must be reported after the fault.
        self.reports.send(stamp.fence, start_ns, end_ns, result);
        drop(state);
        self.shared.changed.notify_all();
    }

    fn perform(&self, job: &mut Job, processor: &mut Option<Processor>) -> Result<(), Fault> {
        let Stamp { fence, what, .. } = job.stamp;
        if job.injected == Some(Injected::Panic) {
            // Without the message and the backtrace of a panic that is a bug.
            resume_unwind(Box::new("injected fault"));
        }
        if job.injected == Some(Injected::Lost) || self.shared.is_lost() {
            return Err(Fault::new(FaultKind::Lost, format!("the device was lost at {what} {}", fence.0)));
        }
        let failed = {
            let state = self.shared.state();
            job.needs.iter().find_map(|needed| Some((*needed, *state.failed.get(needed)?)))
        };
        if let Some((needed, kind)) = failed {
            let message = format!(
                "{what} {} was skipped because operation {} failed, which it needs",
                fence.0, needed.0
            );
            return Err(Fault::new(kind, message));
        }
        if job.injected == Some(Injected::Failure) {
            let kind = if job.action.is_launch() { FaultKind::Launch } else { FaultKind::Copy };
            return Err(Fault::new(kind, format!("{what} {} failed (injected fault)", fence.0)));
        }
        match &mut job.action {
            Action::Pass => Ok(()),
            Action::Upload(copies) => {
                for Copy { place, transfer, host } in copies {
                    for (at, host_at, length) in transfer.pieces() {
                        let from = host.get(within(transfer.host.begin, host_at, length));
                        let from = from.ok_or_else(|| short(what, fence))?;
                        // SAFETY: inside, as checked at submission; the race detector excludes other accesses.
                        unsafe { place.memory.write(place.range.start + at as usize, from) };
                    }
                }
                Ok(())
            }
            Action::Download(copy) => download(copy, what, fence),
            Action::PeerCopy(copy) => {
                copy.check_peer()?;
                let (from, to) = (&copy.from, &copy.to);
                if let Some(at) = from.memory.first_unwritten(from.range.clone()) {
                    let message = format!(
                        "{what} {} reads byte {at} of memory {} of another device, which is unwritten",
                        fence.0, from.number
                    );
                    return Err(Fault::new(FaultKind::Misuse, message));
                }
                // SAFETY: both inside, as checked at submission. The race detector excludes other accesses to this device's bytes,
                // and the copy holds the other device's bytes, so that nothing writes them.
                unsafe { to.memory.copy_from(to.range.start, &from.memory, from.range.clone()) };
                Ok(())
            }
            Action::Launch(launches, times) => (0..*times).try_for_each(|_| self.launch(launches, processor)),
            Action::LaunchWithCopies { numbers, launches, download: results } => {
                if let Some((place, bytes)) = numbers {
                    // SAFETY: inside, as checked at submission; the race detector excludes other accesses.
                    unsafe { place.memory.write(place.range.start, bytes) };
                }
                self.launch(launches, processor)?;
                results.as_mut().map_or(Ok(()), |copy| download(copy, what, fence))
            }
        }
    }

    fn launch(&self, launches: &[BoundLaunch], processor: &mut Option<Processor>) -> Result<(), Fault> {
        if processor.is_none() {
            *processor = Processor::new();
        }
        let no_memory = || Fault::new(FaultKind::OutOfMemory, "the host has no memory for a processor");
        let processor = processor.as_mut().ok_or_else(no_memory)?;
        // SAFETY: inside and of the parameters' kinds, as checked at submission. The race detector excludes other accesses to its
        // outputs and writes to its inputs.
        launches.iter().try_for_each(|launch| unsafe { launch.run(processor, &self.shared.closing) })
    }
}

/// Copies rows to the host.
fn download(copy: &mut Copy<PinnedWrite>, what: &str, fence: Fence) -> Result<(), Fault> {
    let Copy { place: from, transfer, host } = copy;
    if let Some(at) = first_unwritten(from, &transfer.rows) {
        let message =
            format!("{what} {} reads byte {at} of memory {}, which is unwritten", fence.0, from.number);
        return Err(Fault::new(FaultKind::Misuse, message));
    }
    for (at, host_at, length) in transfer.pieces() {
        let to = host.get_mut(within(transfer.host.begin, host_at, length));
        let to = to.ok_or_else(|| short(what, fence))?;
        // SAFETY: inside, as checked at submission; the race detector excludes writes.
        unsafe { from.memory.read(from.range.start + at as usize, to) };
    }
    Ok(())
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
pub fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
