//! Entry points and launch grids of the kernels for sums of columns.

use super::order::{GROUP_ROWS, STRANDS};
use crate::error::{Error, Result};
use crate::kernel::KernelId;
use crate::kernel::cuda::{EntryPoint, LaunchShape, Parameter};
use crate::matrix::Dtype;

/// The entry points of a kernel on a GPU, with or without squared deviations; a usage error for a kernel that has none.
pub fn entry_point(kernel: KernelId, deviations: bool) -> Result<&'static EntryPoint> {
    let index = match kernel {
        KernelId::ColmeanLoop => 0,
        KernelId::ColmeanReduce => 2,
        KernelId::ColmeanWarp => 4,
        _ => {
            return Err(Error::usage(format!("kernel {} has no entry point for column sums", kernel.name())));
        }
    };
    Ok(&COLMEAN_KERNELS[index + usize::from(deviations)])
}

/// The launch shape for a part of a matrix, which begins with a whole block; an error if it exceeds CUDA's limits.
pub fn launch_shape(
    kernel: KernelId,
    dtype: Dtype,
    rows: u64,
    columns: u64,
    block_rows: u64,
) -> Result<LaunchShape> {
    entry_point(kernel, false)?;
    let (columns_of_block, threads) = match kernel {
        KernelId::ColmeanLoop => (LOOP_THREADS, LOOP_THREADS),
        KernelId::ColmeanReduce => (REDUCE_COLUMNS, REDUCE_COLUMNS * STRANDS as u64),
        _ => (WARPS * WARP_BYTES / dtype.bytes() as u64, WARPS * 32),
    };
    let blocks = rows.div_ceil(block_rows.max(1));
    let is_block = block_rows.is_power_of_two() && block_rows >= (GROUP_ROWS * STRANDS) as u64;
    if !is_block || block_rows > MOST_BLOCK_ROWS || blocks > MOST_BLOCKS[0] {
        return Err(Error::usage(format!(
            "{} cannot be launched for {rows} rows in blocks of {block_rows}",
            kernel.name()
        )));
    }
    let tiles = columns.div_ceil(columns_of_block).min(MOST_BLOCKS[1]);
    let grid = [if columns == 0 { 0 } else { blocks as u32 }, tiles as u32, 1];
    Ok(LaunchShape { grid, block: [threads as u32, 1, 1], dynamic_shared_bytes: 0 })
}

/// The entry point that adds up the partial results of all blocks on a GPU.
pub fn totals_entry_point(deviations: bool) -> &'static EntryPoint {
    &TOTALS[usize::from(deviations)]
}

/// Its launch shape; an error if it exceeds CUDA's limits.
pub fn totals_launch_shape(columns: u64) -> Result<LaunchShape> {
    let blocks = columns.div_ceil(TOTALS_THREADS);
    if blocks > MOST_BLOCKS[0] {
        return Err(Error::usage(format!("the sums of {columns} columns cannot be added up in one launch")));
    }
    let grid = [blocks as u32, 1, 1];
    Ok(LaunchShape { grid, block: [TOTALS_THREADS as u32, 1, 1], dynamic_shared_bytes: 0 })
}

/// Threads of a block of `colmean_loop`, a column each.
const LOOP_THREADS: u64 = 128;
/// Columns of a block of threads of `colmean_reduce`.
const REDUCE_COLUMNS: u64 = 32;
/// Warps of a block of threads of `colmean_warp`, and bytes of a row that each reads.
const WARPS: u64 = 4;
const WARP_BYTES: u64 = 64;
/// Threads of a block of `colmean_totals`, a column each.
const TOTALS_THREADS: u64 = 64;
/// CUDA's limits on the number of blocks along x, and along y; kernels stride over more tiles along y.
const MOST_BLOCKS: [u64; 2] = [(1 << 31) - 1, (1 << 16) - 1];
/// Kernels count the rows of a block in 32 bits.
const MOST_BLOCK_ROWS: u64 = 1 << 31;

const SUMS: &[Parameter] = &{
    use Parameter::{Number, Read, Write};
    [Number("rows"), Number("columns"), Number("block_rows"), Read("x"), Number("ldx"), Write("sums")]
};
const SUMS_AND_DEVIATIONS: &[Parameter] = &{
    use Parameter::{Number, Read, Write};
    [
        Number("rows"),
        Number("columns"),
        Number("block_rows"),
        Read("x"),
        Number("ldx"),
        Write("sums"),
        Write("deviations"),
    ]
};

const PARTIALS: &[Parameter] = &{
    use Parameter::{Modify, Number};
    [Number("rows"), Number("columns"), Number("block_rows"), Modify("partials")]
};

