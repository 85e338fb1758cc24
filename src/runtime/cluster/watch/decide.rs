//! The thread of a rank: it gives signs of life, notices lost ranks, and decides how the job ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use super::end::{Actions, End, LOST_RANK};
use super::peer::{END, ERROR, FINISHED, Failure, Frame, Peer, SIGN_OF_LIFE};
use super::times::{COLLECT_TIME, GRACE_TIME, POLL_INTERVAL, SIGN_INTERVAL, SUCCESSION_TIME};

/// The time since the last step counts up to this: in the rest of it this thread itself did not run, and heard nothing.
const MAX_COUNTED_STEP: Duration = Duration::from_millis(250);

/// The time between the steps of a thread.
pub struct Steps {
    last: Instant,
}

impl Steps {
    pub fn start() -> Self {
        Self { last: Instant::now() }
    }

    /// The time since the last step that counts.
    pub fn next(&mut self) -> Duration {
        let now = Instant::now();
        (now - std::mem::replace(&mut self.last, now)).min(MAX_COUNTED_STEP)
    }
}

/// The thread of a rank.
pub struct Decider {
    pub rank: usize,
    pub hosts: Vec<String>,
    /// Errors of this rank.
    pub failures: Receiver<Failure>,
    pub decide: Sender<End>,
    pub finished: Arc<AtomicBool>,
    pub actions: Arc<Actions>,
}

impl Decider {
    fn named(&self, rank: usize, reason: &str) -> String {
        let host = self.hosts.get(rank).map_or("?", String::as_str);
        format!("rank {rank} on {host}: {reason}")
    }

    /// The thread of rank 0.
    pub fn root(&self, mut peers: Vec<Option<Peer>>) {
        let size = self.hosts.len();
        let (mut failures, mut first_failure): (Vec<Failure>, Option<Instant>) = (Vec::new(), None);
        let (mut signed, mut steps) = (Instant::now(), Steps::start());
        loop {
            let elapsed = steps.next();
            failures.extend(self.failures.try_iter());
            for peer in peers.iter_mut().flatten() {
                let errors = peer.frames(elapsed).into_iter().filter_map(|frame| match frame {
                    Frame::Error(failure) => Some(failure),
                    _ => None,
                });
                failures.extend(errors);
            }
            let lost = peers.iter().enumerate().find_map(|(rank, peer)| Some((rank, peer.as_ref()?.lost()?)));
            let is_lost = lost.is_some() && failures.is_empty();
            if let (Some((rank, reason)), true) = (lost, is_lost) {
                failures.push(Failure { rank, exit_code: LOST_RANK, reason, names_rank: false });
            }
            if !failures.is_empty() {
                let since = *first_failure.get_or_insert_with(Instant::now);
                if failures.len() >= size || since.elapsed() > COLLECT_TIME || is_lost {
                    self.end_all(&failures, &mut peers, is_lost);
                    return;
                }
            }
            let is_over = self.finished.load(Ordering::SeqCst);
            if is_over && peers.iter().flatten().all(|peer| peer.is_finished() || peer.is_closed()) {
                peers.iter_mut().flatten().for_each(|peer| peer.send(FINISHED));
                return;
            }
            if signed.elapsed() > SIGN_INTERVAL {
                signed = Instant::now();
                peers.iter_mut().flatten().for_each(|peer| peer.send(SIGN_OF_LIFE));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Prints the one message and tells all ranks that the job ends.
    fn end_all(&self, failures: &[Failure], peers: &mut [Option<Peer>], is_lost: bool) {
        let Some(first) = failures.iter().min_by_key(|failure| (!failure.names_rank, failure.rank)) else {
            return;
        };
        let is_agreed = !is_lost
            && failures.len() >= self.hosts.len()
            && failures
                .iter()
                .all(|other| (&other.reason, other.exit_code) == (&first.reason, first.exit_code));
        match is_agreed || first.names_rank {
            true => (self.actions.print)(&first.reason),
            false => (self.actions.print)(&self.named(first.rank, &first.reason)),
        }
        let end = End { exit_code: first.exit_code, is_agreed, is_lost };
        peers.iter_mut().flatten().for_each(|peer| peer.send_text(END, &end));
        let is_waiting = failures.iter().any(|failure| failure.rank == 0);
        self.follow(end, is_waiting);
    }

    /// Ends this rank. A rank with an error of its own ends by itself once it knows the decision.
    fn follow(&self, end: End, is_waiting: bool) {
        let told = self.decide.send(end).is_ok();
        if is_waiting && told && end.is_agreed {
            return;
        }
        if !end.is_lost {
            // The launcher ends the job when the rank at fault ends, and then names that rank.
            std::thread::sleep(GRACE_TIME);
        }
        (self.actions.exit)(end.exit_code);
    }

    /// The thread of another rank.
    pub fn other(&self, mut root: Peer) {
        let (mut signed, mut steps) = (Instant::now(), Steps::start());
        let (mut is_waiting, mut said_finished) = (false, false);
        loop {
            for failure in self.failures.try_iter() {
                root.send_text(ERROR, &failure);
                is_waiting = true;
            }
            for frame in root.frames(steps.next()) {
                match frame {
                    Frame::End(end) => return self.follow(end, is_waiting),
                    Frame::Finished => return,
                    Frame::SignOfLife | Frame::Error(_) => {}
                }
            }
            let is_over = self.finished.load(Ordering::SeqCst);
            if is_over && !said_finished {
                root.send(FINISHED);
                said_finished = true;
            }
            if is_over && root.is_closed() {
                return;
            }
            if let Some(reason) = root.lost() {
                // Rank 1 prints and ends, and the launcher ends the others before they print.
                std::thread::sleep(SUCCESSION_TIME * self.rank.saturating_sub(1).min(1) as u32);
                (self.actions.print)(&self.named(0, &reason));
                (self.actions.exit)(LOST_RANK);
                return;
            }
            if signed.elapsed() > SIGN_INTERVAL {
                signed = Instant::now();
                root.send(SIGN_OF_LIFE);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
