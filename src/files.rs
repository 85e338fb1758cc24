//! Files that are there whole or as they were before.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};

/// Gives `path` the content that `write` writes, all of it or none. A pipe or device is written to as it is.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let failed = |error| Error::write(path, error);
    if std::fs::metadata(path).is_ok_and(|target| !target.is_file()) {
        let mut file = File::options().write(true).open(path).map_err(failed)?;
        return write(&mut file).map_err(failed);
    }
    // A link keeps pointing to the file that is replaced.
    let target = path.canonicalize().unwrap_or_else(|_| path.into());
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut options = tempfile::Builder::new();
    #[cfg(unix)]
    options.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = options.prefix(".rowloom-").suffix(".part").tempfile_in(folder).map_err(failed)?;
    write(file.as_file_mut()).map_err(failed)?;
    file.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}
