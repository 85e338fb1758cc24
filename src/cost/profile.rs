//! Rates of a device, of its link and of the host, and the times computed from them.
//!
//! Times are in seconds. A rate of zero or less would give an infinite or negative time; it counts as one byte per second, so
//! that an invalid description gives a bad plan and not a crash.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::form::Form;
use crate::kernel::cuda::CudaKernel;
use crate::kernel::cuda::Variant;
use crate::kernel::{KernelId, Processor};
use crate::matrix::Dtype;

/// The rates and properties of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name of its kind: `cpu`, `emulated`, or a card's.
    pub name: String,
    /// The kind of kernels that it runs.
    pub processor: Processor,
    /// Bytes of its memory; for a CPU the host's.
    pub memory_bytes: u64,
    /// Bandwidth of sequential reads and writes of its memory.
    pub stream_gb_per_s: f64,
    /// Bandwidth of gathering rows of X that are in its cache.
    pub gather_gb_per_s: f64,
    /// Bandwidth of gathering rows of X from its memory.
    pub far_gather_gb_per_s: f64,
    /// Bytes of X that its last-level cache usefully holds.
    pub cache_bytes: u64,
    /// Time to launch a kernel or to start a job of the thread pool.
    pub launch_us: f64,
    /// Time per row, in addition to its bytes.
    pub row_ns: f64,
    /// Time per multiply-add, in addition to its bytes.
    pub product_ns: f64,
    /// Peak rate of arithmetic in double precision, without tensor cores, in GFLOP/s.
    #[serde(default = "unknown_gflop_per_s")]
    pub f64_gflop_per_s: f64,
    /// The same in single precision.
    #[serde(default = "unknown_gflop_per_s")]
    pub f32_gflop_per_s: f64,
    /// Whether the vendor's library for dense products is installed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cublas: bool,
    /// Whether kernels can be compiled at run time, in addition to the compiled-in ones.
    #[serde(default)]
    pub compiles: bool,
    /// Seconds to start the driver, once for all devices.
    #[serde(default)]
    pub driver_start_s: f64,
    /// Seconds to open the device: to create its context and streams.
    #[serde(default)]
    pub open_s: f64,
    /// Seconds to load a kernel that was compiled before.
    #[serde(default)]
    pub load_kernel_s: f64,
    /// Seconds to compile a plan's kernels on a machine that never ran them.
    #[serde(default)]
    pub first_compile_s: f64,
    /// Its link to the host's memory; `None` for a device that computes in the host's memory.
    pub link: Option<Link>,
    /// Weights by kernel shape; kernels without weights are predicted from the rates above.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, Vec<f64>>,
    /// The card whose measured cases correct the predictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<String>,
    /// Calibrated factors by shape: measured time on this machine over the prediction of the weights.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, f64>,
    /// Corrections from runs and `--tune`, applied last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
}

/// The rate of arithmetic of a device whose description has none.
fn unknown_gflop_per_s() -> f64 {
    100.0
}

/// A correction of a kernel's predicted time; a factor below 1 means that it is faster than predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// The kernel.
    pub kernel: KernelId,
    /// The variant that was measured; `None` for all variants.
    #[serde(default)]
    pub variant: Option<Variant>,
    /// Measured time over predicted time.
    pub factor: f64,
}

/// A link between the host's memory and a device's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Time before the first byte arrives.
    pub latency_us: f64,
    /// Bandwidth to the device.
    pub to_device_gb_per_s: f64,
    /// Bandwidth from the device.
    pub from_device_gb_per_s: f64,
    /// Combined bandwidth with both directions busy.
    pub both_gb_per_s: f64,
    /// Bandwidth of the links to other GPUs of the machine, per direction, for all other GPUs together; without it copies between GPUs
    /// use the link to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_gb_per_s: Option<f64>,
    /// Seconds to register (page-lock) a gigabyte of the host's memory, which the device then copies without staging; `None` where
    /// the device cannot.
    #[serde(default)]
    pub register_s_per_gb: Option<f64>,
}

