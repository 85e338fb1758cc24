//! Intel MKL's inspector-executor SpMM, loaded at run time. A matrix is created, hinted and optimised before products are timed.

use std::ffi::c_void;

use libloading::{Library, Symbol};
use rowloom::internal::matrix::{CsrView, Scalar};

const ROW_MAJOR: i32 = 101;
const NON_TRANSPOSED: i32 = 10;
const GENERAL: i32 = 20;

#[repr(C)]
#[derive(Clone, Copy)]
struct Description {
    kind: i32,
    mode: i32,
    diagonal: i32,
}

/// The library.
pub struct Mkl {
    library: Library,
}

/// A matrix as MKL holds it, hinted and optimised for one K.
pub struct MklCsr<'a, T> {
    mkl: &'a Mkl,
    handle: *mut c_void,
    description: Description,
    k: i32,
    _row_pointers: Vec<i32>,
    _columns: Vec<i32>,
    _values: Vec<T>,
}

impl Mkl {
    /// Loads `libmkl_rt` from `path`.
    pub fn load(path: &str) -> Result<Self, String> {
        // SAFETY: loading MKL runs its initialisers, which have no preconditions.
        let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
        Ok(Self { library })
    }

    /// The number of threads MKL uses from now on.
    pub fn set_threads(&self, threads: i32) {
        // SAFETY: `MKL_Set_Num_Threads(int)` takes its argument by value.
        unsafe {
            let set: Symbol<unsafe extern "C" fn(i32)> = self.library.get(b"MKL_Set_Num_Threads").unwrap();
            set(threads);
        }
    }

    /// Creates MKL's matrix, with a hint for a thousand products with `k` columns.
    pub fn csr<T: Scalar>(&self, matrix: CsrView<'_, T>, k: usize) -> MklCsr<'_, T> {
        let row_pointers: Vec<i32> = matrix.row_pointers().iter().map(|&p| p as i32).collect();
        let columns: Vec<i32> = matrix.columns().iter().map(|&c| c as i32).collect();
        let values = matrix.values().to_vec();
        let mut handle = std::ptr::null_mut();
        let description = Description { kind: GENERAL, mode: 0, diagonal: 0 };
        // SAFETY: signatures as in mkl_spblas.h for 32-bit integers; the arrays live as long as the handle.
        unsafe {
            type Create<T> = unsafe extern "C" fn(
                *mut *mut c_void,
                i32,
                i32,
                i32,
                *const i32,
                *const i32,
                *const i32,
                *const T,
            ) -> i32;
            type Hint = unsafe extern "C" fn(*mut c_void, i32, Description, i32, i32, i32) -> i32;
            type Optimize = unsafe extern "C" fn(*mut c_void) -> i32;
            let create: Symbol<Create<T>> = self.library.get(name::<T>("create_csr").as_bytes()).unwrap();
            let hint: Symbol<Hint> = self.library.get(b"mkl_sparse_set_mm_hint").unwrap();
            let optimize: Symbol<Optimize> = self.library.get(b"mkl_sparse_optimize").unwrap();
            let status = create(
                &mut handle,
                0,
                matrix.rows() as i32,
                matrix.cols() as i32,
                row_pointers.as_ptr(),
                row_pointers.as_ptr().add(1),
                columns.as_ptr(),
                values.as_ptr(),
            );
            assert_eq!(status, 0, "mkl_sparse_create_csr");
            hint(handle, NON_TRANSPOSED, description, ROW_MAJOR, k as i32, 1000);
            optimize(handle);
        }
        MklCsr {
            mkl: self,
            handle,
            description,
            k: k as i32,
            _row_pointers: row_pointers,
            _columns: columns,
            _values: values,
        }
    }
}

impl<T: Scalar> MklCsr<'_, T> {
    /// `y = A x`, both row-major and packed.
    pub fn multiply(&self, x: &[T], y: &mut [T]) {
        // SAFETY: signature as in mkl_spblas.h; `x` and `y` are as long as the caller's matrix and K say.
        unsafe {
            type Multiply<T> = unsafe extern "C" fn(
                i32,
                T,
                *mut c_void,
                Description,
                i32,
                *const T,
                i32,
                i32,
                T,
                *mut T,
                i32,
            ) -> i32;
            let multiply: Symbol<Multiply<T>> = self.mkl.library.get(name::<T>("mm").as_bytes()).unwrap();
            let status = multiply(
                NON_TRANSPOSED,
                T::ONE,
                self.handle,
                self.description,
                ROW_MAJOR,
                x.as_ptr(),
                self.k,
                self.k,
                T::ZERO,
                y.as_mut_ptr(),
                self.k,
            );
            assert_eq!(status, 0, "mkl_sparse_mm");
        }
    }
}

impl<T> Drop for MklCsr<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the handle was created by this library and is destroyed once.
        unsafe {
            let destroy: Symbol<unsafe extern "C" fn(*mut c_void) -> i32> =
                self.mkl.library.get(b"mkl_sparse_destroy").unwrap();
            destroy(self.handle);
        }
    }
}

fn name<T: Scalar>(function: &str) -> String {
    let letter = if size_of::<T>() == 8 { 'd' } else { 's' };
    format!("mkl_sparse_{letter}_{function}\0")
}
