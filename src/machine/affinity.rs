//! Which hardware threads this thread may run on, and binding it to one.

use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::files::{cpu_list, text, value_of};
use crate::error::{Error, Result};

/// Hardware threads the calling thread may run on, ascending; one at least.
pub fn affinity() -> Vec<usize> {
    let mask = match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        // Machines with more hardware threads than the set holds: the kernel says it in words too.
        Err(_) => text(Path::new("/proc/thread-self/status"))
            .and_then(|text| cpu_list(&value_of(&text, "Cpus_allowed_list")?))
            .unwrap_or_default(),
    };
    if mask.is_empty() { vec![0] } else { mask }
}

/// Binds the calling thread to one hardware thread.
pub fn bind_current_thread(cpu: usize) -> Result<()> {
    let failed = |reason: String| Error::Device {
        device: "cpu".into(),
        reason: format!("a worker cannot be bound to hardware thread {cpu}: {reason}"),
    };
    if cpu >= CpuSet::MAX_CPU {
        return Err(failed(format!("there are at most {}", CpuSet::MAX_CPU)));
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
    fn binding_to_what_is_not_there_is_an_error() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            if !affinity().contains(&cpu) {
                assert!(matches!(bind_current_thread(cpu), Err(Error::Device { .. })), "{cpu}");
            }
        }
    }
}
