//! The word `-`: standard input where a file is read, standard output where one is written.

use std::path::Path;

/// The word for standard input, where it is read, and for standard output, where it is written.
const DASH: &str = "-";

/// Whether a path is [`DASH`].
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == DASH
}
