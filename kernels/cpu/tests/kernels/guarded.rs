//! Memory between two pages that cannot be accessed: a read or write outside ends the test process.

use std::ops::{Deref, DerefMut};

const PAGE: usize = 4096;

/// Elements that touch a guard page at their end or at their start. All bytes are 0xff at first: NaN, as a number.
pub struct Guarded<T> {
    pages: *mut u8,
    bytes: usize,
    start: *mut T,
    count: usize,
}

/// Which end of the elements touches a guard page.
#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    Start,
    End,
}

impl<T: Copy> Guarded<T> {
    /// `T` must be a type of which all bits are a value.
    pub fn new(count: usize, side: Side) -> Self {
        let used = count * size_of::<T>();
        let inner = used.next_multiple_of(PAGE);
        let bytes = inner + 2 * PAGE;
        // SAFETY: a new anonymous mapping, of which only the inner pages become accessible.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            let pages: *mut u8 = pages.cast();
            let first = pages.add(PAGE);
            if inner > 0 {
                assert_eq!(libc::mprotect(first.cast(), inner, libc::PROT_READ | libc::PROT_WRITE), 0);
                first.write_bytes(0xff, inner);
            }
            let start = if side == Side::End { first.add(inner - used) } else { first };
            Self { pages, bytes, start: start.cast(), count }
        }
    }

    pub fn of(items: &[T], side: Side) -> Self {
        let mut guarded = Self::new(items.len(), side);
        guarded.copy_from_slice(items);
        guarded
    }

    /// Whether no byte beside the elements was written.
    pub fn is_intact(&self) -> bool {
        let used = self.count * size_of::<T>();
        // SAFETY: the inner pages are readable.
        let inner = unsafe { std::slice::from_raw_parts(self.pages.add(PAGE), self.bytes - 2 * PAGE) };
        let before = self.start as usize - inner.as_ptr() as usize;
        inner[..before].iter().chain(&inner[before + used..]).all(|&byte| byte == 0xff)
    }
}

impl<T> Deref for Guarded<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `count` elements inside the mapping, initialized by `new`.
        unsafe { std::slice::from_raw_parts(self.start, self.count) }
    }
}

impl<T> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.count) }
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { libc::munmap(self.pages.cast(), self.bytes) };
    }
}
