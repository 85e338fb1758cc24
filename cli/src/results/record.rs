//! One result as a flat record: tables, figures and files of results are made of these.

use serde::{Deserialize, Serialize};

use super::config::Subject;
use crate::measure::Checked;
use crate::measure::MatrixFacts;
use crate::measure::{CaseResult, KernelResult};
use crate::statistics::Times;
use crate::statistics::doubts;
use rowloom::internal::matrix::Dtype;
use rowloom::internal::runtime::TimeParts;

/// The definition of the bytes in every rate and roofline.
pub const BYTE_MODEL: &str = "compulsory: A once, the rows of X that are used once, Y once";

/// The reason for a missing ratio: the result was not checked.
const UNVERIFIED_Y: &str = "Y was not verified";
/// The reason for a missing ratio: the check of the result failed.
const WRONG_Y: &str = "Y is wrong";

/// The kind of a measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measured {
    /// A whole product, as planned and run.
    #[default]
    Run,
    /// A kernel alone.
    Kernel,
    /// A kernel of another library alone.
    Peer,
    /// A conversion between formats.
    Conversion,
    /// A whole solve by block power iteration.
    #[serde(rename = "power_iteration")]
    PowerIteration,
    /// A whole solve by Chebyshev-filtered subspace iteration.
    #[serde(rename = "subspace_iteration")]
    SubspaceIteration,
    /// A product on vectors that stay on simulated devices.
    Vectors,
    /// A dense product, as planned and run.
    Gemm,
    /// Sums of columns, as planned and run.
    Colmean,
    /// Copies between the memories of host and device.
    Transfers,
}

impl Measured {
    /// The kind of the results of a subject.
    pub fn of(subject: Subject) -> Self {
        match subject {
            Subject::Run => Self::Run,
            Subject::Kernel => Self::Kernel,
            Subject::Conversion => Self::Conversion,
            Subject::PowerIteration => Self::PowerIteration,
            Subject::SubspaceIteration => Self::SubspaceIteration,
            Subject::Vectors => Self::Vectors,
            Subject::Gemm => Self::Gemm,
            Subject::Colmean => Self::Colmean,
            Subject::Transfers => Self::Transfers,
        }
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Kernel => "kernel",
            Self::Peer => "peer",
            Self::Conversion => "conversion",
            Self::PowerIteration => "power_iteration",
            Self::SubspaceIteration => "subspace_iteration",
            Self::Vectors => "vectors",
            Self::Gemm => "gemm",
            Self::Colmean => "colmean",
            Self::Transfers => "transfers",
        }
    }
}

