//! Where a matrix comes from: a file, a generator, or the SuiteSparse collection.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rowloom::Result;

/// A matrix that can be made without a download.
pub enum Source {
    /// `gen:`, with the text behind it.
    Generated(String),
    /// A file of any format.
    File(PathBuf),
}

impl Source {
    /// The source that a caller names. `suitesparse:GROUP/NAME` is downloaded unless it is there; `cancel` ends the download.
    pub fn named(name: &Path, cancel: &AtomicBool) -> Result<Self> {
        let text = name.to_str();
        let behind = |prefix| text.and_then(|text| text.strip_prefix(prefix));
        match (behind("gen:"), behind("suitesparse:")) {
            (Some(spec), _) => Ok(Self::Generated(spec.to_owned())),
            (None, Some(name)) => archive(name, cancel).map(Self::File),
            (None, None) => Ok(Self::File(name.to_owned())),
        }
    }
}

/// The archive of a matrix of the collection, with the settings of the user.
#[cfg(feature = "fetch")]
fn archive(name: &str, cancel: &AtomicBool) -> Result<PathBuf> {
    use rowloom::internal::fetch::{Collection, Watcher};
    use std::sync::atomic::Ordering;

    let stopped = || cancel.load(Ordering::Relaxed);
    let watcher = Watcher { progress: &|_, _| {}, stopped: &stopped };
    Ok(Collection::of_user()?.fetch(name, false, &watcher)?.path)
}

#[cfg(not(feature = "fetch"))]
fn archive(name: &str, _cancel: &AtomicBool) -> Result<PathBuf> {
    Err(rowloom::Error::usage(format!(
        "suitesparse:{name}: this build of the package cannot download matrices; run the command `rowloom fetch {name}` and pass the \
         path of the archive"
    )))
}
