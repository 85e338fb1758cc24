//! Large arrays: owned, aligned to cache lines and on huge pages if the system provides them, or a window of a mapped file.
//!
//! A window is not copied when it is opened. Large owned buffers are anonymous mappings, so dropping one returns its memory to
//! the system immediately.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use memmap2::{MmapMut, MmapOptions};

use crate::error::{Bytes, Error, Result};

/// Buffers of at least this size are separate anonymous mappings, for which huge pages are requested.
const MIN_MAPPED_BYTES: usize = 1 << 20;

/// Bytes that this process may use; unlimited until [`limit_memory`] is called.
static MEMORY_LIMIT_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
/// Bytes of the separate mappings of all buffers, whether their pages are in use yet or not.
static MAPPED_BYTES: AtomicU64 = AtomicU64::new(0);
/// The share of the limit that is left for everything that is not a large array.
const RESERVED_SHARE: u64 = 16;
/// What is left in addition: the program, its threads, and vectors that conversions use for a short time.
const RESERVED_BYTES: u64 = 48 << 20;

/// Sets the memory that this process may use, such as the limit of its control group. Larger arrays are then refused: the system
/// would not refuse them, but end the process when their pages are used.
pub fn limit_memory(bytes: u64) {
    MEMORY_LIMIT_BYTES.store(bytes, Ordering::Relaxed);
}

/// An error if `bytes` more would exceed the memory that this process may use.
pub fn check_memory(what: &str, bytes: u64) -> Result<()> {
    let limit_bytes = MEMORY_LIMIT_BYTES.load(Ordering::Relaxed);
    if bytes < MIN_MAPPED_BYTES as u64 || limit_bytes == u64::MAX {
        return Ok(());
    }
    let used_bytes = private_bytes().max(MAPPED_BYTES.load(Ordering::Relaxed));
    let limit_bytes = (limit_bytes - limit_bytes / RESERVED_SHARE).saturating_sub(RESERVED_BYTES);
    if used_bytes.saturating_add(bytes) <= limit_bytes {
        return Ok(());
    }
    Err(Error::DoesNotFit {
        what: format!("{what} ({}) with the memory in use", Bytes(bytes)),
        needed_bytes: used_bytes.saturating_add(bytes),
        limit_bytes,
        advice: "use a smaller matrix or fewer columns, or raise the limit of the control group".into(),
    })
}

/// Bytes of this process in memory that belong to no file; zero where the system does not report them.
fn private_bytes() -> u64 {
    let pages = || {
        let text = std::fs::read_to_string("/proc/self/statm").ok()?;
        let mut words = text.split(' ').skip(1).map(|word| word.trim().parse::<u64>().ok());
        let (resident, shared) = (words.next()??, words.next()??);
        Some(resident.saturating_sub(shared))
    };
    pages().unwrap_or(0).saturating_mul(PAGE_BYTES)
}

/// The size of a page on the supported machines.
const PAGE_BYTES: u64 = 4096;

/// One cache line: the element of small buffers, which gives them their alignment.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

enum Memory {
    Lines(Vec<CacheLine>),
    Pages(MmapMut),
    /// As `Pages`, but not counted, since they are not written.
    Untouched(MmapMut),
}

/// An owned array of numbers, initially zero, that starts at a cache line.
pub struct AlignedBuffer<T> {
    memory: Memory,
    length: usize,
    element: PhantomData<T>,
}

impl<T: Pod> AlignedBuffer<T> {
    /// A buffer of `length` zeros; an error with the bytes needed if the system refuses the memory.
    pub fn zeroed(length: usize) -> Result<Self> {
        let no_memory = |needed: u64| Error::DoesNotFit {
            what: "an array".into(),
            needed_bytes: needed,
            limit_bytes: 0,
            advice: "the system refused the memory; free some or choose a smaller matrix".into(),
        };
        let bytes = length.checked_mul(size_of::<T>()).ok_or_else(|| no_memory(u64::MAX))?;
        check_memory("an array", bytes as u64)?;
        let memory = if bytes >= MIN_MAPPED_BYTES {
            let pages = MmapMut::map_anon(bytes).map_err(|_| no_memory(bytes as u64))?;
            // Advice only: without huge pages there are more TLB misses.
            let _ = pages.advise(memmap2::Advice::HugePage);
            MAPPED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
            Memory::Pages(pages)
        } else {
            let mut lines = Vec::new();
            let count = bytes.div_ceil(64);
            lines.try_reserve_exact(count).map_err(|_| no_memory(bytes as u64))?;
            lines.resize(count, CacheLine([0; 64]));
            Memory::Lines(lines)
        };
        Ok(Self { memory, length, element: PhantomData })
    }

