//! An emulated CUDA device: runs the source of the CUDA kernels on the CPU and checks every operation.
//!
//! It has its own memory and three lanes, each a host thread. Every access of a kernel is checked against the kernel's
//! arguments. Every operation is checked against all earlier ones for a missing wait. An invalid operation is reported
//! and never changes bytes of another one. Delays and faults can be injected and are reproducible.

mod barriers;
mod bridge;
mod checked_launch;
#[cfg(test)]
mod dense_tests;
mod direct;
#[cfg(test)]
mod direct_tests;
mod entries;
#[cfg(test)]
mod entry_names;
mod fault;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod kernel_tests;
mod lane;
mod launch;
mod memory;
#[cfg(test)]
mod packed_tests;
mod peer;
#[cfg(test)]
mod peer_tests;
mod processor;
mod race_detector;
mod region;
pub(crate) mod registered;
#[cfg(test)]
mod scaling_tests;
#[cfg(test)]
mod shared_declarations;
mod silent_fault;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vector_tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam::channel::{Sender, unbounded};

pub use fault::{AccessKind, FaultCause, Index3, KernelFault};

use lane::{Action, Copy, DeviceBytes, Injected, Job, Lane, Shared};
use memory::Allocation;
use race_detector::{Intent, LANES, RaceDetector};
use registered::Registered;
use silent_fault::{Silent, SilentFault};

use super::memories::Memories;
use super::{
    Description, Device, DirectMemory, EmulatedOptions, Fault, FaultKind, Fence, ForeignMemory, HostTransfer,
    LaneInfo, LaneKind, Memory, MemoryPlace, MemoryRange, Operation, PeerMemory, Pinned, Registration,
    Reports, StableBytes,
};
use crate::graph::Demand;
use crate::trace::Clock;

/// Operations in flight per lane.
const LANE_DEPTH: usize = 16;

/// An emulated device.
pub struct EmulatedDevice {
    description: Description,
    options: EmulatedOptions,
    clock: Clock,
    race_detector: RaceDetector,
    /// By number; `None` once freed.
    memories: Memories<Arc<Allocation>>,
    shared: Arc<Shared>,
    /// Empty after the device is closed.
    lanes: Vec<(Sender<Box<Job>>, JoinHandle<()>)>,
    /// Counts of calls so far, for the faults to inject.
    counts: Counts,
    /// Registrations that have not ended.
    registered: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    allocated_bytes: u64,
    allocations: u64,
    registrations: u64,
    launches: u64,
    copies: u64,
    operations: u64,
    peer_requests: u64,
}

/// A checked operation.
struct Checked {
    action: Action,
    what: &'static str,
    reads: Vec<MemoryRange>,
    writes: Vec<MemoryRange>,
}

impl EmulatedDevice {
    /// Opens the device named `name`. Its times are on `clock`; completions go to `reports`.
    pub fn open(
        name: impl Into<String>,
        options: EmulatedOptions,
        clock: Clock,
        reports: Reports,
    ) -> Result<Self, Fault> {
        let name = name.into();
        let kinds =
            [("upload", LaneKind::Upload), ("compute", LaneKind::Compute), ("download", LaneKind::Download)];
        let shared = Arc::new(Shared::default());
        let mut device = Self {
            description: Description {
                name: name.clone(),
                memory_bytes: Some(options.memory_bytes),
                lanes: kinds
                    .map(|(name, kind)| LaneInfo { name: name.into(), kind, depth: LANE_DEPTH })
                    .to_vec(),
                stream_ordered: true,
            },
            options,
            clock,
            race_detector: RaceDetector::default(),
            memories: Memories::default(),
            shared: shared.clone(),
            lanes: Vec::with_capacity(LANES),
            counts: Counts::default(),
            registered: Arc::default(),
        };
        for (kind, _) in kinds {
            let (sender, jobs) = unbounded();
            let (shared, reports, delay_seed) = (shared.clone(), reports.clone(), options.delay_seed);
            let lane = Lane { shared, jobs, reports, clock, delay_seed };
            let thread = thread::Builder::new().name(format!("{name} {kind}")).spawn(move || lane.work());
            let thread = thread.map_err(|error| {
                Fault::new(
                    FaultKind::Lost,
                    format!("{name}: the thread of a lane cannot be started: {error}"),
                )
            })?;
            device.lanes.push((sender, thread));
        }
        Ok(device)
    }

