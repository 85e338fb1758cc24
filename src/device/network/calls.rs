//! The numbers of collective calls, which are part of the tags of their messages.
//!
//! A rank that gives up a call after an error leaves messages of this call in the communicator, or sends them late. A message of a later
//! call has another tag, so a receive never gets a message of another call.
//!
//! All ranks make the same collective calls in the same order, so they count alike. A call is counted before anything of it can fail.
//!
//! A communicator has a limited number of tags, so the tags of a call are used again after many calls. A rank that gave up a call does
//! not use the tags of this call again: from then on every call is an error.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Number of tags of a call: the most messages from one rank to another with one call.
pub const MESSAGES_PER_CALL: u32 = 256;

/// The largest tag that every MPI library has.
pub const MIN_MAX_TAG: u32 = (1 << 15) - 1;

/// No call was given up.
const NONE: u64 = u64::MAX;

/// The collective calls of a rank.
#[derive(Debug)]
pub struct Calls {
    /// Number of calls with different tags.
    distinct: u64,
    begun: AtomicU64,
    /// The first call that was given up.
    given_up: AtomicU64,
}

/// A collective call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    first_tag: u32,
}

impl Calls {
    /// No call yet, with a communicator whose largest tag is `max_tag`.
    pub fn new(max_tag: u32) -> Self {
        let distinct = ((u64::from(max_tag) + 1) / u64::from(MESSAGES_PER_CALL)).max(1);
        Self { distinct, begun: AtomicU64::new(0), given_up: AtomicU64::new(NONE) }
    }

    /// Counts a call. An error if its tags are those of a call that was given up.
    pub fn begin(&self) -> Result<Call> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let given_up = self.given_up.load(Ordering::Relaxed);
        if given_up != NONE && number >= given_up + self.distinct {
            let calls = self.distinct;
            return Err(Error::usage(format!(
                "an earlier call of this rank failed, and its messages may still arrive after {calls} more calls; open the communicator anew"
            )));
        }
        // Below 2^32, since the numbers of distinct calls times their tags are.
        Ok(Call { first_tag: ((number % self.distinct) * u64::from(MESSAGES_PER_CALL)) as u32 })
    }

    /// The call that began last is given up: messages of it may be on their way.
    pub fn give_up(&self) {
        let last = self.begun.load(Ordering::Relaxed).saturating_sub(1);
        self.given_up.fetch_min(last, Ordering::Relaxed);
    }
}

impl Call {
    /// The tag of message number `message` of the call, below [`MESSAGES_PER_CALL`].
    pub fn tag(self, message: u32) -> u32 {
        self.first_tag + message % MESSAGES_PER_CALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_different_calls_have_different_tags_that_the_communicator_has() {
        for max_tag in [MIN_MAX_TAG, (1 << 19) - 2, i32::MAX as u32, u32::MAX] {
            let calls = Calls::new(max_tag);
            let mut tags: Vec<u32> = (0..100).flat_map(|_| calls.begin().map(|call| call.tag(0))).collect();
            tags.extend((0..27).flat_map(|_| calls.begin().map(|call| call.tag(MESSAGES_PER_CALL - 1))));
            assert_eq!(tags.len(), 127);
            assert!(tags.iter().all(|tag| *tag <= max_tag));
            tags.sort_unstable();
            tags.dedup();
            assert_eq!(tags.len(), 127, "largest tag {max_tag}");
        }
    }

    #[test]
    fn the_tags_of_a_call_that_was_given_up_are_not_used_again() {
        let calls = Calls::new(MIN_MAX_TAG);
        assert!((0..1000).all(|_| calls.begin().is_ok()));
        let failed = calls.begin().unwrap();
        calls.give_up();
        for _ in 0..127 {
            assert_ne!(calls.begin().unwrap(), failed);
            calls.give_up();
        }
        assert!(calls.begin().is_err() && calls.begin().is_err());
    }
}
