//! Launches of kernels on multivectors in a device's memory. The host runs the same operations as jobs, with the bodies of
//! [`crate::kernel::vectors`].
//!
//! A kernel accesses exactly the columns of its operands. An operand that a kernel writes without reading counts as unwritten
//! outside of these columns; to keep its padding written, a caller makes the padding columns of the operand.

use super::host_transfer::MemoryRange;
use super::launch::{Argument, EntryLaunch};
use crate::error::{Error, Result};
use crate::kernel::cuda::Parameter;
use crate::kernel::scaling::rounds_to_zero;
use crate::kernel::vectors::{Sum, VectorKernel, VectorShape, WEIGH_BLOCK_ROWS};
use crate::matrix::Dtype;

/// One launch of one kernel on multivectors.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorLaunch {
    /// The kernel.
    pub kernel: VectorKernel,
    /// The precision.
    pub dtype: Dtype,
    /// The rows and columns, which determine the grid.
    pub shape: VectorShape,
    /// The arguments, in the order of the kernel's parameters.
    pub arguments: Vec<Argument>,
}

/// Rows of a multivector in a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRows {
    /// The precision.
    pub dtype: Dtype,
    /// The memory, which begins with the first row.
    pub memory: MemoryRange,
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub columns: u64,
    /// Distance between the starts of consecutive rows, in elements.
    pub leading_dimension: u64,
}

impl DeviceRows {
    /// Rows `rows` of these, which must be inside.
    pub fn rows_in(self, rows: std::ops::Range<u64>) -> Self {
        let begin = self.memory.begin + rows.start * self.leading_dimension * self.dtype.bytes() as u64;
        let rows = rows.end - rows.start;
        let memory = MemoryRange { begin: begin.min(self.memory.end), ..self.memory };
        let memory = MemoryRange { end: memory.end.min(memory.begin + self.bytes_of(rows)), ..memory };
        Self { memory, rows, ..self }
    }

    /// Bytes of `rows` rows, padding included.
    fn bytes_of(self, rows: u64) -> u64 {
        rows.saturating_mul(self.leading_dimension).saturating_mul(self.dtype.bytes() as u64)
    }

    /// Whether the rows do not overlap and are inside the memory.
    pub(super) fn fits_memory(self) -> bool {
        self.leading_dimension >= self.columns && self.memory.bytes() >= self.least_bytes()
    }

    /// Bytes up to the end of the last row's last column.
    fn least_bytes(self) -> u64 {
        match self.rows {
            0 => 0,
            rows => self.bytes_of(rows - 1).saturating_add(self.columns * self.dtype.bytes() as u64),
        }
    }
}

/// The factor of each column: `number * multiplied[column] / divisors[column]`, computed in this order in the precision of the
/// multivectors. An array that is absent counts as ones. Arrays are in the device's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceFactor {
    /// The number.
    pub number: f64,
    /// The array that is multiplied.
    pub multiplied: Option<MemoryRange>,
    /// The array of divisors.
    pub divisors: Option<MemoryRange>,
}

impl DeviceFactor {
    /// An element of an array for each column.
    pub fn columns(array: MemoryRange) -> Self {
        Self { multiplied: Some(array), ..Self::from(1.0) }
    }

    /// Whether it rounds to zero for all columns, whatever arrays hold.
    fn rounds_to_zero(self, dtype: Dtype) -> bool {
        self.multiplied.is_none() && self.divisors.is_none() && rounds_to_zero(dtype, self.number)
    }
}

impl From<f64> for DeviceFactor {
    fn from(number: f64) -> Self {
        Self { number, multiplied: None, divisors: None }
    }
}

/// The operands of a launch, from which its arguments are found by the names of the kernel's parameters.
#[derive(Debug, Clone, Copy)]
struct Operands {
    y: DeviceRows,
    x: Option<DeviceRows>,
    small: Option<DeviceRows>,
    memory: Option<MemoryRange>,
    weights: Option<MemoryRange>,
    /// The counter of blocks of threads that have ended, and the results of the last one.
    totals: Option<(MemoryRange, MemoryRange)>,
    alpha: DeviceFactor,
    beta: DeviceFactor,
    roots: bool,
}

