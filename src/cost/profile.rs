//! Rates of a device, of its link and of the host, and the times that follow from them.
//!
//! Times are in seconds. A rate of zero or less would make a time infinite or negative; it counts as one byte a second,
//! so that a damaged description gives a bad plan and not a crash.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::form::Form;
use crate::kernel::cuda::Variant;
use crate::kernel::{KernelId, Processor};
use crate::matrix::Dtype;
use crate::work::Features;

/// What a device can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name in plans.
    pub name: String,
    /// What kernels it takes.
    pub processor: Processor,
    /// Bytes of its own memory; for a CPU the host's.
    pub memory_bytes: u64,
    /// Rate at which it reads and writes its memory in order.
    pub stream_gb_per_s: f64,
    /// Rate at which rows of X are fetched while X stays in its cache.
    pub gather_gb_per_s: f64,
    /// Rate at which rows of X are fetched from its memory.
    pub far_gather_gb_per_s: f64,
    /// How much of X its last cache usefully holds.
    pub cache_bytes: u64,
    /// Time to start a kernel or a job.
    pub launch_us: f64,
    /// Time of a row beside its bytes.
    pub row_ns: f64,
    /// Time of a multiplication and addition beside its bytes.
    pub product_ns: f64,
    /// Whether it makes forms of kernels that are not built in.
    #[serde(default)]
    pub compiles: bool,
    /// How it is reached from the host's memory; none where it computes there.
    pub link: Option<Link>,
    /// Weights of the kernels' shapes; kernels without any are taken to reach the rates above.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, Vec<f64>>,
    /// The card whose measured cases predictions are drawn towards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<String>,
    /// By how much shapes were measured to be slower or faster on this very machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, f64>,
    /// By how much kernels were found to be slower or faster than all that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
}

/// By how much a kernel was found to be slower than its weights say; less than 1 where it is faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// The kernel.
    pub kernel: KernelId,
    /// The form that was measured; none where it is true of all.
    #[serde(default)]
    pub variant: Option<Variant>,
    /// Measured over predicted.
    pub factor: f64,
}

/// A link between the host's memory and a device's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Time before the first byte moves.
    pub latency_us: f64,
    /// Rate to the device.
    pub to_device_gb_per_s: f64,
    /// Rate from the device.
    pub from_device_gb_per_s: f64,
    /// Rate of both directions together when both are busy.
    pub both_gb_per_s: f64,
    /// Seconds to register a gigabyte of the host's memory, so that it crosses from where it lies; none where that cannot
    /// be done.
    #[serde(default)]
    pub register_s_per_gb: Option<f64>,
}

/// What the host's memory can do for everybody together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRates {
    /// Cores.
    pub cores: u32,
    /// Bytes read and written.
    pub memory_gb_per_s: f64,
    /// Bytes copied into pinned memory by all cores.
    pub copy_gb_per_s: f64,
}

/// What a kernel has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Rows it computes.
    pub rows: u64,
    /// Nonzeros it multiplies.
    pub nnz: u64,
    /// Columns of X.
    pub k: u64,
    /// Bytes of A and Y that must move once.
    pub compulsory_bytes: u64,
    /// Bytes of X that are fetched, each time they are used.
    pub gathered_bytes: u64,
    /// Bytes of X that are within reach.
    pub x_bytes: u64,
}

impl Load {
    /// Of rows that look like this.
    pub fn of(features: &Features, k: u64, dtype: Dtype) -> Self {
        let value = dtype.bytes() as u64;
        let row_bytes = k.saturating_mul(value);
        let a_bytes = (features.rows + 1) * 8 + features.nnz * (4 + value);
        Self {
            rows: features.rows,
            nnz: features.nnz,
            k,
            compulsory_bytes: a_bytes.saturating_add(features.rows.saturating_mul(row_bytes)),
            gathered_bytes: features.nnz.saturating_mul(row_bytes),
            x_bytes: features.end_column.saturating_sub(features.first_column).saturating_mul(row_bytes),
        }
    }

    /// Bytes that move between memory and a processor whose cache keeps X while it is used.
    pub fn moved_bytes(&self) -> u64 {
        self.compulsory_bytes.saturating_add(self.x_bytes.min(self.gathered_bytes))
    }
}

/// Seconds for `bytes` at a rate.
pub(super) fn seconds(bytes: u64, gb_per_s: f64) -> f64 {
    bytes as f64 / (gb_per_s * 1e9).max(1.0)
}

impl Profile {
    /// Seconds of a kernel that has the device to itself.
    pub fn kernel_s(&self, load: &Load) -> f64 {
        if load.rows == 0 {
            return 0.0;
        }
        let gather =
            if load.x_bytes <= self.cache_bytes { self.gather_gb_per_s } else { self.far_gather_gb_per_s };
        let moved = seconds(load.compulsory_bytes, self.stream_gb_per_s);
        let gathered = seconds(load.gathered_bytes, gather);
        let steps = load.nnz as f64 * load.k as f64 * self.product_ns + load.rows as f64 * self.row_ns;
        self.launch_us * 1e-6 + moved.max(gathered) + steps * 1e-9
    }

    /// The same device, so many times slower in everything.
    pub fn slowed(&self, factor: f64) -> Self {
        let mut slowed = self.clone();
        let rates =
            [&mut slowed.stream_gb_per_s, &mut slowed.gather_gb_per_s, &mut slowed.far_gather_gb_per_s];
        rates.into_iter().for_each(|rate| *rate /= factor);
        slowed.product_ns *= factor;
        slowed.row_ns *= factor;
        slowed.launch_us *= factor;
        if let Some(link) = &mut slowed.link {
            let rates =
                [&mut link.to_device_gb_per_s, &mut link.from_device_gb_per_s, &mut link.both_gb_per_s];
            rates.into_iter().for_each(|rate| *rate /= factor);
        }
        slowed
    }

    /// By how much a form was found to be slower or faster; what is known of the form itself counts before what is known of
    /// its kernel.
    pub fn correction(&self, form: &Form) -> f64 {
        let of = |variant| {
            let mut known = self.corrections.iter();
            known.find(|known| known.kernel == form.kernel && known.variant == variant)
        };
        of(Some(form.variant)).or_else(|| of(None)).map_or(1.0, |known| known.factor)
    }

    /// Seconds to bring bytes to the device.
    pub fn upload_s(&self, bytes: u64) -> f64 {
        self.link
            .as_ref()
            .map_or(0.0, |link| link.latency_us * 1e-6 + seconds(bytes, link.to_device_gb_per_s))
    }

    /// Seconds to bring bytes back.
    pub fn download_s(&self, bytes: u64) -> f64 {
        self.link
            .as_ref()
            .map_or(0.0, |link| link.latency_us * 1e-6 + seconds(bytes, link.from_device_gb_per_s))
    }
}

impl HostRates {
    /// Seconds to copy bytes within the host's memory.
    pub fn copy_s(&self, bytes: u64) -> f64 {
        seconds(bytes, self.copy_gb_per_s)
    }

    /// Seconds in which so many bytes can be read from or written to the host's memory.
    pub fn memory_s(&self, bytes: u64) -> f64 {
        seconds(bytes, self.memory_gb_per_s)
    }
}