/// One result. Fields that do not apply are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The sweep of a study it belongs to.
    pub sweep: String,
    /// The kind of the measurement.
    pub measured: Measured,
    /// The matrix.
    pub matrix: MatrixFacts,
    /// The precision.
    pub dtype: Option<Dtype>,
    /// Columns of X.
    pub k: Option<usize>,
    /// The devices as given.
    pub devices: String,
    /// The number of devices that compute.
    pub device_count: usize,
    /// CPU threads that the case may use; of each rank, over ranks.
    pub threads: usize,
    /// The number of ranks; `None` in one process without MPI.
    #[serde(default)]
    pub ranks: Option<usize>,
    /// The kernel, the peer's algorithm, or the conversion.
    pub kernel: String,
    /// The kernels that the planner chose for a run.
    pub chosen: Option<String>,
    /// The mode: resident, oneshot or stream.
    pub mode: Option<String>,
    /// The schedule of rows over CPU threads.
    pub schedule: Option<String>,
    /// The requested bytes of A in a chunk.
    pub chunk_bytes: Option<u64>,
    /// The number of chunks in the plan.
    pub chunks: Option<usize>,
    /// The requested CPU share.
    pub cpu_share: Option<f64>,
    /// The requested transfer: staged or registered.
    pub transfer: Option<String>,
    /// Whether the run was simulated.
    pub simulated: bool,
    /// Its times, in seconds: of a product, a kernel, a conversion or a whole solve.
    pub times: Times,
    /// The predicted time.
    pub predicted_s: Option<f64>,
    /// Floating-point operations; of a solve, those of its products.
    pub flops: Option<f64>,
    /// Compulsory bytes, as [`BYTE_MODEL`] defines them.
    pub bytes: Option<u64>,
    /// Bandwidth of the device's memory.
    pub memory_gb_per_s: Option<f64>,
    /// Peak arithmetic rate of the device.
    pub peak_gflops: Option<f64>,
    /// The time of the default kernel of the CPU on one thread, where it was measured for the speed-up only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_thread_s: Option<f64>,
    /// Speed-up over the baseline; of a conversion, over its serial version.
    pub speedup: Option<f64>,
    /// The baseline of the speed-up.
    #[serde(default)]
    pub speedup_over: Option<String>,
    /// Speed-up over the fastest peer that was measured with it.
    #[serde(default)]
    pub peer_speedup: Option<f64>,
    /// That peer.
    #[serde(default)]
    pub fastest_peer: Option<String>,
    /// The share of copying or computing, whichever is shorter, that is hidden behind the other.
    pub hidden_fraction: Option<f64>,
    /// The share of the devices' time in which they were idle.
    pub idle_fraction: Option<f64>,
    /// Bytes copied to the devices.
    pub to_device_bytes: Option<u64>,
    /// Bytes copied from the devices.
    pub from_device_bytes: Option<u64>,
    /// The parts of the simulated time of a product on vectors.
    #[serde(default)]
    pub time_parts: Option<TimeParts>,
    /// The check of the result; `None` if it was not checked.
    ///
    /// Without a right result there are no rates, ratios and ranks, only times: see [`Record::is_verified`].
    pub checked: Option<Checked>,
    /// The reason why there are no times.
    pub reason: Option<String>,
    /// Reasons to doubt the times.
    pub doubts: Vec<String>,
}

impl Record {
    /// CPU threads that it uses: serial kernels and SciPy use one, whatever their case has.
    pub fn used_threads(&self) -> usize {
        let is_serial = self.kernel.starts_with("serial_") || self.kernel.ends_with(" on 1 thread");
        if is_serial { 1 } else { self.threads }
    }

    /// Whether the result was checked in the run that measured it, and is right. Simulations and copies compute no result.
    pub fn is_verified(&self) -> bool {
        match self.checked {
            Some(checked) => checked.passed,
            None => self.simulated || self.measured == Measured::Transfers,
        }
    }

    /// Why there are times and no rates, ratios and ranks.
    pub fn unverified_reason(&self) -> Option<&'static str> {
        match self.checked {
            _ if self.times.median.is_none() || self.is_verified() => None,
            Some(_) => Some(WRONG_Y),
            None => Some(UNVERIFIED_Y),
        }
    }

    /// The median time of a verified result.
    pub fn verified_s(&self) -> Option<f64> {
        self.times.median.filter(|_| self.is_verified())
    }

    /// The rate at the median time.
    pub fn gflops(&self) -> Option<f64> {
        Some(self.flops? / self.verified_s().filter(|&median| median > 0.0)? * 1e-9)
    }

    /// The mean of the rates of all samples.
    pub fn mean_gflops(&self) -> Option<f64> {
        self.each_gflops().and_then(|times| times.mean)
    }

    /// Statistics of the rate of each sample.
    pub fn each_gflops(&self) -> Option<Times> {
        let flops = self.flops.filter(|_| self.is_verified())?;
        let positive = self.times.samples.iter().filter(|&&seconds| seconds > 0.0);
        Some(Times::new(&positive.map(|seconds| flops / seconds * 1e-9).collect::<Vec<_>>()))
    }

    /// The bandwidth of the compulsory bytes at the median time.
    pub fn gb_per_s(&self) -> Option<f64> {
        Some(self.bytes? as f64 / self.verified_s().filter(|&median| median > 0.0)? * 1e-9)
    }

    /// The share of the roofline: the lower bound of the time by memory and arithmetic, over the median time.
    pub fn roofline_fraction(&self) -> Option<f64> {
        let memory_s = self.bytes? as f64 / (self.memory_gb_per_s? * 1e9);
        let compute_s = self.peak_gflops.zip(self.flops).map_or(0.0, |(peak, flops)| flops / (peak * 1e9));
        Some(memory_s.max(compute_s) / self.verified_s().filter(|&median| median > 0.0)?)
    }

    /// The hidden fraction of a verified result.
    pub fn verified_hidden_fraction(&self) -> Option<f64> {
        self.hidden_fraction.filter(|_| self.is_verified())
    }

    /// The idle fraction of a verified result.
    pub fn verified_idle_fraction(&self) -> Option<f64> {
        self.idle_fraction.filter(|_| self.is_verified())
    }

    /// Whether the check found a wrong result.
    pub fn is_wrong(&self) -> bool {
        self.checked.is_some_and(|checked| !checked.passed)
    }
}

