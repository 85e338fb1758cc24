//! The time of one kernel on one device: a few constants and what the rows look like.
//!
//! A kernel moves the bytes of A and Y once, reads rows of X from a cache or from memory, walks through its items, and is not
//! done before its longest item is. The first three go on side by side, so the longest of them counts.

use serde::{Deserialize, Serialize};

use super::form::Form;
use super::profile::{Load, Profile, seconds};
use crate::kernel::KernelId;
use crate::kernel::cuda::Variant;
use crate::kernel::order::SEGMENT;
use crate::matrix::Dtype;
use crate::work::Features;

/// Constants of one kernel on one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRates {
    /// Time of a launch that has next to nothing to do.
    pub start_us: f64,
    /// Rate at which A is read and Y is written.
    pub stream_gb_per_s: f64,
    /// Rate at which rows of X are read from a cache.
    pub gather_gb_per_s: f64,
    /// Rate at which rows of X are read from memory.
    pub far_gather_gb_per_s: f64,
    /// Time of an item beside its bytes, all items sharing the device.
    pub item_ns: f64,
    /// Time of one step in the longest item.
    pub step_ns: f64,
}

/// By how much a kernel was found to be slower than its constants say; less than 1 where it is faster.
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

/// What a form makes of rows: items that are shared out, and the longest chain of steps within one.
struct Items {
    count: f64,
    longest: f64,
}

impl KernelRates {
    /// How many constants there are.
    pub(super) const NUMBERS: usize = 6;

    /// The constants, to be changed one by one.
    pub(super) fn numbers_mut(&mut self) -> [&mut f64; Self::NUMBERS] {
        let Self { start_us, stream_gb_per_s, gather_gb_per_s, far_gather_gb_per_s, item_ns, step_ns } = self;
        [start_us, stream_gb_per_s, gather_gb_per_s, far_gather_gb_per_s, item_ns, step_ns]
    }

    /// Seconds on `device` for rows that look like this.
    pub(super) fn seconds(
        &self,
        device: &Profile,
        form: &Form,
        features: &Features,
        load: &Load,
        dtype: Dtype,
    ) -> f64 {
        let items = Items::of(form, features);
        let a_and_y_s = seconds(stored_bytes(form, features, load, dtype), self.stream_gb_per_s);
        let shared = match form.kernel {
            KernelId::RowGroups | KernelId::RowGroupsCut => features.locality.group_columns,
            _ => 1.0,
        };
        let read = load.gathered_bytes as f64 * shared;
        let far_share = far_share(device, features, load);
        let near_s = read * (1.0 - far_share) / (self.gather_gb_per_s * 1e9).max(1.0);
        let far_s = read * far_share / (self.far_gather_gb_per_s * 1e9).max(1.0);
        let walked_s = items.count * self.item_ns * 1e-9;
        let chain_s = items.longest * self.step_ns * 1e-9;
        self.start_us * 1e-6 + a_and_y_s.max(near_s + far_s) + walked_s + chain_s
    }
}

/// Bytes of A as the form has it, and of Y.
fn stored_bytes(form: &Form, features: &Features, load: &Load, dtype: Dtype) -> u64 {
    let (nnz, value) = (features.nnz as f64, dtype.bytes() as f64);
    let entry = 4.0 + value;
    let more = match form.kernel {
        KernelId::Sell | KernelId::CpuSell => nnz * entry * (1.0 / features.slice_fill.max(1e-3) - 1.0),
        KernelId::CpuEllPadded => nnz * entry * (1.0 / features.ell_fill.max(1e-3) - 1.0),
        // Columns once for a group, with a mask and an offset for every eight.
        KernelId::RowGroups | KernelId::RowGroupsCut => nnz * (5.5 * features.locality.group_columns - 4.0),
        _ => 0.0,
    };
    (load.compulsory_bytes as f64 + more).max(0.0) as u64
}

/// Share of the reads of X that no cache serves.
fn far_share(device: &Profile, features: &Features, load: &Load) -> f64 {
    if load.x_bytes <= device.cache_bytes {
        return 0.0;
    }
    features.locality.panel_columns
}

impl Items {
    fn of(form: &Form, features: &Features) -> Self {
        let (rows, nnz, max) = (features.rows as f64, features.nnz as f64, features.max as f64);
        let Variant { ways, rows: group, piece, .. } = form.variant;
        let (ways, group, piece) = (f64::from(ways.max(1)), f64::from(group.max(1)), f64::from(piece));
        match form.kernel {
            KernelId::CsrWays => Self { count: rows, longest: max / ways },
            KernelId::CsrRuns => {
                // Runs end at a row's end, so they are filled to about three quarters.
                let runs = (nnz / (0.75 * piece).max(1.0)).max(rows / piece.max(1.0)).min(rows);
                Self { count: runs, longest: max.min(SEGMENT as f64).max(piece.min(nnz)) }
            }
            KernelId::CsrPieces => {
                Self { count: rows + nnz / piece.max(1.0), longest: max.min(piece) / ways }
            }
            KernelId::RowGroups => Self { count: rows / group, longest: max * group },
            KernelId::RowGroupsCut => {
                Self { count: rows / group + nnz / piece.max(1.0), longest: (max * group).min(piece) / ways }
            }
            _ => Self { count: rows, longest: max },
        }
    }
}
