//! The CUDA kernels: source text, entry points, and launch grids.
//!
//! The source is CUDA C++ without headers; NVRTC and the emulator compile the same text. Every parameter of an entry point
//! is eight bytes wide: a 64-bit number or a pointer.

mod entry_point;
mod forms;
pub mod parameter;
mod shape;
mod table;
mod variant;

pub use entry_point::EntryPoint;
pub use forms::pitch_bytes;
pub use parameter::Parameter;
pub use shape::{Grid, Items, LARGEST_TILE_BYTES, LaunchShape, MAX_TILES};
pub use table::CUDA_KERNELS;
pub(super) use table::text;
pub use variant::{Constant, Variant};

use super::id::KernelId;
use crate::error::{Advice, Error, Result};
use crate::matrix::Dtype;

/// The storage layout of a chunk of A in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// CSR: arrays `row_pointers`, `columns`, `values`.
    Csr,
    /// ELLPACK, every row padded to `width` entries: arrays `columns`, `values`.
    Ellpack,
    /// CSR with a list of the segments of long rows: `work::spmm::cuts`.
    Cuts,
    /// The same with one value for all nonzeros: `work::spmm::cuts`.
    Pattern,
    /// The same with columns and values packed: `work::spmm::packed`.
    Packed,
    /// CSR with a list of runs of consecutive rows: `work::spmm::items`.
    Runs,
    /// CSR with a list of short rows and of pieces of long rows: `work::spmm::items`.
    Pieces,
    /// CSR divided into blocks of consecutive rows with a limited number of nonzeros: `work::spmm::row_blocks`.
    RowBlocks,
    /// Groups of rows, each with the union of its rows' columns: `work::spmm::row_groups`.
    RowGroups,
    /// Sliced ELLPACK: `work::spmm::slices`.
    Slices,
    /// ELLPACK of a small width, with longer rows stored separately: `work::spmm::hybrid`.
    Hybrid,
}

/// A kernel for CUDA devices.
#[derive(Debug, Clone, Copy)]
pub struct CudaKernel {
    /// The kernel.
    pub id: KernelId,
    /// Its file in `kernels/` or `kernels/sources/`, without the folder.
    pub file: &'static str,
    /// The source text of that file, with its includes expanded.
    pub text: &'static str,
    /// The storage layout of A that it reads.
    pub layout: Layout,
    /// The parameters of its entry points.
    pub parameters: &'static [Parameter],
    /// How items and columns map to threads.
    pub grid: Grid,
    /// The compile-time constants in which its entry points differ; empty if there is one entry point per precision.
    pub constants: &'static [Constant],
    /// The forms that its file has entry points for; the first is the default.
    pub variants: &'static [Variant],
}

