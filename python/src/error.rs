//! Errors as Python exceptions: `ValueError`, `OSError`, `MemoryError`, `rowloom.DeviceError`, and `RuntimeError` for defects.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rowloom::{Error, Result};

use crate::advice;

create_exception!(
    rowloom,
    DeviceError,
    PyRuntimeError,
    "A device is missing or failed, and no other can replace it."
);

/// The exception for an error.
fn exception(error: Error) -> PyErr {
    let message = advice::text(&error);
    match error {
        Error::Usage(_) | Error::Input { .. } => PyValueError::new_err(message),
        Error::DoesNotFit { .. } => PyMemoryError::new_err(message),
        Error::Device { .. } => DeviceError::new_err(message),
        // By the error of the other rank.
        Error::Rank { exit_code: 2 | 3, .. } => PyValueError::new_err(message),
        Error::Rank { .. } => DeviceError::new_err(message),
        Error::Interrupted => PyKeyboardInterrupt::new_err(message),
        // The operating system's number makes it a FileNotFoundError or a PermissionError.
        Error::Read { path, source } | Error::Write { path, source } => match source.raw_os_error() {
            Some(number) => {
                let text = source.to_string();
                let reason = text.split(" (os error").next().unwrap_or_default().to_owned();
                PyOSError::new_err((number, reason, path.into_os_string()))
            }
            None => PyOSError::new_err(message),
        },
        _ => PyRuntimeError::new_err(message),
    }
}

/// Runs `work` with the interpreter's lock released. A panic becomes a `RuntimeError`.
pub fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
    finished(py.detach(|| catch_unwind(AssertUnwindSafe(work))))
}

/// The result of work, or the exception of its error or panic.
pub fn finished<R>(caught: thread::Result<Result<R>>) -> PyResult<R> {
    match caught {
        Ok(result) => result.map_err(exception),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
            Err(PyRuntimeError::new_err(format!("internal error: {text}; please report it")))
        }
    }
}
