//! The `rowloom` program: runs one command and ends with its exit code.
//!
//! If the reader of standard output is gone (`rowloom man | head -1`), the program ends without a message and with 141. A
//! panic, which is a bug, ends it with one line and 70.

use std::panic;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use rowloom::cli::{self, Console};

/// The exit code of an internal error.
const INTERNAL: u8 = 70;

fn main() -> ExitCode {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    panic::set_hook(Box::new(|panic| {
        // Several threads may panic for one reason; one message is enough.
        if !REPORTED.swap(true, Ordering::SeqCst) {
            cli::report_panic(panic);
        }
    }));
    ExitCode::from(panic::catch_unwind(run).unwrap_or(INTERNAL))
}

fn run() -> u8 {
    let arguments = match cli::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(exit_code) => return exit_code,
    };
    let console = Console::new(&arguments.command);
    match cli::execute(&arguments.command, &console) {
        Ok(()) => 0,
        Err(error) => {
            if cli::is_broken_pipe(&error) {
                return cli::BROKEN_PIPE;
            }
            console.error(&error);
            error.exit_code()
        }
    }
}
