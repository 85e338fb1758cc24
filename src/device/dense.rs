//! Launches of kernels on dense matrices in a device's memory: products, and sums of columns.

use super::host_transfer::MemoryRange;
use super::launch::{Argument, EntryLaunch};
use super::operation::{LibraryGemm, Operation};
use super::vectors::DeviceRows;
use crate::error::{Error, Result};
use crate::kernel::cuda::{EntryPoint, Parameter};
use crate::kernel::scaling::rounds_to_zero;
use crate::kernel::{KernelId, colmean, gemm};
use crate::matrix::Dtype;

/// The value of a parameter.
enum Value {
    Number(u64),
    Memory(MemoryRange),
    /// Memory that is written and, if the flag is set, read before.
    Result(MemoryRange, bool),
}

/// The arguments of an entry point, found by the names of its parameters.
fn arguments(kernel: &EntryPoint, value: impl Fn(&str) -> Option<Value>) -> Result<Vec<Argument>> {
    let argument = |parameter: &Parameter| match (parameter, value(parameter.name())) {
        (Parameter::Number(_), Some(Value::Number(number))) => Ok(Argument::Number(number)),
        (Parameter::Read(_), Some(Value::Memory(memory))) => Ok(Argument::Read(memory)),
        (Parameter::Write(_), Some(Value::Memory(memory))) => Ok(Argument::Write(memory)),
        (Parameter::Modify(_), Some(Value::Memory(memory))) => Ok(Argument::Modify(memory)),
        (Parameter::Result(_), Some(Value::Result(memory, false))) => Ok(Argument::Write(memory)),
        (Parameter::Result(_), Some(Value::Result(memory, true))) => Ok(Argument::Modify(memory)),
        _ => Err(Error::Internal(format!("{} has no argument for {}", kernel.name, parameter.name()))),
    };
    kernel.parameters.iter().map(argument).collect()
}

/// An error if A B has not the shape of C, or an operand is not inside its memory.
fn check_operands(kernel: &str, a: DeviceRows, b: DeviceRows, c: DeviceRows) -> Result<()> {
    let fits = a.columns == b.rows && a.rows == c.rows && b.columns == c.columns;
    let operands = [a, b, c];
    if !fits || operands.iter().any(|rows| rows.dtype != c.dtype || !rows.fits_memory()) {
        return Err(Error::Internal(format!("the operands of {kernel} do not fit: {operands:?}")));
    }
    Ok(())
}

impl LibraryGemm {
    /// `C = alpha A B + beta C`; an error if the operands do not fit each other or their memory.
    pub fn new(factors: (f64, f64), a: DeviceRows, b: DeviceRows, c: DeviceRows) -> Result<Self> {
        check_operands("cublas", a, b, c)?;
        Ok(Self { factors, a, b, c })
    }
}

impl Operation<'static> {
    /// `C = alpha A B + beta C` with any kernel for dense products on GPUs.
    ///
    /// cuBLAS does not read A and B if alpha is zero, so that an infinity or a NaN in them would not reach C. Another kernel computes
    /// these products, and those with an alpha that is not finite.
    pub fn gemm(
        kernel: KernelId,
        factors: (f64, f64),
        a: DeviceRows,
        b: DeviceRows,
        c: DeviceRows,
    ) -> Result<Self> {
        let reads_operands = factors.0.is_finite() && !rounds_to_zero(c.dtype, factors.0);
        Ok(match kernel {
            KernelId::Cublas if reads_operands => Self::LibraryGemm(LibraryGemm::new(factors, a, b, c)?),
            KernelId::Cublas => Self::launch(EntryLaunch::gemm(KernelId::GemmBlocked, factors, a, b, c)?),
            _ => Self::launch(EntryLaunch::gemm(kernel, factors, a, b, c)?),
        })
    }
}

