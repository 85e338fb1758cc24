//! Communicators: messages between the ranks of a job.
//!
//! A rank is one process of a job, or one thread of a process ([`super::thread_communicators`]). A back end implements
//! non-blocking messages between two ranks and the end of the whole job. Everything else follows from them here, so a rank that does
//! not answer is named by every call, in bounded time.
//!
//! Collective calls ([`Communicator::all_gather`], [`Communicator::all_to_all`], [`Communicator::barrier`]) are made by all ranks, in
//! the same order. Their messages have the tags of the call ([`Calls`]).

use std::time::{Duration, Instant};

use super::calls::{Call, Calls};
use crate::device::{Fault, MessageRead, MessageWrite, Pinned};
use crate::error::{Error, Result};

/// The messages of a collective call: the lengths, then the bytes.
const LENGTHS: u32 = 0;
const BYTES: u32 = 1;

/// How long a wait polls without sleeping.
const YIELD_TIME: Duration = Duration::from_micros(50);
/// The longest sleep between two polls.
const MAX_SLEEP: Duration = Duration::from_micros(200);

/// A message that was started. It keeps its memory until it is dropped, which cancels it.
pub trait Pending: Send {
    /// Whether the message is complete. Never waits; must be called again and again for the message to make progress.
    fn test(&mut self) -> Result<bool>;
}

/// The ranks of a job as one of them sees them.
#[derive(Debug)]
pub struct Members {
    /// The number of this rank.
    pub rank: usize,
    /// For each rank the name of its host.
    pub hosts: Vec<String>,
    /// How long a rank may be silent before it counts as hung.
    pub timeout: Duration,
    /// The collective calls so far.
    pub calls: Calls,
}

impl Members {
    /// The error of a rank.
    pub fn error(&self, rank: usize, reason: String) -> Error {
        let host = self.hosts.get(rank).cloned().unwrap_or_else(|| "?".into());
        Error::Rank { rank, host, reason: reason.into(), exit_code: 4 }
    }
}

/// The ranks of a job. One thread at a time calls it: implementations need not serialise calls by themselves unless their library
/// demands it.
pub trait Communicator: Send + Sync {
    /// The ranks.
    #[doc(hidden)]
    fn members(&self) -> &Members;

    /// Starts to send a message. Messages of the same ranks and tag arrive in the order in which they were started. The tag is
    /// one of [`Members::calls`].
    #[doc(hidden)]
    fn send(&self, to: usize, tag: u32, bytes: MessageRead) -> Result<Box<dyn Pending>>;

    /// Starts to receive a message, which must be as long as `bytes`.
    #[doc(hidden)]
    fn receive(&self, from: usize, tag: u32, bytes: MessageWrite) -> Result<Box<dyn Pending>>;

    /// Whether messages may be in the memory of devices. The thread that starts such a message and tests it has the context of the
    /// device current. Ranks need not say the same: a message may be in the memory of a device at one end only.
    #[doc(hidden)]
    fn takes_device_memory(&self) -> bool {
        false
    }

    /// Ends the job on all ranks, with an exit code and a message about the cause; an empty message is not printed. Ranks that are processes end; calls of ranks that
    /// are threads return an error that names this rank.
    #[doc(hidden)]
    fn abort(&self, exit_code: u8, message: &str);

    /// The number of this rank.
    fn rank(&self) -> usize {
        self.members().rank
    }

    /// Number of ranks.
    fn size(&self) -> usize {
        self.members().hosts.len()
    }

    /// For each rank the name of its host.
    #[doc(hidden)]
    fn hosts(&self) -> &[String] {
        &self.members().hosts
    }

    /// How long a rank may be silent before it counts as hung.
    #[doc(hidden)]
    fn timeout(&self) -> Duration {
        self.members().timeout
    }

    /// The error of a rank.
    #[doc(hidden)]
    fn rank_error(&self, rank: usize, reason: String) -> Error {
        self.members().error(rank, reason)
    }

    /// The number of this rank among the ranks on its host.
    #[doc(hidden)]
    fn local_rank(&self) -> usize {
        self.hosts()
            .iter()
            .take(self.rank())
            .filter(|host| self.hosts().get(self.rank()) == Some(host))
            .count()
    }

    /// Number of ranks on the host of this rank.
    #[doc(hidden)]
    fn local_size(&self) -> usize {
        self.hosts().iter().filter(|host| self.hosts().get(self.rank()) == Some(host)).count()
    }