    /// `length` zeros that take no memory until they are written: their pages are reserved and not counted.
    pub fn untouched(length: usize) -> Result<Self> {
        let refused = |bytes: u64| Error::DoesNotFit {
            what: "the addresses of an array".into(),
            needed_bytes: bytes,
            limit_bytes: 0,
            advice: "the system refused the addresses; choose a smaller matrix".into(),
        };
        let bytes = length.checked_mul(size_of::<T>()).ok_or_else(|| refused(u64::MAX))?;
        let pages = MmapOptions::new().len(bytes.max(1)).no_reserve_swap().map_anon();
        let memory = Memory::Untouched(pages.map_err(|_| refused(bytes as u64))?);
        Ok(Self { memory, length, element: PhantomData })
    }

    /// A copy of `values`.
    pub fn copied_from(values: &[T]) -> Result<Self> {
        let mut buffer = Self::zeroed(values.len())?;
        buffer.copy_from_slice(values);
        Ok(buffer)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Self::Pages(pages) = self {
            MAPPED_BYTES.fetch_sub(pages.len() as u64, Ordering::Relaxed);
        }
    }
}

impl<T: Pod> Deref for AlignedBuffer<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        let bytes: &[u8] = match &self.memory {
            Memory::Lines(lines) => bytemuck::cast_slice(lines),
            Memory::Pages(pages) | Memory::Untouched(pages) => pages,
        };
        bytemuck::cast_slice(&bytes[..self.length * size_of::<T>()])
    }
}

impl<T: Pod> DerefMut for AlignedBuffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes: &mut [u8] = match &mut self.memory {
            Memory::Lines(lines) => bytemuck::cast_slice_mut(lines),
            Memory::Pages(pages) | Memory::Untouched(pages) => pages,
        };
        bytemuck::cast_slice_mut(&mut bytes[..self.length * size_of::<T>()])
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for AlignedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Bytes with a fixed address for as long as this object lives, such as a mapped file.
pub trait SharedBytes: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// Whether [`Self::is_intact`] finds every change.
    fn finds_changes(&self) -> bool {
        false
    }

    /// Whether the bytes are unchanged since the beginning: false after a mapped file was truncated or overwritten.
    fn is_intact(&self) -> bool {
        true
    }

    /// The error to report once [`Self::is_intact`] is false.
    fn changed(&self) -> Error {
        Error::Internal("shared bytes have changed".into())
    }
}

/// Shared bytes that never change, such as an array of another library that is locked against writing.
///
/// # Safety
///
/// Every call of `bytes` returns the same memory, and nothing writes to this memory while the object lives. Kernels use column
/// indices from it without a check of their bounds.
#[allow(unsafe_code)] // A promise of the implementor; this module has no unsafe block.
pub unsafe trait ConstantBytes: SharedBytes {}

/// A read-only array: a vector, an aligned buffer, or a window of shared bytes. Clones share its memory.
pub enum Array<T> {
    /// A plain vector.
    Vector(Arc<Vec<T>>),
    /// An aligned buffer.
    Aligned(Arc<AlignedBuffer<T>>),
    /// A window of a mapped file, or of another library's array.
    Window(Window<T>),
}

/// A typed, aligned range of shared bytes.
pub struct Window<T> {
    owner: Arc<dyn SharedBytes>,
    range: Range<usize>,
    is_constant: bool,
    element: PhantomData<T>,
}

impl<T: Pod> Array<T> {
    /// The elements at `range` (in bytes) of `owner`; `None` if the range is outside, misaligned, or not a multiple of the
    /// element size.
    pub fn window(owner: Arc<dyn SharedBytes>, range: Range<usize>) -> Option<Self> {
        Self::checked_window(owner, range, false)
    }

    /// All elements of `owner`, which is kept alive; `None` if its bytes are misaligned or not a multiple of the element size.
    pub fn constant(owner: Arc<dyn ConstantBytes>) -> Option<Self> {
        let range = 0..owner.bytes().len();
        Self::checked_window(owner, range, true)
    }

