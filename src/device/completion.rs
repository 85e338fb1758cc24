//! The policy for operations that do not complete and for faults. The executor, the queue of operations on vectors and the launches on
//! streams of other libraries all follow it; none of them has timeouts or a list of fatal faults of its own.
//!
//! **Timeouts.** A device hangs if none of its operations completes for 30 s, or for 20 times the predicted time of the longest one in
//! flight if that is more; over ranks after at most the time for which other ranks wait for a message. Work of others, which is messages of
//! other ranks and streams of other libraries, has 600 s. A drop waits at most 10 s for streams of other libraries.
//!
//! **Owners.** Each operation has one owner. The owner gets its fault, and no other caller does.
//!
//! **Closing.** A device that hangs or is lost is closed for all products. After any other fault it stays open.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Fault, FaultKind};

/// How long no operation of a device may complete, if none is predicted to take long.
pub const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(30);

/// How long ranks wait for each other: another rank may read its input or compute meanwhile.
pub const RANK_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a call waits for launches on streams. They come after the other work of other libraries on the stream, whose time is not known.
pub const STREAM_TIMEOUT: Duration = RANK_TIMEOUT;

/// How long a drop waits for the same launches. A drop that waits for ever would be a deadlock where the stream waits for the program.
pub const DROP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a device that is closed waits for its operations in flight before it abandons them.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// An operation counts as hung only after this many times its predicted time.
const TIMES_PREDICTED: u32 = 20;

/// The most operations named in a message; the rest are counted.
const NAMED_OPERATIONS: usize = 6;

/// The larger of `timeout` and what an operation of `predicted` time may take.
pub fn extended(timeout: Duration, predicted: Duration) -> Duration {
    timeout.max(predicted.saturating_mul(TIMES_PREDICTED))
}

/// The timeouts of one product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// How long no operation of a device may complete, if none is predicted to take long.
    pub watchdog: Duration,
    /// How long ranks wait for a message; `None` without other ranks.
    pub message: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { watchdog: WATCHDOG_TIMEOUT, message: None }
    }
}

impl Timeouts {
    /// How long no operation of a device may complete while the longest one in flight is predicted to take `longest`. Other ranks do not
    /// wait longer for the rows of this one.
    pub fn of_devices(&self, longest: Duration) -> Duration {
        extended(self.watchdog, longest).min(self.message.unwrap_or(Duration::MAX))
    }

    /// The same for messages to and from other ranks.
    pub fn of_messages(&self, longest: Duration) -> Duration {
        extended(self.message.unwrap_or(RANK_TIMEOUT), longest)
    }
}

impl Fault {
    /// The fault of operations that did not complete for the time `silent`.
    pub fn hang(operations: impl IntoIterator<Item = String>, silent: Duration) -> Self {
        let mut names: Vec<String> = operations.into_iter().collect();
        let more = names.len().saturating_sub(NAMED_OPERATIONS);
        names.truncate(NAMED_OPERATIONS);
        let mut names = names.join(", ");
        if more > 0 {
            names.push_str(&format!(" and {more} more"));
        }
        Self::new(FaultKind::Hang, format!("{names} did not complete within {:.1} s", silent.as_secs_f64()))
    }

    /// The fault of launches on streams that did not complete for the time `silent`, perhaps because of other work on the stream.
    pub fn busy_stream(silent: Duration) -> Self {
        let seconds = silent.as_secs_f64();
        let message = format!(
            "launches on a stream did not complete within {seconds:.1} s; other work on the stream may take so long"
        );
        Self::new(FaultKind::BusyStream, message)
    }

    /// Whether the device cannot be used any more, by any product.
    pub fn closes_device(&self) -> bool {
        matches!(self.kind, FaultKind::Lost | FaultKind::Hang)
    }

    /// Whether operations may still be in flight after the fault, so that the memory that they use must not be freed.
    pub fn leaves_operations(&self) -> bool {
        matches!(self.kind, FaultKind::Hang | FaultKind::BusyStream)
    }

    /// Whether the fault is a bug of the program, which no other device can recover from.
    pub fn is_bug(&self) -> bool {
        matches!(self.kind, FaultKind::Misuse | FaultKind::Job)
    }
}

/// The owner of operations: it has their timeouts and gets their faults, except those that close the device, which all its users get.
///
/// A fault is there as soon as its completion was received. To look at it, the device need not be locked.
#[derive(Debug, Default)]
pub struct OperationOwner {
    timeouts: Timeouts,
    count: AtomicUsize,
    faults: Mutex<Vec<Fault>>,
}

