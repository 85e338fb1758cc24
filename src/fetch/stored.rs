//! A stored archive and its checksum, in a file beside it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use crate::error::{Advice, Error, Place, Result};
use crate::files;

const READ_BYTES: usize = 1 << 20;

fn checksum_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".xxh3");
    name.into()
}

/// The checksum of a file and its size.
fn checksum(path: &Path) -> Result<(u64, u64)> {
    let failed = |error| Error::read(path, error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut hash, mut bytes, mut buffer) = (Xxh3::new(), 0, vec![0; READ_BYTES]);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok((hash.digest(), bytes)),
            count => {
                hash.update(buffer.get(..count).unwrap_or_default());
                bytes += count as u64;
            }
        }
    }
}

/// Writes the checksum of a complete archive.
pub fn record(path: &Path, archive: &Path) -> Result<()> {
    let (hash, bytes) = checksum(path)?;
    files::replace(&checksum_path(archive), |to| {
        std::io::Write::write_all(to, format!("{hash:016x} {bytes}\n").as_bytes())
    })
}

/// The size of a stored archive; an error if its bytes are not those that were downloaded. An archive without a checksum was put there by
/// hand: the download writes the checksum first. It gets one now.
pub fn check(path: &Path) -> Result<u64> {
    let (hash, bytes) = checksum(path)?;
    let recorded = match std::fs::read_to_string(checksum_path(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            record(path, path)?;
            return Ok(bytes);
        }
        recorded => recorded.unwrap_or_default(),
    };
    if recorded.trim() == format!("{hash:016x} {bytes}") {
        return Ok(bytes);
    }
    let reason = "the archive is not the one that was downloaded";
    Err(Error::input(Place::file(path), reason).advise([Advice::NewDownload]))
}
