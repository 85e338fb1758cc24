//! The word `-`: standard input where a file is read, standard output where one is written.

use std::path::Path;

use super::args::Command;

/// The word for standard input, where it is read, and for standard output, where it is written.
const DASH: &str = "-";

/// Whether a path is [`DASH`].
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == DASH
}

/// Whether the data of a command, a matrix, Y or C, goes to standard output.
pub fn data_on_standard_output(command: &Command) -> bool {
    let path = match command {
        Command::Run(arguments) => arguments.output.as_deref(),
        Command::Gemm(arguments) => arguments.output.as_deref(),
        Command::Convert(arguments) => arguments.output.as_deref(),
        Command::Generate(arguments) => Some(arguments.output.as_path()),
        _ => None,
    };
    path.is_some_and(is_dash)
}
