//! The watch over a job: a rank that stops, ends or fails ends the whole job within [`END_WITHIN`], with one message.
//!
//! Beside the communicator, every rank has a connection to rank 0 over which both ends send a sign of life twice a second. A thread of
//! its own does that, so a rank that computes or waits is not silent; a process that is stopped, or a host that is gone, is. A rank that
//! fails sends its error to rank 0. Rank 0 decides on the one message, prints it, and tells the others, which end.
//!
//! | event | seen by | after |
//! |---|---|---|
//! | a rank reports an error | rank 0 | at once; errors of several ranks are one if they come within `COLLECT_TIME` |
//! | the process of a rank ended | rank 0, and the launcher, which usually ends the job first | `LAUNCHER_TIME` |
//! | a rank is silent | rank 0 | `SILENCE_TIME` |
//! | rank 0 is silent or ended | the other ranks, the lowest of which prints | the same times |

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::agreement::share;
use crate::device::network::Communicator;
use crate::error::{Error, Result};
use crate::threads;

/// The time within which a job ends after one of its ranks failed, ended or became silent.
pub const END_WITHIN: Duration = Duration::from_secs(10);
/// A rank that gave no sign of life for so long counts as hung.
const SILENCE_TIME: Duration = Duration::from_secs(6);
/// How long the launcher may take to end a job of which a process ended, before the ranks do it.
const LAUNCHER_TIME: Duration = Duration::from_secs(3);
/// How long rank 0 waits for the errors of other ranks after the first.
const COLLECT_TIME: Duration = Duration::from_millis(400);
/// How long a rank waits for the answer to its error.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// How long a rank without an error waits for the launcher to end it.
const GRACE_TIME: Duration = Duration::from_secs(2);
/// How much longer than rank 1 the others wait to print that rank 0 is lost: the launcher ends them before.
const SUCCESSION_TIME: Duration = Duration::from_millis(2500);
/// How long a rank may take to connect.
const CONNECT_TIME: Duration = Duration::from_secs(10);
const SIGN_INTERVAL: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The exit code for a rank that ended or is silent, as for a device that is lost.
const LOST_RANK: u8 = 4;

/// First byte of each frame. `ERROR` and `END` have a text behind them: its length as `u32`, then JSON.
const SIGN_OF_LIFE: u8 = b'.';
const FINISHED: u8 = b'F';
const ERROR: u8 = b'E';
const END: u8 = b'X';
/// Longest text of a frame.
const MAX_TEXT: usize = 1 << 20;

/// An error on its way to rank 0.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Failure {
    rank: usize,
    exit_code: u8,
    reason: String,
    /// Whether the reason names a rank already.
    names_rank: bool,
}

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct End {
    /// The exit code of the job.
    pub exit_code: u8,
    /// Whether all ranks reported the same error, so that all end in order.
    pub is_agreed: bool,
    /// Whether a rank is lost, of which the launcher may know nothing, so that all others end at once.
    is_lost: bool,
}

/// What the thread of a rank does.
pub struct Actions {
    /// Prints the message; called on one rank of the job.
    pub print: Box<dyn Fn(&str) + Send + Sync>,
    /// Ends the process at once with an exit code, without a message. Must not return.
    pub exit: Box<dyn Fn(u8) + Send + Sync>,
}

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
        let state = Thread {
            rank: ranks.rank(),
            hosts: ranks.hosts().to_vec(),
            failures,
            decide,
            finished: finished.clone(),
            actions: actions.clone(),
        };
        let run = move || match connected {
            Connected::Root(peers) => state.root(peers),
            Connected::Other(root) => state.other(root),
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
            reason: error.to_string(),
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

/// The connections of a rank.
enum Connected {
    /// Those of rank 0 to all others, the first being none.
    Root(Vec<Option<Peer>>),
    /// That of another rank to rank 0.
    Other(Peer),
}

fn connect(ranks: &dyn Communicator) -> Result<Connected> {
    let unreachable = |error: io::Error| Error::Device {
        device: "cpu".into(),
        reason: format!("ranks cannot be watched over TCP: {error}"),
    };
    let listener = match ranks.rank() {
        0 => Some(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(unreachable)?),
        _ => None,
    };
    let port = match &listener {
        Some(listener) => listener.local_addr().map_err(unreachable)?.port(),
        None => 0,
    };
    // Another program that connects by accident does not know it.
    let token = std::process::id() as u64 ^ (u64::from(port) << 32) ^ since_epoch_ns();
    let (port, token) = share(ranks, &(port, token))?.swap_remove(0);
    let Some(listener) = listener else {
        let stream = connect_to(ranks, port).map_err(|error| {
            ranks.rank_error(0, format!("rank {} cannot connect to its port {port}: {error}", ranks.rank()))
        })?;
        let mut peer = Peer::new(stream).map_err(unreachable)?;
        peer.send_bytes(&[token.to_le_bytes(), (ranks.rank() as u64).to_le_bytes()].concat());
        return Ok(Connected::Other(peer));
    };
    listener.set_nonblocking(true).map_err(unreachable)?;
    let mut peers: Vec<Option<Peer>> = (0..ranks.size()).map(|_| None).collect();
    let start = Instant::now();
    while let Some(missing) = (1..ranks.size()).find(|rank| peers[*rank].is_none()) {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Some((rank, peer)) = greeted(stream, token).filter(|(rank, _)| *rank < ranks.size()) {
                    peers[rank] = Some(peer);
                }
            }
            Err(_) if start.elapsed() < CONNECT_TIME => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => {
                let reason =
                    format!("it did not connect to port {port} of rank 0; open the port range between hosts");
                return Err(ranks.rank_error(missing, reason));
            }
        }
    }
    Ok(Connected::Root(peers))
}

