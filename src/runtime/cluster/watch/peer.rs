//! One end of a connection: frames, and how long the other end has been silent.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::end::End;
use super::times::{LAUNCHER_TIME, SILENCE_TIME};

/// First byte of each frame. `ERROR` and `END` have a text behind them: its length as `u32`, then JSON.
pub const SIGN_OF_LIFE: u8 = b'.';
pub const FINISHED: u8 = b'F';
pub const ERROR: u8 = b'E';
pub const END: u8 = b'X';
/// Longest text of a frame.
const MAX_TEXT: usize = 1 << 20;

/// An error on its way to rank 0.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    pub rank: usize,
    pub exit_code: u8,
    pub reason: String,
    /// Whether the reason names a rank already.
    pub names_rank: bool,
}

/// A frame that arrived.
pub enum Frame {
    SignOfLife,
    Finished,
    Error(Failure),
    End(End),
}

/// One end of a connection.
pub struct Peer {
    stream: TcpStream,
    arrived: Vec<u8>,
    /// How long nothing has arrived.
    silence: Duration,
    closed: Option<Instant>,
    finished: bool,
}

impl Peer {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, arrived: Vec::new(), silence: Duration::ZERO, closed: None, finished: false })
    }

    pub fn send(&mut self, kind: u8) {
        self.send_bytes(&[kind]);
    }

    pub fn send_text(&mut self, kind: u8, value: &impl serde::Serialize) {
        let text = serde_json::to_vec(value).unwrap_or_default();
        self.send_bytes(&[&[kind][..], &(text.len() as u32).to_le_bytes(), &text].concat());
    }

    /// Sends a few bytes, which the buffer of the connection holds. A connection that is full or closed is noticed by reading.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The frames that arrived since the last call. `elapsed` is the time since then in which this rank was able to read.
    pub fn frames(&mut self, elapsed: Duration) -> Vec<Frame> {
        self.silence += elapsed;
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.closed.get_or_insert_with(Instant::now);
                    break;
                }
                Ok(count) => {
                    self.arrived.extend_from_slice(&buffer[..count]);
                    self.silence = Duration::ZERO;
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

    /// Whether the other end said that its work is done.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether the connection was closed by the other end.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Why the other end counts as lost, if it does.
    pub fn lost(&self) -> Option<String> {
        if self.finished {
            return None;
        }
        match self.closed {
            Some(closed) if closed.elapsed() > LAUNCHER_TIME => Some("its process ended".into()),
            None if self.silence > SILENCE_TIME => Some(format!(
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
