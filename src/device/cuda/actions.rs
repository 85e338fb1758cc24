//! The actions on a stream, and the calls of the CUDA driver that enqueue them.

#![allow(unsafe_code)] // passes addresses to the CUDA driver

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublas::sys::cublasHandle_t;
use cudarc::driver::{result, sys};

use super::context::{Context, Stream};
use super::cublas::{self, CublasProduct};
use super::driver::DriverError;
use super::fault_kernels::FaultKernel;
use super::modules::{Modules, Selected};
use super::shared::Shared;
use super::{Fault, FaultKind, Launch};
use crate::device::HostTransfer;
use crate::kernel::cuda::{CudaKernel, EntryPoint, LaunchShape, Variant};
use crate::matrix::Dtype;

/// An action on a stream.
pub enum Action {
    /// Copies from host memory, which is held for reading.
    Upload(Vec<Copy>),
    /// A copy to host memory, which is held for writing.
    Download(Copy),
    /// A copy from memory of another context, which is held.
    PeerCopy(CardCopy),
    /// A kernel launch with one 64-bit word per parameter.
    Launch { launch: Launch, shape: LaunchShape, words: Vec<u64> },
    /// Launches of kernels with a single form, one after the other.
    EntryLaunches(Vec<BoundEntry>),
    /// A launch with a copy from host memory before it and a copy to host memory after it, each of which may be absent.
    LaunchWithCopies { upload: Option<Copy>, launch: Option<BoundEntry>, download: Option<Copy> },
    /// A dense product by cuBLAS.
    Cublas(CublasProduct),
    /// A kernel that fails, for tests.
    Fault(FaultKernel),
    /// No work.
    Pass,
}

// SAFETY: the addresses point into memory that the command of the action holds, and only the action uses them.
unsafe impl Send for Action {}

/// A launch of a kernel with a single form, with one 64-bit word per parameter.
pub struct BoundEntry {
    /// The kernel.
    pub kernel: EntryPoint,
    /// The precision.
    pub dtype: Dtype,
    /// The grid.
    pub shape: LaunchShape,
    /// The arguments.
    pub words: Vec<u64>,
    /// The loaded kernel; `None` before it is loaded.
    pub function: Option<sys::CUfunction>,
}

impl BoundEntry {
    /// Loads the kernel.
    fn load(&mut self, modules: &mut Modules) -> Result<(), Fault> {
        let loaded = modules.single_function(&self.kernel, self.dtype)?;
        allow_shared_memory(loaded, self.kernel.name, self.shape.dynamic_shared_bytes)?;
        self.function = Some(loaded);
        Ok(())
    }

    /// Launches the kernel if it was loaded.
    fn enqueue(&self, stream: &Stream) -> Result<(), DriverError> {
        match self.function {
            Some(function) => launch(stream, function, &self.shape, &self.words),
            None => Ok(()),
        }
    }
}

/// A strided copy between host memory and card memory.
#[derive(Debug, Clone, Copy)]
pub struct Copy {
    /// The first row in host memory.
    pub host: *mut u8,
    /// The first row in card memory.
    pub card: sys::CUdeviceptr,
    /// Bytes per row.
    pub bytes: usize,
    /// Number of rows.
    pub rows: usize,
    /// Row pitch in host memory, in bytes.
    pub host_pitch: usize,
    /// Row pitch in card memory, in bytes.
    pub card_pitch: usize,
}

/// A contiguous copy between the memories of two contexts.
pub struct CardCopy {
    /// The first byte in memory of the context that runs the copy.
    pub to: sys::CUdeviceptr,
    /// The first byte in memory of the other context.
    pub from: sys::CUdeviceptr,
    /// The other context.
    pub source: Arc<Context>,
    /// The state of the other context's device.
    pub source_device: Arc<Shared>,
    /// Number of bytes.
    pub bytes: usize,
}

/// What a launch calls.
#[derive(Clone, Copy)]
pub enum Function {
    /// A kernel.
    Kernel(sys::CUfunction),
    /// The kernels of the action's launches.
    Entries,
    /// The library.
    Cublas(cublasHandle_t),
}