impl CudaKernel {
    /// The CUDA kernel with this id; a usage error if the id names a CPU kernel.
    pub fn of(id: KernelId) -> Result<&'static Self> {
        CUDA_KERNELS
            .iter()
            .find(|kernel| kernel.id == id)
            .ok_or_else(|| Error::usage(format!("kernel {} does not run on a GPU", id.name())))
    }

    /// Whether it reads X stored by columns.
    pub fn transposes_x(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.name() == "x_transposed")
    }

    /// The kernel and form of a name such as `csr_vector_subwarp_w4`; none if no built-in form has this name.
    pub fn by_name(name: &str) -> Option<(KernelId, Variant)> {
        CUDA_KERNELS.iter().filter(|kernel| !kernel.constants.is_empty()).find_map(|kernel| {
            let variant = kernel.variants.iter().find(|variant| kernel.variant_name(variant) == name)?;
            Some((kernel.id, *variant))
        })
    }

    /// The default form, regardless of the matrix.
    pub fn first_variant(&self) -> Variant {
        self.variants.first().copied().unwrap_or_default()
    }

    /// The name of a form, as `--kernel` takes it: `csr_vector_subwarp_w4`.
    pub fn variant_name(&self, variant: &Variant) -> String {
        join(self.id.name(), &self.suffix(variant))
    }

    /// The name of the form's entry point for a precision: `csr_scalar_v3_f64`, `csr_vector_subwarp_f32_w4`.
    pub fn entry(&self, dtype: Dtype, variant: &Variant) -> String {
        join(&format!("{}_{}", self.id.name(), dtype.name()), &self.suffix(variant))
    }

    fn suffix(&self, variant: &Variant) -> String {
        // The name omits a single way if forms have a depth, and always omits a single share.
        let is_named = |constant: &&Constant| match constant {
            Constant::Ways => variant.ways != 1 || !self.constants.contains(&Constant::Depth),
            Constant::Shares => variant.shares != 1,
            _ => true,
        };
        self.constants
            .iter()
            .filter(is_named)
            .map(|constant| format!("{}{}", constant.letter(), constant.of(variant)))
            .collect()
    }

    /// The compiler definitions of one form for exactly `k` columns.
    ///
    /// `uniform`: all values of A are equal. `only_heavy`: the launch has heavy items only.
    pub fn defines(
        &self,
        variant: &Variant,
        dtype: Dtype,
        k: u64,
        (uniform, only_heavy): (bool, bool),
    ) -> Vec<String> {
        let scalar = match dtype {
            Dtype::F64 => "double",
            Dtype::F32 => "float",
        };
        let entry = format!("-DENTRY={}", self.entry(dtype, variant));
        let mut defines = vec![format!("-DEXACT_K={k}"), entry, format!("-DSCALAR={scalar}")];
        // All constants are defined, since kernels that share a file share its text.
        let all = [
            Constant::Bytes,
            Constant::Lanes,
            Constant::Vectors,
            Constant::Ways,
            Constant::Shares,
            Constant::Rows,
            Constant::Depth,
        ];
        // The piece length is defined only for kernels that declare it: for the others only the item list depends on it.
        let own = self.constants.iter().copied().filter(|&constant| constant == Constant::Piece);
        let define = |constant: Constant| format!("-D{}={}", constant.macro_name(), constant.of(variant));
        defines.extend(all.into_iter().chain(own).map(define));
        let facts = [(uniform, "-DUNIFORM"), (only_heavy, "-DONLY_HEAVY")];
        defines.extend(facts.into_iter().filter(|(holds, _)| *holds).map(|(_, define)| define.into()));
        defines
    }

    /// The launch shape for `items` items and `k` columns; an error if the grid exceeds CUDA's limits.
    pub fn shape(
        &self,
        variant: &Variant,
        dtype: Dtype,
        items: impl Into<Items>,
        k: u64,
    ) -> Result<LaunchShape> {
        let items = items.into();
        self.grid.shape(variant, dtype, items, k).ok_or_else(|| {
            Error::usage(format!(
                "kernel {} cannot be launched for {} items and k = {k}: the grid would exceed CUDA's limit of blocks",
                self.id.name(),
                items.count
            ))
            .advise([Advice::SmallerChunks])
        })
    }
}

