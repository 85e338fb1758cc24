#![allow(unsafe_code)] // The emulator's bridge: entries of kernels that the host's C++ compiler made.
//! The entries of the kernels that the build compiled for the emulator, by name.

/// An entry of a kernel. Each of its parameters is eight bytes wide.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    function: unsafe extern "C" fn(),
    /// How many parameters it takes.
    pub parameters: usize,
}

macro_rules! words {
    ($function:expr, $words:expr; $($count:literal: $($index:literal)+;)+) => {
        match $words.len() {
            $($count => {
                type Typed = unsafe extern "C" fn($(words!(@word $index)),+);
                // SAFETY: 64-bit numbers and pointers are passed alike, and the caller vouches for their number.
                unsafe { std::mem::transmute::<unsafe extern "C" fn(), Typed>($function)($($words[$index]),+) }
            })+
            _ => {}
        }
    };
    (@word $index:literal) => { u64 };
}

impl Entry {
    /// Calls it as the thread of a launch.
    ///
    /// # Safety
    /// There are as many words as it has parameters, each a number or an address as the parameter wants it, and a launch
    /// is under way on this host thread.
    pub unsafe fn call(&self, words: &[u64]) {
        words! { self.function, words;
            1: 0;
            2: 0 1;
            3: 0 1 2;
            4: 0 1 2 3;
            5: 0 1 2 3 4;
            6: 0 1 2 3 4 5;
            7: 0 1 2 3 4 5 6;
            8: 0 1 2 3 4 5 6 7;
            9: 0 1 2 3 4 5 6 7 8;
            10: 0 1 2 3 4 5 6 7 8 9;
            11: 0 1 2 3 4 5 6 7 8 9 10;
            12: 0 1 2 3 4 5 6 7 8 9 10 11;
            13: 0 1 2 3 4 5 6 7 8 9 10 11 12;
            14: 0 1 2 3 4 5 6 7 8 9 10 11 12 13;
            15: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14;
            16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;
        }
    }
}

macro_rules! entries {
    ($find:ident: $($name:ident($parameters:literal))+) => {
        unsafe extern "C" {
            $(fn $name();)+
        }

        /// The entry of that name.
        pub fn $find(name: &str) -> Option<Entry> {
            match name {
                $(stringify!($name) => Some(Entry { function: $name, parameters: $parameters }),)+
                _ => None,
            }
        }
    };
}

// Lists that the build made: the kernels' entries, and those of the tests' own kernels.
include!(concat!(env!("OUT_DIR"), "/entries.rs"));
#[cfg(test)]
include!(concat!(env!("OUT_DIR"), "/test_entries.rs"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::cuda::CUDA_KERNELS;
    use crate::matrix::Dtype;

    #[test]
    fn every_kernel_has_its_entries() {
        for kernel in CUDA_KERNELS {
            for dtype in [Dtype::F64, Dtype::F32] {
                for variant in kernel.variants_of(dtype) {
                    let entry = entry(&kernel.entry(dtype, variant)).unwrap();
                    assert_eq!(entry.parameters, kernel.parameters.len());
                    assert!((1..=16).contains(&entry.parameters));
                }
            }
        }
    }
}