impl Operands {
    fn of(y: DeviceRows) -> Self {
        Self {
            y,
            x: None,
            small: None,
            memory: None,
            weights: None,
            totals: None,
            alpha: 0.0.into(),
            beta: 0.0.into(),
            roots: false,
        }
    }

    /// The arrays of factors, in the order of their bits in `arrays`.
    fn arrays(self) -> [Option<MemoryRange>; 4] {
        let Self { alpha, beta, .. } = self;
        [alpha.multiplied, alpha.divisors, beta.multiplied, beta.divisors]
    }

    fn check_arrays(self, name: &str) -> Result<()> {
        let needed = self.y.columns.saturating_mul(self.y.dtype.bytes() as u64);
        match self.arrays().iter().flatten().find(|array| array.bytes() < needed) {
            Some(array) => Err(Error::Internal(format!(
                "{} bytes of factors of {name} are too few for {} columns",
                array.bytes(),
                self.y.columns
            ))),
            None => Ok(()),
        }
    }

    fn launch(self, kernel: VectorKernel) -> Result<VectorLaunch> {
        let Self { y, x, small, .. } = self;
        let name = kernel.info().name;
        let operands = [Some(y), x, small];
        if operands.iter().flatten().any(|rows| rows.dtype != y.dtype || !rows.fits_memory()) {
            return Err(Error::Internal(format!("the operands of {name} do not fit their memory: {self:?}")));
        }
        self.check_arrays(name)?;
        let arrays = self.arrays();
        let bits = (0..).zip(arrays).filter(|(_, array)| array.is_some()).map(|(bit, _)| 1 << bit).sum();
        let number = |name: &str| match name {
            "rows" => Some(y.rows),
            "columns" | "y_columns" => Some(y.columns),
            "x_columns" => x.map(|x| x.columns),
            "tile_rows" => Some(VectorKernel::tile_rows(y.dtype, y.columns)),
            "alpha" | "value" => Some(self.alpha.number.to_bits()),
            "beta" => Some(self.beta.number.to_bits()),
            "arrays" => Some(bits),
            "roots" => Some(self.roots.into()),
            "ldx" => x.map(|x| x.leading_dimension),
            "ldy" => Some(y.leading_dimension),
            "lds" => small.map(|small| small.leading_dimension),
            _ => None,
        };
        let nothing = MemoryRange { end: y.memory.begin, ..y.memory };
        let memory = |name: &str| match name {
            "x" => x.map(|x| x.memory),
            "y" => Some(y.memory),
            "s" => small.map(|small| small.memory),
            "alphas" => Some(arrays[0].unwrap_or(nothing)),
            "alpha_divisors" => Some(arrays[1].unwrap_or(nothing)),
            "betas" => Some(arrays[2].unwrap_or(nothing)),
            "beta_divisors" => Some(arrays[3].unwrap_or(nothing)),
            "ended" => self.totals.map(|(ended, _)| ended),
            "totals" => self.totals.map(|(_, totals)| totals),
            "weights" => self.weights,
            _ => self.memory,
        };
        let argument = |parameter: &Parameter| {
            let missing =
                || Error::Internal(format!("{name} has a parameter {}, which is missing", parameter.name()));
            let range = || memory(parameter.name()).ok_or_else(missing);
            Ok(match parameter {
                Parameter::Number(name) => Argument::Number(number(name).ok_or_else(missing)?),
                Parameter::Read(_) => Argument::Read(range()?),
                Parameter::Write(_) => Argument::Write(range()?),
                Parameter::Modify(_) => Argument::Modify(range()?),
                Parameter::Update(_) => Argument::Update(range()?),
                Parameter::Result(_) => return Err(missing()),
            })
        };
        let arguments = kernel.info().parameters.iter().map(argument).collect::<Result<_>>()?;
        let x_columns = x.map_or(0, |x| x.columns);
        let shape = VectorShape { rows: y.rows, x_columns, y_columns: y.columns };
        Ok(VectorLaunch { kernel, dtype: y.dtype, shape, arguments })
    }
}