/// The driver copy of a checked transfer.
pub fn copy(transfer: &HostTransfer, host: *mut u8, card: u64) -> Copy {
    if transfer.is_contiguous() {
        let bytes = transfer.device.bytes() as usize;
        return Copy { host, card, bytes, rows: 1, host_pitch: bytes, card_pitch: bytes };
    }
    Copy {
        host,
        card,
        bytes: transfer.rows.bytes as usize,
        rows: transfer.rows() as usize,
        host_pitch: transfer.rows.host_pitch_bytes as usize,
        card_pitch: transfer.rows.pitch_bytes as usize,
    }
}

impl Action {
    /// What a launch calls, loaded. The launch gets the shape of the form that was selected. A fault if the action cannot be
    /// enqueued.
    pub fn function(
        &mut self,
        context: &Arc<Context>,
        modules: &mut Modules,
    ) -> Result<Option<Function>, Fault> {
        Ok(match self {
            Self::Launch { launch, .. } => {
                let Selected { function, variant } = modules.function(launch)?;
                self.use_variant(&variant)?;
                Some(Function::Kernel(function))
            }
            Self::EntryLaunches(launches) => {
                launches.iter_mut().try_for_each(|launch| launch.load(modules))?;
                Some(Function::Entries)
            }
            Self::LaunchWithCopies { launch: Some(launch), .. } => {
                launch.load(modules)?;
                Some(Function::Entries)
            }
            Self::Cublas(_) => Some(Function::Cublas(modules.cublas()?)),
            Self::Fault(kernel) => Some(Function::Kernel(kernel.load(context)?)),
            Self::PeerCopy(copy) => {
                copy.check_source()?;
                None
            }
            _ => None,
        })
    }

    /// Gives a launch the shape of the form that was selected for it.
    pub fn use_variant(&mut self, variant: &Variant) -> Result<(), Fault> {
        if let Self::Launch { launch, shape, .. } = self
            && *variant != launch.variant
        {
            *shape = shape_of(launch, variant)?;
        }
        Ok(())
    }

    /// How many launches a batch has; `None` for a single operation.
    pub fn batch(&self) -> Option<u32> {
        match self {
            Self::Launch { launch, .. } => launch.batch,
            _ => None,
        }
    }

    /// Whether this copies to the host.
    pub fn is_download(&self) -> bool {
        matches!(self, Self::Download(_))
    }

    /// Enqueues the action on the stream; kernel launches `times` times.
    pub fn enqueue(
        &self,
        stream: &Stream,
        function: Option<Function>,
        times: u32,
    ) -> Result<(), DriverError> {
        match (self, function) {
            (Self::Upload(copies), _) => copies.iter().try_for_each(|copy| upload(stream, copy)),
            (Self::Download(copy), _) => download(stream, copy),
            (Self::PeerCopy(CardCopy { to, from, source, bytes, .. }), _) if *bytes > 0 => {
                // SAFETY: both ranges are inside allocations, as `submit` has checked. The allocation of the other context is held
                // until the copy completes; this context's memory is not freed while an operation uses it.
                unsafe { stream.copy_from_peer(*to, *from, source, *bytes) }
            }
            (Self::Launch { shape, words, .. }, Some(Function::Kernel(function))) => {
                (0..times).try_for_each(|_| launch(stream, function, shape, words))
            }
            (Self::EntryLaunches(launches), _) => {
                launches.iter().try_for_each(|launch| launch.enqueue(stream))
            }
            (Self::LaunchWithCopies { upload: before, launch, download: after }, _) => {
                before.as_ref().map_or(Ok(()), |copy| upload(stream, copy))?;
                launch.as_ref().map_or(Ok(()), |launch| launch.enqueue(stream))?;
                after.as_ref().map_or(Ok(()), |copy| download(stream, copy))
            }
            (Self::Cublas(product), Some(Function::Cublas(handle))) => {
                // SAFETY: the owner thread holds the library as long as it serves, in the context of its streams. `submit` has checked
                // that the operands are in this card's memory.
                unsafe { cublas::enqueue(handle, product, stream) }
            }
            (Self::Fault(_), Some(Function::Kernel(function))) => {
                // SAFETY: it has no parameters. It destroys or blocks the context, which is its purpose.
                unsafe { result::launch_kernel(function, (1, 1, 1), (1, 1, 1), 0, stream.raw(), &mut []) }
            }
            _ => Ok(()),
        }
    }
}

