//! Reads the matrix `Name/Name.mtx` of a SuiteSparse archive from a stream.
//!
//! Other files (`Name_b.mtx`, notes) are skipped. Nothing is unpacked to disk. An archive with a link or with a path that
//! leaves its folder is refused all the same, because no archive of the collection has one. The archive is read to its
//! end, so that damage after the matrix is found too.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Component, Path};

use tar::EntryType;

use crate::error::{Error, Place, Result};
use crate::matrix::io::read_error;

/// Offset in a tar archive at which its magic word ends.
pub const MAGIC_END: usize = 262;

/// Whether the first bytes of a file are those of a tar archive.
pub fn is_tar(first_bytes: &[u8]) -> bool {
    first_bytes.get(MAGIC_END - 5..MAGIC_END) == Some(b"ustar")
}

/// Calls `take` with the path of the matrix in the archive `reader` and a reader of its text.
pub fn with_matrix(
    reader: impl Read,
    path: &Path,
    take: impl FnOnce(&str, &mut dyn Read) -> Result<()>,
) -> Result<()> {
    let source = path.display().to_string();
    let unreadable = |error: io::Error| read_error(path, &source, as_damage(error));
    let refuse = |reason: String| Err(Error::input(Place::file(path), reason));
    let mut archive = tar::Archive::new(reader);
    let mut take = Some(take);
    // Raw entries: a long-name record of any size is then skipped like other files, and never held in memory.
    for entry in archive.entries().map_err(unreadable)?.raw(true) {
        let mut entry = entry.map_err(unreadable)?;
        let inner = entry.path().map_err(unreadable)?.into_owned();
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::Link | EntryType::Symlink) {
            return refuse(format!(
                "the archive holds a link, {}; the archive is not trustworthy",
                inner.display()
            ));
        }
        let inside = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
        if !inner.components().all(inside) {
            let reason =
                format!("the path {} leaves the archive; the archive is not trustworthy", inner.display());
            return refuse(reason);
        }
        if !matches!(kind, EntryType::Regular | EntryType::Continuous) || !is_matrix(&inner) {
            continue;
        }
        match take.take() {
            Some(take) => take(&inner.display().to_string(), &mut entry)?,
            None => return refuse(format!("the archive holds a second matrix, {}", inner.display())),
        }
    }
    // The end of the archive is not the end of the compressed data, whose checksum comes last.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(unreadable)?;
    match take {
        None => Ok(()),
        Some(_) => refuse("the archive holds no NAME/NAME.mtx; unpack it and name the matrix inside".into()),
    }
}

/// Whether the path is `Name/Name.mtx`.
fn is_matrix(path: &Path) -> bool {
    let parts: Vec<&OsStr> = path
        .components()
        .filter_map(|part| if let Component::Normal(name) = part { Some(name) } else { None })
        .collect();
    match parts[..] {
        [folder, file] => file.as_encoded_bytes() == [folder.as_encoded_bytes(), b".mtx"].concat(),
        _ => false,
    }
}

/// The error with its kind set to `InvalidData` where the tar reader found damage.
fn as_damage(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidData => error,
        io::ErrorKind::Other | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => {
            let reason = format!("the tar archive is damaged ({error}); fetch the file again");
            io::Error::new(io::ErrorKind::InvalidData, reason)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_matrix_named_as_its_folder_is_the_matrix() {
        assert!(is_matrix(Path::new("cant/cant.mtx")));
        assert!(is_matrix(Path::new("./cant/cant.mtx")));
        for side in ["cant/cant_b.mtx", "cant.mtx", "x/cant/cant.mtx", "cant/cant.txt"] {
            assert!(!is_matrix(Path::new(side)), "{side}");
        }
    }
}
