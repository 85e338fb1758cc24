//! The table of kernels on multivectors for CUDA devices: entry points, parameters and launch grids.

use super::order::{DOT_BLOCK_ROWS, GRAM_BLOCK_ROWS, GRAM_STRANDS, WEIGH_BLOCK_ROWS};
use crate::error::{Error, Result};
use crate::kernel::cuda::{EntryPoint, LaunchShape, Parameter};
use crate::matrix::Dtype;

/// A kernel on multivectors. Multivectors are stored by rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VectorKernel {
    /// Sets all elements of Y.
    Fill,
    /// Y = X.
    Copy,
    /// Row `i` of Y becomes the listed row `list[i]` of X.
    GatherRows,
    /// The listed row `list[i]` of Y becomes row `i` of X; no row is listed twice.
    ScatterRows,
    /// Y = X alpha, where alpha is one number or one per column.
    Scaled,
    /// Y = Y alpha.
    Scale,
    /// Y = X alpha + Y beta.
    Axpby,
    /// The partial results of the products of columns.
    Dot,
    /// The products of columns, or their square roots: the partial results and their sum.
    DotTotal,
    /// The partial results of XᵀY, in tiles of 8 × 8 pairs of columns.
    Gram8,
    /// The partial results of XᵀY, in tiles of 16 × 16 pairs of columns.
    Gram16,
    /// The partial results of XᵀY, in tiles of 32 × 32 pairs of columns.
    Gram32,
    /// The partial results of weighted sums of rows.
    Weigh,
    /// Y = X S, where S is small.
    Times,
    /// Y = X S + beta Y.
    TimesAdd,
}

/// How rows and columns map to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VectorGrid {
    /// A block of threads for each tile of rows.
    RowTiles,
    /// A block of threads for each block of rows of `dot` and each 64 bytes of a row.
    DotBlocks,
    /// A block of threads for each block of rows of weighted sums and each 64 bytes of a row.
    WeighBlocks,
    /// A block of threads for each block of rows of `gram` and each tile of pairs of columns, with as many columns of each.
    GramBlocks(u32),
    /// A block of threads for each tile of 128 rows and 32 columns of Y.
    ProductTiles,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct VectorKernelInfo {
    /// The kernel.
    pub kernel: VectorKernel,
    /// Its name; the entry point of a precision has this name and the precision's.
    pub name: &'static str,
    /// Its file in `kernels/`.
    pub file: &'static str,
    /// The source text of that file, with its includes expanded.
    pub text: &'static str,
    /// The parameters of its entry points.
    pub parameters: &'static [Parameter],
    grid: VectorGrid,
}

/// The numbers of rows and columns of a launch. Kernels on one multivector have no columns of X.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorShape {
    /// Rows of X and Y.
    pub rows: u64,
    /// Columns of X.
    pub x_columns: u64,
    /// Columns of Y.
    pub y_columns: u64,
}

/// Bytes of Y in a tile of rows.
const TILE_BYTES: u64 = 32 << 10;
/// Threads of a block of row-wise kernels and of products with a small matrix.
const THREADS: u32 = 256;
/// Threads of a block of `dot`, and the bytes of a row that it reads.
const DOT_THREADS: u32 = 128;
const DOT_ROW_BYTES: u64 = 64;
/// Rows and columns of Y of a block of products with a small matrix.
const PRODUCT_TILE: [u64; 2] = [128, 32];

/// CUDA's limits on the number of blocks along x, and along y and z.
const MAX_BLOCKS: [u64; 2] = [(1 << 31) - 1, (1 << 16) - 1];
/// The most columns; kernels count columns in 32 bits.
const MAX_COLUMNS: u64 = 1 << 24;

const ROWS: (&str, &str) = ("vector_rows.cu", include_str!(concat!(env!("OUT_DIR"), "/vector_rows.cu")));
const SUMS: (&str, &str) = ("vector_sums.cu", include_str!(concat!(env!("OUT_DIR"), "/vector_sums.cu")));

