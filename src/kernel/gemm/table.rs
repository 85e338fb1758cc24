//! The table of kernels for dense products: names, orders, entry points and launch grids.

use crate::error::{Error, Result};
use crate::kernel::cuda::{EntryPoint, LaunchShape, Parameter};
use crate::kernel::{Order, Processor};
use crate::matrix::Dtype;

/// A kernel for dense products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GemmKernel {
    /// CPU, one thread.
    GemmReference,
    /// CPU, all cores, canonical order.
    CpuGemmRows,
    /// CPU, all cores, the kernels of the `gemm` crates.
    CpuGemm,
    /// One GPU thread per element of C.
    GemmNaive,
    /// One GPU thread per element of C, tiles of 8 by 8 in shared memory.
    #[serde(rename = "gemm_tiled_t8")]
    GemmTiled8,
    /// One GPU thread per element of C, tiles of 16 by 16 in shared memory.
    #[serde(rename = "gemm_tiled_t16")]
    GemmTiled16,
    /// One GPU thread per element of C, tiles of 32 by 32 in shared memory.
    #[serde(rename = "gemm_tiled_t32")]
    GemmTiled32,
    /// 8 by 8 elements of C in the registers of each GPU thread.
    GemmBlocked,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct GemmKernelInfo {
    /// The kernel.
    pub kernel: GemmKernel,
    /// The name for `--kernel`.
    pub name: &'static str,
    /// The processor it runs on.
    pub runs_on: Processor,
    /// The order in which it accumulates an element.
    pub order: Order,
    /// What the kernel does and which matrices it suits.
    pub summary: &'static str,
}

impl GemmKernel {
    /// All kernels.
    pub const TABLE: &[GemmKernelInfo] = &[
        GemmKernelInfo {
            kernel: Self::GemmReference,
            name: "gemm_reference",
            runs_on: Processor::Cpu,
            order: Order::Canonical,
            summary: "one CPU thread, one element of C at a time; the baseline for speed-ups",
        },
        GemmKernelInfo {
            kernel: Self::CpuGemmRows,
            name: "cpu_gemm_rows",
            runs_on: Processor::Cpu,
            order: Order::Canonical,
            summary: "all cores, panels of B packed, SIMD over the columns of C; reproducible",
        },
        GemmKernelInfo {
            kernel: Self::CpuGemm,
            name: "cpu_gemm",
            runs_on: Processor::Cpu,
            order: Order::Free,
            summary: "all cores, A and B packed, kernels of the gemm crate; the default CPU kernel",
        },
        GemmKernelInfo {
            kernel: Self::GemmNaive,
            name: "gemm_naive",
            runs_on: Processor::Gpu,
            order: Order::Canonical,
            summary: "one GPU thread per element of C, operands from global memory; for comparison",
        },
        GemmKernelInfo {
            kernel: Self::GemmTiled8,
            name: "gemm_tiled_t8",
            runs_on: Processor::Gpu,
            order: Order::Canonical,
            summary: "one GPU thread per element of C, tiles of 8 by 8 in shared memory; for comparison",
        },
        GemmKernelInfo {
            kernel: Self::GemmTiled16,
            name: "gemm_tiled_t16",
            runs_on: Processor::Gpu,
            order: Order::Canonical,
            summary: "one GPU thread per element of C, tiles of 16 by 16 in shared memory; for comparison",
        },
        GemmKernelInfo {
            kernel: Self::GemmTiled32,
            name: "gemm_tiled_t32",
            runs_on: Processor::Gpu,
            order: Order::Canonical,
            summary: "one GPU thread per element of C, tiles of 32 by 32 in shared memory; for comparison",
        },
        GemmKernelInfo {
            kernel: Self::GemmBlocked,
            name: "gemm_blocked",
            runs_on: Processor::Gpu,
            order: Order::Canonical,
            summary: "8 by 8 elements of C in the registers of each GPU thread, the next step loaded meanwhile; the default GPU \
                      kernel",
        },
    ];

