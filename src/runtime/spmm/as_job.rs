//! A planned product with a sparse A as a [`Job`]: the operations, staging and checks of its chunks.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use super::borrowed_matrix::BorrowedMatrix;
use super::launch::launch;
use super::matrix::Matrix;
use super::spmm_job::{SpmmJob, missing_chunk};
use crate::device::{BorrowScope, Fault, HostTransfer, MemoryRange, Operation, Pinned};
use crate::error::Result;
use crate::kernel::check::{
    Applied, Checksums, Method, Observation, Operator, RowCheck, SumsOfX, wrong_rows_by_rows,
};
use crate::kernel::cpu::{Kernels, PreparedKernel, RowsObserver};
use crate::kernel::scaling::scaling as rounded;
use crate::kernel::{KernelId, reference};
use crate::matrix::{AlignedBuffer, ContentId, Csr, CsrView, MultiVectorView, MultiVectorViewMut};
use crate::plan::{Chunk, Plan};
use crate::runtime::Check;
use crate::runtime::job::{Accelerator, BorrowsA, CheckedProduct, Job, Scaling};
use crate::work::{ChunkRows, HeldRows};

/// Rows of Y = alpha A X + beta Y by the reference kernel, divided between the threads of the current rayon pool.
pub fn compute_by_reference<T: Kernels>(
    a: CsrView<'_, T>,
    scaling: Scaling,
    x: MultiVectorView<'_, T>,
    mut y: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    /// Rows of one thread at a time.
    const ROWS: usize = 64;
    if a.rows() <= ROWS {
        return reference::csr_scaled(a, rounded(scaling.alpha, scaling.beta), x, &mut y);
    }
    let half = a.rows() / 2;
    let (top, bottom) = y.split_at_row(half);
    let (first, second) = rayon::join(
        || compute_by_reference(a.slice_rows(0..half), scaling, x, top),
        || compute_by_reference(a.slice_rows(half..a.rows()), scaling, x, bottom),
    );
    first.and(second)
}

impl<T: Kernels> Job for SpmmJob<'_, T> {
    type Value = T;
    type Shared = Csr<T>;
    type Borrowed = BorrowedMatrix;

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn content(&self) -> Option<ContentId> {
        self.matrix().content()
    }

    fn shared(&self) -> Option<Arc<Csr<T>>> {
        match &self.matrix {
            Matrix::Shared(matrix) => Some(matrix.clone()),
            Matrix::Borrowed(_) => None,
        }
    }

    fn shared_arrays<'m>(&self, shared: &'m Csr<T>, device: usize) -> Vec<&'m [u8]> {
        arrays(self, shared.view(), device)
    }

    fn borrow<'env>(&'env self, scope: &BorrowScope<'env>) -> Result<BorrowedMatrix> {
        BorrowedMatrix::new(self, scope)
    }

    fn gathered_rows(&self, device: usize) -> Result<HeldRows> {
        let number = device as u32;
        let chunks = self.plan.chunks.iter().enumerate();
        let taken = chunks.filter(|(_, chunk)| chunk.home == number || chunk.also.contains(&number));
        let parts = taken.map(|(chunk, _)| self.rows(chunk)).collect::<Result<Vec<_>>>()?;
        Ok(HeldRows::gather(self.matrix().cols(), &parts))
    }

    fn chunk_bytes(&self, chunk: usize) -> Result<u64> {
        Ok(self.storage(chunk)?.bytes())
    }

    fn stage(&self, chunk: usize, held: &HeldRows, to: &mut [u8]) -> Result<()> {
        let (storage, rows) = (self.storage(chunk)?, self.rows(chunk)?);
        match storage.list_bytes() {
            0 => storage.write(rows, held, to),
            list_bytes => {
                self.copy_list(chunk, to.get_mut(..list_bytes as usize).unwrap_or_default())?;
                storage.write_after_list(rows, held, to)
            }
        }
    }

    fn copies_in_place(
        &self,
        chunk: usize,
        a: &BorrowedMatrix,
        to: MemoryRange,
    ) -> Result<Vec<HostTransfer>> {
        let storage = self.storage(chunk)?;
        let list_bytes = storage.list_bytes();
        let device = |range: Range<u64>| MemoryRange {
            begin: to.begin + range.start,
            end: to.begin + range.end,
            ..to
        };
        let list =
            (list_bytes > 0).then(|| Ok(HostTransfer::whole(self.list_of(chunk)?, device(0..list_bytes))));
        let copies = storage.arrays_of_a().map(|array| {
            Ok(HostTransfer::whole(a.array(self, chunk, array.name)?, device(array.range.clone())))
        });
        list.into_iter().chain(copies).collect()
    }

    fn make_beside_a(
        &self,
        device: usize,
        page_lock: &dyn Fn(AlignedBuffer<u8>) -> std::result::Result<Pinned, Fault>,
    ) -> Result<std::result::Result<(), Fault>> {
        self.make_lists(device, page_lock)
    }

    fn launch(
        &self,
        chunk: usize,
        accelerator: &Accelerator,
        a: MemoryRange,
        y: MemoryRange,
        alpha: f64,
    ) -> Result<Operation<'static>> {
        launch(self, chunk, accelerator, a, y, alpha)
    }

    fn prepare_on_host(&self, chunk: usize) -> Result<()> {
        let product = self.products.get(chunk).ok_or_else(|| missing_chunk(chunk))?;
        *product.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.prepared_on_host(chunk)?);
        Ok(())
    }

    fn is_serial(&self, chunk: usize) -> bool {
        let product = self.products.get(chunk).and_then(|product| product.lock().ok());
        product.is_some_and(|product| product.as_ref().is_some_and(PreparedKernel::is_serial))
    }

    fn compute(
        &self,
        chunk: usize,
        scaling: Scaling,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        self.with_host_product(chunk, |product| {
            product.run_scaled(self.rows(chunk)?, rounded(scaling.alpha, scaling.beta), x, y, None).map(drop)
        })
    }

    fn check_method(&self, check: Check) -> Result<Option<Method>> {
        Ok(Some(match check {
            Check::Always => Method::Columns(Checksums::of(Operator::Sparse(self.matrix()))?),
            Check::First | Check::Never => Method::Rows,
        }))
    }

    fn compute_checked(
        &self,
        method: &Method,
        product: CheckedProduct<'_, T, &mut MultiVectorViewMut<'_, T>>,
    ) -> Result<Option<Vec<usize>>> {
        let CheckedProduct { scaling, x, old, y } = product;
        let factors = rounded(scaling.alpha, scaling.beta);
        let run = |y: MultiVectorViewMut<'_, T>, observer: &dyn RowsObserver<T>| {
            self.with_host_product(0, |kernel| {
                kernel.run_scaled(self.rows(0)?, factors, x, y, Some(observer))
            })
        };
        let applied = |y| Applied { scaling: factors, x, old, y };
        match method {
            // The rounding of the old Y would hide errors from sums of columns.
            Method::Columns(checksums) if old.is_none() => {
                let observation = Observation::new(checksums, x)?;
                let observed = run(y.reborrow(), &observation)?;
                let a = Operator::Sparse(self.matrix());
                observed
                    .then(|| checksums.wrong_rows_observed(a, applied(y.as_view()), observation))
                    .transpose()
            }
            _ => {
                let check = RowCheck::new(self.matrix(), factors, x)?;
                let observed = run(y.reborrow(), &check)?;
                observed.then(|| check.wrong_observed_rows(applied(y.as_view()))).transpose()
            }
        }
    }

    fn sums_of_x(method: &Method, x: MultiVectorView<'_, T>) -> Result<Option<SumsOfX>> {
        match method {
            Method::Columns(checksums) => checksums.sums_of_x(x).map(Some),
            Method::Rows => Ok(None),
        }
    }

    fn wrong_rows(
        &self,
        method: &Method,
        product: &CheckedProduct<'_, T>,
        x_sums: Option<SumsOfX>,
    ) -> Result<Vec<usize>> {
        let CheckedProduct { scaling, x, old, y } = *product;
        let applied = Applied { scaling: rounded(scaling.alpha, scaling.beta), x, old, y };
        let a = Operator::Sparse(self.matrix());
        match (method, x_sums) {
            (Method::Columns(checksums), Some(x_sums)) if old.is_none() => {
                checksums.wrong_rows_after(a, applied, x_sums)
            }
            (Method::Columns(checksums), None) if old.is_none() => checksums.wrong_rows(a, applied),
            _ => wrong_rows_by_rows(self.matrix(), applied),
        }
    }

    fn compute_by_reference(
        &self,
        rows: Range<usize>,
        scaling: Scaling,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        compute_by_reference(self.matrix().slice_rows(rows), scaling, x, y)
    }

    fn prefer_reference(&self, chunk: usize) -> Result<()> {
        let product = self.products.get(chunk).ok_or_else(|| missing_chunk(chunk))?;
        let reference = self.prepared_kernel(chunk, KernelId::SerialCsr)?;
        *product.lock().unwrap_or_else(PoisonError::into_inner) = Some(reference);
        Ok(())
    }
}

