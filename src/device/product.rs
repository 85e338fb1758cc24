//! Builds the launch of a kernel on stored rows of A: binds each parameter to a number or a memory range.

use super::host_transfer::MemoryRange;
use super::launch::{Argument, Launch};
use crate::error::{Error, Result};
use crate::kernel::cuda::{CudaKernel, Grid, Parameter, Variant};
use crate::kernel::scaling::{factor_bits, rounds_to_zero};
use crate::matrix::Dtype;
use crate::work::spmm::Storage;

/// The operands of a product in a device's memory.
#[derive(Debug, Clone, Copy)]
pub struct Operands {
    /// The precision.
    pub dtype: Dtype,
    /// Columns of X and Y.
    pub k: u64,
    /// A, in the layout of its [`Storage`].
    pub a: MemoryRange,
    /// Whether all values of the whole matrix are equal.
    pub uniform: bool,
    /// X, if it is stored row-major.
    pub x: Option<MemoryRange>,
    /// The part of a row-major X that the columns of A refer to; `None` if it is not known.
    pub x_part: Option<MemoryRange>,
    /// X, if it is stored column-major.
    pub x_transposed: Option<MemoryRange>,
    /// Leading dimension of X in elements: from one row to the next, or from one column to the next if column-major.
    pub ldx: u64,
    /// The factors of `Y = alpha A X + beta Y`, as [`scaling`](crate::kernel::scaling) defines it.
    pub alpha: f64,
    /// See `alpha`.
    pub beta: f64,
    /// The rows of Y that correspond to the stored rows of A.
    pub y: MemoryRange,
    /// Leading dimension of Y and of partial rows, in elements.
    pub ldy: u64,
    /// Whether the padding of the rows of Y must be defined afterwards. Kernels without lanes over the columns do not write it, so
    /// that it must have values before, which are kept.
    pub keeps_padding: bool,
    /// Scratch memory for the partial rows that the storage needs.
    pub scratch: MemoryRange,
}

impl Operands {
    /// Whether the old Y has an effect: beta, rounded to the kernel's precision, is not zero.
    pub fn reads_old_y(&self) -> bool {
        !rounds_to_zero(self.dtype, self.beta)
    }

    /// A launch of `kernel` in `variant` on these operands.
    pub fn launch(&self, kernel: &CudaKernel, variant: Variant, storage: &Storage) -> Result<Launch> {
        let number = |name: &str| match name {
            "rows" => Some(storage.rows),
            "items" => Some(storage.items),
            "heavy" => Some(storage.heavy),
            "longest" => Some(storage.grid_items().longest()),
            "width" => Some(storage.width),
            "narrow" => Some(storage.is_narrow().into()),
            "k" => Some(self.k),
            "ldx" => Some(self.ldx),
            "ldy" => Some(self.ldy),
            "alpha" => Some(factor_bits(self.dtype, self.alpha)),
            "beta" => Some(factor_bits(self.dtype, self.beta)),
            _ => storage.packed_number(name),
        };
        let memory = |name: &str| match name {
            "x" => self.x,
            "x_transposed" => self.x_transposed,
            "y" => Some(self.y),
            "scratch" => Some(self.scratch),
            _ => storage.array(name).map(|range| MemoryRange {
                begin: self.a.begin + range.start,
                end: self.a.begin + range.end,
                ..self.a
            }),
        };
        let keeps_padding = self.keeps_padding && self.k < self.ldy && !kernel.has_lanes();
        let argument = |parameter: &Parameter| {
            let name = parameter.name();
            let unknown = || {
                Error::Internal(format!(
                    "{} has a parameter {name}, which no launch can bind",
                    kernel.id.name()
                ))
            };
            let range = || memory(name).ok_or_else(unknown);
            Ok(match parameter {
                Parameter::Number(_) => Argument::Number(number(name).ok_or_else(unknown)?),
                Parameter::Read("x") => match self.x_part {
                    Some(part) => Argument::ReadPart { whole: range()?, part },
                    None => Argument::Read(range()?),
                },
                Parameter::Read(_) => Argument::Read(range()?),
                Parameter::Write(_) => Argument::Write(range()?),
                Parameter::Modify(_) => Argument::Modify(range()?),
                Parameter::Result(_) if self.reads_old_y() || keeps_padding => Argument::Modify(range()?),
                Parameter::Result(_) => Argument::Write(range()?),
                Parameter::Update(_) => Argument::Update(range()?),
            })
        };
        let arguments = kernel.parameters.iter().map(argument).collect::<Result<_>>()?;
        // A chunk of empty rows has no value to read.
        let uniform = self.uniform && storage.array("values").is_some_and(|range| !range.is_empty());
        let (dtype, items, k) = (self.dtype, storage.grid_items(), self.k);
        let only_heavy = kernel.grid == Grid::TilesApart && items.heavy == items.count;
        Ok(Launch {
            kernel: kernel.id,
            dtype,
            variant,
            items,
            uniform,
            only_heavy,
            k,
            arguments,
            batch: None,
        })
    }
}
