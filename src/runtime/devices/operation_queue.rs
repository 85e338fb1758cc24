//! Operations that are submitted to a device without waiting for them: in order on each lane. Their owners get their faults;
//! [`completion`](crate::device::completion) has the rules.
//!
//! Operations on vectors are short. To wait for each would cost more than the operation itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::boxed_device::BoxedDevice;
use crate::device::completion::OperationOwner;
use crate::device::{Completion, Device, Fault, FaultKind, Fence, Operation};
use crate::graph::{Demand, DeviceId};

/// The lanes of every device with its own memory.
pub const UPLOAD: usize = 0;
/// See [`UPLOAD`].
pub const COMPUTE: usize = 1;
/// See [`UPLOAD`].
pub const DOWNLOAD: usize = 2;

/// Most operations in flight on a lane.
const MAX_IN_FLIGHT: usize = 48;
/// How long a wait polls before it blocks. A thread that blocks wakes up 5 to 50 µs after the end of the operation.
const POLL_TIME: Duration = Duration::from_micros(100);
/// Longest predicted time of an operation, in seconds.
const MAX_PREDICTED_S: f64 = 1e3;

/// An operation that has ended, for a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRecord {
    /// Its name.
    pub name: &'static str,
    /// The lane that ran it.
    pub lane: usize,
    /// When it began, on the clock of the runtime.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

impl OperationRecord {
    /// Its duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }
}

/// An operation as it is submitted: the owner of its fault, its name, its lane and its predicted time.
pub struct Submission {
    owner: Arc<OperationOwner>,
    name: &'static str,
    lane: usize,
    predicted: Duration,
}

impl Submission {
    /// An operation that is predicted to take `predicted_s`.
    pub fn new(owner: &Arc<OperationOwner>, name: &'static str, lane: usize, predicted_s: f64) -> Self {
        Self { owner: owner.clone(), name, lane, predicted: predicted(predicted_s) }
    }

    /// How long the device may be silent because of it.
    fn timeout(&self) -> Duration {
        self.owner.timeouts().of_devices(self.predicted)
    }
}

/// A predicted time. One that is no number counts as zero.
pub(crate) fn predicted(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.clamp(0.0, MAX_PREDICTED_S)).unwrap_or_default()
}

/// Operations in flight on one device.
pub(crate) struct OperationQueue {
    sender: Sender<Completion>,
    receiver: Receiver<Completion>,
    in_flight: HashMap<Fence, Submission>,
    on_lane: [usize; 3],
    /// For each lane the ended operations that its next operation must wait for.
    ended: [Vec<Fence>; 3],
    /// The fault that closes the device; all later calls report it.
    fatal: Option<Fault>,
    /// When the first operation began, and the last one ended, that have ended since [`Self::start_span`].
    span_ns: Option<(u64, u64)>,
    /// Ended operations, where they are recorded.
    pub records: Option<Vec<OperationRecord>>,
}

impl OperationQueue {
    pub fn new() -> Self {
        let (sender, receiver) = unbounded();
        Self {
            sender,
            receiver,
            in_flight: HashMap::new(),
            on_lane: [0; 3],
            ended: Default::default(),
            fatal: None,
            span_ns: None,
            records: None,
        }
    }

    /// The channel that the device must report to before anything is submitted.
    pub fn sender(&self) -> &Sender<Completion> {
        &self.sender
    }

    /// The number of the device in completions; there is one device, so it does not matter.
    pub const DEVICE: DeviceId = DeviceId(1);

    /// Submits an operation. It starts after `waits` and after the lane's earlier operations.
    pub fn submit(
        &mut self,
        device: &mut BoxedDevice,
        operation: Operation<'static>,
        known: Submission,
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        let lane = known.lane;
        while let Ok(completion) = self.receiver.try_recv() {
            self.complete(completion);
        }
        while self.on_lane.get(lane).is_some_and(|count| *count >= MAX_IN_FLIGHT) {
            self.receive()?;
        }
        self.check()?;
        let alone_ns = known.predicted.as_nanos() as u64;
        let demand = Demand { alone_ns, link_bytes: 0, host_bytes: 0, peer: None };
        let ended = self.ended.get_mut(lane).map(std::mem::take).unwrap_or_default();
        let waits: Vec<Fence> = waits.iter().copied().chain(ended).collect();
        let fence = Device::submit(&mut **device, lane, operation, demand, &waits).inspect_err(|fault| {
            self.note(fault);
        })?;
        self.in_flight.insert(fence, known);
        self.on_lane.iter_mut().skip(lane).take(1).for_each(|count| *count += 1);
        Ok(fence)
    }

    /// Keeps a fault that closes the device.
    pub fn note(&mut self, fault: &Fault) {
        if fault.closes_device() {
            self.fatal.get_or_insert_with(|| fault.clone());
        }
    }

