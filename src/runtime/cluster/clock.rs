//! The clocks of ranks, compared with that of rank 0 by messages back and forth.

use std::time::Instant;

use super::agreement::share;
use crate::device::network::{Communicator, Pending};
use crate::device::{Fault, Pinned};
use crate::error::{Error, Result};
use crate::trace::Clock;

/// Messages of the comparison; the fastest one counts.
const ROUNDS: usize = 24;
/// The number of all messages of the comparison among those of its call: they come one after the other.
const TIMES: u32 = 0;

/// The clock of a rank against that of rank 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClockOffset {
    /// What the clock of the rank shows more than that of rank 0.
    pub ahead_ns: i64,
    /// The largest error of that number: half the time of the fastest message back and forth.
    pub error_ns: u64,
}

/// The clocks of all ranks against that of rank 0, on all ranks. Collective.
pub fn clock_offsets(ranks: &dyn Communicator, clock: &Clock) -> Result<Vec<ClockOffset>> {
    let calls = &ranks.members().calls;
    let tag = calls.begin()?.tag(TIMES);
    let offsets = compare(ranks, clock, tag).inspect_err(|_| calls.give_up())?;
    Ok(share(ranks, &offsets)?.swap_remove(0))
}

/// The clocks of all ranks against that of rank 0, on rank 0.
fn compare(ranks: &dyn Communicator, clock: &Clock, tag: u32) -> Result<Vec<ClockOffset>> {
    let mut offsets = vec![ClockOffset::default(); ranks.size()];
    for (other, offset) in offsets.iter_mut().enumerate().skip(1) {
        if ranks.rank() == 0 {
            let mut best = ClockOffset { ahead_ns: 0, error_ns: u64::MAX };
            for _ in 0..ROUNDS {
                let sent_ns = clock.now_ns();
                send(ranks, (other, tag), sent_ns)?;
                let theirs_ns = receive(ranks, (other, tag))?;
                let got_ns = clock.now_ns();
                let error_ns = (got_ns - sent_ns) / 2 + 1;
                if error_ns < best.error_ns {
                    let middle_ns = sent_ns + (got_ns - sent_ns) / 2;
                    best = ClockOffset { ahead_ns: theirs_ns as i64 - middle_ns as i64, error_ns };
                }
            }
            *offset = best;
        } else if ranks.rank() == other {
            for _ in 0..ROUNDS {
                receive(ranks, (0, tag))?;
                send(ranks, (0, tag), clock.now_ns())?;
            }
        }
    }
    Ok(offsets)
}

fn misuse(fault: Fault) -> Error {
    Error::Internal(fault.message)
}

fn send(ranks: &dyn Communicator, (to, tag): (usize, u32), number: u64) -> Result<()> {
    let memory = Pinned::pageable(8)?;
    memory.write().map_err(misuse)?.copy_from_slice(&number.to_le_bytes());
    wait(ranks, to, ranks.send(to, tag, memory.read().map_err(misuse)?.into())?)
}

fn receive(ranks: &dyn Communicator, (from, tag): (usize, u32)) -> Result<u64> {
    let memory = Pinned::pageable(8)?;
    wait(ranks, from, ranks.receive(from, tag, memory.write().map_err(misuse)?.into())?)?;
    let bytes = memory.read().map_err(misuse)?;
    bytes[..].try_into().map(u64::from_le_bytes).map_err(|_| Error::Internal("a time has 8 bytes".into()))
}

/// Waits without sleeping, which would be an error of the comparison.
fn wait(ranks: &dyn Communicator, rank: usize, mut message: Box<dyn Pending>) -> Result<()> {
    let start = Instant::now();
    while !message.test()? {
        if start.elapsed() > ranks.timeout() {
            return Err(ranks.rank_error(rank, "it does not compare its clock".into()));
        }
        std::thread::yield_now();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::device::network::thread_communicators;

    #[test]
    fn clocks_that_began_at_different_times_are_compared_within_the_stated_error() {
        let threads: Vec<_> = thread_communicators(3)
            .into_iter()
            .map(|ranks| {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(40 * ranks.rank() as u64));
                    let clock = Clock::start();
                    (clock, clock_offsets(&*ranks, &clock).unwrap())
                })
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let origin = results[0].0.origin();
        for (rank, (clock, offsets)) in results.iter().enumerate() {
            assert_eq!(*offsets, results[0].1);
            let behind_ns = clock.origin().duration_since(origin).as_nanos() as i64;
            let ClockOffset { ahead_ns, error_ns } = offsets[rank];
            assert!(
                (ahead_ns + behind_ns).unsigned_abs() <= error_ns,
                "rank {rank}: {ahead_ns} and {behind_ns}"
            );
        }
    }
}
