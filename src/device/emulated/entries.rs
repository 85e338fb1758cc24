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

entries! { entry:
    csr_scalar_v1_f64(9) csr_scalar_v1_f32(9)
    csr_scalar_v2_f64(9) csr_scalar_v2_f32(9)
    csr_scalar_v3_f64(9) csr_scalar_v3_f32(9)
    csr_vector_f64(9) csr_vector_f32(9)
    ellpack_f64(9) ellpack_f32(9)
}

#[cfg(test)]
entries! { test_entry:
    reads_beyond(3) writes_beyond(3) reads_unwritten(2) reads_unwritten_shared(2) runs_over_shared(2)
    runs_over_dynamic_shared(1) diverges_at_a_barrier(1) leaves_before_a_barrier(1) shuffles_without_a_lane(1)
    shuffles_from_an_absent_lane(1) reads_misaligned(2) writes_what_it_may_read(1) reads_next_door(2)
    reads_the_last_blocks_shared(2)
    block_sum_f64(3) warp_sum_f64(3) words_of_cuda(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::cuda::CUDA_KERNELS;
    use crate::matrix::Dtype;

    #[test]
    fn every_kernel_has_its_entries() {
        for kernel in CUDA_KERNELS {
            for dtype in [Dtype::F64, Dtype::F32] {
                for variant in kernel.variants {
                    let entry = entry(&kernel.entry(dtype, variant)).unwrap();
                    assert_eq!(entry.parameters, kernel.parameters.len());
                    assert!((1..=12).contains(&entry.parameters));
                }
            }
        }
    }
}