fn join(name: &str, suffix: &str) -> String {
    if suffix.is_empty() { name.into() } else { format!("{name}_{suffix}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{KindOfWork, Processor, kernels_of};

    #[test]
    fn every_gpu_kernel_has_source_text_and_entry_points() {
        for info in kernels_of(KindOfWork::Spmm, Processor::Gpu) {
            let kernel = CudaKernel::of(info.id).unwrap();
            let variant = kernel.first_variant();
            assert!(kernel.entry(Dtype::F64, &variant).starts_with(&format!("{}_f64", info.name)));
            assert!(kernel.entry(Dtype::F32, &variant).starts_with(&format!("{}_f32", info.name)));
            assert!(kernel.text.contains("extern \"C\" __global__"));
            assert!(!kernel.text.lines().any(|line| line.starts_with("#include")), "{}", info.name);
            assert_eq!(kernel.variants.len() > 1, !kernel.constants.is_empty(), "{}", info.name);
        }
        assert_eq!(kernels_of(KindOfWork::Spmm, Processor::Gpu).count(), CUDA_KERNELS.len());
        assert_eq!(CudaKernel::of(KernelId::CpuCsr).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn form_names_and_compiler_definitions_follow_from_the_constants() {
        let kernel = CudaKernel {
            constants: &[Constant::Lanes, Constant::Vectors, Constant::Ways, Constant::Rows, Constant::Depth],
            ..*CudaKernel::of(KernelId::CsrVector).unwrap()
        };
        let variant = Variant {
            lanes: 8,
            vectors: 2,
            ways: 4,
            rows: 3,
            depth: 5,
            threads: 256,
            piece: 256,
            ..Variant::PLAIN
        };
        assert_eq!(kernel.entry(Dtype::F64, &variant), "csr_vector_f64_l8v2w4r3d5");
        assert_eq!(kernel.variant_name(&variant), "csr_vector_l8v2w4r3d5");
        let defines = kernel.defines(&variant, Dtype::F32, 32, (true, true)).join(" ");
        assert_eq!(
            defines,
            "-DEXACT_K=32 -DENTRY=csr_vector_f32_l8v2w4r3d5 -DSCALAR=float -DBYTES=16 -DLANES=8 -DVECTORS=2 -DWAYS=4 \
             -DSHARES=1 -DROWS=3 -DDEPTH=5 -DUNIFORM -DONLY_HEAVY"
        );
        let all = CudaKernel { constants: &[Constant::Shares, Constant::Depth, Constant::Piece], ..kernel };
        assert_eq!(all.variant_name(&variant), "csr_vector_d5p256");
        assert_eq!(all.variant_name(&Variant { shares: 2, ..variant }), "csr_vector_s2d5p256");
        let defines = all.defines(&variant, Dtype::F32, 32, (false, false)).join(" ");
        assert!(defines.ends_with("-DSHARES=1 -DROWS=3 -DDEPTH=5 -DPIECE=256"), "{defines}");
        assert_eq!(kernel.variant_name(&Variant { ways: 1, ..variant }), "csr_vector_l8v2r3d5");
        let named = CudaKernel::by_name("csr_vector_subwarp_w8");
        assert_eq!(named, Some((KernelId::CsrVectorSubwarp, Variant { ways: 8, ..Variant::PLAIN })));
        assert_eq!(CudaKernel::by_name("csr_vector_subwarp_w7"), None);
        let plain = CudaKernel::of(KernelId::CsrVector).unwrap();
        assert_eq!(plain.entry(Dtype::F32, &plain.first_variant()), "csr_vector_f32");
    }

    #[test]
    fn the_grid_covers_every_element_with_less_than_one_block_to_spare() {
        for kernel in CUDA_KERNELS.iter().filter(|kernel| kernel.grid == Grid::Elements) {
            let variant = kernel.first_variant();
            for (rows, k) in [(0, 4), (1, 1), (511, 1), (512, 1), (513, 1), (1000, 33), (1 << 33, 3)] {
                let shape = kernel.shape(&variant, Dtype::F64, rows, k).unwrap();
                let threads = u64::from(shape.grid[0]) * u64::from(shape.block[0]);
                let needed = rows * k * u64::from(variant.ways);
                assert!(threads >= needed && threads < needed + u64::from(variant.threads), "{rows} {k}");
            }
            let shape = |rows, k| kernel.shape(&variant, Dtype::F64, rows, k);
            assert!(shape(u64::MAX, 2).is_err() && shape(1 << 50, 1).is_err());
        }
    }

    #[test]
    fn tiles_cover_every_column_of_every_item() {
        let variant = Variant { lanes: 4, vectors: 2, ways: 2, threads: 128, ..Variant::PLAIN };
        for (dtype, columns) in [(Dtype::F64, 16), (Dtype::F32, 32)] {
            for (items, k) in [(1u64, 1u64), (16, 16), (17, 33), (1000, 64), (5, 100), (0, 7), (7, 0)] {
                let shape = Grid::Tiles.shape(&variant, dtype, Items::from(items), k).unwrap();
                let [x, y, _] = shape.grid.map(u64::from);
                assert_eq!(x * y, items.div_ceil(128 / 8) * k.div_ceil(columns), "{items} {k}");
            }
        }
        assert!(Grid::Tiles.shape(&variant, Dtype::F64, Items::from(1), 1 << 21).is_none());
        // A block has 128 threads: 4 warps, or 16 groups of 8 lanes.
        let blocks = |grid: Grid, heavy| {
            grid.shape(&variant, Dtype::F64, Items { count: 10_000, heavy }, 1).unwrap().grid[0]
        };
        assert_eq!(blocks(Grid::HeavyTiles, 9), 3 + 9_991u32.div_ceil(16));
        assert_eq!(blocks(Grid::LongestTiles, 9), 3 + 9_991u32.div_ceil(16));
        assert_eq!(blocks(Grid::HeavyTiles, 8_000), 2_000 + 125);
        assert_eq!(
            blocks(Grid::LongestTiles, 8_000),
            10_000 / 16,
            "above the limit, heavy items get no warp each"
        );
    }
}
