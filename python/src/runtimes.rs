//! The runtimes of the process: one for each list of devices and number of threads, shared by all operators.

use std::sync::{Arc, Mutex, Once, PoisonError};

use pyo3::prelude::*;
use rowloom::internal::device::cuda::share_cards;
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::array::limit_memory;
use rowloom::internal::runtime::Pool;
use rowloom::{Result, Runtime};

use crate::per_process::PerProcess;

static RUNTIMES: PerProcess<Mutex<Vec<Opened>>> = PerProcess::new();

struct Opened {
    devices: String,
    threads: Option<usize>,
    runtime: Runtime,
}

/// The runtime on `devices` with `threads` worker threads, which is opened unless it is open.
pub fn runtime(devices: &str, threads: Option<usize>) -> Result<Runtime> {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        limit_memory(rowloom::internal::machine::memory_limit_bytes());
        // With CuPy, PyTorch and JAX, which use the primary contexts.
        share_cards();
    });
    let mut runtimes = RUNTIMES.get().lock().unwrap_or_else(PoisonError::into_inner);
    let of_threads = || runtimes.iter().filter(|opened| opened.threads == threads);
    if let Some(opened) = of_threads().find(|opened| opened.devices == devices) {
        return Ok(opened.runtime.clone());
    }
    // Runtimes on other devices use the same worker threads.
    let workers = of_threads().next().map(|opened| opened.runtime.pool().clone());
    let (machine, pool): (Machine, Arc<Pool>) = match workers {
        Some(pool) => (Machine::detect(), pool),
        None => {
            let machine = Machine::detect();
            let pool = Arc::new(Pool::new(&machine, threads)?);
            (machine, pool)
        }
    };
    let runtime = Runtime::builder().devices(devices).pool(machine, pool).open()?;
    runtimes.push(Opened { devices: devices.into(), threads, runtime: runtime.clone() });
    Ok(runtime)
}

/// Ends what must not run when the process ends.
#[pyfunction]
pub fn close(py: Python<'_>) {
    py.detach(|| {
        let runtimes = RUNTIMES.get().lock().unwrap_or_else(PoisonError::into_inner);
        runtimes.iter().for_each(|opened| opened.runtime.finish_opening());
    });
}
