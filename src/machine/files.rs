//! Small text files of the kernel. Reading never fails: a missing or damaged file is `None`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most bytes of a file that are read; the files of `/proc` and `/sys` are far smaller.
const MOST_BYTES: u64 = 16 << 20;
/// Processor numbers from here on count as damage.
const MOST_CPUS: usize = 1 << 16;

/// The whole text of a file.
pub fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_string())
}

/// A file that holds one number.
pub fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The value of `key: value` in a file of such lines.
pub fn value_of(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_string())
    })
}

/// Bytes of a value like `16384 kB`.
pub fn kilobytes(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Numbers of a list like `0-3,8`, ascending.
pub fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Numbers of the entries `PREFIX0`, `PREFIX1`, ... of a folder, ascending.
pub fn numbered(folder: &Path, prefix: &str) -> Vec<usize> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut numbers: Vec<usize> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
        .filter(|&number| number < MOST_CPUS)
        .collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_lists_are_read_and_damaged_ones_refused() {
        assert_eq!(cpu_list("0-2,8,5\n"), Some(vec![0, 1, 2, 5, 8]));
        assert_eq!(cpu_list(""), Some(vec![]));
        for damaged in ["3-1", "a", "0-", "-1", "0-4294967295", "99999999999999999999", "1 2"] {
            assert_eq!(cpu_list(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn kilobytes_beyond_arithmetic_are_refused() {
        assert_eq!(kilobytes("16 kB"), Some(16384));
        assert_eq!(kilobytes("18446744073709551615 kB"), None);
        assert_eq!(kilobytes("16"), None);
    }
}