impl Link {
    /// Bandwidth of a copy from another GPU of the machine.
    pub fn peer_copy_gb_per_s(&self) -> f64 {
        self.peer_gb_per_s.unwrap_or(self.to_device_gb_per_s)
    }
}

/// Rates of the host's memory, shared by all devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRates {
    /// Number of cores.
    pub cores: u32,
    /// Bandwidth of reads and writes together.
    pub memory_gb_per_s: f64,
    /// Bandwidth of copies into page-locked memory.
    pub copy_gb_per_s: f64,
}

/// The work of a kernel, in rows, entries of A and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Rows of Y.
    pub rows: u64,
    /// Entries of A.
    pub entries: u64,
    /// Columns of X.
    pub k: u64,
    /// Bytes of A and Y, each moved once.
    pub compulsory_bytes: u64,
    /// Bytes of X with one fetch for each entry of A.
    pub gathered_bytes: u64,
    /// Bytes of the range of X that the columns span.
    pub x_bytes: u64,
}

impl Load {
    /// Bytes between memory and processor, if the cache keeps X while it is used.
    pub fn moved_bytes(&self) -> u64 {
        self.compulsory_bytes.saturating_add(self.x_bytes.min(self.gathered_bytes))
    }
}

/// Seconds to move `bytes` at a bandwidth.
pub(super) fn seconds(bytes: u64, gb_per_s: f64) -> f64 {
    bytes as f64 / (gb_per_s * 1e9).max(1.0)
}

impl Profile {
    /// Predicted seconds of a kernel without weights, with the device otherwise idle.
    pub fn kernel_s(&self, load: &Load) -> f64 {
        if load.rows == 0 {
            return 0.0;
        }
        let gather =
            if load.x_bytes <= self.cache_bytes { self.gather_gb_per_s } else { self.far_gather_gb_per_s };
        let moved = seconds(load.compulsory_bytes, self.stream_gb_per_s);
        let gathered = seconds(load.gathered_bytes, gather);
        let steps = load.entries as f64 * load.k as f64 * self.product_ns + load.rows as f64 * self.row_ns;
        self.launch_us * 1e-6 + moved.max(gathered) + steps * 1e-9
    }

    /// Peak rate of arithmetic, in GFLOP/s.
    pub fn gflop_per_s(&self, dtype: Dtype) -> f64 {
        match dtype {
            Dtype::F64 => self.f64_gflop_per_s,
            Dtype::F32 => self.f32_gflop_per_s,
        }
    }

    /// Seconds of `flops` floating-point operations at `efficiency` times the peak rate.
    pub fn arithmetic_s(&self, flops: f64, efficiency: f64, dtype: Dtype) -> f64 {
        flops / (self.gflop_per_s(dtype) * 1e9 * efficiency).max(1.0)
    }

