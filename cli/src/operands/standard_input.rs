//! Inputs that commands name: a file, or `-` for standard input.
//!
//! Readers map a file or read it in any order, so standard input is copied to a temporary file first, unless it is a file
//! already (`rowloom inspect - < a.mtx`). It is kept for the whole program, since a command may read an input again.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::args::standard_stream::is_dash;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::matrix::io::Input;

/// Standard input in messages.
const NAME: &str = "standard input";

/// Opens an input; standard input may hold at most `limit_bytes`.
pub fn open(path: &Path, limit_bytes: u64) -> Result<Input> {
    static COPY: Mutex<Option<File>> = Mutex::new(None);
    if !is_dash(path) {
        return Input::open(path);
    }
    let failed = |error| Error::read(NAME, error);
    let mut copy = COPY.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = match copy.take() {
        Some(file) => file,
        None => as_file(limit_bytes)?,
    };
    // Clones of a file share its position.
    file.rewind().map_err(failed)?;
    let input = Input { file: file.try_clone().map_err(failed)?, path: NAME.into() };
    *copy = Some(file);
    Ok(input)
}

fn as_file(limit_bytes: u64) -> Result<File> {
    let failed = |error| Error::read(NAME, error);
    let mut stream = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let metadata = stream.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    if metadata.is_file() && stream.stream_position().map_err(failed)? == 0 {
        return Ok(stream);
    }
    let mut copy = tempfile::tempfile().map_err(failed)?;
    let most = limit_bytes.saturating_add(1);
    let bytes = io::copy(&mut stream.take(most), &mut copy).map_err(failed)?;
    if bytes == most {
        return Err(Error::DoesNotFit {
            what: NAME.into(),
            needed_bytes: bytes,
            limit_bytes,
            advice: "write it to a file and name the file".into(),
        });
    }
    Ok(copy)
}
