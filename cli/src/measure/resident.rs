//! Kernels on a device with memory of its own. A is resident in every storage format that they read; X is copied once per K.

use std::collections::HashMap;

use super::bench::{KernelNames, Subject};
use super::synchronous_device::SynchronousDevice;
use rowloom::internal::device::{FaultKind, Launch, MemoryRange, Operands, RowBytes};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::KernelId;
use rowloom::internal::kernel::cuda::{CUDA_KERNELS, CudaKernel, Layout, Variant};
use rowloom::internal::matrix::{CsrView, MultiVectorView, Scalar};
use rowloom::internal::work::HeldRows;
use rowloom::internal::work::spmm::Storage;
use rowloom::internal::work::{XOrder, pitch_bytes};

/// Seconds that the calls of one measurement should take together.
const BATCH_SECONDS: f64 = 200e-6;

/// Most calls of one measurement.
const MAX_BATCH_CALLS: f64 = 20.0;

/// Which storage of A: its format, the nonzeros of a piece and the rows of a group.
type StorageKey = (Layout, u32, u32);

/// A in one format, in device memory.
struct Stored {
    storage: Storage,
    range: MemoryRange,
}

/// X and Y of one K on the device.
struct Vectors {
    k: u64,
    pitch_bytes: u64,
    x: MemoryRange,
    /// X in column-major order, where some kernel reads it so.
    x_transposed: Option<MemoryRange>,
    y: MemoryRange,
    /// As large as the kernel with the largest scratch memory needs.
    scratch: MemoryRange,
}

/// The kernels of a device on one matrix.
pub struct ResidentBench<'a, T: Scalar> {
    device: &'a mut SynchronousDevice,
    matrix: CsrView<'a, T>,
    names: KernelNames,
    /// The forms for the present K.
    kernels: Vec<(&'static CudaKernel, Variant)>,
    /// Whether all values are equal.
    uniform: bool,
    /// A in each format, or why the format cannot hold it.
    stored: HashMap<StorageKey, std::result::Result<Stored, String>>,
    vectors: Option<Vectors>,
    /// The kernel of the last run, and how many launches its next run consists of.
    batch: (usize, u32),
}

impl<'a, T: Scalar> ResidentBench<'a, T> {
    /// The kernels for GPUs with those names. All memory of `device` is freed first.
    pub fn new(device: &'a mut SynchronousDevice, matrix: CsrView<'a, T>, names: &KernelNames) -> Self {
        device.clear();
        let uniform = matrix.has_equal_values();
        let names = names.clone();
        Self {
            device,
            matrix,
            names,
            kernels: Vec::new(),
            uniform,
            stored: HashMap::new(),
            vectors: None,
            batch: (0, 1),
        }
    }

