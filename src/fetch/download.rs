//! One file over HTTP: continued after an interruption, limited in size and in time without progress.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};

use super::{Watcher, stored};
use crate::error::{Advice, Error, Place, Reason, Result};
use crate::threads;

/// Attempts without progress before a download fails.
const ATTEMPTS: u32 = 4;
/// The wait after the first failed attempt; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time for the first bytes of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection that sends nothing for this long counts as broken.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a download asks whether to stop.
const POLL: Duration = Duration::from_millis(100);
/// Most redirects of one request.
const MAX_REDIRECTS: u32 = 5;
const READ_BYTES: usize = 256 << 10;
/// Pieces of a body that are read before they are stored.
const PIECES_AHEAD: usize = 4;

/// The outcome of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Downloaded {
    /// The file is complete.
    File {
        /// Its size.
        bytes: u64,
    },
    /// The server has no such file.
    Missing,
}

/// Downloads a gzip archive to `path` and records its checksum.
pub fn download(url: &str, path: &Path, max_bytes: u64, watcher: &Watcher<'_>) -> Result<Downloaded> {
    let part = with_suffix(path, ".part");
    let outcome =
        Download { url, path, part: &part, max_bytes, stall_timeout: STALL_TIMEOUT, watcher }.run()?;
    if let Downloaded::File { .. } = outcome {
        let mut first = [0; 2];
        let read = File::open(&part).and_then(|mut file| file.read_exact(&mut first));
        if read.is_err() || first != [0x1f, 0x8b] {
            let _ = std::fs::remove_file(&part);
            return Err(refusal(url, "the server sent something other than a gzip archive"));
        }
        stored::record(&part, path)?;
        rename(&part, path)?;
    }
    Ok(outcome)
}

/// Downloads a text to `path`.
pub fn download_text(url: &str, path: &Path, max_bytes: u64, watcher: &Watcher<'_>) -> Result<Downloaded> {
    let part = with_suffix(path, ".part");
    let outcome =
        Download { url, path, part: &part, max_bytes, stall_timeout: STALL_TIMEOUT, watcher }.run()?;
    if let Downloaded::File { .. } = outcome {
        rename(&part, path)?;
    }
    Ok(outcome)
}

/// One download to `part` with another time without progress.
#[cfg(test)]
pub fn with_stall_timeout(
    url: &str,
    part: &Path,
    stall_timeout: Duration,
    watcher: &Watcher<'_>,
) -> Result<Downloaded> {
    Download { url, path: part, part, max_bytes: 1 << 20, stall_timeout, watcher }.run()
}

fn rename(part: &Path, path: &Path) -> Result<()> {
    std::fs::rename(part, path).map_err(|error| Error::write(path, error))?;
    let _ = std::fs::remove_file(with_suffix(part, ".version"));
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn refusal(url: &str, reason: impl Into<Reason>) -> Error {
    Error::input(Place { source: url.into(), line: None, column: None }, reason)
}

/// How an attempt ended.
enum Attempt {
    Complete {
        bytes: u64,
    },
    Missing,
    /// To be tried again, from where it ended.
    Broken(String),
    /// The server was not reached; to be tried again.
    Unreached(String),
}

/// A download to the file `part`, which becomes the file `path`.
struct Download<'a> {
    url: &'a str,
    path: &'a Path,
    part: &'a Path,
    max_bytes: u64,
    stall_timeout: Duration,
    watcher: &'a Watcher<'a>,
}

