//! An open device while one product uses it: operations that are queued, issued or run to their end, and memory that is freed after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam::channel::Sender;

use super::boxed_device::BoxedDevice;
use super::operation_queue::{COMPUTE, OperationQueue, OperationRecord, Submission, predicted};
use crate::device::completion::{DROP_TIMEOUT, OperationOwner, STREAM_TIMEOUT, Timeouts, extended};
use crate::device::{
    Completion, Description, Device, Fault, Fence, Memory, Operation, Registration, Reports, StableBytes,
    StreamHandle,
};
use crate::graph::DeviceId;

/// An open device that its user has locked.
pub struct LockedDevice {
    device: BoxedDevice,
    reports: Reports,
    /// Submitted operations that no caller has waited for.
    queue: OperationQueue,
    closed: Arc<AtomicBool>,
    /// The longest predicted time of issued launches.
    issued: Duration,
    /// Whether launches on a stream of another library had not ended when memory was to be freed. No later drop waits for them again.
    is_stuck: bool,
    /// Memory that is freed after they have ended, each with its bytes of memory that is not shared.
    unfreed: Vec<(Memory, u64)>,
}

impl LockedDevice {
    /// A device that was opened. `closed` becomes true when it is closed.
    pub fn new(device: BoxedDevice, reports: Reports, closed: Arc<AtomicBool>) -> Self {
        let (queue, unfreed) = (OperationQueue::new(), Vec::new());
        Self { device, reports, queue, closed, issued: Duration::ZERO, is_stuck: false, unfreed }
    }

    /// Reports later completions to `sender`, with the number `device`. Waits for queued operations and issued launches first. A device
    /// that hangs is closed; the tasks of one that is lost fail when they are submitted.
    pub fn report_to(
        &mut self,
        device: DeviceId,
        sender: &Sender<Completion>,
    ) -> std::result::Result<(), Fault> {
        match self.drain() {
            Err(fault) if fault.leaves_operations() && fault.closes_device() => self.close(),
            Err(fault) if fault.leaves_operations() => return Err(fault),
            _ => {}
        }
        self.reports.redirect(device, sender);
        Ok(())
    }

    /// Submits an operation without waiting for it. It starts after `waits` and after the lane's earlier operations. Its owner gets its
    /// fault; an error is that of the device.
    pub fn submit(
        &mut self,
        submission: Submission,
        operation: Operation<'static>,
        waits: &[Fence],
    ) -> std::result::Result<Fence, Fault> {
        self.finish_issued()?;
        self.reports.redirect(OperationQueue::DEVICE, self.queue.sender());
        self.queue.submit(&mut self.device, operation, submission, waits)
    }