/// One record for each kernel and peer of a case.
pub fn records_of(case: &CaseResult) -> Vec<Record> {
    let base = Record {
        measured: Measured::Kernel,
        matrix: case.facts.clone(),
        dtype: Some(case.dtype),
        k: Some(case.k),
        devices: case.device.clone(),
        device_count: 1,
        threads: case.threads,
        flops: Some(case.flops),
        bytes: Some(case.compulsory_bytes),
        memory_gb_per_s: Some(case.memory_gb_per_s),
        peak_gflops: case.peak_gflops,
        one_thread_s: case.one_thread.as_ref().and_then(KernelResult::seconds),
        ..Record::default()
    };
    let kernel = |kernel: &KernelResult| Record {
        kernel: kernel.kernel.clone(),
        doubts: doubts(&kernel.times),
        times: kernel.times.clone(),
        checked: kernel.checked,
        reason: kernel.reason.clone(),
        ..base.clone()
    };
    let mut records: Vec<Record> = case.kernels.iter().map(kernel).collect();
    records.extend(case.peers.iter().map(|peer| Record {
        measured: Measured::Peer,
        kernel: peer.name(),
        doubts: doubts(&peer.times),
        times: peer.times.clone(),
        checked: peer.checked,
        ..base.clone()
    }));
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kernel: &str, seconds: f64, k: usize) -> Record {
        Record {
            kernel: kernel.into(),
            measured: Measured::Kernel,
            k: Some(k),
            times: Times::new(&[seconds]),
            checked: Some(Checked::weighed(0)),
            flops: Some(1e9),
            bytes: Some(2_000_000_000),
            memory_gb_per_s: Some(4.0),
            ..Record::default()
        }
    }

    #[test]
    fn rates_follow_from_the_median() {
        let record = record("cpu_csr", 2.0, 1);
        assert_eq!((record.gflops(), record.gb_per_s()), (Some(0.5), Some(1.0)));
        assert_eq!(record.roofline_fraction(), Some(0.25));
        let bound = Record { peak_gflops: Some(1.0), ..record };
        assert_eq!(bound.roofline_fraction(), Some(0.5), "arithmetic is the lower bound");
        assert_eq!(Record::default().gflops(), None);
    }

    #[test]
    fn without_a_verified_result_there_is_no_rate() {
        let right = record("cpu_csr", 2.0, 1);
        for checked in [None, Some(Checked::weighed(1))] {
            let other =
                Record { checked, hidden_fraction: Some(0.5), idle_fraction: Some(0.5), ..right.clone() };
            assert_eq!((other.gflops(), other.gb_per_s(), other.roofline_fraction()), (None, None, None));
            assert_eq!((other.mean_gflops(), other.verified_s()), (None, None));
            assert_eq!((other.verified_hidden_fraction(), other.verified_idle_fraction()), (None, None));
            let reason = if checked.is_some() { WRONG_Y } else { UNVERIFIED_Y };
            assert_eq!(other.unverified_reason(), Some(reason));
        }
        assert_eq!(right.unverified_reason(), None);
        let simulated = Record { checked: None, simulated: true, ..right };
        assert_eq!((simulated.gflops(), simulated.unverified_reason()), (Some(0.5), None), "a prediction");
    }
}
