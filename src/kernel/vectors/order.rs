//! The canonical order of sums over the rows of multivectors, which makes them independent of how rows are split.
//!
//! Rows are divided into blocks by their number in the whole multivector: block `b` has the rows `b B` to `(b + 1) B`, and the
//! last block may be shorter. Each block has a partial result, and the result is the sum of the partial results in the order of
//! blocks, starting at the first. Nothing else enters: not the device, not the number of threads, not who owns which rows.
//!
//! **Products of columns** (`dot`). A block has [`DOT_BLOCK_ROWS`] rows. Row `r` of the block belongs to lane `r mod DOT_LANES`.
//! A lane's sum is a chain of fused multiply-adds over its rows in order, starting at +0. The sums of the lanes are added by
//! halving: lane `l` becomes the sum of lanes `l` and `l + 16`, then of `l` and `l + 8`, and so on; lane 0 is the partial
//! result.
//!
//! **Products of all pairs of columns** (`gram`). A block has [`GRAM_BLOCK_ROWS`] rows in [`GRAM_STRANDS`] strands of
//! [`GRAM_STRAND_ROWS`] rows. A strand's sum is a chain of fused multiply-adds over its rows in order, starting at +0. The partial
//! result is the sum of the strands in order, starting at the first. All strands count, those beyond the last row with the sum
//! +0.

use std::ops::Range;

/// Rows of a block of `dot`.
pub const DOT_BLOCK_ROWS: usize = 1024;
/// Lanes of a block of `dot`, a power of two.
pub const DOT_LANES: usize = 32;

/// Rows of a block of weighted sums, which have no canonical order.
pub const WEIGH_BLOCK_ROWS: usize = 1024;

/// Rows of a block of `gram`: with K = 32 in double precision, partial results are 8 KiB for each MiB of X.
pub const GRAM_BLOCK_ROWS: usize = GRAM_STRANDS * GRAM_STRAND_ROWS;
/// Strands of a block of `gram`.
pub const GRAM_STRANDS: usize = 8;
/// Rows of a strand of `gram`.
pub const GRAM_STRAND_ROWS: usize = 512;

/// A sum over all rows of two multivectors X and Y.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sum {
    /// For each column the sum of `x(r, c) y(r, c)`. X and Y have the same number of columns.
    Dot,
    /// XᵀY: for each pair of columns the sum of `x(r, i) y(r, j)`, stored by rows `i`.
    Gram,
}

impl Sum {
    /// Rows of a block.
    pub fn block_rows(self) -> u64 {
        match self {
            Self::Dot => DOT_BLOCK_ROWS as u64,
            Self::Gram => GRAM_BLOCK_ROWS as u64,
        }
    }

    /// Numbers of the result, and of each block's partial result, for `x_columns` and `y_columns` columns.
    pub fn length(self, x_columns: u64, y_columns: u64) -> u64 {
        match self {
            Self::Dot => x_columns,
            Self::Gram => x_columns.saturating_mul(y_columns),
        }
    }

    /// The blocks that the owner of `rows` computes, in multivectors of `total` rows.
    pub fn owned(self, rows: Range<u64>, total: u64) -> OwnedBlocks {
        let block_rows = self.block_rows();
        let first = rows.start.div_ceil(block_rows);
        // The last block ends with the last row.
        let end = if rows.end == total { rows.end.div_ceil(block_rows) } else { rows.end / block_rows };
        if rows.is_empty() || first >= end {
            return OwnedBlocks {
                head: rows.clone(),
                blocks: 0..0,
                rows: rows.end..rows.end,
                tail: rows.end..rows.end,
            };
        }
        let whole = first * block_rows..(end * block_rows).min(rows.end);
        OwnedBlocks {
            head: rows.start..whole.start,
            blocks: first..end,
            tail: whole.end..rows.end,
            rows: whole,
        }
    }
}

/// The blocks of a [`Sum`] that lie within the rows of one owner, and its other rows, which belong to blocks with several owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedBlocks {
    /// Rows before the first whole block; all rows if no block is whole.
    pub head: Range<u64>,
    /// Numbers of the whole blocks.
    pub blocks: Range<u64>,
    /// Rows of the whole blocks.
    pub rows: Range<u64>,
    /// Rows after the last whole block.
    pub tail: Range<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_blocks_and_edges_cover_the_rows_of_an_owner() {
        for sum in [Sum::Dot, Sum::Gram] {
            let block = sum.block_rows();
            let total = 5 * block + 7;
            for start in [0, 1, block - 1, block, 2 * block + 3, 5 * block, total] {
                for end in [start, start + 1, 2 * block, 3 * block - 1, 4 * block, 5 * block, total] {
                    if start > end || end > total {
                        continue;
                    }
                    let owned = sum.owned(start..end, total);
                    let OwnedBlocks { head, blocks, rows, tail } = owned.clone();
                    assert_eq!((head.start, tail.end), (start, end), "{owned:?}");
                    assert_eq!((head.end, rows.end), (rows.start, tail.start), "{owned:?}");
                    assert_eq!(rows.end - rows.start == 0, blocks.is_empty(), "{owned:?}");
                    assert!(head.end - head.start < 2 * block && tail.end - tail.start < block, "{owned:?}");
                    if !blocks.is_empty() {
                        assert_eq!(rows.start, blocks.start * block);
                        assert!(rows.end == blocks.end * block || rows.end == total);
                    }
                }
            }
        }
        assert_eq!(Sum::Dot.owned(1024..1030, 1030).blocks, 1..2, "the last block is whole though short");
    }
}
