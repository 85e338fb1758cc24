//! Rates of a device, of its link and of the host, and the times that follow from them.
//!
//! Times are in seconds. A rate of zero or less would make a time infinite or negative; it counts as one byte a second,
//! so that a damaged description gives a bad plan and not a crash.

use serde::{Deserialize, Serialize};

use crate::kernel::Processor;

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
    /// How it is reached from the host's memory; none where it computes there.
    pub link: Option<Link>,
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

/// Seconds for `bytes` at a rate.
fn seconds(bytes: u64, gb_per_s: f64) -> f64 {
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