    /// The forms to measure for `k` columns: all that can be compiled where the device compiles, else the built-in ones.
    fn forms(&self, k: u64) -> Vec<(&'static CudaKernel, Variant)> {
        let forms = |kernel: &'static CudaKernel| -> Vec<Variant> {
            if self.device.compiles() {
                return kernel.exact_variants(T::DTYPE, k);
            }
            kernel.variants_for(T::DTYPE, k).copied().collect()
        };
        let chosen = |(kernel, variant): &(&CudaKernel, Variant)| {
            self.names.take(kernel.id, &kernel.variant_name(variant))
        };
        let all =
            CUDA_KERNELS.iter().flat_map(|kernel| forms(kernel).into_iter().map(move |form| (kernel, form)));
        all.filter(chosen).collect()
    }

    /// Copies A to the device in the format that a form reads, unless it is there.
    fn store(&mut self, key: StorageKey, variant: &Variant) -> Result<()> {
        if self.stored.contains_key(&key) {
            return Ok(());
        }
        let needs_one_value = key.0 == Layout::Pattern && self.matrix.nnz() > 0;
        let stored = match Storage::of(key.0, variant, self.matrix) {
            _ if needs_one_value && !self.uniform => Err("its values are not all equal".into()),
            Ok(storage) => {
                let range = self.device.allocate(storage.bytes())?;
                let held = HeldRows::Whole { cols: self.matrix.cols() };
                self.device.upload(range, |slot| storage.write(self.matrix, &held, slot))?;
                Ok(Stored { storage, range })
            }
            // Not every format can hold every matrix.
            Err(error @ (Error::Usage(_) | Error::DoesNotFit { .. })) => Err(error.message()),
            Err(error) => return Err(error),
        };
        self.stored.insert(key, stored);
        Ok(())
    }

    /// The launch of a kernel that is ready.
    fn launch(&self, number: usize) -> Result<Launch> {
        let missing = || Error::Internal("a kernel that is not ready".into());
        let &(kernel, variant) = self.kernels.get(number).ok_or_else(missing)?;
        let key = (kernel.layout, variant.piece, variant.rows);
        let stored = self.stored.get(&key).and_then(|stored| stored.as_ref().ok()).ok_or_else(missing)?;
        let (Stored { storage, range }, vectors) = (stored, self.vectors()?);
        let value_bytes = size_of::<T>() as u64;
        let x_order = if kernel.transposes_x() { XOrder::Columns } else { XOrder::Rows };
        let x_pitch_bytes = x_order.pitch_bytes(self.matrix.cols() as u64, vectors.k, value_bytes);
        let operands = Operands {
            dtype: T::DTYPE,
            k: vectors.k,
            a: *range,
            uniform: self.uniform,
            x: Some(vectors.x),
            x_part: None,
            x_transposed: vectors.x_transposed,
            ldx: x_pitch_bytes / value_bytes,
            alpha: 1.0,
            beta: 0.0,
            y: vectors.y,
            ldy: vectors.pitch_bytes / value_bytes,
            keeps_padding: false,
            scratch: MemoryRange {
                end: vectors.scratch.begin + storage.scratch_rows * vectors.pitch_bytes,
                ..vectors.scratch
            },
        };
        operands.launch(kernel, variant, storage)
    }

    fn vectors(&self) -> Result<&Vectors> {
        self.vectors.as_ref().ok_or_else(|| Error::Internal("a kernel without X".into()))
    }
}

