//! What the speed-ups of records are relative to.

use std::collections::HashMap;

use super::config::Baseline;
use super::record::{Measured, Record};
use rowloom::internal::kernel::{KernelId, Order};
use rowloom::internal::matrix::Dtype;

/// The kernel of the reference: one thread, one element at a time.
const SERIAL: &str = "serial_csr";

/// The kernel that is measured on one thread for the speed-ups of the others: the default of the CPU.
pub const ONE_THREAD_KERNEL: KernelId = KernelId::CpuCsr;

/// The name of the baseline of a conversion.
const SERIAL_VERSION: &str = "the serial version";

impl Baseline {
    /// The name of a record as this baseline; none where it is no such baseline.
    fn name(self, record: &Record) -> Option<String> {
        let kernel = record.kernel.as_str();
        match self {
            Self::OneThread => {
                let is_canonical =
                    || KernelId::by_name(kernel).is_ok_and(|id| id.info().order == Order::Canonical);
                let on_one_thread = record.devices == "cpu" && record.used_threads() == 1;
                match record.measured {
                    Measured::Kernel if on_one_thread && is_canonical() => {
                        Some(format!("{kernel} on 1 thread"))
                    }
                    Measured::Run if on_one_thread => Some("the product on 1 thread".to_owned()),
                    _ => None,
                }
            }
            Self::SerialCsr => (kernel == SERIAL).then(|| kernel.to_owned()),
            Self::Scipy => {
                let is_scipy = record.measured == Measured::Peer && kernel.starts_with("scipy");
                is_scipy.then(|| kernel.to_owned())
            }
        }
    }
}

/// What a record is compared with besides the baseline's own kind: a whole product with products, a conversion with its serial version.
fn compared_as(record: &Record, baseline: Baseline) -> &str {
    match record.measured {
        Measured::Run if baseline == Baseline::OneThread => "run",
        Measured::Conversion => record.kernel.rsplit_once(", ").map_or("", |(conversion, _)| conversion),
        _ => "",
    }
}

/// Sets the speed-up of each record over the baseline on the same matrix, precision and K, of each whole product over the one on one
/// thread, and of each conversion over its serial version. Only verified results have one.
pub fn add_speedups(records: &mut [Record], baseline: Baseline) {
    type Key = (String, Option<Dtype>, Option<usize>, String);
    let key = |record: &Record, name: &str| -> Key {
        (record.matrix.hash.clone(), record.dtype, record.k, name.to_string())
    };
    let mut baselines: Vec<(Key, f64, String)> = Vec::new();
    if baseline == Baseline::OneThread {
        // Where it is a result of its own too, that one counts.
        let is_result = |record: &&Record| record.threads == 1 && record.kernel == ONE_THREAD_KERNEL.name();
        let results: Vec<Key> = records.iter().filter(is_result).map(|record| key(record, "")).collect();
        for record in records.iter() {
            let (Some(seconds), key) = (record.one_thread_s, key(record, "")) else { continue };
            if !results.contains(&key) && !baselines.iter().any(|(known, ..)| *known == key) {
                baselines.push((key, seconds, format!("{} on 1 thread", ONE_THREAD_KERNEL.name())));
            }
        }
    }
    for record in records.iter() {
        let found = match record.measured {
            Measured::Conversion => {
                record.kernel.strip_suffix(", serial").map(|name| (name, SERIAL_VERSION.to_owned()))
            }
            _ => baseline.name(record).map(|shown| (compared_as(record, baseline), shown)),
        };
        let (Some((name, shown)), Some(median)) = (found, record.verified_s()) else { continue };
        let key = key(record, name);
        match baselines.iter_mut().find(|(known, ..)| *known == key) {
            // Of the kernels of one thread the fastest counts; others are measured again with every number of threads.
            Some(known) if baseline == Baseline::OneThread && median < known.1 => {
                (known.1, known.2) = (median, shown);
            }
            Some(_) => {}
            None => baselines.push((key, median, shown)),
        }
    }
    for record in records {
        let wanted = key(record, compared_as(record, baseline));
        let found = baselines.iter().find(|(key, ..)| *key == wanted);
        let median = record.verified_s().filter(|&median| median > 0.0);
        let speedup =
            found.zip(median).map(|((_, seconds, shown), median)| (seconds / median, shown.clone()));
        (record.speedup, record.speedup_over) = speedup.unzip();
    }
}

/// Sets the speed-up of each record over the fastest verified peer of its case: on the same matrix, precision, K and threads.
pub fn add_peer_speedups(records: &mut [Record]) {
    type Key = (String, String, Option<Dtype>, Option<usize>, usize);
    let key = |record: &Record| -> Key {
        let Record { sweep, matrix, dtype, k, threads, .. } = record;
        (sweep.clone(), matrix.hash.clone(), *dtype, *k, *threads)
    };
    let mut fastest: HashMap<Key, (f64, String)> = HashMap::new();
    for record in records.iter().filter(|record| record.measured == Measured::Peer) {
        let Some(seconds) = record.verified_s() else { continue };
        let known = fastest.entry(key(record)).or_insert((f64::INFINITY, String::new()));
        if seconds < known.0 {
            *known = (seconds, record.kernel.clone());
        }
    }
    for record in records {
        let found = fastest.get(&key(record)).zip(record.verified_s().filter(|&median| median > 0.0));
        let ratio = found.map(|((seconds, peer), median)| (seconds / median, peer.clone()));
        (record.peer_speedup, record.fastest_peer) = ratio.unzip();
    }
}

