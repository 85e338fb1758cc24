//! The grids that kernels are launched with.

use super::variant::Variant;
use crate::matrix::Dtype;

/// Most blocks that CUDA allows along the first dimension of a grid, and along the others.
const MOST_BLOCKS: [u64; 2] = [(1 << 31) - 1, (1 << 16) - 1];

/// Bytes of the vectors that [`Variant::vectors`] counts.
const VECTOR_BYTES: u64 = 16;

/// How a kernel's threads share its items (rows, pieces or groups) and the K columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// `ways` threads for each item and column: element `t / ways` is column `% k` of item `/ k`.
    Elements,
    /// `lanes * ways` threads for each item and all columns.
    Items,
    /// A block for each item and all columns.
    Blocks,
    /// A block for each item and column: block b is column `% k` of item `/ k`.
    BlocksOfColumns,
    /// `lanes * ways` threads for each item, for as many columns as `lanes * vectors` vectors hold; the tiles of columns
    /// lie along the grid's y.
    Tiles,
}

/// The shape of a launch. A grid without blocks is nothing to launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Shared memory beyond what the kernel declares itself.
    pub dynamic_shared_bytes: u32,
}

impl Grid {
    /// The shape for `items` items and `k` columns; nothing where CUDA has no grid that large.
    pub fn shape(self, variant: &Variant, dtype: Dtype, items: u64, k: u64) -> Option<LaunchShape> {
        let threads = u64::from(variant.threads);
        let shared = |count: u64, threads_each: u64| count.div_ceil((threads / threads_each).max(1));
        let (lanes, ways) = (u64::from(variant.lanes), u64::from(variant.ways));
        let (x, y) = match self {
            Self::Elements => (shared(items.checked_mul(k)?, ways), 1),
            Self::Items => (if k == 0 { 0 } else { shared(items, lanes * ways) }, 1),
            Self::Blocks => (if k == 0 { 0 } else { items }, 1),
            Self::BlocksOfColumns => (items.checked_mul(k)?, 1),
            Self::Tiles => {
                let values = lanes * u64::from(variant.vectors) * (VECTOR_BYTES / dtype.bytes() as u64);
                let tiles = k.div_ceil(values.max(1));
                (if tiles == 0 { 0 } else { shared(items, lanes * ways) }, tiles.max(1))
            }
        };
        let fits = x <= MOST_BLOCKS[0] && y <= MOST_BLOCKS[1];
        fits.then_some(LaunchShape {
            grid: [x as u32, y as u32, 1],
            block: [variant.threads, 1, 1],
            dynamic_shared_bytes: 0,
        })
    }
}
