//! The `rowloom` program: runs one command and ends with its exit code.
//!
//! If the reader of standard output is gone (`rowloom man | head -1`), the program ends without a message and with 141. A
//! panic, which is a bug, ends it with one line and 70.

use std::io::{self, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

use rowloom_cli::Console;

/// The exit code of an internal error.
const INTERNAL: u8 = 70;

fn main() -> ! {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    panic::set_hook(Box::new(|panic| {
        // Several threads may panic for one reason; one message is enough.
        if !REPORTED.swap(true, Ordering::SeqCst) {
            rowloom_cli::report_panic(panic);
        }
    }));
    let exit_code = panic::catch_unwind(run).unwrap_or(INTERNAL);
    let _ = (io::stdout().flush(), io::stderr().flush());
    // Ends at once: the handlers of other libraries would wait for the CUDA driver and for compilers of kernels.
    signal_hook::low_level::exit(i32::from(exit_code))
}

fn run() -> u8 {
    let arguments = match rowloom_cli::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(exit_code) => return exit_code,
    };
    let console = Console::new(&arguments.command);
    let console = if rowloom_cli::is_silent() { console.silenced() } else { console };
    match rowloom_cli::execute(&arguments.command, &console) {
        Ok(()) => 0,
        Err(error) => {
            if rowloom_cli::is_broken_pipe(&error) {
                return rowloom_cli::BROKEN_PIPE;
            }
            console.error(&error);
            error.exit_code()
        }
    }
}