    /// Runs operations to their end. Their fault is the error, and that of nothing else. Those before come first.
    pub fn run(
        &mut self,
        timeouts: Timeouts,
        name: &'static str,
        lane: usize,
        operations: impl IntoIterator<Item = (Operation<'static>, f64)>,
    ) -> std::result::Result<(), Fault> {
        self.queue.drain(&mut self.device)?;
        self.queue.start_span();
        let owner = Arc::new(OperationOwner::new(timeouts));
        for (operation, predicted_s) in operations {
            self.submit(Submission::new(&owner, name, lane, predicted_s), operation, &[])?;
        }
        self.drain()?;
        owner.check_faults_after(0)
    }

    /// Issues kernel launches that are predicted to take `predicted_s` on the calling thread, in the order of `stream`, and does not wait
    /// for them; [`Device::issue`]. They come after all queued operations.
    pub fn issue(
        &mut self,
        name: &'static str,
        stream: StreamHandle,
        launches: Vec<Operation<'static>>,
        predicted_s: f64,
    ) -> std::result::Result<(), Fault> {
        self.queue.drain(&mut self.device)?;
        self.issued = self.issued.max(predicted(predicted_s));
        Device::issue(&mut *self.device, stream, launches).inspect_err(|fault| self.queue.note(fault))?;
        if self.queue.records.is_some() {
            let times = self.last_issued_ns()?;
            let record = |(start_ns, end_ns)| OperationRecord { name, lane: COMPUTE, start_ns, end_ns };
            self.queue.records.iter_mut().for_each(|records| records.extend(times.map(record)));
        }
        Ok(())
    }

    /// When the last issued launches, or those that [`Self::run`] ran, began and ended. Waits for them.
    pub fn last_issued_ns(&mut self) -> std::result::Result<Option<(u64, u64)>, Fault> {
        self.finish_issued()?;
        let times = self.device.last_issued_ns().inspect_err(|fault| self.queue.note(fault))?;
        Ok(times.or_else(|| self.queue.span_ns()))
    }

    /// Waits for all issued launches. The other work of other libraries on their streams may take so long that this is an error; the
    /// device stays open.
    pub fn finish_issued(&mut self) -> std::result::Result<(), Fault> {
        let timeout = extended(STREAM_TIMEOUT, self.issued);
        match self.finish_issued_within(timeout)? {
            true => Ok(()),
            false => Err(Fault::busy_stream(timeout)),
        }
    }

    /// Waits for all issued launches, at most `timeout`. Returns whether they have ended.
    fn finish_issued_within(&mut self, timeout: Duration) -> std::result::Result<bool, Fault> {
        let has_ended = self.device.finish_issued(timeout).inspect_err(|fault| self.queue.note(fault))?;
        if has_ended {
            self.issued = Duration::ZERO;
        }
        Ok(has_ended)
    }

    /// Waits for a queued operation.
    pub fn wait(&mut self, fence: Fence) -> std::result::Result<(), Fault> {
        self.queue.wait(&mut self.device, fence)
    }

    /// Waits for all queued operations and issued launches.
    pub fn drain(&mut self) -> std::result::Result<(), Fault> {
        self.finish_issued()?;
        self.queue.drain(&mut self.device)
    }

    /// Waits for all queued operations and issued launches, so that memory can be freed; `false` if some may still use it. Launches on a
    /// stream of another library come after its other work, which may never end, so the wait for them has a limit.
    fn drain_for_drop(&mut self) -> bool {
        let timeout = if self.is_stuck { Duration::ZERO } else { DROP_TIMEOUT };
        if let Ok(has_ended) = self.finish_issued_within(timeout) {
            self.is_stuck = !has_ended;
        }
        !self.is_stuck && self.ends_operations()
    }

    /// Waits for all queued operations and issued launches, which may use memory that is to be freed. `false` if some may still use it, or
    /// if the device is closed.
    pub fn ends_operations(&mut self) -> bool {
        self.is_open() && !self.drain().is_err_and(|fault| fault.leaves_operations())
    }

    /// Frees memory, each with its bytes of memory that is not shared, after the operations that use it. Returns how many of these bytes
    /// were freed. Memory that may still be in use stays allocated until a later call.
    pub fn free_after_use(&mut self, memories: impl IntoIterator<Item = (Memory, u64)>) -> u64 {
        self.unfreed.extend(memories);
        if !self.drain_for_drop() {
            let (name, allocations) = (self.description().name, self.unfreed.len());
            tracing::warn!(
                device = name,
                allocations,
                "memory is not freed yet: operations that use it have not ended"
            );
            return 0;
        }
        let mut freed_bytes = 0;
        for (memory, bytes) in std::mem::take(&mut self.unfreed) {
            self.device.free(memory);
            freed_bytes += bytes;
        }
        freed_bytes
    }

    /// Starts to record queued operations.
    pub fn start_recording(&mut self) {
        self.queue.records.get_or_insert_default();
    }

    /// The recorded operations since the last call.
    pub fn take_records(&mut self) -> Vec<OperationRecord> {
        self.queue.records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The device, to submit operations to.
    pub fn device(&mut self) -> &mut BoxedDevice {
        &mut self.device
    }

    /// Its description.
    pub fn description(&self) -> Description {
        self.device.describe().clone()
    }

    /// The error of its clock in nanoseconds, where it has its own.
    pub fn clock_error_ns(&self) -> Option<u64> {
        self.device.clock_error_ns()
    }

    /// Page-locks host memory; [`Device::register`].
    pub fn register<'a>(&mut self, bytes: StableBytes<'a>) -> std::result::Result<Registration<'a>, Fault> {
        self.device.register(bytes)
    }

    /// Closes it for all products. Its operations in flight no longer access host memory afterwards.
    pub fn close(&mut self) {
        self.device.close();
        self.queue.abandon();
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether a queued operation found the device lost or hung.
    pub fn is_lost(&self) -> bool {
        self.queue.is_lost()
    }

    /// Whether it can still be used.
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }
}