impl<'m, 'a: 'm, T: Kernels> BorrowsA<'m> for SpmmJob<'a, T> {
    fn borrowed_arrays(&self, device: usize) -> Vec<&'m [u8]> {
        match self.matrix {
            Matrix::Borrowed(view) => arrays(self, view, device),
            Matrix::Shared(_) => Vec::new(),
        }
    }
}

/// The parts of A's arrays that contain the chunks of device number `index`, without those that are copied packed.
fn arrays<'m, T: Kernels>(job: &SpmmJob<'_, T>, matrix: CsrView<'m, T>, index: usize) -> Vec<&'m [u8]> {
    let number = index as u32;
    let is_own = |chunk: &Chunk| chunk.home == number || chunk.also.contains(&number);
    let own = || job.plan.chunks.iter().enumerate().filter(|(_, chunk)| is_own(chunk));
    let rows = own().map(|(_, chunk)| match chunk.rows {
        ChunkRows::Rows { begin, end } => (begin, end),
        ChunkRows::Segments { row, .. } => (row, row + 1),
    });
    let Some((begin, end)) = rows.reduce(|all, rows| (all.0.min(rows.0), all.1.max(rows.1))) else {
        return Vec::new();
    };
    let pointers = matrix.row_pointers().get(begin..=end).unwrap_or_default();
    let (Some(&first), Some(&last)) = (pointers.first(), pointers.last()) else { return Vec::new() };
    let entries = first as usize..last as usize;
    let columns = matrix.columns().get(entries.clone()).unwrap_or_default();
    let values = matrix.values().get(entries).unwrap_or_default();
    // The others are copied with the lists of long rows.
    let is_copied = |names: &[&str]| {
        own()
            .filter_map(|(chunk, _)| job.storage(chunk).ok())
            .any(|storage| storage.arrays_of_a().any(|array| names.contains(&array.name)))
    };
    let arrays: [(&[&str], &[u8]); 3] = [
        (&["row_pointers"], bytemuck::cast_slice(pointers)),
        (&["columns"], bytemuck::cast_slice(columns)),
        (&["values", "codes"], bytemuck::cast_slice(values)),
    ];
    let copied = arrays.into_iter().filter(|(names, bytes)| !bytes.is_empty() && is_copied(names));
    copied.map(|(_, bytes)| bytes).collect()
}
