//! Ranks that are threads of one process, for tests and for faults: messages are copied through a shared table.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::calls::Calls;
use super::communicator::{Communicator, Members, Pending};
use crate::device::completion::RANK_TIMEOUT;
use crate::device::{Fault, MessageRead, MessageWrite};
use crate::error::{Error, Result};

/// The ranks of a job whose ranks are threads of this process. Each rank is meant for one thread. A rank that is dropped has ended:
/// the calls of others that wait for it return an error.
pub fn thread_communicators(ranks: usize) -> Vec<Arc<dyn Communicator>> {
    thread_communicators_with_timeout(ranks, RANK_TIMEOUT)
}

/// The same, with the time after which a silent rank counts as hung.
pub fn thread_communicators_with_timeout(ranks: usize, timeout: Duration) -> Vec<Arc<dyn Communicator>> {
    communicators(ranks, timeout, false)
}

/// The same, for ranks that send from the memory of devices and receive into it, as those of a CUDA-aware MPI library do.
pub fn thread_communicators_with_device_memory(
    ranks: usize,
    timeout: Duration,
) -> Vec<Arc<dyn Communicator>> {
    communicators(ranks, timeout, true)
}

fn communicators(ranks: usize, timeout: Duration, takes_device_memory: bool) -> Vec<Arc<dyn Communicator>> {
    let table = Arc::new(Mutex::new(Table { ended: vec![false; ranks], ..Table::default() }));
    let rank = |rank| {
        let hosts = vec!["threads".into(); ranks];
        let members = Arc::new(Members { rank, hosts, timeout, calls: Calls::new(u32::MAX) });
        Arc::new(ThreadRank { members, table: table.clone(), takes_device_memory }) as Arc<dyn Communicator>
    };
    (0..ranks).map(rank).collect()
}

/// The results of `work` on each of `size` ranks.
#[cfg(test)]
pub fn on_thread_ranks<R: Send>(size: usize, work: impl Fn(&dyn Communicator) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let work = &work;
        let start = |ranks: Arc<dyn Communicator>| scope.spawn(move || work(&*ranks));
        let threads: Vec<_> = thread_communicators(size).into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Sender, receiver and tag of a message.
type Route = (usize, usize, u32);

#[derive(Default)]
struct Table {
    /// Messages that were sent and not received.
    messages: HashMap<Route, VecDeque<Vec<u8>>>,
    /// For each rank whether it ended.
    ended: Vec<bool>,
    /// The rank that aborted the job, and its message.
    aborted: Option<(usize, String)>,
}

struct ThreadRank {
    members: Arc<Members>,
    table: Arc<Mutex<Table>>,
    takes_device_memory: bool,
}

impl ThreadRank {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, other: usize) -> Result<()> {
        if other < self.size() {
            return Ok(());
        }
        Err(Error::Internal(format!("there is no rank {other} among {} ranks", self.size())))
    }
}

impl Communicator for ThreadRank {
    fn members(&self) -> &Members {
        &self.members
    }

    fn send(&self, to: usize, tag: u32, bytes: MessageRead) -> Result<Box<dyn Pending>> {
        self.check(to)?;
        let bytes = bytes.to_vec().map_err(|fault| unusable(&self.members, fault))?;
        let mut table = self.table();
        if let Some((rank, message)) = &table.aborted {
            return Err(self.rank_error(*rank, message.clone()));
        }
        table.messages.entry((self.rank(), to, tag)).or_default().push_back(bytes);
        Ok(Box::new(Sent))
    }

    fn receive(&self, from: usize, tag: u32, bytes: MessageWrite) -> Result<Box<dyn Pending>> {
        self.check(from)?;
        let (members, table) = (self.members.clone(), self.table.clone());
        Ok(Box::new(Expected { route: (from, self.rank(), tag), members, table, bytes: Some(bytes) }))
    }

    fn takes_device_memory(&self) -> bool {
        self.takes_device_memory
    }

    fn abort(&self, _exit_code: u8, message: &str) {
        self.table().aborted.get_or_insert_with(|| (self.rank(), message.into()));
    }
}

impl Drop for ThreadRank {
    fn drop(&mut self) {
        let rank = self.rank();
        self.table().ended.iter_mut().skip(rank).take(1).for_each(|ended| *ended = true);
    }
}

/// The error of a rank whose memory of a message cannot be used.
fn unusable(members: &Members, fault: Fault) -> Error {
    members.error(members.rank, fault.message)
}

/// A message in the table.
struct Sent;

impl Pending for Sent {
    fn test(&mut self) -> Result<bool> {
        Ok(true)
    }
}

/// A message that is waited for.
struct Expected {
    route: Route,
    members: Arc<Members>,
    table: Arc<Mutex<Table>>,
    /// Until the message has arrived.
    bytes: Option<MessageWrite>,
}

impl Pending for Expected {
    fn test(&mut self) -> Result<bool> {
        let Some(to) = &mut self.bytes else { return Ok(true) };
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((rank, message)) = &table.aborted {
            return Err(self.members.error(*rank, message.clone()));
        }
        let (from, ..) = self.route;
        match table.messages.get_mut(&self.route).and_then(VecDeque::pop_front) {
            Some(message) if message.len() == to.bytes() => {
                to.write(&message).map_err(|fault| unusable(&self.members, fault))?;
            }
            Some(message) => {
                let reason = format!("it sent {} bytes where {} were expected", message.len(), to.bytes());
                return Err(self.members.error(from, reason));
            }
            None if table.ended.get(from) == Some(&true) => {
                return Err(self.members.error(from, "it ended before its message was sent".into()));
            }
            None => return Ok(false),
        }
        self.bytes = None;
        Ok(true)
    }
}
