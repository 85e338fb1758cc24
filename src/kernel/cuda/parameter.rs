//! The parameters of kernel entry points. A launch finds its arguments by name:
//!
//! - numbers: `rows`, `k`, `items` (the items of the grid), `heavy` (the first so many items get a warp each), `longest` (the
//!   same, but 0 if there are too many such items), `width`, `narrow` (1 if columns are 16-bit offsets from `bases`, else 0),
//!   `first_row`, `high_bits` and `value_code` (how a chunk is packed: `work::spmm::packed`),
//!   `ldx` and `ldy` (leading dimensions in elements), `alpha` and `beta` (the factors of `Y = alpha A X + beta Y`,
//!   as bits of numbers in the kernel's precision);
//! - the arrays of the chunk, by their names in its storage;
//! - `x`, or `x_transposed` if the kernel reads X by columns (`ldx` is then the distance between columns);
//! - `y`, and `scratch`, device memory that only this launch uses while it runs.

/// One parameter of an entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// A 64-bit number.
    Number(&'static str),
    /// A pointer to an array that the kernel only reads.
    Read(&'static str),
    /// A pointer to an array that the kernel writes; it reads only elements that it wrote before.
    Write(&'static str),
    /// A pointer to an array that the kernel reads and changes; its elements were written before.
    Modify(&'static str),
    /// A pointer to the rows of Y. The kernel writes them, and reads them before if `beta` is not zero.
    Result(&'static str),
    /// A pointer to counters that the kernel changes and resets: they are zero before and after each launch.
    Update(&'static str),
}

impl Parameter {
    /// The parameter's name in the kernel source.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number(name)
            | Self::Read(name)
            | Self::Write(name)
            | Self::Modify(name)
            | Self::Result(name)
            | Self::Update(name) => name,
        }
    }
}

/// Parameters of kernels on CSR. The row pointers of a chunk are those of the whole matrix; columns and values start at the
/// chunk's first nonzero.
pub const CSR: &[Parameter] = &[
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Read("row_pointers"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
];

/// Parameters of kernels on runs of rows.
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
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// Parameters of kernels on CSR with a list of the segments of long rows.
pub const CUTS: &[Parameter] = &[
    Parameter::Number("heavy"),
    Parameter::Number("rows"),
    Parameter::Number("k"),
    Parameter::Read("list"),
    Parameter::Read("parts"),
    Parameter::Read("cuts"),
    Parameter::Read("row_pointers"),
    Parameter::Read("columns"),
    Parameter::Read("values"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// Parameters of kernels on a packed A with a list of the segments of long rows.
pub const PACKED: &[Parameter] = &[
    Parameter::Number("heavy"),
    Parameter::Number("rows"),
    Parameter::Number("first_row"),
    Parameter::Number("high_bits"),
    Parameter::Number("value_code"),
    Parameter::Number("k"),
    Parameter::Read("list"),
    Parameter::Read("parts"),
    Parameter::Read("cuts"),
    Parameter::Read("table"),
    Parameter::Read("bases"),
    Parameter::Read("row_starts"),
    Parameter::Read("low"),
    Parameter::Read("high"),
    Parameter::Read("codes"),
    Parameter::Read("x"),
    Parameter::Number("ldx"),
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// Parameters of kernels on pieces of rows.
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
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// Parameters of kernels on canonical segments of rows.
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
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// Parameters of kernels on row groups.
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
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
    Parameter::Write("scratch"),
    Parameter::Update("counters"),
];

/// Parameters of kernels on sliced ELLPACK.
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
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
];

/// Parameters of kernels on the hybrid format.
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
    Parameter::Result("y"),
    Parameter::Number("ldy"),
    Parameter::Number("alpha"),
    Parameter::Number("beta"),
];
