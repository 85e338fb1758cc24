//! The launch of a kernel on stored rows of A: each of its parameters gets its number or its memory.

use super::operation::{Argument, Launch, MemoryRange};
use crate::error::{Error, Result};
use crate::kernel::cuda::{CudaKernel, Grid, Parameter, Variant};
use crate::matrix::Dtype;
use crate::work::Storage;

/// Where the operands of a product lie on a device, and how.
#[derive(Debug, Clone, Copy)]
pub struct Operands {
    /// The precision.
    pub dtype: Dtype,
    /// Columns of X and Y.
    pub k: u64,
    /// A, as its storage says.
    pub a: MemoryRange,
    /// Whether all values of the whole matrix are equal.
    pub uniform: bool,
    /// X, where it lies by rows.
    pub x: Option<MemoryRange>,
    /// X, where it lies by columns.
    pub x_transposed: Option<MemoryRange>,
    /// Elements from one row of X, or one column of the transposed, to the next.
    pub ldx: u64,
    /// The rows of Y that the stored rows give.
    pub y: MemoryRange,
    /// Elements from one row of Y to the next, and from one partial row to the next.
    pub ldy: u64,
    /// Room for partial rows, as many as the storage asks for.
    pub scratch: MemoryRange,
}

impl Operands {
    /// One launch of a form of a kernel.
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
            _ => None,
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
        let argument = |parameter: &Parameter| {
            let name = parameter.name();
            let unknown =
                || Error::Internal(format!("{} takes {name}, which no launch has", kernel.id.name()));
            let range = || memory(name).ok_or_else(unknown);
            Ok(match parameter {
                Parameter::Number(_) => Argument::Number(number(name).ok_or_else(unknown)?),
                Parameter::Read(_) => Argument::Read(range()?),
                Parameter::Write(_) => Argument::Write(range()?),
                Parameter::Update(_) => Argument::Update(range()?),
            })
        };
        let arguments = kernel.parameters.iter().map(argument).collect::<Result<_>>()?;
        // Empty rows have no value to read, whatever the matrix has.
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