    /// For each rank the bytes that it gave.
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let call = self.members().calls.begin()?;
        let own = filled(bytes)?;
        exchange(self, call, &vec![own; self.size()])
    }

    /// For each rank the bytes that it gave for this rank. `parts` has one entry for each rank.
    #[doc(hidden)]
    fn all_to_all(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let call = self.members().calls.begin()?;
        if parts.len() != self.size() {
            return Err(Error::Internal(format!("{} parts for {} ranks", parts.len(), self.size())));
        }
        exchange(self, call, &parts.iter().map(|part| filled(part)).collect::<Result<Vec<_>>>()?)
    }

    /// Returns after all ranks have called it.
    fn barrier(&self) -> Result<()> {
        self.all_gather(&[]).map(drop)
    }
}

fn filled(bytes: &[u8]) -> Result<Pinned> {
    let memory = Pinned::pageable(bytes.len())?;
    memory.write().map_err(misuse)?.copy_from_slice(bytes);
    Ok(memory)
}

fn misuse(fault: Fault) -> Error {
    Error::Internal(fault.message)
}

/// Sends one part to each rank and returns the parts that the others sent: first the lengths, then the bytes.
fn exchange(ranks: &(impl Communicator + ?Sized), call: Call, parts: &[Pinned]) -> Result<Vec<Vec<u8>>> {
    exchange_messages(ranks, call, parts).inspect_err(|_| ranks.members().calls.give_up())
}

fn exchange_messages(
    ranks: &(impl Communicator + ?Sized),
    call: Call,
    parts: &[Pinned],
) -> Result<Vec<Vec<u8>>> {
    let others = || (0..ranks.size()).filter(|&rank| rank != ranks.rank());
    let lengths: Vec<Pinned> =
        parts.iter().map(|part| filled(&(part.bytes() as u64).to_le_bytes())).collect::<Result<_>>()?;
    let arriving = (0..ranks.size()).map(|_| Pinned::pageable(8)).collect::<Result<Vec<_>>>()?;
    let mut pending = Vec::new();
    for rank in others() {
        let memory = arriving[rank].write().map_err(misuse)?;
        pending.push((rank, ranks.receive(rank, call.tag(LENGTHS), memory.into())?));
    }
    for rank in others() {
        let memory = lengths[rank].read().map_err(misuse)?;
        pending.push((rank, ranks.send(rank, call.tag(LENGTHS), memory.into())?));
    }
    wait_for_all(ranks, pending)?;
    let mut arrived = Vec::with_capacity(ranks.size());
    for (rank, length) in arriving.iter().enumerate() {
        let bytes = length.read().map_err(misuse)?;
        let length = match <[u8; 8]>::try_from(&bytes[..]) {
            Ok(bytes) if rank != ranks.rank() => u64::from_le_bytes(bytes) as usize,
            _ => 0,
        };
        arrived.push(Pinned::pageable(length)?);
    }
    let mut pending = Vec::new();
    for rank in others().filter(|&rank| arrived[rank].bytes() > 0) {
        let memory = arrived[rank].write().map_err(misuse)?;
        pending.push((rank, ranks.receive(rank, call.tag(BYTES), memory.into())?));
    }
    for rank in others().filter(|&rank| parts[rank].bytes() > 0) {
        let memory = parts[rank].read().map_err(misuse)?;
        pending.push((rank, ranks.send(rank, call.tag(BYTES), memory.into())?));
    }
    wait_for_all(ranks, pending)?;
    let result = |(rank, memory): (usize, &Pinned)| {
        let memory = if rank == ranks.rank() { &parts[rank] } else { memory };
        Ok(memory.read().map_err(misuse)?.to_vec())
    };
    arrived.iter().enumerate().map(result).collect()
}

/// Waits until all messages are complete. An error names a rank that does not answer.
fn wait_for_all(
    ranks: &(impl Communicator + ?Sized),
    mut pending: Vec<(usize, Box<dyn Pending>)>,
) -> Result<()> {
    let (start, mut waiting) = (Instant::now(), Waiting::new());
    loop {
        let before = pending.len();
        let mut failed = None;
        pending.retain_mut(|(_, message)| match message.test() {
            Ok(done) => !done,
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let Some((rank, _)) = pending.first() else { return Ok(()) };
        if pending.len() < before {
            waiting = Waiting::new();
        } else if start.elapsed() > ranks.timeout() {
            let seconds = ranks.timeout().as_secs_f64();
            return Err(ranks.rank_error(*rank, format!("no answer within {seconds:.0} s")));
        }
        waiting.pause();
    }
}

/// A wait by polling: it yields the processor at first and then sleeps between polls, so that it uses little of a core.
pub(super) struct Waiting {
    since: Instant,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self { since: Instant::now() }
    }

    /// Lets some time pass before the next poll: more, the longer the wait is.
    pub(super) fn pause(&self) {
        match self.since.elapsed() {
            elapsed if elapsed < YIELD_TIME => std::thread::yield_now(),
            elapsed => std::thread::sleep((elapsed / 8).min(MAX_SLEEP)),
        }
    }
}