    fn checked_window(owner: Arc<dyn SharedBytes>, range: Range<usize>, is_constant: bool) -> Option<Self> {
        let bytes = owner.bytes().get(range.clone())?;
        bytemuck::try_cast_slice::<u8, T>(bytes).ok()?;
        Some(Self::Window(Window { owner, range, is_constant, element: PhantomData }))
    }

    /// Whether the elements may change at any moment, as those of a mapped file.
    pub fn may_change(&self) -> bool {
        matches!(self, Self::Window(window) if !window.is_constant)
    }

    /// Whether the elements may change without [`Self::is_intact`] finding it.
    pub fn may_change_unseen(&self) -> bool {
        matches!(self, Self::Window(window) if !window.is_constant && !window.owner.finds_changes())
    }

    /// Whether the elements are unchanged since the beginning; only those of a mapped file can change.
    pub fn is_intact(&self) -> bool {
        match self {
            Self::Vector(_) | Self::Aligned(_) => true,
            Self::Window(window) => window.owner.is_intact(),
        }
    }

    /// An error, which names the file, if they have changed.
    pub fn check_intact(&self) -> Result<()> {
        match self {
            Self::Window(window) if !window.owner.is_intact() => Err(window.owner.changed()),
            _ => Ok(()),
        }
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Vector(vector) => vector,
            Self::Aligned(buffer) => buffer,
            Self::Window(window) => bytemuck::cast_slice(&window.owner.bytes()[window.range.clone()]),
        }
    }
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Vector(vector) => Self::Vector(vector.clone()),
            Self::Aligned(buffer) => Self::Aligned(buffer.clone()),
            Self::Window(window) => Self::Window(Window {
                owner: window.owner.clone(),
                range: window.range.clone(),
                is_constant: window.is_constant,
                element: PhantomData,
            }),
        }
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(vector: Vec<T>) -> Self {
        Self::Vector(Arc::new(vector))
    }
}

impl<T> From<AlignedBuffer<T>> for Array<T> {
    fn from(buffer: AlignedBuffer<T>) -> Self {
        Self::Aligned(Arc::new(buffer))
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Pod + PartialEq> PartialEq for Array<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Csr;

    #[test]
    fn buffers_of_any_size_are_zero_and_start_on_a_cache_line() {
        for length in [0, 1, 7, 1000, 1 << 18] {
            let buffer = AlignedBuffer::<f64>::zeroed(length).unwrap();
            assert_eq!(buffer.len(), length);
            assert_eq!(buffer.as_ptr() as usize % 64, 0);
            assert!(buffer.iter().all(|&value| value == 0.0));
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(AlignedBuffer::<f64>::zeroed(usize::MAX / 4).is_err());
        assert!(AlignedBuffer::<f64>::zeroed(1 << 56).is_err());
    }

    #[test]
    fn windows_outside_or_misaligned_are_refused() {
        struct Fixed(AlignedBuffer<u64>);
        impl SharedBytes for Fixed {
            fn bytes(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        let owner: Arc<dyn SharedBytes> = Arc::new(Fixed(AlignedBuffer::copied_from(&[1, 2, 3]).unwrap()));
        assert_eq!(&*Array::<u64>::window(owner.clone(), 8..24).unwrap(), &[2, 3]);
        assert!(Array::<u64>::window(owner.clone(), 4..12).is_none());
        assert!(Array::<u64>::window(owner.clone(), 0..7).is_none());
        assert!(Array::<u64>::window(owner, 0..32).is_none());
    }

    #[test]
    fn only_constant_bytes_can_be_columns() {
        struct Fixed(Vec<u32>);
        impl SharedBytes for Fixed {
            fn bytes(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        // Safety: the vector is private and never written.
        #[allow(unsafe_code)]
        unsafe impl ConstantBytes for Fixed {}
        let owner = Arc::new(Fixed(vec![0, 2]));
        let make = |columns: Array<u32>| Csr::try_new(1, 3, vec![0u64, 2], columns, vec![1.0f64, 2.0]);
        assert!(make(Array::window(owner.clone(), 0..8).unwrap()).is_err());
        let matrix = make(Array::constant(owner.clone()).unwrap()).unwrap();
        assert_eq!(matrix.view().row(0), (&[0, 2][..], &[1.0, 2.0][..]));
        assert_eq!(matrix.view().columns().as_ptr(), owner.0.as_ptr(), "the columns were copied");
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(matrix);
        assert_eq!(Arc::strong_count(&owner), 1, "the owner outlives the matrix");
    }
}
