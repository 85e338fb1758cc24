//! What the process uses, and whether it grows.

/// Growth of memory that counts as none: allocators keep some of what was freed, more with several threads.
const MEMORY_TOLERANCE_KIB: u64 = 4 << 10;

/// Memory, threads and open files of the process.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub memory_kib: u64,
    pub threads: u64,
    pub files: u64,
}

impl Usage {
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
        let number = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("the kernel names it");
            line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("it is a number")
        };
        let files = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted").count() as u64;
        Self { memory_kib: number("VmRSS:"), threads: number("Threads:"), files }
    }
}

/// Prints memory, threads and files of the middle and the last third of the samples; returns whether one grows. The first third warms up.
pub fn grows(samples: &[Usage], workers: u64) -> bool {
    let third = samples.len() / 3;
    let median = |part: &[Usage], of: fn(&Usage) -> u64| {
        let mut values: Vec<u64> = part.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let (middle, last) = (&samples[third..2 * third], &samples[2 * third..]);
    let mut grown = false;
    for (name, of, tolerance) in [
        ("memory in KiB", (|usage| usage.memory_kib) as fn(&Usage) -> u64, MEMORY_TOLERANCE_KIB * workers),
        ("threads", |usage| usage.threads, 0),
        ("open files", |usage| usage.files, 0),
    ] {
        let (before, after) = (median(middle, of), median(last, of));
        let grows = after > before + tolerance;
        println!("{name}: {before}, then {after}{}", if grows { ": it grows" } else { "" });
        grown |= grows;
    }
    grown
}