fn check(holds: bool, what: &str, x: DeviceRows, y: DeviceRows) -> Result<()> {
    if holds {
        return Ok(());
    }
    let DeviceRows { rows, columns, .. } = x;
    Err(Error::usage(format!("{what} of {rows} × {columns} and {} × {} elements", y.rows, y.columns)))
}

fn same_shape(what: &str, x: DeviceRows, y: DeviceRows) -> Result<()> {
    check((x.rows, x.columns) == (y.rows, y.columns), what, x, y)
}

fn check_partials(sum: Sum, x: DeviceRows, y: DeviceRows, partials: MemoryRange) -> Result<()> {
    let numbers = x.rows.div_ceil(sum.block_rows()).saturating_mul(sum.length(x.columns, y.columns));
    if partials.bytes() < numbers.saturating_mul(y.dtype.bytes() as u64) {
        let bytes = partials.bytes();
        return Err(Error::Internal(format!(
            "{bytes} bytes do not hold {numbers} numbers of partial results"
        )));
    }
    Ok(())
}

impl VectorLaunch {
    /// The launch of the kernel's entry point; an error if the grid exceeds CUDA's limits.
    pub fn entry_launch(self) -> Result<EntryLaunch> {
        let Self { kernel, dtype, shape, arguments } = self;
        let shape = kernel.launch_shape(dtype, shape)?;
        Ok(EntryLaunch { kernel: kernel.entry_point(), dtype, shape, arguments })
    }

    /// Sets all elements of Y to `value`.
    pub fn fill(value: f64, y: DeviceRows) -> Result<Self> {
        Operands { alpha: value.into(), ..Operands::of(y) }.launch(VectorKernel::Fill)
    }

    /// Y = X.
    pub fn copy(x: DeviceRows, y: DeviceRows) -> Result<Self> {
        same_shape("a copy", x, y)?;
        Operands { x: Some(x), ..Operands::of(y) }.launch(VectorKernel::Copy)
    }

    /// Row `i` of Y becomes row `list[i]` of X. `list` holds 32-bit numbers of rows of X, one for each row of Y; they are not
    /// checked on a card.
    pub fn gather_rows(list: MemoryRange, x: DeviceRows, y: DeviceRows) -> Result<Self> {
        check(x.columns == y.columns && list.bytes() >= 4 * y.rows, "a gather of rows", x, y)?;
        Operands { x: Some(x), memory: Some(list), ..Operands::of(y) }.launch(VectorKernel::GatherRows)
    }

    /// Row `list[i]` of Y becomes row `i` of X; the other rows of Y, which must be written, keep their values. `list` holds
    /// different 32-bit numbers of rows of Y, one for each row of X; they are not checked on a card.
    pub fn scatter_rows(list: MemoryRange, x: DeviceRows, y: DeviceRows) -> Result<Self> {
        check(x.columns == y.columns && list.bytes() >= 4 * x.rows, "a scatter of rows", x, y)?;
        // The rows of the launch are those of X.
        let y = DeviceRows { rows: x.rows.min(y.rows), ..y };
        check(x.rows == y.rows, "a scatter of rows", x, y)?;
        Operands { x: Some(x), memory: Some(list), ..Operands::of(y) }.launch(VectorKernel::ScatterRows)
    }

    /// Y = X alpha; Y is not read.
    pub fn scaled(alpha: DeviceFactor, x: DeviceRows, y: DeviceRows) -> Result<Self> {
        same_shape("a scaled copy", x, y)?;
        Operands { x: Some(x), alpha, ..Operands::of(y) }.launch(VectorKernel::Scaled)
    }

    /// Y = Y alpha.
    pub fn scale(alpha: DeviceFactor, y: DeviceRows) -> Result<Self> {
        Operands { alpha, ..Operands::of(y) }.launch(VectorKernel::Scale)
    }

