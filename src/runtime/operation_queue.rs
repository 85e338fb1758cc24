//! Operations that are submitted to a device without waiting for them: in order on each lane, with faults reported later.
//!
//! A failed launch or copy may have had an effect on every multivector that was on the device, and on no later one.
//!
//! Operations on vectors are short. To wait for each would cost more than the operation itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::shared_device::AnyDevice;
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
/// How long no operation may end before the device counts as hung, if none in flight is predicted to take long.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The same for long operations, times the predicted time of the longest one.
const TIMES_PREDICTED: f64 = 20.0;

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

/// The faults of operations after which their device can still be used. A fault is there as soon as a call has received it; to look at it,
/// the device need not be locked.
#[derive(Default)]
pub struct FaultLog {
    count: AtomicUsize,
    list: Mutex<Vec<Fault>>,
}

impl FaultLog {
    /// The number of faults so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The first fault after the first `count` ones.
    pub fn after(&self, count: usize) -> Option<Fault> {
        if self.count() <= count {
            return None;
        }
        self.list.lock().unwrap_or_else(PoisonError::into_inner).get(count).cloned()
    }

    fn push(&self, fault: Fault) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(fault);
        self.count.store(list.len(), Ordering::Release);
    }
}

/// An operation in flight.
struct InFlight {
    lane: usize,
    name: &'static str,
    predicted_s: f64,
}

/// Operations in flight on one device.
pub(super) struct OperationQueue {
    sender: Sender<Completion>,
    receiver: Receiver<Completion>,
    in_flight: HashMap<Fence, InFlight>,
    on_lane: [usize; 3],
    /// For each lane the ended operations that its next operation must wait for.
    ended: [Vec<Fence>; 3],
    /// The fault after which the device cannot be used; all later calls report it.
    fatal: Option<Fault>,
    /// The other faults so far, and how many of them calls have reported.
    faults: Arc<FaultLog>,
    reported: usize,
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
            faults: Arc::default(),
            reported: 0,
            span_ns: None,
            records: None,
        }
    }

    /// The faults so far after which the device can still be used.
    pub fn faults(&self) -> &Arc<FaultLog> {
        &self.faults
    }

    /// The channel that the device must report to before anything is submitted.
    pub fn sender(&self) -> &Sender<Completion> {
        &self.sender
    }

    /// The number of the device in completions; there is one device, so it does not matter.
    pub const DEVICE: DeviceId = DeviceId(1);

    /// Submits an operation that is predicted to take `alone_s`. It starts after `waits` and after the lane's earlier operations.
    pub fn submit(
        &mut self,
        device: &mut AnyDevice,
        name: &'static str,
        lane: usize,
        operation: Operation<'static>,
        alone_s: f64,
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        while let Ok(completion) = self.receiver.try_recv() {
            self.complete(completion);
        }
        while self.on_lane.get(lane).is_some_and(|count| *count >= MAX_IN_FLIGHT) {
            self.receive()?;
        }
        self.check()?;
        let alone_ns = (alone_s.clamp(0.0, 1e3) * 1e9) as u64;
        let demand = Demand { alone_ns, link_bytes: 0, host_bytes: 0, peer: None };
        let ended = self.ended.get_mut(lane).map(std::mem::take).unwrap_or_default();
        let waits: Vec<Fence> = waits.iter().copied().chain(ended).collect();
        let fence = Device::submit(&mut **device, lane, operation, demand, &waits).inspect_err(|fault| {
            self.note(fault);
        })?;
        self.in_flight.insert(fence, InFlight { lane, name, predicted_s: alone_s.clamp(0.0, 1e3) });
        self.on_lane.iter_mut().skip(lane).take(1).for_each(|count| *count += 1);
        Ok(fence)
    }

    /// Keeps a fault after which the device cannot be used.
    pub fn note(&mut self, fault: &Fault) {
        if is_fatal(fault) {
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
    pub fn wait(&mut self, device: &mut AnyDevice, fence: Fence) -> Result<(), Fault> {
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
    pub fn drain(&mut self, device: &mut AnyDevice) -> Result<(), Fault> {
        while !self.in_flight.is_empty() {
            self.receive()?;
        }
        // Also where none is in flight: those that ended before this call are now known to have ended.
        self.mark_synchronized(device);
        self.check()
    }

    /// All operations have ended.
    fn mark_synchronized(&mut self, device: &mut AnyDevice) {
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

    /// A fault after which the device can still be used is reported once. The multivectors whose operations it may have been know of it
    /// by the number of faults.
    fn check(&mut self) -> Result<(), Fault> {
        if let Some(fatal) = &self.fatal {
            return Err(fatal.clone());
        }
        let fault = self.faults.after(self.reported);
        self.reported = self.faults.count();
        fault.map_or(Ok(()), Err)
    }

    fn receive(&mut self) -> Result<(), Fault> {
        let timeout = self.timeout();
        match self.receiver.recv_timeout(timeout) {
            Ok(completion) => self.complete(completion),
            Err(_) => {
                let message = format!("no operation has ended for {} s", timeout.as_secs());
                self.fatal = Some(Fault::new(FaultKind::Hang, message));
                self.in_flight.clear();
                return self.check();
            }
        }
        Ok(())
    }

    /// How long to wait for the end of one of the operations in flight.
    fn timeout(&self) -> Duration {
        let longest = self.in_flight.values().fold(0.0, |longest: f64, of| longest.max(of.predicted_s));
        let predicted = Duration::try_from_secs_f64(TIMES_PREDICTED * longest).unwrap_or(Duration::MAX);
        TIMEOUT.max(predicted)
    }

    fn complete(&mut self, completion: Completion) {
        let Some(InFlight { lane, name, .. }) = self.in_flight.remove(&completion.fence) else { return };
        self.on_lane.iter_mut().skip(lane).take(1).for_each(|count| *count -= 1);
        let Completion { start_ns, end_ns, result, .. } = completion;
        match result {
            Err(fault) if is_fatal(&fault) => self.note(&fault),
            Err(fault) => self.faults.push(fault),
            Ok(()) => {}
        }
        let (first_ns, last_ns) = self.span_ns.unwrap_or((start_ns, end_ns));
        self.span_ns = Some((first_ns.min(start_ns), last_ns.max(end_ns)));
        if let Some(records) = &mut self.records {
            records.push(OperationRecord { name, lane, start_ns, end_ns });
        }
    }
}

/// Whether a device cannot be used after the fault.
fn is_fatal(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Lost | FaultKind::Hang)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_operation_may_take_twenty_times_its_predicted_time() {
        let mut queue = OperationQueue::new();
        assert_eq!(queue.timeout(), TIMEOUT);
        let in_flight = |predicted_s| InFlight { lane: COMPUTE, name: "product", predicted_s };
        queue.in_flight.insert(Fence(1), in_flight(0.1));
        assert_eq!(queue.timeout(), TIMEOUT);
        queue.in_flight.insert(Fence(2), in_flight(60.0));
        assert_eq!(queue.timeout(), Duration::from_secs(1200));
    }
}