impl OperationOwner {
    /// An owner without faults.
    pub fn new(timeouts: Timeouts) -> Self {
        Self { timeouts, ..Self::default() }
    }

    /// The timeouts of its operations.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The number of faults so far.
    pub fn fault_count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// An error if there are more than `count` faults: the first one after these.
    pub fn check_faults_after(&self, count: usize) -> Result<(), Fault> {
        if self.fault_count() <= count {
            return Ok(());
        }
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.get(count).cloned().map_or(Ok(()), Err)
    }

    /// Keeps the fault of one of its operations.
    pub fn keep(&self, fault: Fault) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push(fault);
        self.count.store(faults.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    proptest! {
        #[test]
        fn a_device_has_its_timeout_or_twenty_times_the_longest_prediction_whichever_is_more(
            watchdog in 0u64..100_000,
            longest in 0u64..100_000,
        ) {
            let timeouts = Timeouts { watchdog: ms(watchdog), message: None };
            prop_assert_eq!(timeouts.of_devices(ms(longest)), ms(watchdog.max(20 * longest)));
        }

        #[test]
        fn over_ranks_no_device_has_longer_than_other_ranks_wait_for_a_message(
            watchdog in 0u64..100_000,
            message in 0u64..100_000,
            longest in 0u64..100_000,
        ) {
            let alone = Timeouts { watchdog: ms(watchdog), message: None };
            let over_ranks = Timeouts { message: Some(ms(message)), ..alone };
            prop_assert_eq!(over_ranks.of_devices(ms(longest)), alone.of_devices(ms(longest)).min(ms(message)));
            prop_assert!(over_ranks.of_messages(ms(longest)) >= over_ranks.of_devices(ms(longest)));
        }

        #[test]
        fn the_fault_of_an_operation_is_that_of_its_owner_and_of_nothing_that_came_after_it(
            of_first in proptest::collection::vec(any::<bool>(), 0..20),
        ) {
            let (first, second) = (OperationOwner::default(), OperationOwner::default());
            for (number, &is_of_first) in of_first.iter().enumerate() {
                let (owner, other) = if is_of_first { (&first, &second) } else { (&second, &first) };
                let (before, of_other) = (owner.fault_count(), other.fault_count());
                let fault = Fault::new(FaultKind::Launch, number.to_string());
                owner.keep(fault.clone());
                prop_assert_eq!(owner.check_faults_after(before), Err(fault));
                prop_assert_eq!(owner.check_faults_after(owner.fault_count()), Ok(()));
                prop_assert_eq!(other.check_faults_after(of_other), Ok(()));
            }
        }
    }

    #[test]
    fn the_documented_times_are_30_s_and_20_times_the_prediction_and_600_s_and_10_s() {
        let timeouts = Timeouts::default();
        assert_eq!(timeouts.of_devices(Duration::ZERO), Duration::from_secs(30));
        assert_eq!(timeouts.of_devices(Duration::from_secs(60)), Duration::from_secs(1200));
        assert_eq!(timeouts.of_messages(Duration::ZERO), Duration::from_secs(600));
        assert_eq!((STREAM_TIMEOUT, DROP_TIMEOUT), (Duration::from_secs(600), Duration::from_secs(10)));
        // A prediction without bound does not overflow.
        assert_eq!(timeouts.of_devices(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn only_a_lost_or_hung_device_is_closed_and_memory_in_use_is_not_freed() {
        use FaultKind::*;
        // Kind; closes the device; operations may be in flight; is a bug.
        let table = [
            (OutOfMemory, false, false, false),
            (Launch, false, false, false),
            (Copy, false, false, false),
            (Lost, true, false, false),
            (Hang, true, true, false),
            (BusyStream, false, true, false),
            (PeerLost, false, false, false),
            (Misuse, false, false, true),
            (Job, false, false, true),
        ];
        for (kind, closes, leaves, is_bug) in table {
            let fault = Fault::new(kind, "fault");
            let found = (fault.closes_device(), fault.leaves_operations(), fault.is_bug());
            assert_eq!(found, (closes, leaves, is_bug), "{kind:?}");
        }
    }

    #[test]
    fn a_hang_names_its_operations_and_counts_those_beyond_six() {
        let names = |count: usize| (0..count).map(|number| format!("copy {number}"));
        let message = |count| Fault::hang(names(count), ms(1500)).message;
        assert_eq!(message(2), "copy 0, copy 1 did not complete within 1.5 s");
        assert!(message(8).contains("copy 5 and 2 more did not"), "{}", message(8));
    }
}
