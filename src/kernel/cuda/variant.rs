//! Forms of a kernel: the compile-time constants of its source, and its launch parameters.

use serde::{Deserialize, Serialize};

/// One form of a kernel. Parameters that the kernel does not use are 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// Bytes of a vector of X: 4, 8 or 16.
    pub bytes: u32,
    /// Lanes of a warp over the columns of X.
    pub lanes: u32,
    /// Vectors of a row of X per lane.
    pub vectors: u32,
    /// Groups of lanes that divide the nonzeros of a row.
    pub ways: u32,
    /// Groups of lanes that divide the rows of a row group.
    #[serde(default = "one")]
    pub shares: u32,
    /// Rows of a row group, or rows computed at a time.
    pub rows: u32,
    /// Rows of X that a lane has in flight at once.
    #[serde(default = "one")]
    pub depth: u32,
    /// Threads per block.
    pub threads: u32,
    /// Maximal nonzeros of a piece of a row; 0 if rows are not cut.
    pub piece: u32,
}

impl Variant {
    /// All parameters 1, vectors of 16 bytes, blocks of 512 threads, whole rows.
    pub const PLAIN: Self = Self {
        bytes: 16,
        lanes: 1,
        vectors: 1,
        ways: 1,
        shares: 1,
        rows: 1,
        depth: 1,
        threads: 512,
        piece: 0,
    };
}

/// The value of parameters that files of older versions lack.
fn one() -> u32 {
    1
}

impl Default for Variant {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// A parameter that is a compile-time constant of the kernel source: each value has an entry point of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    /// [`Variant::bytes`].
    Bytes,
    /// [`Variant::lanes`].
    Lanes,
    /// [`Variant::vectors`].
    Vectors,
    /// [`Variant::ways`].
    Ways,
    /// [`Variant::shares`].
    Shares,
    /// [`Variant::rows`].
    Rows,
    /// [`Variant::depth`].
    Depth,
    /// [`Variant::piece`].
    Piece,
}

impl Constant {
    /// The letter for it in the names of entry points and forms.
    pub fn letter(self) -> char {
        match self {
            Self::Bytes => 'b',
            Self::Lanes => 'l',
            Self::Vectors => 'v',
            Self::Ways => 'w',
            Self::Shares => 's',
            Self::Rows => 'r',
            Self::Depth => 'd',
            Self::Piece => 'p',
        }
    }

    /// The macro for it in the kernel source.
    pub fn macro_name(self) -> &'static str {
        match self {
            Self::Bytes => "BYTES",
            Self::Lanes => "LANES",
            Self::Vectors => "VECTORS",
            Self::Ways => "WAYS",
            Self::Shares => "SHARES",
            Self::Rows => "ROWS",
            Self::Depth => "DEPTH",
            Self::Piece => "PIECE",
        }
    }

    /// Its value in `variant`.
    pub fn of(self, variant: &Variant) -> u32 {
        match self {
            Self::Bytes => variant.bytes,
            Self::Lanes => variant.lanes,
            Self::Vectors => variant.vectors,
            Self::Ways => variant.ways,
            Self::Shares => variant.shares,
            Self::Rows => variant.rows,
            Self::Depth => variant.depth,
            Self::Piece => variant.piece,
        }
    }
}