    fn check_open(&self) -> Result<(), Fault> {
        let name = &self.description.name;
        if self.lanes.is_empty() {
            return Err(Fault::new(FaultKind::Lost, format!("{name} is closed")));
        }
        if self.shared.is_lost() {
            return Err(Fault::new(FaultKind::Lost, format!("{name} was lost")));
        }
        Ok(())
    }

    fn resolve(&self, range: &MemoryRange) -> Result<DeviceBytes, Fault> {
        let outside =
            || misuse(format!("bytes {}..{} are outside memory {}", range.begin, range.end, range.memory.0));
        let memory = self.memories.get(range.memory).cloned().ok_or_else(outside)?;
        if range.begin > range.end || range.end > memory.bytes() as u64 {
            return Err(outside());
        }
        Ok(DeviceBytes { memory, number: range.memory.0, range: range.begin as usize..range.end as usize })
    }

    /// The copy of a checked transfer, with the host memory that `hold` takes.
    fn copy<Host>(
        &self,
        transfer: HostTransfer,
        hold: impl FnOnce(&Pinned) -> Result<Host, Fault>,
    ) -> Result<Copy<Host>, Fault> {
        check_lengths(&transfer)?;
        registered::check_copy(&transfer)?;
        let place = self.resolve(&transfer.device)?;
        Ok(Copy { place, host: hold(&transfer.host.pinned)?, transfer })
    }

    fn check(&self, operation: Operation<'_>, lane: LaneKind) -> Result<Checked, Fault> {
        match (operation, lane) {
            (Operation::Upload(transfers), LaneKind::Upload) => {
                let writes = transfers.iter().map(|transfer| transfer.device).collect();
                let copies = transfers.into_iter().map(|transfer| self.copy(transfer, Pinned::read));
                let action = Action::Upload(copies.collect::<Result<_, Fault>>()?);
                Ok(Checked { action, what: "upload", reads: vec![], writes })
            }
            (Operation::Download(transfer), LaneKind::Download) => {
                let reads = vec![transfer.device];
                let action = Action::Download(self.copy(transfer, Pinned::write)?);
                Ok(Checked { action, what: "download", reads, writes: vec![] })
            }
            (Operation::PeerCopy(copy), LaneKind::Upload) => {
                let action = Action::PeerCopy(self.check_peer_copy(&copy)?);
                Ok(Checked { action, what: "peer copy", reads: vec![], writes: vec![copy.to] })
            }
            (Operation::Launch(launch), LaneKind::Compute) => self.check_launch(&launch),
            (Operation::VectorLaunch(launch), LaneKind::Compute) => {
                self.check_entry_launch(&launch.entry_launch().map_err(|error| misuse(error.message()))?)
            }
            (Operation::LaunchWithCopies(launch), LaneKind::Compute) => {
                self.check_launch_with_copies(*launch)
            }
            (Operation::EntryLaunches(launches), LaneKind::Compute) => self.check_entry_launches(&launches),
            (Operation::Pass, _) => {
                Ok(Checked { action: Action::Pass, what: "pass", reads: vec![], writes: vec![] })
            }
            (Operation::LibraryGemm(_), _) => Err(misuse("an emulated device has no cuBLAS".into())),
            (Operation::Job(_) | Operation::ShortJob(_), _) => {
                Err(misuse("an emulated device runs no host jobs".into()))
            }
            (_, lane) => Err(misuse(format!("a lane of kind {lane:?} does not run that operation"))),
        }
    }