    /// Y = X alpha + Y beta, computed as `fma(alpha, x, beta * y)`. Y is not read if beta is a number that rounds to zero.
    pub fn axpby(alpha: DeviceFactor, x: DeviceRows, beta: DeviceFactor, y: DeviceRows) -> Result<Self> {
        if beta.rounds_to_zero(y.dtype) {
            return Self::scaled(alpha, x, y);
        }
        same_shape("a sum", x, y)?;
        Operands { x: Some(x), alpha, beta, ..Operands::of(y) }.launch(VectorKernel::Axpby)
    }

    /// The partial results of the products of columns: `columns` numbers for each block. The rows are those of whole blocks, see
    /// [`Sum::owned`].
    pub fn dot(x: DeviceRows, y: DeviceRows, partials: MemoryRange) -> Result<Self> {
        same_shape("the products of columns", x, y)?;
        check_partials(Sum::Dot, x, y, partials)?;
        Operands { x: Some(x), memory: Some(partials), ..Operands::of(y) }.launch(VectorKernel::Dot)
    }

    /// The products of columns, or their square roots: a number for each column in `totals`. X and Y have all rows. `ended` is a 32-bit
    /// counter, which is zero before and after the launch; `partials` has room for the partial results.
    pub fn dot_total(
        x: DeviceRows,
        y: DeviceRows,
        partials: MemoryRange,
        (ended, totals): (MemoryRange, MemoryRange),
        roots: bool,
    ) -> Result<Self> {
        same_shape("the products of columns", x, y)?;
        check_partials(Sum::Dot, x, y, partials)?;
        if ended.bytes() < 4 || totals.bytes() < y.columns.saturating_mul(y.dtype.bytes() as u64) {
            let message =
                format!("{} and {} bytes do not hold a counter and totals", ended.bytes(), totals.bytes());
            return Err(Error::Internal(message));
        }
        let totals = Some((ended, totals));
        Operands { x: Some(x), memory: Some(partials), totals, roots, ..Operands::of(y) }
            .launch(VectorKernel::DotTotal)
    }

    /// The partial results of XᵀY: a matrix for each block, stored by rows. The rows are those of whole blocks.
    pub fn gram(x: DeviceRows, y: DeviceRows, partials: MemoryRange) -> Result<Self> {
        check(x.rows == y.rows, "the products of columns", x, y)?;
        check_partials(Sum::Gram, x, y, partials)?;
        let kernel = VectorKernel::gram(x.columns, y.columns);
        Operands { x: Some(x), memory: Some(partials), ..Operands::of(y) }.launch(kernel)
    }

    /// The partial results of the weighted sums of rows: for each block the sums of the columns and the sums of squares, in f64.
    /// `weights` holds two numbers for each row, both f64: its weight, and its weight of squares.
    pub fn weigh(weights: MemoryRange, y: DeviceRows, partials: MemoryRange) -> Result<Self> {
        let needed = y.rows.div_ceil(WEIGH_BLOCK_ROWS as u64).saturating_mul(16 * y.columns);
        if weights.bytes() < 16 * y.rows || partials.bytes() < needed {
            let (weights, partials) = (weights.bytes(), partials.bytes());
            return Err(Error::Internal(format!(
                "{weights} bytes of weights and {partials} bytes of partial results are too few for {} rows",
                y.rows
            )));
        }
        let operands = Operands { memory: Some(partials), weights: Some(weights), ..Operands::of(y) };
        operands.launch(VectorKernel::Weigh)
    }

    /// Y = X S + beta Y; Y is not read if beta rounds to zero. S has a row for each column of X.
    pub fn times(x: DeviceRows, small: DeviceRows, beta: f64, y: DeviceRows) -> Result<Self> {
        check(x.rows == y.rows, "a product with a small matrix", x, y)?;
        check(
            (small.rows, small.columns) == (x.columns, y.columns),
            "a product with a small matrix",
            small,
            y,
        )?;
        let operands = Operands { x: Some(x), small: Some(small), beta: beta.into(), ..Operands::of(y) };
        operands.launch(if rounds_to_zero(y.dtype, beta) {
            VectorKernel::Times
        } else {
            VectorKernel::TimesAdd
        })
    }
}