fn since_epoch_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}

/// The connection of a rank that knows the token, and its number.
fn greeted(stream: TcpStream, token: u64) -> Option<(usize, Peer)> {
    let mut greeting = [0; 16];
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    (&stream).read_exact(&mut greeting).ok()?;
    let number = |at: usize| greeting[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    (number(0)? == token).then_some(())?;
    Some((usize::try_from(number(8)?).ok()?, Peer::new(stream).ok()?))
}

fn connect_to(ranks: &dyn Communicator, port: u16) -> io::Result<TcpStream> {
    let hosts = ranks.hosts();
    let addresses: Vec<SocketAddr> = match hosts.first() == hosts.get(ranks.rank()) {
        true => vec![(Ipv4Addr::LOCALHOST, port).into()],
        false => (hosts.first().map_or("", String::as_str), port).to_socket_addrs()?.collect(),
    };
    let mut failed = io::Error::other("the name of its host has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A frame that arrived.
enum Frame {
    SignOfLife,
    Finished,
    Error(Failure),
    End(End),
}

/// One end of a connection.
struct Peer {
    stream: TcpStream,
    arrived: Vec<u8>,
    last_seen: Instant,
    closed: Option<Instant>,
    finished: bool,
}

impl Peer {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, arrived: Vec::new(), last_seen: Instant::now(), closed: None, finished: false })
    }

    fn send(&mut self, kind: u8) {
        self.send_bytes(&[kind]);
    }

    fn send_text(&mut self, kind: u8, value: &impl serde::Serialize) {
        let text = serde_json::to_vec(value).unwrap_or_default();
        self.send_bytes(&[&[kind][..], &(text.len() as u32).to_le_bytes(), &text].concat());
    }

    /// Sends a few bytes, which the buffer of the connection holds. A connection that is full or closed is noticed by reading.
    fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The frames that arrived since the last call.
    fn frames(&mut self) -> Vec<Frame> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.closed.get_or_insert_with(Instant::now);
                    break;
                }
                Ok(count) => {
                    self.arrived.extend_from_slice(&buffer[..count]);
                    self.last_seen = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.closed.get_or_insert_with(Instant::now);
                    break;
                }
            }
        }
        let mut frames = Vec::new();
        while let Some((frame, bytes)) = parse(&self.arrived) {
            self.arrived.drain(..bytes);
            frames.extend(frame);
        }
        self.finished |= frames.iter().any(|frame| matches!(frame, Frame::Finished));
        frames
    }

    /// Why the other end counts as lost, if it does.
    fn lost(&self) -> Option<String> {
        if self.finished {
            return None;
        }
        match self.closed {
            Some(closed) if closed.elapsed() > LAUNCHER_TIME => Some("its process ended".into()),
            None if self.last_seen.elapsed() > SILENCE_TIME => Some(format!(
                "no sign of life for {} s; its process is stopped or its host cannot be reached",
                SILENCE_TIME.as_secs()
            )),
            _ => None,
        }
    }
}

