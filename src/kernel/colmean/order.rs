//! The canonical order of sums of columns, which makes them independent of how rows are split.
//!
//! **Blocks.** Rows are divided into blocks of [`block_rows`] rows, counted from the first row of the whole matrix; the last block may be
//! shorter. Rows are split between devices at the boundaries of blocks only. Each block has a partial result. The total is the partial
//! results added in double precision in the order of blocks. So a device that has the first block and those after it can add them up; the
//! results of later blocks on other devices are added after them.
//!
//! **Within a block.** A block has [`STRANDS`] strands of equally many consecutive rows; the last ones may be shorter or empty. A strand
//! has groups of [`GROUP_ROWS`] consecutive rows. The rows of a group are added as a tree, `((0+1)+(2+3))+((4+5)+(6+7))`, with +0 for
//! rows that do not exist. The groups of a strand are added in order, starting at +0. The strands are added as the same tree as the rows
//! of a group; an empty strand adds nothing.
//!
//! **Squared deviations** follow the same order in the same pass over the matrix. The mean of a group is its sum times the rounded
//! inverse of its number of rows; the squared deviations of its rows from this mean are added as a tree. Two partial results over a and b
//! rows are merged by the formula of Chan, Golub and LeVeque (1979): `D = D1 + D2 + (s2/b - s1/a)² ab/(a+b)`. The terms are sums of squares,
//! so nothing cancels: the result is accurate if the mean is much larger than the standard deviation.

/// Rows of a group.
pub const GROUP_ROWS: usize = 8;
/// Strands of a block.
pub const STRANDS: usize = 8;

/// Rows of the smallest block: one group per strand.
const SMALLEST_BLOCK: u64 = (GROUP_ROWS * STRANDS) as u64;
/// The most sums of all blocks and columns: partial results of a large matrix stay a small part of it.
const MOST_SUMS: u64 = 1 << 18;
/// Blocks are not enlarged below this number of them, so that the rows of a wide matrix can be split.
const FEWEST_BLOCKS: u64 = 16;

/// Rows of a block of a matrix of `rows` by `columns`: a power of two that depends on nothing else.
pub fn block_rows(rows: u64, columns: u64) -> u64 {
    let most = (MOST_SUMS / columns.max(1)).max(FEWEST_BLOCKS);
    let mut block = SMALLEST_BLOCK;
    while rows.div_ceil(block) > most {
        block *= 2;
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_small_for_small_matrices_and_few_for_large_ones() {
        assert_eq!(block_rows(0, 0), 64);
        assert_eq!(block_rows(358, 5248), 64, "the recordings of 64 channels by 82 samples have 6 blocks");
        assert_eq!(block_rows(100_000, 5248), 2048);
        assert_eq!(block_rows(1 << 20, 1 << 20), 1 << 16);
        for (rows, columns) in [(1 << 33, 1), (1 << 23, 64), (1, 1 << 40), (u64::MAX, 1)] {
            let blocks = rows.div_ceil(block_rows(rows, columns));
            assert!(blocks <= FEWEST_BLOCKS || blocks * columns <= MOST_SUMS, "{rows} × {columns}: {blocks}");
        }
    }
}