    /// The same device with all of its times multiplied by `factor`; below 1 it is faster.
    pub fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        let rates =
            [&mut scaled.stream_gb_per_s, &mut scaled.gather_gb_per_s, &mut scaled.far_gather_gb_per_s];
        rates.into_iter().for_each(|rate| *rate /= factor);
        (scaled.f64_gflop_per_s, scaled.f32_gflop_per_s) =
            (self.f64_gflop_per_s / factor, self.f32_gflop_per_s / factor);
        scaled.product_ns *= factor;
        scaled.row_ns *= factor;
        scaled.launch_us *= factor;
        if let Some(link) = &mut scaled.link {
            let rates =
                [&mut link.to_device_gb_per_s, &mut link.from_device_gb_per_s, &mut link.both_gb_per_s];
            rates.into_iter().for_each(|rate| *rate /= factor);
        }
        scaled
    }

    /// The correction factor of a form: its own, else its kernel's, else 1.
    pub fn correction(&self, form: &Form) -> f64 {
        let of = |variant| {
            let mut known = self.corrections.iter();
            known.find(|known| known.kernel == form.kernel && known.variant == variant)
        };
        of(Some(form.variant)).or_else(|| of(None)).map_or(1.0, |known| known.factor)
    }

    /// Seconds to copy bytes to the device.
    pub fn upload_s(&self, bytes: u64) -> f64 {
        self.link
            .as_ref()
            .map_or(0.0, |link| link.latency_us * 1e-6 + seconds(bytes, link.to_device_gb_per_s))
    }

    /// How many times longer a copy takes while the link is busy in the other direction too: 1 for a full-duplex link, 2 where
    /// both directions share the bandwidth of one.
    pub fn duplex_factor(&self) -> f64 {
        self.link.as_ref().map_or(1.0, |link| {
            let alone = link.to_device_gb_per_s + link.from_device_gb_per_s;
            (alone / link.both_gb_per_s.max(1e-9)).clamp(1.0, 2.0)
        })
    }

    /// The least seconds of copies in both directions, of which those to the device take `upload_s` alone and those from it
    /// `download_s`.
    pub fn duplex_s(&self, upload_s: f64, download_s: f64) -> f64 {
        upload_s.max(download_s) + (self.duplex_factor() - 1.0) * upload_s.min(download_s)
    }

    /// Seconds to copy bytes from the device.
    pub fn download_s(&self, bytes: u64) -> f64 {
        self.link
            .as_ref()
            .map_or(0.0, |link| link.latency_us * 1e-6 + seconds(bytes, link.from_device_gb_per_s))
    }
}

/// Valid bandwidths in GB/s.
pub const VALID_RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

impl HostRates {
    /// Whether the number of cores and both bandwidths are in their valid ranges.
    pub fn is_valid(&self) -> bool {
        self.cores > 0
            && [self.memory_gb_per_s, self.copy_gb_per_s].iter().all(|rate| VALID_RATES.contains(rate))
    }

    /// Seconds to copy bytes within the host's memory.
    pub fn copy_s(&self, bytes: u64) -> f64 {
        seconds(bytes, self.copy_gb_per_s)
    }

    /// Seconds to read or write bytes of the host's memory.
    pub fn memory_s(&self, bytes: u64) -> f64 {
        seconds(bytes, self.memory_gb_per_s)
    }
}

impl Form {
    /// Whether a GPU can run it with `k` columns.
    pub fn is_available(&self, device: &Profile, dtype: Dtype, k: u64) -> bool {
        let Ok(kernel) = CudaKernel::of(self.kernel) else {
            let is_installed = self.kernel != KernelId::Cublas || device.cublas;
            return is_installed && self.processor() == Processor::Gpu && self.variant == Variant::PLAIN;
        };
        let built_in = kernel.forms(dtype, k, false).contains(&self.variant)
            || kernel.variants_for(dtype, k).any(|form| *form == self.variant);
        let compiled = || kernel.forms(dtype, k, true).contains(&self.variant);
        built_in || (device.compiles && compiled())
    }
}

#[cfg(test)]
mod tests {
    use crate::cost::preset;

    #[test]
    fn copies_in_both_directions_move_at_most_the_combined_bandwidth() {
        let mut profile = preset("h200").unwrap().gpus.remove(0);
        let bytes = 1 << 30;
        let seconds = |rate: f64| bytes as f64 / (rate * 1e9);
        let link = profile.link.clone().unwrap();
        let (up_s, down_s) = (seconds(link.to_device_gb_per_s), seconds(link.from_device_gb_per_s));
        let together_s = profile.duplex_s(up_s, down_s);
        assert!((together_s / (2.0 * seconds(link.both_gb_per_s)) - 1.0).abs() < 0.01, "{together_s}");
        assert_eq!(profile.duplex_s(up_s, 0.0), up_s);
        for (both, expected_s) in [(1e6, up_s.max(down_s)), (1.0, up_s + down_s)] {
            profile.link.as_mut().unwrap().both_gb_per_s = both;
            assert!((profile.duplex_s(up_s, down_s) - expected_s).abs() < 1e-12, "{both}");
        }
    }
}