impl EntryLaunch {
    /// `C = alpha A B + beta C`. C is not read if beta is zero. The factors are rounded to the precision of the matrices.
    pub fn gemm(
        kernel: KernelId,
        (alpha, beta): (f64, f64),
        a: DeviceRows,
        b: DeviceRows,
        c: DeviceRows,
    ) -> Result<Self> {
        check_operands(kernel.name(), a, b, c)?;
        let entry_point = gemm::entry_point(kernel)?;
        let reads_old = !rounds_to_zero(c.dtype, beta);
        let value = |name: &str| {
            Some(match name {
                "rows" => Value::Number(c.rows),
                "columns" => Value::Number(c.columns),
                "depth" => Value::Number(a.columns),
                "lda" => Value::Number(a.leading_dimension),
                "ldb" => Value::Number(b.leading_dimension),
                "ldc" => Value::Number(c.leading_dimension),
                "alpha" => Value::Number(alpha.to_bits()),
                "beta" => Value::Number(beta.to_bits()),
                "a" => Value::Memory(a.memory),
                "b" => Value::Memory(b.memory),
                "c" => Value::Result(c.memory, reads_old),
                _ => return None,
            })
        };
        Ok(Self {
            kernel: *entry_point,
            dtype: c.dtype,
            shape: gemm::launch_shape(kernel, c.dtype, c.rows, c.columns)?,
            arguments: arguments(entry_point, value)?,
        })
    }

    /// The partial sums of the columns of X, whose first row is the first row of a block: for each block a row of `sums`, and one of
    /// `deviations` if there is memory for it.
    pub fn column_sums(
        kernel: KernelId,
        x: DeviceRows,
        block_rows: u64,
        sums: MemoryRange,
        deviations: Option<MemoryRange>,
    ) -> Result<Self> {
        let entry_point = colmean::entry_point(kernel, deviations.is_some())?;
        let numbers = x.rows.div_ceil(block_rows.max(1)).saturating_mul(x.columns);
        let bytes = numbers.saturating_mul(x.dtype.bytes() as u64);
        if !x.fits_memory() || sums.bytes() < bytes || deviations.is_some_and(|memory| memory.bytes() < bytes)
        {
            return Err(Error::Internal(format!("the operands of {} do not fit: {x:?}", kernel.name())));
        }
        let value = |name: &str| {
            Some(match name {
                "rows" => Value::Number(x.rows),
                "columns" => Value::Number(x.columns),
                "block_rows" => Value::Number(block_rows),
                "ldx" => Value::Number(x.leading_dimension),
                "x" => Value::Memory(x.memory),
                "sums" => Value::Memory(sums),
                "deviations" => Value::Memory(deviations?),
                _ => return None,
            })
        };
        Ok(Self {
            kernel: *entry_point,
            dtype: x.dtype,
            shape: colmean::launch_shape(kernel, x.dtype, x.rows, x.columns, block_rows)?,
            arguments: arguments(entry_point, value)?,
        })
    }

    /// Adds up the partial results of the blocks of the first `rows` rows of a matrix, at least two, which are the sums of all blocks and
    /// then, if they are wanted, the deviations. [`Totals::load`](crate::kernel::colmean::Totals::load) reads the results, which replace
    /// the first partial results.
    pub fn column_totals(
        dtype: Dtype,
        (rows, columns): (u64, u64),
        block_rows: u64,
        deviations: bool,
        partials: MemoryRange,
    ) -> Result<Self> {
        let entry_point = colmean::totals_entry_point(deviations);
        let blocks = rows.div_ceil(block_rows.max(1));
        let numbers = blocks.saturating_mul(columns).saturating_mul(if deviations { 2 } else { 1 });
        let bytes = numbers.saturating_mul(dtype.bytes() as u64);
        if block_rows == 0 || blocks < 2 || partials.bytes() < bytes {
            let given = partials.bytes();
            return Err(Error::Internal(format!(
                "{given} bytes are not the partial sums of {blocks} blocks"
            )));
        }
        let value = |name: &str| {
            Some(match name {
                "rows" => Value::Number(rows),
                "columns" => Value::Number(columns),
                "block_rows" => Value::Number(block_rows),
                "partials" => Value::Memory(MemoryRange { end: partials.begin + bytes, ..partials }),
                _ => return None,
            })
        };
        Ok(Self {
            kernel: *entry_point,
            dtype,
            shape: colmean::totals_launch_shape(columns)?,
            arguments: arguments(entry_point, value)?,
        })
    }
}
