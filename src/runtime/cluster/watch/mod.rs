//! The watch over a job: a rank that stops, ends or fails ends the whole job within [`END_WITHIN`], with one message.
//!
//! Beside the communicator, every rank has a connection to rank 0 over which both ends send a sign of life four times a second. A thread
//! of its own does so and needs no progress of the work: a rank that computes, reads or waits is not silent. A process that is stopped, or
//! a host that cannot be reached, is. A rank that fails sends its error to rank 0. Rank 0 decides on the one message, prints it, and
//! tells the others, which end.
//!
//! | event | seen by | after |
//! |---|---|---|
//! | a rank reports an error | rank 0 | at once; errors of several ranks are one if they come within `COLLECT_TIME` |
//! | the process of a rank ended | rank 0, and the launcher, which usually ends the job first | `LAUNCHER_TIME` |
//! | a rank is silent | rank 0 | `SILENCE_TIME` |
//! | rank 0 is silent or ended | the other ranks, the lowest of which prints | the same times |
//!
//! Silence is counted only while the thread that counts runs, so a whole job that was stopped and continued goes on.
//!
//! `connect` makes the connections, `peer` is one end of a connection, `decide` is the thread of a rank, `times` has the times.

mod connect;
mod decide;
mod end;
mod peer;
#[cfg(test)]
mod tests;
mod times;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use connect::{Connected, connect};
use decide::Decider;
pub use end::{Actions, End, LOST_RANK};
use peer::Failure;
use times::ANSWER_TIME;
pub use times::{END_WITHIN, SUCCESSION_TIME};

use crate::device::network::Communicator;
use crate::error::{Error, Result};
use crate::threads;

/// The watch of one rank.
pub struct Watch {
    rank: usize,
    own: Option<Sender<Failure>>,
    decided: Mutex<Receiver<End>>,
    finished: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    actions: Arc<Actions>,
}

impl Watch {
    /// Starts to watch the job. Collective.
    pub fn start(ranks: &dyn Communicator, actions: Actions) -> Result<Self> {
        let actions = Arc::new(actions);
        let (own, failures) = channel();
        let (decide, decided) = channel();
        let finished = Arc::new(AtomicBool::new(false));
        let connected = connect(ranks)?;
        let decider = Decider {
            rank: ranks.rank(),
            hosts: ranks.hosts().to_vec(),
            failures,
            decide,
            finished: finished.clone(),
            actions: actions.clone(),
        };
        let run = move || match connected {
            Connected::Root(peers) => decider.root(peers),
            Connected::Other(root) => decider.other(root),
        };
        let thread =
            std::thread::Builder::new().name("rowloom-ranks".into()).spawn(run).map_err(threads::refused)?;
        let (own, decided, thread) = (Some(own), Mutex::new(decided), Some(thread));
        Ok(Self { rank: ranks.rank(), own, decided, finished, thread, actions })
    }

    /// Reports the error that ends this rank and returns how the job ends. The message is printed once for the whole job, before
    /// this returns.
    pub fn report(&self, error: &Error) -> End {
        let failure = Failure {
            rank: self.rank,
            exit_code: error.exit_code(),
            reason: (self.actions.text)(error),
            names_rank: matches!(error, Error::Rank { .. }),
        };
        let sent = self.own.as_ref().is_some_and(|own| own.send(failure.clone()).is_ok());
        let decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        match sent.then(|| decided.recv_timeout(ANSWER_TIME)) {
            Some(Ok(end)) => end,
            // Rank 0 does not answer.
            _ => {
                (self.actions.print)(&failure.reason);
                End { exit_code: failure.exit_code, is_agreed: false, is_lost: false }
            }
        }
    }

    /// Ends the watch, once the work of all ranks is done. Without it the end of this process is the end of the job.
    pub fn finish(mut self) {
        self.finished.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}