impl Download<'_> {
    fn run(&self) -> Result<Downloaded> {
        let failed = |error| Error::write(self.part, error);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(self.part)
            .map_err(failed)?;
        let outcome = self.attempts(&mut file);
        let is_empty = file.metadata().is_ok_and(|part| part.len() == 0);
        if is_empty && !matches!(outcome, Ok(Downloaded::File { .. })) {
            for path in [self.part, &self.version_path()] {
                // A file that cannot be removed harms nothing.
                let _ = std::fs::remove_file(path);
            }
        }
        outcome
    }

    fn attempts(&self, file: &mut File) -> Result<Downloaded> {
        let failed = |error| Error::write(self.part, error);
        let (mut attempts, mut reason, mut advice) = (0, String::new(), String::new());
        while attempts < ATTEMPTS {
            if attempts > 0 {
                std::thread::sleep(FIRST_WAIT * 2u32.pow(attempts - 1));
            }
            let before = file.metadata().map_err(failed)?.len();
            match self.attempt(file, before)? {
                Attempt::Complete { bytes } => return Ok(Downloaded::File { bytes }),
                Attempt::Missing => {
                    file.set_len(0).map_err(failed)?;
                    return Ok(Downloaded::Missing);
                }
                Attempt::Broken(why) => (reason, advice) = (why, "try again later".into()),
                Attempt::Unreached(why) => (reason, advice) = (why, self.without_server()),
            }
            let progressed = file.metadata().map_err(failed)?.len() > before;
            attempts = if progressed { 1 } else { attempts + 1 };
        }
        Err(refusal(self.url, format!("{reason}; {ATTEMPTS} attempts failed, {advice}")))
    }

    fn attempt(&self, file: &mut File, have: u64) -> Result<Attempt> {
        let version = std::fs::read_to_string(self.version_path()).unwrap_or_default();
        let resumes = have > 0 && !version.is_empty();
        // The client looks names up on a thread of its own and panics where it cannot start one.
        threads::check()?;
        let mut request = agent(self.url).get(self.url);
        if resumes {
            request = request.header("Range", format!("bytes={have}-")).header("If-Range", version.as_str());
        }
        let response = match request.call() {
            Ok(response) => response,
            Err(error) => return self.failed(&error),
        };
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let length = header("content-length").and_then(|length| length.parse::<u64>().ok());
        let (begin, total) = match response.status().as_u16() {
            200 => (0, length),
            206 if resumes => match content_range(header("content-range").unwrap_or_default()) {
                Some((begin, total)) if begin == have => (begin, Some(total)),
                _ => return self.restart(file, "the server sent another part than was asked for"),
            },
            404 | 410 => return Ok(Attempt::Missing),
            416 => return self.restart(file, "the file on the server has changed"),
            status @ (408 | 425 | 429 | 500..=599) => {
                return Ok(Attempt::Broken(format!("the server answered with status {status}")));
            }
            status => return Err(refusal(self.url, format!("the server answered with status {status}"))),
        };
        let total_or_length = total.or(length);
        if total_or_length.is_some_and(|bytes| bytes > self.max_bytes) {
            return Err(self.too_large());
        }
        if begin == 0 {
            // Only a version that identifies the bytes allows to continue later.
            let version = header("etag").filter(|tag| !tag.starts_with("W/")).or(header("last-modified"));
            std::fs::write(self.version_path(), version.unwrap_or_default())
                .map_err(|error| Error::write(self.part, error))?;
        }
        file.set_len(begin).map_err(|error| Error::write(self.part, error))?;
        file.seek(SeekFrom::Start(begin)).map_err(|error| Error::write(self.part, error))?;
        self.store(file, &pieces(response.into_body().into_reader())?, begin, total_or_length)
    }

    /// Appends the body to the file.
    fn store(
        &self,
        file: &mut File,
        body: &Receiver<std::io::Result<Vec<u8>>>,
        begin: u64,
        total: Option<u64>,
    ) -> Result<Attempt> {
        let (mut bytes, mut last) = (begin, Instant::now());
        loop {
            if (self.watcher.stopped)() {
                return Err(Error::Interrupted);
            }
            let piece = match body.recv_timeout(POLL) {
                Ok(Ok(piece)) => piece,
                Ok(Err(error)) => return Ok(Attempt::Broken(format!("the connection broke: {error}"))),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if last.elapsed() < self.stall_timeout => continue,
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = self.stall_timeout.as_secs_f64();
                    return Ok(Attempt::Broken(format!("the server sent nothing for {seconds} s")));
                }
            };
            last = Instant::now();
            bytes += piece.len() as u64;
            if bytes > self.max_bytes {
                return Err(self.too_large());
            }
            file.write_all(&piece).map_err(|error| Error::write(self.part, error))?;
            (self.watcher.progress)(bytes, total);
        }
        match total {
            Some(total) if bytes < total => {
                Ok(Attempt::Broken(format!("the server sent {bytes} of {total} bytes")))
            }
            Some(total) if bytes > total => {
                file.set_len(0).map_err(|error| Error::write(self.part, error))?;
                Err(refusal(self.url, format!("the server sent more than the {total} bytes it announced")))
            }
            _ => Ok(Attempt::Complete { bytes }),
        }
    }

    fn restart(&self, file: &mut File, reason: &str) -> Result<Attempt> {
        file.set_len(0).map_err(|error| Error::write(self.part, error))?;
        let _ = std::fs::remove_file(self.version_path());
        Ok(Attempt::Broken(reason.into()))
    }

    fn failed(&self, error: &ureq::Error) -> Result<Attempt> {
        use ureq::Error as E;
        match error {
            E::Io(_) | E::ConnectionFailed | E::HostNotFound => Ok(Attempt::Unreached(error.to_string())),
            E::Timeout(_) | E::Protocol(_) => Ok(Attempt::Broken(error.to_string())),
            E::TooManyRedirects => Err(refusal(self.url, "the server redirects without end")),
            E::RequireHttpsOnly(_) => {
                Err(refusal(self.url, "the server redirects to an address without TLS"))
            }
            other => Err(refusal(self.url, other.to_string())),
        }
    }

    /// What helps where the server cannot be reached.
    fn without_server(&self) -> String {
        format!(
            "so the server may be out of reach: HTTPS_PROXY or ALL_PROXY name a proxy, or put the file at {} by hand",
            self.path.display()
        )
    }

    fn too_large(&self) -> Error {
        let limit_mib = self.max_bytes >> 20;
        refusal(self.url, format!("the file has more than the limit of {limit_mib} MiB"))
            .advise([Advice::LargerDownloads])
    }

    fn version_path(&self) -> PathBuf {
        with_suffix(self.part, ".version")
    }
}

/// First byte and total size of a `Content-Range` header.
fn content_range(text: &str) -> Option<(u64, u64)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (begin, end) = range.split_once('-')?;
    let (begin, end, total) = (begin.parse().ok()?, end.parse::<u64>().ok()?, total.parse().ok()?);
    (begin <= end && end < total).then_some((begin, total))
}

/// The pieces of a body, read by a thread of their own: a read that waits for a silent server cannot be ended.
fn pieces(mut body: impl Read + Send + 'static) -> Result<Receiver<std::io::Result<Vec<u8>>>> {
    let (sender, receiver) = bounded(PIECES_AHEAD);
    threads::start("rowloom-download", move || {
        loop {
            let mut piece = vec![0; READ_BYTES];
            let sent = match body.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    piece.truncate(count);
                    sender.send(Ok(piece))
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

fn agent(url: &str) -> ureq::Agent {
    ureq::Agent::config_builder()
        .https_only(url.starts_with("https://"))
        .max_redirects(MAX_REDIRECTS)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(ANSWER_TIMEOUT))
        .user_agent(concat!("rowloom/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_content_ranges_are_taken() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, 10)));
        for text in
            ["", "bytes 5-9/*", "bytes */10", "bytes 9-5/10", "bytes 5-10/10", "5-9/10", "bytes x-9/10"]
        {
            assert_eq!(content_range(text), None, "{text}");
        }
    }
}
