//! Waits for short operations of devices without sleeping: to be woken takes longer than what often remains of a run.
//!
//! The coordinator sleeps for most of the predicted time of the operations in flight. It polls its channel from [`EARLY`] times to [`LATE`]
//! times that time, and sleeps again if they take longer. It does not poll if the caller has no hardware thread to spare, while a host job
//! runs, and for long operations, whose end need not be seen at once.

use std::time::Duration;

use super::coordinator::Coordinator;
use crate::device::Completion;
use crate::graph::DeviceId;

/// Operations in flight that are predicted to take longer in total are not polled for.
const LONGEST: Duration = Duration::from_millis(2);

/// The part of the predicted time before which the coordinator sleeps, and after which it sleeps again. The latter has a margin for
/// predictions of a few microseconds.
const EARLY: f64 = 0.8;
const LATE: f64 = 1.5;
const LATE_MARGIN: Duration = Duration::from_micros(200);

/// It does not sleep for less, since it would wake up too late.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

impl Coordinator<'_, '_, '_> {
    /// The next completion, if it arrives around the predicted end of the operations in flight, which began `waited` ago.
    pub(super) fn poll(&self, waited: Duration) -> Option<Completion> {
        let predicted = self.predicted_to_poll()?;
        let sleep = predicted.mul_f64(EARLY).saturating_sub(waited);
        if sleep >= SHORTEST_SLEEP
            && let Ok(completion) = self.completions.recv_timeout(sleep)
        {
            return Some(completion);
        }
        let late = predicted.mul_f64(LATE) + LATE_MARGIN;
        while self.last_progress.elapsed() < late {
            if let Ok(completion) = self.completions.try_recv() {
                return Some(completion);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// The predicted time of all operations in flight, one after the other; `None` if they are not polled for.
    fn predicted_to_poll(&self) -> Option<Duration> {
        let host = self.device_states.get(DeviceId::HOST.index())?;
        if !self.options.may_poll || !host.in_flight.is_empty() {
            return None;
        }
        let mut total = Duration::ZERO;
        for (task, _) in self.device_states.iter().flat_map(|device| device.in_flight.values()) {
            total += Duration::from_nanos(self.task(*task).demand.alone_ns);
            if total > LONGEST {
                return None;
            }
        }
        Some(total)
    }
}
