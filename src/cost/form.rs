//! Forms: a kernel with its compile-time parameters, the unit of choice.

use serde::{Deserialize, Serialize};

use crate::kernel::cuda::{Constant, CudaKernel, Layout, Variant};
use crate::kernel::{KernelId, Order, Processor};
use crate::matrix::Dtype;

/// A kernel and, where it has several, one of its variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Form {
    /// The kernel.
    pub kernel: KernelId,
    /// Its variant; ignored for CPU kernels.
    pub variant: Variant,
}

/// What the storage of A on a GPU depends on: forms with the same one read the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredForm {
    /// The layout.
    pub layout: Layout,
    /// Maximal nonzeros of a piece of a row.
    pub piece: u32,
    /// Rows of a row group.
    pub rows: u32,
}

impl Form {
    /// The form of a CPU kernel.
    pub fn cpu(kernel: KernelId) -> Self {
        Self { kernel, variant: Variant::PLAIN }
    }

    /// The layout of A that it reads on a GPU.
    pub fn layout(&self) -> Layout {
        CudaKernel::of(self.kernel).map_or(Layout::Csr, |kernel| kernel.layout)
    }

    /// How it stores A on a GPU.
    pub fn stored(&self) -> StoredForm {
        StoredForm { layout: self.layout(), piece: self.variant.piece, rows: self.variant.rows }
    }

    /// Whether it reads A's own arrays, so that A can be copied without conversion. A list of its long rows may be copied beside them,
    /// values that are all equal may be left out, and arrays may be packed once.
    pub fn reads_a_unchanged(&self) -> bool {
        matches!(self.layout(), Layout::Csr | Layout::Cuts | Layout::Pattern | Layout::Packed)
    }

    /// The bytes of the values of `entries` nonzeros that it does not store, since all are equal.
    pub fn left_out_bytes(&self, entries: u64, dtype: Dtype) -> u64 {
        match self.layout() {
            Layout::Pattern => entries.saturating_mul(dtype.bytes() as u64),
            _ => 0,
        }
    }

    /// Whether it reads X stored by columns.
    pub fn transposes_x(&self) -> bool {
        CudaKernel::of(self.kernel).is_ok_and(CudaKernel::transposes_x)
    }

    /// The forms of `kernel` for `k` columns that a device can run: all that can be compiled where it `compiles`, else the
    /// compiled-in ones. Empty where the kernel supports fewer columns only.
    pub fn all(kernel: KernelId, dtype: Dtype, k: u64, compiles: bool) -> Vec<Self> {
        let form = |variant| Self { kernel, variant };
        match CudaKernel::of(kernel) {
            Ok(gpu) => gpu.forms(dtype, k, compiles).into_iter().map(form).collect(),
            Err(_) => vec![Self::cpu(kernel)],
        }
    }

    /// Its name: the kernel's, with the parameters that differ between its forms.
    pub fn name(&self) -> String {
        match CudaKernel::of(self.kernel) {
            Ok(gpu) if self.variant.piece > 0 && !gpu.constants.contains(&Constant::Piece) => {
                format!("{} p{}", gpu.variant_name(&self.variant), self.variant.piece)
            }
            Ok(gpu) => gpu.variant_name(&self.variant),
            Err(_) => self.kernel.name().into(),
        }
    }

    /// Whether its order of additions is canonical.
    pub fn is_canonical(&self) -> bool {
        self.kernel.info().order == Order::Canonical
    }

    /// The processor that it runs on.
    pub fn processor(&self) -> Processor {
        self.kernel.info().runs_on
    }
}

/// A chosen kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The kernel and its form.
    pub form: Form,
    /// Predicted seconds.
    pub predicted_s: f64,
    /// The reason, in words.
    pub reason: String,
}

/// A form and its shapes. They depend on the value type and K alone, so a plan finds them once for all of its chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The form.
    pub form: Form,
    /// Its shape; `None` where it has none of its own.
    pub shape: Option<&'static str>,
    /// Its shape, or else the nearest shape of the same kernel.
    pub nearest_shape: Option<&'static str>,
}