const fn row(
    kernel: VectorKernel,
    name: &'static str,
    (file, text): (&'static str, &'static str),
    grid: VectorGrid,
    parameters: &'static [Parameter],
) -> VectorKernelInfo {
    VectorKernelInfo { kernel, name, file, text, parameters, grid }
}

/// All kernels on multivectors.
pub const VECTOR_KERNELS: &[VectorKernelInfo] = &{
    use Parameter::{Modify, Number, Read, Update, Write};
    use VectorGrid::{DotBlocks, GramBlocks, ProductTiles, RowTiles, WeighBlocks};
    const GRAM: &[Parameter] = &[
        Number("rows"),
        Number("x_columns"),
        Number("y_columns"),
        Read("x"),
        Number("ldx"),
        Read("y"),
        Number("ldy"),
        Write("partials"),
    ];
    [
        row(
            VectorKernel::Fill,
            "vectors_fill",
            ROWS,
            RowTiles,
            &[
                Number("rows"),
                Number("columns"),
                Number("tile_rows"),
                Number("value"),
                Write("y"),
                Number("ldy"),
            ],
        ),
        row(
            VectorKernel::Copy,
            "vectors_copy",
            ROWS,
            RowTiles,
            &[
                Number("rows"),
                Number("columns"),
                Number("tile_rows"),
                Read("x"),
                Number("ldx"),
                Write("y"),
                Number("ldy"),
            ],
        ),
        row(
            VectorKernel::GatherRows,
            "vectors_gather_rows",
            ROWS,
            RowTiles,
            &[
                Number("rows"),
                Number("columns"),
                Number("tile_rows"),
                Read("list"),
                Read("x"),
                Number("ldx"),
                Write("y"),
                Number("ldy"),
            ],
        ),
        row(
            VectorKernel::ScatterRows,
            "vectors_scatter_rows",
            ROWS,
            RowTiles,
            &[
                Number("rows"),
                Number("columns"),
                Number("tile_rows"),
                Read("list"),
                Read("x"),
                Number("ldx"),
                Modify("y"),
                Number("ldy"),
            ],
        ),
        row(
            VectorKernel::Scaled,
            "vectors_scaled",
            ROWS,
            RowTiles,
            &[
                Number("rows"),
                Number("columns"),
                Number("tile_rows"),
                Number("arrays"),
                Number("alpha"),
                Read("alphas"),
                Read("alpha_divisors"),
                Read("x"),
                Number("ldx"),
                Write("y"),
                Number("ldy"),
            ],
        ),
        row(
            VectorKernel::Scale,
            "vectors_scale",
            ROWS,
            RowTiles,
            &[
                Number("rows"),
                Number("columns"),
                Number("tile_rows"),
                Number("arrays"),
                Number("alpha"),
                Read("alphas"),
                Read("alpha_divisors"),
                Modify("y"),
                Number("ldy"),
            ],
        ),
        row(
            VectorKernel::Axpby,
            "vectors_axpby",
            ROWS,
            RowTiles,
            &[
                Number("rows"),
                Number("columns"),
                Number("tile_rows"),
                Number("arrays"),
                Number("alpha"),
                Read("alphas"),
                Read("alpha_divisors"),
                Number("beta"),
                Read("betas"),
                Read("beta_divisors"),
                Read("x"),
                Number("ldx"),
                Modify("y"),
                Number("ldy"),
            ],
        ),
        row(
            VectorKernel::Dot,
            "vectors_dot",
            SUMS,
            DotBlocks,
            &[
                Number("rows"),
                Number("columns"),
                Read("x"),
                Number("ldx"),
                Read("y"),
                Number("ldy"),
                Write("partials"),
            ],
        ),
        row(
            VectorKernel::DotTotal,
            "vectors_dot_total",
            SUMS,
            DotBlocks,
            &[
                Number("rows"),
                Number("columns"),
                Number("roots"),
                Read("x"),
                Number("ldx"),
                Read("y"),
                Number("ldy"),
                Write("partials"),
                Update("ended"),
                Write("totals"),
            ],
        ),
        row(VectorKernel::Gram8, "vectors_gram8", SUMS, GramBlocks(8), GRAM),
        row(VectorKernel::Gram16, "vectors_gram16", SUMS, GramBlocks(16), GRAM),
        row(VectorKernel::Gram32, "vectors_gram32", SUMS, GramBlocks(32), GRAM),
        row(
            VectorKernel::Weigh,
            "vectors_weigh",
            SUMS,
            WeighBlocks,
            &[
                Number("rows"),
                Number("columns"),
                Read("weights"),
                Read("y"),
                Number("ldy"),
                Write("partials"),
            ],
        ),
        row(
            VectorKernel::Times,
            "vectors_times",
            ROWS,
            ProductTiles,
            &[
                Number("rows"),
                Number("x_columns"),
                Number("columns"),
                Read("s"),
                Number("lds"),
                Read("x"),
                Number("ldx"),
                Write("y"),
                Number("ldy"),
            ],
        ),
        row(
            VectorKernel::TimesAdd,
            "vectors_times_add",
            ROWS,
            ProductTiles,
            &[
                Number("rows"),
                Number("x_columns"),
                Number("columns"),
                Number("beta"),
                Read("s"),
                Number("lds"),
                Read("x"),
                Number("ldx"),
                Modify("y"),
                Number("ldy"),
            ],
        ),
    ]
};