/// The baselines of the records with a speed-up: `cpu_csr on 1 thread`.
pub fn baselines(records: &[&Record]) -> Option<String> {
    let mut names: Vec<&str> = records.iter().filter_map(|record| record.speedup_over.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.join(", or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Checked;
    use crate::statistics::Times;

    fn record(kernel: &str, seconds: f64, k: usize) -> Record {
        Record {
            kernel: kernel.into(),
            measured: Measured::Kernel,
            devices: "cpu".into(),
            threads: 2,
            k: Some(k),
            times: Times::new(&[seconds]),
            checked: Some(Checked::weighed(0)),
            ..Record::default()
        }
    }

    #[test]
    fn one_thread_of_the_fastest_canonical_kernel_is_the_baseline_unless_another_is_named() {
        let scipy = Record { measured: Measured::Peer, ..record("scipy csr", 3.0, 1) };
        let one = Record { threads: 1, ..record("cpu_csr", 4.0, 1) };
        let records = [record("serial_csr", 8.0, 1), one, record("cpu_csr", 2.0, 1), scipy];
        let over = |baseline| {
            let mut records = records.clone();
            add_speedups(&mut records, baseline);
            let [.., parallel, _] = records;
            (parallel.speedup.unwrap(), parallel.speedup_over.unwrap())
        };
        assert_eq!(over(Baseline::default()), (2.0, "cpu_csr on 1 thread".into()));
        assert_eq!(over(Baseline::SerialCsr), (4.0, "serial_csr".into()));
        assert_eq!(over(Baseline::Scipy), (1.5, "scipy csr".into()));
        let mut without = [record("serial_csr", 8.0, 1), record("cpu_csr", 2.0, 1)];
        add_speedups(&mut without, Baseline::OneThread);
        assert_eq!(without[1].speedup_over.as_deref(), Some("serial_csr on 1 thread"));
    }

    #[test]
    fn products_are_compared_with_the_product_on_one_thread_and_not_with_kernels() {
        let run =
            |threads, seconds| Record { measured: Measured::Run, threads, ..record("cpu_csr", seconds, 1) };
        let kernel = Record { threads: 1, ..record("cpu_csr", 2.0, 1) };
        let gpu = Record { devices: "cuda:0".into(), ..run(2, 1.5) };
        let mut records = [run(1, 6.0), run(2, 3.0), gpu, kernel];
        add_speedups(&mut records, Baseline::OneThread);
        assert_eq!(
            records.each_ref().map(|record| record.speedup),
            [Some(1.0), Some(2.0), Some(4.0), Some(1.0)]
        );
        assert_eq!(records[1].speedup_over.as_deref(), Some("the product on 1 thread"));
    }

    #[test]
    fn a_speed_up_over_peers_is_over_the_fastest_verified_one_of_the_case() {
        let peer = |kernel, seconds| Record { measured: Measured::Peer, ..record(kernel, seconds, 1) };
        let unverified = Record { checked: None, ..peer("mkl", 1.0) };
        let slow = peer("cusparse ALG1", 9.0);
        let mut records = [
            record("cpu_csr", 2.0, 1),
            peer("scipy on 1 thread", 6.0),
            unverified,
            slow,
            record("cpu_csr", 2.0, 8),
        ];
        add_peer_speedups(&mut records);
        let speedups = records.each_ref().map(|record| record.peer_speedup);
        assert_eq!(speedups, [Some(3.0), Some(1.0), None, Some(6.0 / 9.0), None]);
        assert_eq!(records[0].fastest_peer.as_deref(), Some("scipy on 1 thread"));
    }

    #[test]
    fn without_a_verified_result_there_is_no_speed_up() {
        let right = record("cpu_csr", 2.0, 1);
        for checked in [None, Some(Checked::weighed(1))] {
            let other = Record { checked, ..right.clone() };
            let serial = record("serial_csr", 8.0, 1);
            let mut records = [serial.clone(), other.clone()];
            add_speedups(&mut records, Baseline::SerialCsr);
            assert_eq!(records.map(|record| record.speedup), [Some(1.0), None]);
            let mut records = [Record { checked, ..serial }, right.clone()];
            add_speedups(&mut records, Baseline::SerialCsr);
            assert_eq!(
                records.map(|record| record.speedup),
                [None, None],
                "no ratio to an unverified result"
            );
        }
    }

    #[test]
    fn speed_ups_are_against_the_serial_kernel_of_the_same_k() {
        let mut records =
            [record("serial_csr", 8.0, 1), record("cpu_csr", 2.0, 1), record("cpu_csr", 2.0, 8)];
        add_speedups(&mut records, Baseline::SerialCsr);
        assert_eq!(records.map(|record| record.speedup), [Some(1.0), Some(4.0), None]);
    }

    #[test]
    fn conversions_are_compared_with_their_serial_versions() {
        let conversion =
            |kernel, seconds| Record { measured: Measured::Conversion, ..record(kernel, seconds, 0) };
        let mut records = [
            conversion("COO to CSR, serial", 3.0),
            conversion("COO to CSR, parallel", 1.5),
            conversion("COO to ELL, padded, parallel", 1.0),
        ];
        add_speedups(&mut records, Baseline::SerialCsr);
        assert_eq!(records.map(|record| record.speedup), [Some(1.0), Some(2.0), None]);
    }
}