/// The first frame of `bytes` and its length, once it is complete. A frame that is not known is skipped.
fn parse(bytes: &[u8]) -> Option<(Option<Frame>, usize)> {
    let kind = *bytes.first()?;
    let text = || {
        let length = u32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?) as usize;
        Some((bytes.get(5..5 + length.min(MAX_TEXT))?, 5 + length.min(MAX_TEXT)))
    };
    match kind {
        SIGN_OF_LIFE => Some((Some(Frame::SignOfLife), 1)),
        FINISHED => Some((Some(Frame::Finished), 1)),
        ERROR => text().map(|(text, bytes)| (serde_json::from_slice(text).ok().map(Frame::Error), bytes)),
        END => text().map(|(text, bytes)| (serde_json::from_slice(text).ok().map(Frame::End), bytes)),
        _ => Some((None, 1)),
    }
}

/// The thread of a rank.
struct Thread {
    rank: usize,
    hosts: Vec<String>,
    /// Errors of this rank.
    failures: Receiver<Failure>,
    decide: Sender<End>,
    finished: Arc<AtomicBool>,
    actions: Arc<Actions>,
}

impl Thread {
    fn named(&self, rank: usize, reason: &str) -> String {
        let host = self.hosts.get(rank).map_or("?", String::as_str);
        format!("rank {rank} on {host}: {reason}")
    }

    fn root(&self, mut peers: Vec<Option<Peer>>) {
        let size = self.hosts.len();
        let (mut failures, mut first_failure): (Vec<Failure>, Option<Instant>) = (Vec::new(), None);
        let mut signed = Instant::now();
        loop {
            failures.extend(self.failures.try_iter());
            for peer in peers.iter_mut().flatten() {
                let errors = peer.frames().into_iter().filter_map(|frame| match frame {
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
            if is_over && peers.iter().flatten().all(|peer| peer.finished || peer.closed.is_some()) {
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

    fn other(&self, mut root: Peer) {
        let mut signed = Instant::now();
        let (mut is_waiting, mut said_finished) = (false, false);
        loop {
            for failure in self.failures.try_iter() {
                root.send_text(ERROR, &failure);
                is_waiting = true;
            }
            for frame in root.frames() {
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
            if is_over && root.closed.is_some() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::network::thread_communicators;

    /// What the ranks of a job print and exit with, if `work` runs on each of them.
    fn watched(size: usize, work: impl Fn(usize, Watch) + Sync) -> (Vec<String>, Vec<(usize, u8)>) {
        let (printed, exits) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        std::thread::scope(|scope| {
            for ranks in thread_communicators(size) {
                let (printed, exits, work) = (printed.clone(), exits.clone(), &work);
                scope.spawn(move || {
                    let rank = ranks.rank();
                    let actions = Actions {
                        print: Box::new(move |text| printed.lock().unwrap().push(text.to_owned())),
                        exit: Box::new(move |code| exits.lock().unwrap().push((rank, code))),
                    };
                    work(rank, Watch::start(&*ranks, actions).unwrap());
                });
            }
        });
        let (printed, exits) = (printed.lock().unwrap().clone(), exits.lock().unwrap().clone());
        (printed, exits)
    }

    #[test]
    fn a_job_that_finishes_prints_nothing() {
        assert_eq!(watched(4, |_, watch| watch.finish()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn an_error_of_all_ranks_is_printed_once_and_all_end_in_order() {
        let (printed, exits) = watched(3, |_, watch| {
            let end = watch.report(&Error::Usage("the flag is wrong".into()));
            assert_eq!((end.exit_code, end.is_agreed), (2, true));
        });
        assert_eq!((printed, exits), (vec!["the flag is wrong".to_owned()], Vec::new()));
    }

    #[test]
    fn an_error_of_one_rank_is_printed_once_with_its_number_and_host() {
        for at_fault in 0..3 {
            let (printed, exits) = watched(3, |rank, watch| {
                if rank == at_fault {
                    let end = watch.report(&Error::Usage("no memory".into()));
                    assert_eq!((end.exit_code, end.is_agreed), (2, false));
                }
                // The others wait for a message that never comes.
                std::thread::sleep(Duration::from_secs(4));
            });
            assert_eq!(printed, [format!("rank {at_fault} on threads: no memory")]);
            assert!(exits.iter().all(|(_, code)| *code == 2) && exits.len() == 3, "{exits:?}");
        }
    }
}
