//! One compiled form of a kernel: the numbers its text takes as constants, and those it is launched with.

use serde::{Deserialize, Serialize};

/// The numbers that tell one form of a kernel from another. Where a kernel has no use for one it is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// Bytes of a vector of X: 4, 8 or 16.
    pub bytes: u32,
    /// Lanes of a warp side by side over the columns of X.
    pub lanes: u32,
    /// Vectors of a row of X that a lane holds.
    pub vectors: u32,
    /// Lanes that share the nonzeros of a row.
    pub ways: u32,
    /// Lanes that share the rows of a group.
    #[serde(default = "one")]
    pub shares: u32,
    /// Rows of a group.
    pub rows: u32,
    /// Nonzeros of a row whose rows of X a lane has on their way at once.
    #[serde(default = "one")]
    pub depth: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Most nonzeros of a piece of a row; 0 for whole rows.
    pub piece: u32,
}

impl Variant {
    /// One of everything, in blocks of 512 threads, on whole rows.
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

/// A number of forms that were written down before there was such a number.
fn one() -> u32 {
    1
}

impl Default for Variant {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// A number that a kernel's text depends on, so that each value of it is an entry of its own.
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
    /// Its letter in an entry's name.
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

    /// Its name in the kernel's text.
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

    /// Its value in a variant.
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
