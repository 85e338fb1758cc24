//! The grids that kernels are launched with.

use super::variant::Variant;
use crate::matrix::Dtype;

/// Threads of a warp.
const WARP: u64 = 32;

/// Most blocks that CUDA allows along the first dimension of a grid, and along the others.
const MOST_BLOCKS: [u64; 2] = [(1 << 31) - 1, (1 << 16) - 1];

/// Bytes of a row of X that one block takes at most; longer rows are cut into tiles.
pub const LARGEST_TILE_BYTES: u64 = 1024;

/// Tiles that kernels with counters can count.
pub const MOST_TILES: u64 = 16;

/// Most items that get a warp each where the ways of a warp take turns, which costs many times the additions: where more items are
/// long they hide the way to memory for each other.
const MOST_LONGEST: u64 = 1024;

/// What a launch works through: rows, pieces or groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Items {
    /// All of them.
    pub count: u64,
    /// How many, the first ones, get a warp each, or blocks of their own, where the kernel knows such.
    pub heavy: u64,
}

impl Items {
    /// How many get a warp each where only few may: the heavy ones, or none where those are many.
    pub fn longest(&self) -> u64 {
        if self.heavy <= MOST_LONGEST { self.heavy } else { 0 }
    }
}

impl From<u64> for Items {
    fn from(count: u64) -> Self {
        Self { count, heavy: 0 }
    }
}

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
    /// `lanes * ways * shares` threads for each item, for as many columns as `lanes * vectors` vectors hold; the tiles of
    /// columns lie along the grid's y.
    Tiles,
    /// The same, but a warp for each heavy item, in blocks of their own.
    HeavyTiles,
    /// The same with a warp for each of the longest items only.
    LongestTiles,
    /// The same as tiles, but heavy items are in blocks of their own.
    TilesApart,
    /// A warp for each item, a lane for each of its 32 rows, for as many columns as `vectors` vectors hold.
    Slices,
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
        let fits = x <= MOST_BLOCKS[0] && y <= MOST_BLOCKS[1];
        fits.then_some(LaunchShape {
            grid: [x as u32, y as u32, 1],
            block: [variant.threads, 1, 1],
            dynamic_shared_bytes: 0,
        })
    }
}
