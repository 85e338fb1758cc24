//! Entry points and launch grids of the kernels for dense products.

use crate::error::{Error, Result};
use crate::kernel::KernelId;
use crate::kernel::cuda::{EntryPoint, LaunchShape, Parameter};
use crate::matrix::Dtype;

/// The entry points of a kernel on a GPU; a usage error for a kernel that has none.
pub fn entry_point(kernel: KernelId) -> Result<&'static EntryPoint> {
    GEMM_KERNELS.iter().find(|entry| entry.name == kernel.name()).ok_or_else(|| {
        Error::usage(format!("kernel {} has no entry point for dense products", kernel.name()))
    })
}

/// Rows and columns of C of a block of threads, and its threads.
fn block(kernel: KernelId, dtype: Dtype) -> ([u64; 2], u32) {
    match (kernel, dtype) {
        (KernelId::GemmTiledT8, _) => ([8, 8], 64),
        (KernelId::GemmTiledT16, _) => ([16, 16], 256),
        (KernelId::GemmTiledT32, _) => ([32, 32], 1024),
        (KernelId::GemmBlocked, Dtype::F64) => ([128, 64], 256),
        (KernelId::GemmBlocked, Dtype::F32) => ([128, 128], 256),
        _ => ([8, 32], 256),
    }
}

/// The launch shape for a C of `rows` by `columns`; an error if it exceeds CUDA's limits.
pub fn launch_shape(kernel: KernelId, dtype: Dtype, rows: u64, columns: u64) -> Result<LaunchShape> {
    entry_point(kernel)?;
    let ([block_rows, block_columns], threads) = block(kernel, dtype);
    let blocks = rows.div_ceil(block_rows);
    if blocks > MOST_BLOCKS[0] {
        return Err(Error::usage(format!(
            "{} cannot be launched for {rows} rows: the grid would exceed CUDA's limits",
            kernel.name()
        )));
    }
    let tiles = columns.div_ceil(block_columns).min(MOST_BLOCKS[1]);
    let grid = [blocks as u32, tiles as u32, 1];
    let dynamic_shared_bytes = match (kernel, dtype) {
        (KernelId::GemmBlocked, Dtype::F64) => 2 * STAGE_BYTES,
        _ => 0,
    };
    Ok(LaunchShape { grid, block: [threads, 1, 1], dynamic_shared_bytes })
}

/// Bytes of a stage of `fragments.cuh`: 128 rows of A and 16 rows of B, with their padding.
const STAGE_BYTES: u32 = (128 * (16 + 4) + 16 * (64 + 4)) * 8;

/// CUDA's limits on the number of blocks along x, and along y; kernels stride over more tiles along y.
const MOST_BLOCKS: [u64; 2] = [(1 << 31) - 1, (1 << 16) - 1];

const fn entry(name: &'static str, file: &'static str, text: &'static str) -> EntryPoint {
    use Parameter::{Number, Read, Result};
    const PARAMETERS: &[Parameter] = &[
        Number("rows"),
        Number("columns"),
        Number("depth"),
        Read("a"),
        Number("lda"),
        Read("b"),
        Number("ldb"),
        Result("c"),
        Number("ldc"),
        Number("alpha"),
        Number("beta"),
    ];
    EntryPoint { name, file, text, parameters: PARAMETERS }
}

const TILED: (&str, &str) = ("gemm_tiled.cu", include_str!(concat!(env!("OUT_DIR"), "/gemm_tiled.cu")));

/// The entry points of all kernels for GPUs.
pub const GEMM_KERNELS: &[EntryPoint] = &[
    entry("gemm_naive", "gemm_naive.cu", include_str!(concat!(env!("OUT_DIR"), "/gemm_naive.cu"))),
    entry("gemm_tiled_t8", TILED.0, TILED.1),
    entry("gemm_tiled_t16", TILED.0, TILED.1),
    entry("gemm_tiled_t32", TILED.0, TILED.1),
    entry("gemm_blocked", "gemm_blocked.cu", include_str!(concat!(env!("OUT_DIR"), "/gemm_blocked.cu"))),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{KindOfWork, Processor, kernels_for};

    #[test]
    fn every_gpu_kernel_except_the_library_has_an_entry_point() {
        for info in kernels_for(KindOfWork::Gemm) {
            let has_one = info.runs_on == Processor::Gpu && info.id != KernelId::Cublas;
            assert_eq!(entry_point(info.id).is_ok(), has_one, "{}", info.name);
        }
        assert_eq!(launch_shape(KernelId::CpuGemm, Dtype::F64, 1, 1).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn the_tiles_of_the_source_are_those_of_the_grids() {
        let text = entry_point(KernelId::GemmBlocked).unwrap().text;
        let ([rows, columns], threads) = block(KernelId::GemmBlocked, Dtype::F32);
        assert!(text.contains(&format!("ROWS = {rows}, COLUMNS = {columns}, DEPTH")));
        assert_eq!(u64::from(threads), rows / 8 * (columns / 8));
        let ([rows, columns], threads) = block(KernelId::GemmBlocked, Dtype::F64);
        let tile = format!(
            "TILE_ROWS {rows}\n#define TILE_COLUMNS {columns}\n#define TILE_DEPTH 16\n#define WARP_PART 32\n"
        );
        assert!(
            text.contains(&tile) && text.contains("(TILE_DEPTH + 4)") && text.contains("(TILE_COLUMNS + 4)")
        );
        assert_eq!(u64::from(threads), rows / 32 * (columns / 32) * 32);
        let text = entry_point(KernelId::GemmNaive).unwrap().text;
        assert!(text.contains("#define BLOCK_ROWS 8\n#define BLOCK_COLUMNS 32\n"));
    }

    #[test]
    fn grids_cover_all_rows_and_columns_and_respect_the_limits() {
        let grid = |kernel: KernelId, rows, columns| {
            launch_shape(kernel, Dtype::F64, rows, columns).map(|shape| shape.grid)
        };
        assert_eq!(grid(KernelId::GemmNaive, 9, 33).unwrap(), [2, 2, 1]);
        assert_eq!(grid(KernelId::GemmTiledT32, 32, 33).unwrap(), [1, 2, 1]);
        assert_eq!(grid(KernelId::GemmBlocked, 129, 64).unwrap(), [2, 1, 1]);
        assert_eq!(grid(KernelId::GemmBlocked, 0, 64).unwrap()[0], 0);
        assert_eq!(grid(KernelId::GemmTiledT8, 1, u64::MAX).unwrap()[1], 65535);
        assert!(grid(KernelId::GemmTiledT8, u64::MAX, 1).is_err());
    }
}
