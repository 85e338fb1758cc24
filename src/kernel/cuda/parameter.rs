//! What the entries of kernels take. Arguments are found by name, so the names here are those that a launch knows:
//!
//! - numbers: `rows`, `k`, `items` (what the grid counts), `heavy` (how many of them get a warp), `longest` (how many do where
//!   only few may), `width`, `narrow` (1 where columns are distances of 16 bits from the `bases`, else 0), `ldx` and `ldy`
//!   (elements from one row to the next);
//! - the arrays of the chunk, as its storage names them;
//! - `x`, or `x_transposed` where the kernel reads X by columns (`ldx` is then from one column to the next);
//! - `y`, and `scratch`, device memory that is the launch's own while it runs.

/// What an entry takes at one place of its parameter list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// A 64-bit number.
    Number(&'static str),
    /// A pointer to what the kernel reads.
    Read(&'static str),
    /// A pointer to what the kernel writes; it reads only what it wrote.
    Write(&'static str),
    /// A pointer to what the kernel finds, changes and leaves as it was: counters that begin and end at zero.
    Update(&'static str),
}

impl Parameter {
    /// Its name in the kernel's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number(name) | Self::Read(name) | Self::Write(name) | Self::Update(name) => name,
        }
    }
}

/// What kernels on compressed rows take. The row pointers of a chunk still count from the whole matrix's start; columns
/// and values begin at the chunk's first nonzero.
pub const CSR: &[Parameter] = &[
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Read("row_pointers"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
];

/// The same for kernels that read X by columns.
pub const CSR_TRANSPOSED: &[Parameter] = &[
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Read("row_pointers"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x_transposed"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
];

/// What kernels on row blocks take; they read X by columns.
pub const ROW_BLOCKS: &[Parameter] = &[
    Parameter::Number("k"),
    Parameter::Read("row_blocks"),
    Parameter::Read("row_pointers"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x_transposed"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
];

/// What kernels on runs of rows take.
pub const RUNS: &[Parameter] = &[
    Parameter::Number("items"),
    Parameter::Number("k"),
    Parameter::Read("row_pointers"),
    Parameter::Read("list"),
    Parameter::Read("parts"),
    Parameter::Read("cuts"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// What kernels on pieces of rows take.
pub const PIECES: &[Parameter] = &[
    Parameter::Number("heavy"),
    Parameter::Number("items"),
    Parameter::Number("k"),
    Parameter::Read("list"),
    Parameter::Read("parts"),
    Parameter::Read("cuts"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// What kernels on canonical segments of rows take.
pub const SEGMENTS: &[Parameter] = &[
    Parameter::Number("longest"),
    Parameter::Number("items"),
    Parameter::Number("k"),
    Parameter::Read("list"),
    Parameter::Read("parts"),
    Parameter::Read("cuts"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// What kernels on groups of rows take.
pub const ROW_GROUPS: &[Parameter] = &[
    Parameter::Number("items"),
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Read("groups"),
    Parameter::Read("columns"),
    Parameter::Read("masks"),
    Parameter::Read("offsets"),
    Parameter::Read("values"),
    Parameter::Read("cuts"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// What kernels on sliced ELLPACK take.
pub const SLICES: &[Parameter] = &[
    Parameter::Number("items"),
    Parameter::Number("k"),
    Parameter::Read("slice_starts"),
    Parameter::Read("lane_lengths"),
    Parameter::Read("lane_rows"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
];

/// What kernels on padded ELLPACK take.
pub const ELLPACK: &[Parameter] = &[
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Number("width"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
];

/// What kernels on narrow ELLPACK with longer rows beside it take.
pub const HYBRID: &[Parameter] = &[
    Parameter::Number("items"),
    Parameter::Number("rows"),
    Parameter::Number("narrow"),
    Parameter::Number("k"),
    Parameter::Read("columns"),
    Parameter::Read("bases"),
    Parameter::Read("values"),
    Parameter::Read("long_rows"),
    Parameter::Read("long_columns"),
    Parameter::Read("long_values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Write("y"),
    Parameter::Number("ldy"),
];