    /// Counts an operation and returns the fault to inject into it, if any.
    fn count(&mut self, action: &Action) -> Option<Injected> {
        let (counts, faults) = (&mut self.counts, &self.options.faults);
        counts.operations += 1;
        let mut fails = false;
        if action.is_launch() {
            counts.launches += 1;
            fails |= faults.fail_launch == Some(counts.launches);
        }
        if action.copies() {
            counts.copies += 1;
            fails |= faults.fail_copy == Some(counts.copies);
        }
        if faults.hang_at_operation == Some(counts.operations) {
            Some(Injected::Hang)
        } else if faults.lost_at_operation == Some(counts.operations) {
            Some(Injected::Lost)
        } else if faults.panic_at_operation == Some(counts.operations) {
            Some(Injected::Panic)
        } else {
            fails.then_some(Injected::Failure)
        }
    }
}

impl EmulatedDevice {
    /// The silent fault to inject into an operation that was counted, if any.
    fn silent_fault(
        &self,
        action: &Action,
        reads: &[MemoryRange],
        writes: &[MemoryRange],
    ) -> Result<Option<SilentFault>, Fault> {
        let (counts, faults) = (&self.counts, &self.options.faults);
        let is_download = matches!(action, Action::Download(_));
        let kind = match action {
            _ if action.is_launch() && faults.flip_bit_in_launch == Some(counts.launches) => {
                Silent::FlippedBit
            }
            _ if action.is_launch() && faults.stale_launch == Some(counts.launches) => Silent::StaleBytes,
            Action::PeerCopy(_) => return Ok(None),
            _ if !action.is_launch() && action.copies() && faults.flip_bit_in_copy == Some(counts.copies) => {
                Silent::FlippedBit
            }
            _ => return Ok(None),
        };
        let ranges = if is_download { reads } else { writes };
        let places = ranges.iter().map(|range| self.resolve(range)).collect::<Result<_, _>>()?;
        Ok(Some(SilentFault::new(kind, faults.fault_seed.unwrap_or(0), places, is_download)))
    }
}