impl<T: Scalar> Subject<T> for ResidentBench<'_, T> {
    fn kernels(&self) -> Vec<(KernelId, String)> {
        let name = |(kernel, variant): &(&CudaKernel, Variant)| {
            let (threads, piece) = (variant.threads, variant.piece);
            let same_name = |(other, form): &&(&CudaKernel, Variant)| {
                other.id == kernel.id && kernel.variant_name(form) == kernel.variant_name(variant)
            };
            let name = kernel.variant_name(variant);
            // Forms of one name differ in threads a block and nonzeros a piece.
            match self.kernels.iter().filter(same_name).count() {
                1 => name,
                _ => format!("{name} t{threads} p{piece}"),
            }
        };
        self.kernels.iter().map(|form| (form.0.id, name(form))).collect()
    }

    fn take_x(&mut self, x: MultiVectorView<'_, T>) -> Result<Option<String>> {
        self.kernels = self.forms(x.k() as u64);
        let row_bytes = (x.k() * size_of::<T>()) as u64;
        let pitch_bytes = pitch_bytes(row_bytes);
        let x_range = self.device.allocate(x.rows() as u64 * pitch_bytes)?;
        let y = self.device.allocate(self.matrix.rows() as u64 * pitch_bytes)?;
        let held = HeldRows::Whole { cols: x.rows() };
        self.device.upload(x_range, |bytes| {
            let elements = bytemuck::try_cast_slice_mut(bytes).map_err(misaligned)?;
            held.copy_rows(x, 0..x.rows(), pitch_bytes as usize / size_of::<T>(), elements);
            Ok(())
        })?;
        let x_transposed = if self.kernels.iter().any(|(kernel, _)| kernel.transposes_x()) {
            let (rows, k, value_bytes) = (x.rows() as u64, x.k() as u64, size_of::<T>() as u64);
            let range = self.device.allocate(XOrder::Columns.bytes(rows, k, value_bytes))?;
            self.device.upload(range, |bytes| {
                let elements = bytemuck::try_cast_slice_mut(bytes).map_err(misaligned)?;
                let pitch_bytes = XOrder::Columns.pitch_bytes(rows, k, value_bytes);
                held.copy_columns(x, pitch_bytes as usize / size_of::<T>(), elements);
                Ok(())
            })?;
            Some(range)
        } else {
            None
        };
        let scratch = self.device.allocate(0)?;
        self.vectors = Some(Vectors { k: x.k() as u64, pitch_bytes, x: x_range, x_transposed, y, scratch });
        let mut ready = Vec::new();
        for number in 0..self.kernels.len() {
            if self.ready(number)?.is_ok() {
                ready.push(number);
            }
        }
        let scratch_rows = self.stored.values().flatten().map(|stored| stored.storage.scratch_rows).max();
        let scratch = self.device.allocate(scratch_rows.unwrap_or(0).saturating_mul(pitch_bytes))?;
        if let Some(vectors) = &mut self.vectors {
            vectors.scratch = scratch;
        }
        let launches = ready.into_iter().map(|number| self.launch(number)).collect::<Result<Vec<_>>>()?;
        Ok(self.device.prepare(&launches).err().map(|fault| fault.message))
    }

    fn ready(&mut self, kernel: usize) -> Result<std::result::Result<(), String>> {
        let Some(&(kernel, variant)) = self.kernels.get(kernel) else {
            return Ok(Err("no such kernel".into()));
        };
        let key = (kernel.layout, variant.piece, variant.rows);
        self.store(key, &variant)?;
        let stored = match &self.stored[&key] {
            Ok(stored) => stored,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        let vectors = self.vectors()?;
        match kernel.shape(&variant, T::DTYPE, stored.storage.grid_items(), vectors.k) {
            Ok(_) => Ok(Ok(())),
            Err(error) => Ok(Err(error.message())),
        }
    }

    fn run(&mut self, kernel: usize, _: MultiVectorView<'_, T>) -> Result<std::result::Result<f64, String>> {
        let times = if self.batch.0 == kernel { self.batch.1 } else { 1 };
        let launch = Launch { batch: Some(times), ..self.launch(kernel)? };
        match self.device.launch(launch) {
            Ok(seconds) => {
                let seconds = seconds / f64::from(times);
                self.batch = (kernel, batch(seconds));
                Ok(Ok(seconds))
            }
            // A failed launch leaves the device usable for other kernels.
            Err(fault) if fault.kind == FaultKind::Launch => Ok(Err(fault.message)),
            Err(fault) => Err(fault.into_error(self.device.name())),
        }
    }

    fn forget_y(&mut self) -> Result<()> {
        let y = self.vectors()?.y;
        self.device.upload(y, |bytes| {
            // All bits set are a NaN in both precisions.
            bytes.fill(u8::MAX);
            Ok(())
        })
    }

    fn read_y(&mut self, read: &mut dyn FnMut(MultiVectorView<'_, T>)) -> Result<()> {
        let &Vectors { k, pitch_bytes, y: from, .. } = self.vectors()?;
        let (value_bytes, rows) = (size_of::<T>() as u64, self.matrix.rows());
        let row_bytes = RowBytes { bytes: k * value_bytes, pitch_bytes, host_pitch_bytes: pitch_bytes };
        self.device.download(from, row_bytes, |bytes| {
            let elements: &[T] = bytemuck::try_cast_slice(bytes).map_err(misaligned)?;
            let pitch = (pitch_bytes / value_bytes) as usize;
            read(MultiVectorView::try_new(elements, rows, k as usize, pitch)?);
            Ok(())
        })?
    }
}

/// How many calls of `seconds` each are timed together, back to back, so that the cost of starting and ending them is a small
/// part of the time. One more that is not timed runs before them, so that the device is busy while they are submitted.
pub fn batch(seconds: f64) -> u32 {
    (BATCH_SECONDS / seconds.max(1e-9)).ceil().clamp(1.0, MAX_BATCH_CALLS) as u32
}

fn misaligned(error: bytemuck::PodCastError) -> Error {
    Error::Internal(format!("page-locked memory is not aligned: {error}"))
}