    /// The kernel's row in the table.
    pub fn info(self) -> &'static GemmKernelInfo {
        // Every kernel has a row, as a test checks; the fallback only keeps this function total.
        Self::TABLE.iter().find(|info| info.kernel == self).unwrap_or(&Self::TABLE[0])
    }

    /// The name for `--kernel`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The entry points on a GPU; a usage error for a CPU kernel.
    pub fn entry_point(self) -> Result<&'static EntryPoint> {
        GEMM_KERNELS
            .iter()
            .find(|kernel| kernel.name == self.name())
            .ok_or_else(|| Error::Usage(format!("kernel {} does not run on a GPU", self.name())))
    }

    /// Rows and columns of C of a block of threads, and its threads.
    fn block(self, dtype: Dtype) -> Result<([u64; 2], u32)> {
        self.entry_point()?;
        Ok(match (self, dtype) {
            (Self::GemmTiled8, _) => ([8, 8], 64),
            (Self::GemmTiled16, _) => ([16, 16], 256),
            (Self::GemmTiled32, _) => ([32, 32], 1024),
            (Self::GemmBlocked, Dtype::F64) => ([128, 64], 128),
            (Self::GemmBlocked, Dtype::F32) => ([128, 128], 256),
            _ => ([8, 32], 256),
        })
    }

    /// The launch shape for a C of `rows` by `columns`; an error if it exceeds CUDA's limits.
    pub fn launch_shape(self, dtype: Dtype, rows: u64, columns: u64) -> Result<LaunchShape> {
        let ([block_rows, block_columns], threads) = self.block(dtype)?;
        let blocks = rows.div_ceil(block_rows);
        if blocks > MOST_BLOCKS[0] {
            return Err(Error::Usage(format!(
                "{} cannot be launched for {rows} rows: the grid would exceed CUDA's limits",
                self.name()
            )));
        }
        let tiles = columns.div_ceil(block_columns).min(MOST_BLOCKS[1]);
        let grid = [blocks as u32, tiles as u32, 1];
        Ok(LaunchShape { grid, block: [threads, 1, 1], dynamic_shared_bytes: 0 })
    }
}

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

    #[test]
    fn every_kernel_has_one_row_and_gpu_kernels_have_entry_points() {
        for info in GemmKernel::TABLE {
            assert_eq!(info.kernel.info().name, info.name);
            assert_eq!(serde_json::to_value(info.kernel).unwrap(), info.name);
            assert_eq!(info.kernel.entry_point().is_ok(), info.runs_on == Processor::Gpu, "{}", info.name);
        }
        assert_eq!(GemmKernel::CpuGemm.launch_shape(Dtype::F64, 1, 1).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn the_tiles_of_the_source_are_those_of_the_grids() {
        let text = GemmKernel::GemmBlocked.entry_point().unwrap().text;
        for dtype in [Dtype::F64, Dtype::F32] {
            let ([rows, columns], threads) = GemmKernel::GemmBlocked.block(dtype).unwrap();
            assert!(text.contains(&format!("ROWS = {rows}, COLUMNS = {columns}, DEPTH")), "{dtype}");
            assert_eq!(u64::from(threads), rows / 8 * (columns / 8));
        }
        let text = GemmKernel::GemmNaive.entry_point().unwrap().text;
        assert!(text.contains("#define BLOCK_ROWS 8\n#define BLOCK_COLUMNS 32\n"));
    }

    #[test]
    fn grids_cover_all_rows_and_columns_and_respect_the_limits() {
        let grid = |kernel: GemmKernel, rows, columns| {
            kernel.launch_shape(Dtype::F64, rows, columns).map(|shape| shape.grid)
        };
        assert_eq!(grid(GemmKernel::GemmNaive, 9, 33).unwrap(), [2, 2, 1]);
        assert_eq!(grid(GemmKernel::GemmTiled32, 32, 33).unwrap(), [1, 2, 1]);
        assert_eq!(grid(GemmKernel::GemmBlocked, 129, 64).unwrap(), [2, 1, 1]);
        assert_eq!(grid(GemmKernel::GemmBlocked, 0, 64).unwrap()[0], 0);
        assert_eq!(grid(GemmKernel::GemmTiled8, 1, u64::MAX).unwrap()[1], 65535);
        assert!(grid(GemmKernel::GemmTiled8, u64::MAX, 1).is_err());
    }
}