const fn entries(names: [&'static str; 2], file: &'static str, text: &'static str) -> [EntryPoint; 2] {
    [
        EntryPoint { name: names[0], file, text, parameters: SUMS },
        EntryPoint { name: names[1], file, text, parameters: SUMS_AND_DEVIATIONS },
    ]
}

const LOOP: [EntryPoint; 2] = entries(
    ["colmean_loop", "colmean_loop_deviations"],
    "colmean_loop.cu",
    include_str!(concat!(env!("OUT_DIR"), "/colmean_loop.cu")),
);
const REDUCE: [EntryPoint; 2] = entries(
    ["colmean_reduce", "colmean_reduce_deviations"],
    "colmean_reduce.cu",
    include_str!(concat!(env!("OUT_DIR"), "/colmean_reduce.cu")),
);
const WARP: [EntryPoint; 2] = entries(
    ["colmean_warp", "colmean_warp_deviations"],
    "colmean_warp.cu",
    include_str!(concat!(env!("OUT_DIR"), "/colmean_warp.cu")),
);

const TOTALS_FILE: &str = "colmean_totals.cu";
const TOTALS_TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/colmean_totals.cu"));
const TOTALS: [EntryPoint; 2] = [
    EntryPoint { name: "colmean_totals", file: TOTALS_FILE, text: TOTALS_TEXT, parameters: PARTIALS },
    EntryPoint {
        name: "colmean_totals_deviations",
        file: TOTALS_FILE,
        text: TOTALS_TEXT,
        parameters: PARTIALS,
    },
];

/// The entry points of all kernels for GPUs.
pub const COLMEAN_KERNELS: &[EntryPoint] =
    &[LOOP[0], LOOP[1], REDUCE[0], REDUCE[1], WARP[0], WARP[1], TOTALS[0], TOTALS[1]];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{KindOfWork, Processor, kernels_for};

    #[test]
    fn every_gpu_kernel_has_its_entry_points() {
        for info in kernels_for(KindOfWork::Colmean) {
            for (deviations, suffix) in [(false, ""), (true, "_deviations")] {
                let entry = entry_point(info.id, deviations);
                assert_eq!(entry.is_ok(), info.runs_on == Processor::Gpu, "{}", info.name);
                let Ok(entry) = entry else { continue };
                assert_eq!(entry.name, format!("{}{suffix}", info.name));
                assert_eq!(entry.parameters.len(), 6 + usize::from(deviations));
            }
        }
        assert_eq!(entry_point(KernelId::CpuColmean, false).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn the_constants_of_the_source_are_those_of_the_definition() {
        let text = LOOP[0].text;
        for (name, value) in [("GROUP", GROUP_ROWS), ("STRANDS", STRANDS), ("THREADS", LOOP_THREADS as usize)]
        {
            assert!(text.lines().any(|line| line == format!("#define {name} {value}")), "{name}");
        }
        assert!(REDUCE[0].text.contains(&format!("#define WIDTH {REDUCE_COLUMNS}\n")));
        assert!(WARP[0].text.contains(&format!("#define WARPS {WARPS}\n")));
        assert!(TOTALS_TEXT.contains(&format!("#define THREADS {TOTALS_THREADS}\n")));
    }

    #[test]
    fn grids_cover_all_blocks_and_columns() {
        let shape = |kernel: KernelId, rows, columns| {
            launch_shape(kernel, Dtype::F64, rows, columns, 64).map(|shape| shape.grid)
        };
        assert_eq!(shape(KernelId::ColmeanLoop, 358, 5248).unwrap(), [6, 41, 1]);
        assert_eq!(shape(KernelId::ColmeanReduce, 65, 33).unwrap(), [2, 2, 1]);
        assert_eq!(shape(KernelId::ColmeanWarp, 64, 33).unwrap(), [1, 2, 1]);
        assert_eq!(shape(KernelId::ColmeanWarp, 64, 0).unwrap()[0], 0);
        assert_eq!(shape(KernelId::ColmeanWarp, 1, u64::MAX).unwrap()[1], 65535);
        assert_eq!(totals_launch_shape(65).unwrap().grid, [2, 1, 1]);
        assert!(totals_launch_shape(u64::MAX).is_err());
        assert!(shape(KernelId::ColmeanLoop, u64::MAX, 1).is_err());
        assert!(launch_shape(KernelId::ColmeanLoop, Dtype::F64, 1, 1, 32).is_err());
        assert!(launch_shape(KernelId::CpuColmean, Dtype::F64, 1, 1, 64).is_err());
    }
}
