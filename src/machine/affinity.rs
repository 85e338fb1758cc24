//! The affinity mask of the calling thread, and binding it to one hardware thread.

use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::files::{cpu_list, text, value_of};
use crate::error::{Error, Result};

/// The hardware threads that the calling thread may run on, ascending; at least one.
pub fn affinity() -> Vec<usize> {
    let mask = match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        // Where the machine has more hardware threads than the set holds, the kernel's text file has the list.
        Err(_) => text(Path::new("/proc/thread-self/status"))
            .and_then(|text| cpu_list(&value_of(&text, "Cpus_allowed_list")?))
            .unwrap_or_default(),
    };
    if mask.is_empty() { vec![0] } else { mask }
}

/// Binds the calling thread to one hardware thread.
pub fn bind_current_thread(cpu: usize) -> Result<()> {
    let failed = |reason: String| {
        Error::device("cpu", format!("a worker cannot be bound to hardware thread {cpu}: {reason}"))
    };
    if cpu >= CpuSet::MAX_CPU {
        return Err(failed(format!("the operating system has at most {} of them", CpuSet::MAX_CPU)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_thread_may_run_on_its_hardware_thread_only() {
        let mask = affinity();
        for &cpu in &mask {
            let seen = std::thread::spawn(move || {
                bind_current_thread(cpu).unwrap();
                affinity()
            });
            assert_eq!(seen.join().unwrap(), vec![cpu]);
        }
        assert_eq!(affinity(), mask, "another thread's binding must not reach this one");
    }

    #[test]
    fn binding_to_a_missing_hardware_thread_is_an_error() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            if !affinity().contains(&cpu) {
                assert!(matches!(bind_current_thread(cpu), Err(Error::Device { .. })), "{cpu}");
            }
        }
    }
}