/// Launches a kernel, unless its grid is empty. `words` has one word per parameter of the kernel, as `submit` has checked.
fn launch(
    stream: &Stream,
    function: sys::CUfunction,
    shape: &LaunchShape,
    words: &[u64],
) -> Result<(), DriverError> {
    if shape.grid.contains(&0) {
        return Ok(());
    }
    let mut parameters: Vec<*mut c_void> =
        words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast()).collect();
    let [x, y, z] = shape.grid;
    let [bx, by, bz] = shape.block;
    let (grid, block, shared_bytes) = ((x, y, z), (bx, by, bz), shape.dynamic_shared_bytes);
    // SAFETY: one 8-byte word per parameter, as the kernel's table says and `submit` has checked. Pointers refer to memory of this
    // card. The driver copies the words before it returns.
    unsafe { result::launch_kernel(function, grid, block, shared_bytes, stream.raw(), &mut parameters) }
}

/// Dynamic shared memory that a block of any kernel may have without being asked for.
const COMMON_SHARED_BYTES: u32 = 48 << 10;

/// Lets a kernel have more dynamic shared memory than is common; a fault if the card has less.
fn allow_shared_memory(function: sys::CUfunction, name: &str, bytes: u32) -> Result<(), Fault> {
    if bytes <= COMMON_SHARED_BYTES {
        return Ok(());
    }
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function belongs to a module that is loaded.
    let allowed = unsafe { result::function::set_function_attribute(function, attribute, bytes as i32) };
    allowed.map_err(|error| {
        let message = format!("{name} needs {bytes} bytes of shared memory per block: {error}");
        Fault::new(FaultKind::Launch, message)
    })
}

/// The launch shape with another variant than the launch's own.
fn shape_of(launch: &Launch, variant: &Variant) -> Result<LaunchShape, Fault> {
    let shape = CudaKernel::of(launch.kernel)
        .and_then(|kernel| kernel.shape(variant, launch.dtype, launch.items, launch.k));
    shape.map_err(|error| Fault::new(FaultKind::Misuse, error.message()))
}

fn upload(stream: &Stream, copy: &Copy) -> Result<(), DriverError> {
    use sys::CUmemorytype as memory;
    let Copy { host, card, bytes, rows, host_pitch, card_pitch } = *copy;
    match (bytes, rows) {
        (0, _) | (_, 0) => Ok(()),
        // SAFETY: all rows are inside memory that lives until the operation completes. `Issued` holds the host memory for
        // reading until then, also memory that is not page-locked.
        (_, 1) => unsafe { sys::cuMemcpyHtoDAsync_v2(card, host.cast(), bytes, stream.raw()) }.result(),
        _ => {
            let copy = sys::CUDA_MEMCPY2D {
                srcMemoryType: memory::CU_MEMORYTYPE_HOST,
                srcHost: host.cast(),
                srcPitch: host_pitch,
                dstMemoryType: memory::CU_MEMORYTYPE_DEVICE,
                dstDevice: card,
                dstPitch: card_pitch,
                ..rectangle(bytes, rows)
            };
            // SAFETY: the same.
            unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream.raw()) }.result()
        }
    }
}

fn download(stream: &Stream, copy: &Copy) -> Result<(), DriverError> {
    use sys::CUmemorytype as memory;
    let Copy { host, card, bytes, rows, host_pitch, card_pitch } = *copy;
    match (bytes, rows) {
        (0, _) | (_, 0) => Ok(()),
        // SAFETY: all rows are inside memory that lives until the operation completes. `Issued` holds the host memory for
        // writing until then.
        (_, 1) => unsafe { sys::cuMemcpyDtoHAsync_v2(host.cast(), card, bytes, stream.raw()) }.result(),
        _ => {
            let copy = sys::CUDA_MEMCPY2D {
                srcMemoryType: memory::CU_MEMORYTYPE_DEVICE,
                srcDevice: card,
                srcPitch: card_pitch,
                dstMemoryType: memory::CU_MEMORYTYPE_HOST,
                dstHost: host.cast(),
                dstPitch: host_pitch,
                ..rectangle(bytes, rows)
            };
            // SAFETY: the same.
            unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream.raw()) }.result()
        }
    }
}

/// A 2D copy descriptor with the size set and both ends unset.
fn rectangle(bytes: usize, rows: usize) -> sys::CUDA_MEMCPY2D {
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: std::ptr::null(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: std::ptr::null_mut(),
        dstDevice: 0,
        dstArray: std::ptr::null_mut(),
        dstPitch: 0,
        WidthInBytes: bytes,
        Height: rows,
    }
}