    /// Measures the time of the operations that are submitted from now on.
    pub fn start_span(&mut self) {
        self.span_ns = None;
    }

    /// When the first of them began and the last one ended.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        self.span_ns
    }

    /// Waits for an operation. Operations that are submitted later come after it.
    pub fn wait(&mut self, device: &mut BoxedDevice, fence: Fence) -> Result<(), Fault> {
        while self.in_flight.contains_key(&fence) {
            self.receive()?;
        }
        match self.in_flight.is_empty() {
            true => self.mark_synchronized(device),
            // Others are in flight, so the next operation of each lane waits for this one.
            false => self.ended.iter_mut().for_each(|ended| ended.push(fence)),
        }
        self.check()
    }

    /// Waits for all operations.
    pub fn drain(&mut self, device: &mut BoxedDevice) -> Result<(), Fault> {
        while !self.in_flight.is_empty() {
            self.receive()?;
        }
        // Also where none is in flight: those that ended before this call are now known to have ended.
        self.mark_synchronized(device);
        self.check()
    }

    /// All operations have ended.
    fn mark_synchronized(&mut self, device: &mut BoxedDevice) {
        Device::mark_synchronized(&mut **device);
        self.ended.iter_mut().for_each(Vec::clear);
    }

    /// Gives up the operations in flight of a device that was closed.
    pub fn abandon(&mut self) {
        self.in_flight.clear();
        self.on_lane = [0; 3];
        self.fatal.get_or_insert_with(|| Fault::new(FaultKind::Lost, "the device is closed"));
    }

    /// Whether an operation found the device lost or hung.
    pub fn is_lost(&self) -> bool {
        self.fatal.is_some()
    }

    /// The fault that closes the device is that of every caller.
    fn check(&self) -> Result<(), Fault> {
        self.fatal.clone().map_or(Ok(()), Err)
    }

    fn receive(&mut self) -> Result<(), Fault> {
        let started = Instant::now();
        while started.elapsed() < POLL_TIME {
            if let Ok(completion) = self.receiver.try_recv() {
                self.complete(completion);
                return Ok(());
            }
            yield_now();
        }
        let timeout = self.timeout();
        match self.receiver.recv_timeout(timeout) {
            Ok(completion) => self.complete(completion),
            Err(_) => {
                let mut hung: Vec<(Fence, Submission)> = self.in_flight.drain().collect();
                hung.sort_unstable_by_key(|(fence, _)| *fence);
                let names = hung.iter().map(|(_, operation)| operation.name.to_string());
                self.fatal = Some(Fault::hang(names, timeout));
                self.on_lane = [0; 3];
                return self.check();
            }
        }
        Ok(())
    }

    /// How long to wait for the end of one of the operations in flight.
    fn timeout(&self) -> Duration {
        self.in_flight.values().map(Submission::timeout).max().unwrap_or_default()
    }

    fn complete(&mut self, completion: Completion) {
        let Some(Submission { owner, lane, name, .. }) = self.in_flight.remove(&completion.fence) else {
            return;
        };
        self.on_lane.iter_mut().skip(lane).take(1).for_each(|count| *count -= 1);
        let Completion { start_ns, end_ns, result, .. } = completion;
        match result {
            Err(fault) if fault.closes_device() => self.note(&fault),
            Err(fault) => owner.keep(fault),
            Ok(()) => {}
        }
        let (first_ns, last_ns) = self.span_ns.unwrap_or((start_ns, end_ns));
        self.span_ns = Some((first_ns.min(start_ns), last_ns.max(end_ns)));
        if let Some(records) = &mut self.records {
            records.push(OperationRecord { name, lane, start_ns, end_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::completion::{Timeouts, WATCHDOG_TIMEOUT};

    #[test]
    fn the_queue_waits_as_long_as_the_longest_timeout_of_its_operations() {
        let mut queue = OperationQueue::new();
        assert_eq!(queue.timeout(), Duration::ZERO);
        let mut add = |fence, timeouts: Timeouts, predicted_s| {
            let owner = Arc::new(OperationOwner::new(timeouts));
            queue.in_flight.insert(Fence(fence), Submission::new(&owner, "product", COMPUTE, predicted_s));
            queue.timeout()
        };
        let brief = Timeouts { watchdog: Duration::from_secs(2), message: None };
        assert_eq!(add(1, brief, 0.0), Duration::from_secs(2));
        assert_eq!(add(2, Timeouts::default(), 0.1), WATCHDOG_TIMEOUT);
        assert_eq!(add(3, Timeouts::default(), 60.0), Duration::from_secs(1200));
        // A prediction that is no number counts as zero.
        assert_eq!(add(4, Timeouts::default(), f64::NAN), Duration::from_secs(1200));
    }
}
