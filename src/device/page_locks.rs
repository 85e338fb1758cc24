//! Page-locked ranges of host memory, with the registrations that use each of them.
//!
//! A driver locks a byte once for all its devices. Registrations of bytes that are all locked already, such as those of one matrix by two
//! products, use the same lock. The pages are unlocked when the last of them ends.
//!
//! A registration promises that its own bytes stay allocated until it ends, and nothing about other bytes. If one ends while others use
//! a part of its range, the range is unlocked and the parts that the others use are locked again. Copies meanwhile are those of
//! pageable memory: slower, and right.

use std::collections::BTreeMap;
use std::ops::Range;

/// The locked ranges, each with the object by which it was locked.
#[derive(Debug)]
pub struct PageLocks<O> {
    /// By the address of the first byte.
    ranges: BTreeMap<usize, Locked<O>>,
}

#[derive(Debug)]
struct Locked<O> {
    end: usize,
    /// The bytes of each registration.
    users: Vec<Range<usize>>,
    by: O,
}

impl<O> PageLocks<O> {
    /// Nothing is locked.
    pub const fn new() -> Self {
        Self { ranges: BTreeMap::new() }
    }

    /// The locked range that has the byte at `address`.
    pub fn range_at(&self, address: usize) -> Option<Range<usize>> {
        let (&begin, locked) = self.ranges.range(..=address).next_back()?;
        (address < locked.end).then_some(begin..locked.end)
    }

    /// Whether any of the bytes is locked.
    pub fn overlaps(&self, bytes: &Range<usize>) -> bool {
        let before = self.ranges.range(..bytes.end).next_back();
        before.is_some_and(|(_, locked)| locked.end > bytes.start)
    }

    /// Adds a registration of bytes that are all locked. Returns whether they are.
    pub fn share(&mut self, bytes: &Range<usize>) -> bool {
        let before = self.ranges.range_mut(..=bytes.start).next_back();
        let Some((_, locked)) = before.filter(|(_, locked)| bytes.end <= locked.end) else { return false };
        locked.users.push(bytes.clone());
        true
    }

    /// Adds a registration of bytes that were locked `by` an object now.
    pub fn add(&mut self, bytes: &Range<usize>, by: O) {
        let locked = Locked { end: bytes.end, users: vec![bytes.clone()], by };
        self.ranges.insert(bytes.start, locked);
    }

    /// Ends a registration. `unlock` unlocks a range by its first byte; `lock` locks one again, and returns whether it could.
    pub fn remove(
        &mut self,
        bytes: &Range<usize>,
        unlock: impl FnOnce(usize, &O),
        lock: impl Fn(&Range<usize>, &O) -> bool,
    ) where
        O: Clone,
    {
        let Some(range) = self.range_at(bytes.start) else { return };
        let Some(locked) = self.ranges.get_mut(&range.start) else { return };
        let Some(index) = locked.users.iter().position(|user| user == bytes) else { return };
        locked.users.swap_remove(index);
        let parts = united(&locked.users);
        if parts == [range.clone()] {
            return;
        }
        let Some(Locked { users, by, .. }) = self.ranges.remove(&range.start) else { return };
        unlock(range.start, &by);
        for part in parts.into_iter().filter(|part| lock(part, &by)) {
            let is_inside = |user: &&Range<usize>| part.start <= user.start && user.end <= part.end;
            let users = users.iter().filter(is_inside).cloned().collect();
            self.ranges.insert(part.start, Locked { end: part.end, users, by: by.clone() });
        }
    }
}

/// The ranges, with those that overlap or touch united, in ascending order.
fn united(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Ends a registration; the calls of the driver.
    fn remove(locks: &mut PageLocks<()>, bytes: Range<usize>) -> Vec<(&'static str, usize)> {
        let calls = RefCell::new(Vec::new());
        let unlock = |begin: usize, _: &()| calls.borrow_mut().push(("unlock", begin));
        locks.remove(&bytes, unlock, |part, _| {
            calls.borrow_mut().push(("lock", part.start));
            true
        });
        calls.into_inner()
    }

    #[test]
    fn pages_stay_locked_until_the_last_registration_of_the_same_bytes_ends() {
        let mut locks = PageLocks::new();
        locks.add(&(100..200), ());
        assert!(locks.share(&(100..200)) && locks.share(&(100..200)));
        for _ in 0..2 {
            assert_eq!(remove(&mut locks, 100..200), []);
            assert_eq!(locks.range_at(150), Some(100..200));
        }
        assert_eq!(remove(&mut locks, 100..200), [("unlock", 100)]);
        assert_eq!((locks.range_at(150), remove(&mut locks, 100..200)), (None, vec![]));
    }

    #[test]
    fn bytes_that_no_registration_has_any_more_do_not_stay_locked() {
        let mut locks = PageLocks::new();
        locks.add(&(100..200), ());
        assert!(locks.share(&(100..120)) && locks.share(&(110..130)) && locks.share(&(150..160)));
        assert!(!locks.share(&(190..201)) && !locks.share(&(99..150)));
        assert_eq!(remove(&mut locks, 100..200), [("unlock", 100), ("lock", 100), ("lock", 150)]);
        let found = [99, 100, 129, 130, 150, 160].map(|address| locks.range_at(address));
        let (first, second) = (Some(100..130), Some(150..160));
        assert_eq!(found, [None, first.clone(), first, None, second, None]);
        assert!(locks.overlaps(&(0..101)) && locks.overlaps(&(125..140)) && !locks.overlaps(&(130..150)));
        assert_eq!(remove(&mut locks, 110..130), [("unlock", 100), ("lock", 100)]);
        assert_eq!(locks.range_at(125), None);
        assert_eq!(remove(&mut locks, 150..160), [("unlock", 150)]);
        assert_eq!(remove(&mut locks, 100..120), [("unlock", 100)]);
    }
}
