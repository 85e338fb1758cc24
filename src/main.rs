//! The `rowloom` program: runs one command and ends with its exit code.
//!
//! A reader that goes away (`rowloom inspect a.mtx | head -1`) ends the program quietly with 1; a panic, which is a
//! bug, with one line and 70.

use std::panic;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use rowloom::cli::{self, Console};

/// The exit code of a broken promise to ourselves.
const INTERNAL: u8 = 70;

fn main() -> ExitCode {
    static TOLD: AtomicBool = AtomicBool::new(false);
    panic::set_hook(Box::new(|panic| {
        // Several workers may fall for one reason.
        if !TOLD.swap(true, Ordering::SeqCst) {
            cli::tell_panic(panic);
        }
    }));
    ExitCode::from(panic::catch_unwind(run).unwrap_or(INTERNAL))
}

fn run() -> u8 {
    let arguments = match cli::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(exit_code) => return exit_code,
    };
    let console = Console::new(arguments.command.common());
    match cli::execute(&arguments.command, &console) {
        Ok(()) => 0,
        Err(error) => {
            if !cli::is_broken_pipe(&error) {
                console.error(&error);
            }
            error.exit_code()
        }
    }
}