impl<'run> Device<'run> for EmulatedDevice {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&mut self, bytes: u64) -> Result<Memory, Fault> {
        self.check_open()?;
        let (name, limit) = (&self.description.name, self.options.memory_bytes);
        let no_memory = |why: String| Fault::new(FaultKind::OutOfMemory, format!("{name}: {why}"));
        self.counts.allocations += 1;
        let allocation = self.counts.allocations;
        if self.options.faults.out_of_memory_at_allocation == Some(allocation) {
            return Err(no_memory(format!("allocation {allocation} fails (injected fault)")));
        }
        let free = limit - self.counts.allocated_bytes;
        if bytes > free {
            return Err(no_memory(format!("{bytes} bytes requested, {free} of {limit} bytes free")));
        }
        let memory = usize::try_from(bytes).ok().and_then(Allocation::new);
        let memory =
            memory.ok_or_else(|| no_memory(format!("the host has no {bytes} bytes for device memory")))?;
        self.counts.allocated_bytes += bytes;
        let memory = self.memories.add(Arc::new(memory));
        self.race_detector.add_memory(memory);
        Ok(memory)
    }

    fn free(&mut self, memory: Memory) {
        if let Some(freed) = self.memories.remove(memory) {
            self.counts.allocated_bytes -= if freed.is_foreign() { 0 } else { freed.bytes() as u64 };
            self.race_detector.remove_memory(memory);
        }
    }

    fn adopt(&mut self, memory: ForeignMemory) -> Result<Memory, Fault> {
        self.check_open()?;
        let unusable = || Fault::new(FaultKind::Misuse, "memory without an address cannot be used");
        let memory = self.memories.add(Arc::new(Allocation::foreign(&memory).ok_or_else(unusable)?));
        self.race_detector.add_memory(memory);
        Ok(memory)
    }

    fn place(&self) -> Option<MemoryPlace> {
        Some(MemoryPlace::Host)
    }

    fn address_of(&self, memory: Memory) -> Option<u64> {
        self.memories.get(memory).map(|memory| memory.address() as u64)
    }

    fn allocate_pinned(&mut self, bytes: u64) -> Result<Pinned, Fault> {
        self.check_open()?;
        Pinned::pageable(bytes as usize).map_err(|error| Fault::new(FaultKind::OutOfMemory, error.message()))
    }

    fn peer_memory(&self, memory: Memory) -> Option<PeerMemory> {
        self.peer_of(memory)
    }

    fn direct_memory(&self, memory: Memory) -> Option<Arc<dyn DirectMemory>> {
        self.direct_of(memory)
    }

    fn can_copy_from(&mut self, peer: &PeerMemory) -> bool {
        self.allows_copies_from(peer)
    }

    fn register<'a>(&mut self, bytes: StableBytes<'a>) -> Result<Registration<'a>, Fault> {
        self.check_open()?;
        self.counts.registrations += 1;
        if self.options.faults.refuse_registration == Some(self.counts.registrations) {
            let name = &self.description.name;
            return Err(Fault::new(
                FaultKind::OutOfMemory,
                format!("{name} refuses to register memory (injected fault)"),
            ));
        }
        let locked = Registered::lock(&bytes, &self.registered)?;
        Ok(Registration::new(Box::new(locked)))
    }

    fn submit(
        &mut self,
        lane: usize,
        operation: Operation<'run>,
        _demand: Demand,
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        self.check_open()?;
        let no_lane = || misuse(format!("there is no lane {lane}"));
        let kind = self.description.lanes.get(lane).ok_or_else(no_lane)?.kind;
        let Checked { action, what, reads, writes } = self.check(operation, kind)?;
        let holds = self.hold(what, &reads, &writes)?;
        let admitted =
            self.race_detector.admit(Intent { lane, what, waits, reads: &reads, writes: &writes })?;
        let injected = self.count(&action);
        let silent = self.silent_fault(&action, &reads, &writes)?;
        let needs = self.shared.unknown(&admitted.sources, waits);
        let (stamp, waits) = (admitted.stamp, admitted.waits);
        let job = Box::new(Job { stamp, waits, needs, action, holds, injected, silent });
        match self.lanes.get(lane).map(|(sender, _)| sender.send(job)) {
            Some(Ok(())) => Ok(stamp.fence),
            _ => Err(Fault::new(FaultKind::Lost, format!("lane {lane} has ended"))),
        }
    }

    fn resources_in_use(&self) -> usize {
        self.memories.len() + self.registered.load(Ordering::Relaxed)
    }

    fn mark_synchronized(&mut self) {
        // Operations that have not completed cannot have been observed, so nothing is ordered after them.
        self.race_detector.mark_synchronized(self.shared.ended());
    }

    fn advance(&mut self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn close(&mut self) {
        let hangs = self.shared.close();
        for (sender, thread) in self.lanes.drain(..) {
            drop(sender);
            // A hung operation cannot be stopped, as on a card: its lane keeps the memory that it uses.
            if !hangs {
                // The result does not matter: a lane that panicked has ended too.
                let _ = thread.join();
            }
        }
        self.memories = Memories::default();
    }
}

impl Drop for EmulatedDevice {
    fn drop(&mut self) {
        Device::close(self);
    }
}

fn misuse(message: String) -> Fault {
    Fault::new(FaultKind::Misuse, message)
}

fn check_lengths(transfer: &HostTransfer) -> Result<(), Fault> {
    let HostTransfer { host: pinned, device: memory, .. } = transfer;
    if !transfer.is_sound() {
        return Err(misuse(format!(
            "invalid copy between {} bytes of device memory and bytes {}..{} of {} pinned bytes",
            memory.bytes(),
            pinned.begin,
            pinned.end,
            pinned.pinned.bytes()
        )));
    }
    Ok(())
}
