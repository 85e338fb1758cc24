//! Launch grids: how items and columns map to blocks and threads.

use super::variant::Variant;
use crate::matrix::Dtype;

/// Threads of a warp.
const WARP: u64 = 32;

/// CUDA's limits on the number of blocks along x, and along y and z.
const MAX_BLOCKS: [u64; 2] = [(1 << 31) - 1, (1 << 16) - 1];

/// Maximal bytes of a row of X that one block covers; longer rows are cut into tiles.
pub const LARGEST_TILE_BYTES: u64 = 1024;

/// Maximal number of tiles for kernels with counters, which have one counter per tile.
pub const MAX_TILES: u64 = 16;

/// Maximal number of long items that get a warp each in `Grid::LongestTiles`. The ways of such a warp add in turn, which
/// multiplies the additions; with more long items, other warps hide the memory latency and this does not pay.
const MAX_WARP_ITEMS: u64 = 1024;

/// The numbers of work items of a launch: rows, pieces or groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Items {
    /// Number of items.
    pub count: u64,
    /// Number of heavy items, which come first; some grids give each a warp, or place them in separate blocks.
    pub heavy: u64,
}

impl Items {
    /// Number of items that get a warp each in `Grid::LongestTiles`: the heavy ones, or 0 if there are too many.
    pub fn longest(&self) -> u64 {
        if self.heavy <= MAX_WARP_ITEMS { self.heavy } else { 0 }
    }
}

impl From<u64> for Items {
    fn from(count: u64) -> Self {
        Self { count, heavy: 0 }
    }
}

/// How the items (rows, pieces or groups) and the K columns map to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// `ways` threads per item and column: thread `t` computes element `e = t / ways`, column `e % k` of item `e / k`.
    Elements,
    /// `lanes * ways` threads per item, for all columns.
    Items,
    /// One block per item, for all columns.
    Blocks,
    /// One block per item and column: block `b` computes column `b % k` of item `b / k`.
    BlocksOfColumns,
    /// `lanes * ways * shares` threads per item and tile; a tile is the columns that `lanes * vectors` vectors hold. Tiles are
    /// along the grid's y.
    Tiles,
    /// As `Tiles`, but one warp per heavy item, in separate blocks.
    HeavyTiles,
    /// As `HeavyTiles`, for [`Items::longest`] instead of all heavy items.
    LongestTiles,
    /// As `Tiles`, but heavy items are in separate blocks.
    TilesApart,
    /// One warp per item and one lane per row of its 32 rows, for the columns that `vectors` vectors hold.
    Slices,
}

/// Grid and block dimensions of a launch. A grid of zero blocks is not launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory, in addition to what the kernel declares.
    pub dynamic_shared_bytes: u32,
}

impl Grid {
    /// The launch shape for `items` and `k` columns; none if the grid exceeds CUDA's limits.
    pub fn shape(self, variant: &Variant, dtype: Dtype, items: Items, k: u64) -> Option<LaunchShape> {
        let threads = u64::from(variant.threads);
        let shared = |count: u64, threads_each: u64| count.div_ceil((threads / threads_each).max(1));
        let (lanes, ways) = (u64::from(variant.lanes), u64::from(variant.ways) * u64::from(variant.shares));
        let heavy = match self {
            Self::HeavyTiles | Self::TilesApart => items.heavy,
            Self::LongestTiles => items.longest(),
            _ => 0,
        };
        let items = items.count;
        let (x, y) = match self {
            Self::Elements => (shared(items.checked_mul(k)?, ways), 1),
            Self::Items => (if k == 0 { 0 } else { shared(items, lanes * ways) }, 1),
            Self::Blocks => (if k == 0 { 0 } else { items }, 1),
            Self::BlocksOfColumns => (items.checked_mul(k)?, 1),
            Self::Tiles | Self::HeavyTiles | Self::LongestTiles | Self::TilesApart | Self::Slices => {
                let (lanes, ways) = if self == Self::Slices { (1, WARP) } else { (lanes, ways) };
                let bytes = lanes * u64::from(variant.vectors) * u64::from(variant.bytes);
                let tiles = k.checked_mul(dtype.bytes() as u64)?.div_ceil(bytes.max(1));
                let has_warps = matches!(self, Self::HeavyTiles | Self::LongestTiles);
                let each_heavy = if has_warps { WARP } else { lanes * ways };
                let blocks = shared(heavy, each_heavy) + shared(items.saturating_sub(heavy), lanes * ways);
                (if tiles == 0 { 0 } else { blocks }, tiles.max(1))
            }
        };
        let fits = x <= MAX_BLOCKS[0] && y <= MAX_BLOCKS[1];
        fits.then_some(LaunchShape {
            grid: [x as u32, y as u32, 1],
            block: [variant.threads, 1, 1],
            dynamic_shared_bytes: 0,
        })
    }
}
