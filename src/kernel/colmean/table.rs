//! The table of kernels for sums of columns: names, entry points and launch grids.

use super::order::{GROUP_ROWS, STRANDS};
use crate::error::{Error, Result};
use crate::kernel::Processor;
use crate::kernel::cuda::{EntryPoint, LaunchShape, Parameter};
use crate::matrix::Dtype;

/// A kernel for sums of columns. All of them give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColmeanKernel {
    /// CPU, all cores.
    CpuColmean,
    /// One GPU thread per column of a block of rows.
    ColmeanLoop,
    /// One GPU thread per strand and column; a tree in shared memory.
    ColmeanReduce,
    /// One warp per 64 bytes of columns; shuffles.
    ColmeanWarp,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct ColmeanKernelInfo {
    /// The kernel.
    pub kernel: ColmeanKernel,
    /// The name for `--kernel`.
    pub name: &'static str,
    /// The processor it runs on.
    pub runs_on: Processor,
    /// What the kernel does and which matrices it suits.
    pub summary: &'static str,
}

impl ColmeanKernel {
    /// All kernels.
    pub const TABLE: &[ColmeanKernelInfo] = &[
        ColmeanKernelInfo {
            kernel: Self::CpuColmean,
            name: "cpu_colmean",
            runs_on: Processor::Cpu,
            summary: "all cores, eight rows at a time, SIMD over the columns; reads the matrix once",
        },
        ColmeanKernelInfo {
            kernel: Self::ColmeanLoop,
            name: "colmean_loop",
            runs_on: Processor::Gpu,
            summary: "one GPU thread per column of a block of rows; suits many columns",
        },
        ColmeanKernelInfo {
            kernel: Self::ColmeanReduce,
            name: "colmean_reduce",
            runs_on: Processor::Gpu,
            summary: "eight GPU threads per column of a block of rows, a tree in shared memory; for comparison",
        },
        ColmeanKernelInfo {
            kernel: Self::ColmeanWarp,
            name: "colmean_warp",
            runs_on: Processor::Gpu,
            summary: "one warp per 64 bytes of columns of a block of rows, eight loads of 16 bytes in flight, shuffles; \
                      suits any shape",
        },
    ];

    /// The kernel's row in the table.
    pub fn info(self) -> &'static ColmeanKernelInfo {
        // Every kernel has a row, as a test checks; the fallback only keeps this function total.
        Self::TABLE.iter().find(|info| info.kernel == self).unwrap_or(&Self::TABLE[0])
    }

    /// The name for `--kernel`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The entry points on a GPU, with or without squared deviations; a usage error for the CPU's kernel.
    pub fn entry_point(self, deviations: bool) -> Result<&'static EntryPoint> {
        let index = match self {
            Self::CpuColmean => {
                return Err(Error::Usage(format!("kernel {} does not run on a GPU", self.name())));
            }
            Self::ColmeanLoop => 0,
            Self::ColmeanReduce => 2,
            Self::ColmeanWarp => 4,
        };
        Ok(&COLMEAN_KERNELS[index + usize::from(deviations)])
    }

    /// The launch shape for a part of a matrix, which begins with a whole block; an error if it exceeds CUDA's limits.
    pub fn launch_shape(self, dtype: Dtype, rows: u64, columns: u64, block_rows: u64) -> Result<LaunchShape> {
        let (columns_of_block, threads) = match self {
            Self::CpuColmean => self.entry_point(false).map(|_| (1, 1))?,
            Self::ColmeanLoop => (LOOP_THREADS, LOOP_THREADS),
            Self::ColmeanReduce => (REDUCE_COLUMNS, REDUCE_COLUMNS * STRANDS as u64),
            Self::ColmeanWarp => (WARPS * WARP_BYTES / dtype.bytes() as u64, WARPS * 32),
        };
        let blocks = rows.div_ceil(block_rows.max(1));
        let is_block = block_rows.is_power_of_two() && block_rows >= (GROUP_ROWS * STRANDS) as u64;
        if !is_block || block_rows > MOST_BLOCK_ROWS || blocks > MOST_BLOCKS[0] {
            return Err(Error::Usage(format!(
                "{} cannot be launched for {rows} rows in blocks of {block_rows}",
                self.name()
            )));
        }
        let tiles = columns.div_ceil(columns_of_block).min(MOST_BLOCKS[1]);
        let grid = [if columns == 0 { 0 } else { blocks as u32 }, tiles as u32, 1];
        Ok(LaunchShape { grid, block: [threads as u32, 1, 1], dynamic_shared_bytes: 0 })
    }
}

/// Threads of a block of `colmean_loop`, a column each.
const LOOP_THREADS: u64 = 128;
/// Columns of a block of threads of `colmean_reduce`.
const REDUCE_COLUMNS: u64 = 32;
/// Warps of a block of threads of `colmean_warp`, and bytes of a row that each reads.
const WARPS: u64 = 4;
const WARP_BYTES: u64 = 64;
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

/// The entry points of all kernels for GPUs.
pub const COLMEAN_KERNELS: &[EntryPoint] = &[LOOP[0], LOOP[1], REDUCE[0], REDUCE[1], WARP[0], WARP[1]];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_one_row_and_its_entry_points() {
        for info in ColmeanKernel::TABLE {
            assert_eq!(info.kernel.info().name, info.name);
            assert_eq!(serde_json::to_value(info.kernel).unwrap(), info.name);
            for (deviations, suffix) in [(false, ""), (true, "_deviations")] {
                let Ok(entry_point) = info.kernel.entry_point(deviations) else { continue };
                assert_eq!(entry_point.name, format!("{}{suffix}", info.name));
                assert_eq!(entry_point.parameters.len(), 6 + usize::from(deviations));
            }
        }
        assert_eq!(ColmeanKernel::CpuColmean.entry_point(false).unwrap_err().exit_code(), 2);
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
    }

    #[test]
    fn grids_cover_all_blocks_and_columns() {
        let shape = |kernel: ColmeanKernel, rows, columns| {
            kernel.launch_shape(Dtype::F64, rows, columns, 64).map(|shape| shape.grid)
        };
        assert_eq!(shape(ColmeanKernel::ColmeanLoop, 358, 5248).unwrap(), [6, 41, 1]);
        assert_eq!(shape(ColmeanKernel::ColmeanReduce, 65, 33).unwrap(), [2, 2, 1]);
        assert_eq!(shape(ColmeanKernel::ColmeanWarp, 64, 33).unwrap(), [1, 2, 1]);
        assert_eq!(shape(ColmeanKernel::ColmeanWarp, 64, 0).unwrap()[0], 0);
        assert_eq!(shape(ColmeanKernel::ColmeanWarp, 1, u64::MAX).unwrap()[1], 65535);
        assert!(shape(ColmeanKernel::ColmeanLoop, u64::MAX, 1).is_err());
        assert!(ColmeanKernel::ColmeanLoop.launch_shape(Dtype::F64, 1, 1, 32).is_err());
        assert!(ColmeanKernel::CpuColmean.launch_shape(Dtype::F64, 1, 1, 64).is_err());
    }
}