impl VectorKernel {
    /// The kernel's row in the table.
    pub fn info(self) -> &'static VectorKernelInfo {
        // Every kernel has a row, as a test checks; the fallback only keeps this function total.
        VECTOR_KERNELS.iter().find(|info| info.kernel == self).unwrap_or(&VECTOR_KERNELS[0])
    }

    /// The kernel for XᵀY with the smallest tile that covers all pairs of columns, or the largest tile.
    pub fn gram(x_columns: u64, y_columns: u64) -> Self {
        match x_columns.max(y_columns) {
            ..=8 => Self::Gram8,
            9..=16 => Self::Gram16,
            _ => Self::Gram32,
        }
    }

    /// The entry points.
    pub fn entry_point(self) -> EntryPoint {
        let VectorKernelInfo { name, file, text, parameters, .. } = *self.info();
        EntryPoint { name, file, text, parameters }
    }

    /// Rows of a tile of row-wise kernels.
    pub fn tile_rows(dtype: Dtype, columns: u64) -> u64 {
        (TILE_BYTES / columns.saturating_mul(dtype.bytes() as u64).max(1)).max(1)
    }

    /// The launch shape; an error if the grid exceeds CUDA's limits. It has no blocks if there is nothing to do.
    pub fn launch_shape(self, dtype: Dtype, shape: VectorShape) -> Result<LaunchShape> {
        let VectorShape { rows, x_columns, y_columns } = shape;
        let ([x, y, z], threads) = match self.info().grid {
            VectorGrid::RowTiles => {
                let tiles = rows.div_ceil(Self::tile_rows(dtype, y_columns));
                ([if y_columns == 0 { 0 } else { tiles }, 1, 1], THREADS)
            }
            grid @ (VectorGrid::DotBlocks | VectorGrid::WeighBlocks) => {
                let row_bytes = y_columns.saturating_mul(dtype.bytes() as u64);
                let is_dot = grid == VectorGrid::DotBlocks;
                let block_rows = if is_dot { DOT_BLOCK_ROWS } else { WEIGH_BLOCK_ROWS };
                ([rows.div_ceil(block_rows as u64), row_bytes.div_ceil(DOT_ROW_BYTES), 1], DOT_THREADS)
            }
            VectorGrid::GramBlocks(tile) => {
                let tiles = |columns: u64| columns.div_ceil(tile.into());
                let threads_of_strand = if tile == 32 { 64 } else { 16 };
                let blocks = rows.div_ceil(GRAM_BLOCK_ROWS as u64);
                ([blocks, tiles(x_columns), tiles(y_columns)], threads_of_strand * GRAM_STRANDS as u32)
            }
            VectorGrid::ProductTiles => {
                let [tile_rows, tile_columns] = PRODUCT_TILE;
                ([rows.div_ceil(tile_rows), y_columns.div_ceil(tile_columns), 1], THREADS)
            }
        };
        let fits = x <= MAX_BLOCKS[0] && y.max(z) <= MAX_BLOCKS[1];
        if !fits || x_columns.max(y_columns) > MAX_COLUMNS {
            return Err(Error::usage(format!(
                "{} cannot be launched for {rows} rows, {x_columns} columns of X and {y_columns} columns of Y: the grid would \
                 exceed CUDA's limits",
                self.info().name
            )));
        }
        Ok(LaunchShape {
            grid: [x as u32, y as u32, z as u32],
            block: [threads, 1, 1],
            dynamic_shared_bytes: 0,
        })
    }

    /// Bytes that the kernel reads from and writes to the multivectors, each once.
    pub fn moved_bytes(self, dtype: Dtype, shape: VectorShape) -> u64 {
        let VectorShape { rows, x_columns, y_columns } = shape;
        let columns = match self {
            Self::Fill | Self::Weigh => y_columns,
            Self::Scale => 2 * y_columns,
            Self::Axpby | Self::TimesAdd => x_columns + 2 * y_columns,
            _ => x_columns + y_columns,
        };
        rows.saturating_mul(columns).saturating_mul(dtype.bytes() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_one_row_with_its_entries() {
        for info in VECTOR_KERNELS {
            assert_eq!(info.kernel.info().name, info.name);
            let macro_entry = format!("{}_##type", info.name);
            assert!(info.text.contains(&macro_entry), "{}", info.name);
            assert!(!info.text.lines().any(|line| line.starts_with("#include")), "{}", info.file);
        }
        assert_eq!(VectorKernel::Dot.entry_point().entry(Dtype::F32), "vectors_dot_f32");
        let tiles = [1, 8, 9, 16, 17, 300].map(|columns| VectorKernel::gram(columns, 1));
        use VectorKernel::{Gram8, Gram16, Gram32};
        assert_eq!(tiles, [Gram8, Gram8, Gram16, Gram16, Gram32, Gram32]);
    }

    #[test]
    fn grids_cover_all_rows_and_columns_and_respect_the_limits() {
        let shape = |rows, x_columns, y_columns| VectorShape { rows, x_columns, y_columns };
        let grid = |kernel: VectorKernel, of| kernel.launch_shape(Dtype::F64, of).map(|launch| launch.grid);
        assert_eq!(grid(VectorKernel::Axpby, shape(129, 32, 32)).unwrap(), [2, 1, 1]);
        assert_eq!(grid(VectorKernel::Dot, shape(1025, 9, 9)).unwrap(), [2, 2, 1]);
        assert_eq!(grid(VectorKernel::Gram32, shape(4097, 33, 64)).unwrap(), [2, 2, 2]);
        assert_eq!(grid(VectorKernel::Times, shape(129, 5, 33)).unwrap(), [2, 2, 1]);
        for info in VECTOR_KERNELS {
            assert!(grid(info.kernel, shape(0, 3, 3)).unwrap().contains(&0), "{}", info.name);
            assert!(grid(info.kernel, shape(7, 0, 0)).unwrap().contains(&0), "{}", info.name);
            assert!(grid(info.kernel, shape(u64::MAX, 3, 3)).is_err(), "{}", info.name);
        }
    }

    #[test]
    fn the_constants_of_the_source_are_those_of_the_definition() {
        let text = VectorKernel::Dot.info().text;
        for (name, value) in [
            ("DOT_BLOCK_ROWS", DOT_BLOCK_ROWS),
            ("DOT_LANES", super::super::order::DOT_LANES),
            ("GRAM_BLOCK_ROWS", GRAM_BLOCK_ROWS),
            ("WEIGH_BLOCK_ROWS", WEIGH_BLOCK_ROWS),
            ("STRANDS", GRAM_STRANDS),
            ("STRAND_ROWS", super::super::order::GRAM_STRAND_ROWS),
        ] {
            let definition = |line: &&str| line.trim_end_matches('u') == format!("#define {name} {value}");
            assert!(text.lines().any(|line| definition(&line)), "{name}");
        }
    }
}
