//! Planned jobs of any kind of work on open devices: their memory, the operations of their tasks, runs, and recovery from faults.
//!
//! [`Job`] is what a kind of work adds: the bytes of its chunks, its launches, and its computation on the host.

mod accelerator;
mod binder;
mod check;
mod checked_runs;
mod in_place;
mod job_devices;
mod outputs;
mod page_locked;
mod prepared;
mod registrations;
mod runs;
mod scaling;
mod upload;

use std::ops::Range;
use std::sync::Arc;

pub use accelerator::Accelerator;
pub use check::{CheckedProduct, Checks, still_wrong, wrong_chunk};
pub use in_place::InPlace;
pub use job_devices::{open, open_planned};
pub use outputs::Outputs;
pub use page_locked::PageLockedMultiVector;
pub use prepared::Prepared;
pub use scaling::Scaling;

use crate::device::{BorrowScope, Fault, HostTransfer, MemoryRange, Operation, Pinned};
use crate::error::{Error, Result};
use crate::kernel::check::{Method, SumsOfX};
use crate::matrix::{AlignedBuffer, ContentId, MultiVectorView, MultiVectorViewMut, Scalar};
use crate::plan::{Chunk, Plan, SplitRow};
use crate::runtime::Check;
use crate::work::HeldRows;

/// A planned job: A, and what devices and the host do with each chunk of it.
pub trait Job: Send + Sync {
    /// Value type.
    type Value: Scalar;
    /// The owner of A where the job shares it. It must keep the arrays of A in place.
    type Shared: Send + Sync + 'static;
    /// A as borrowed for one run, so that devices can copy it in place.
    type Borrowed: Sync;

    /// The plan.
    fn plan(&self) -> &Plan;

    /// The identity of A, whose layouts on devices are shared with other jobs; `None` if they are not shared.
    fn content(&self) -> Option<ContentId> {
        None
    }

    /// The owner of A; `None` if A is borrowed.
    fn shared(&self) -> Option<Arc<Self::Shared>>;

    /// The parts of the arrays of A that contain the chunks of device number `device`.
    fn shared_arrays<'m>(&self, shared: &'m Self::Shared, device: usize) -> Vec<&'m [u8]>;

    /// Borrows A for the duration of `scope`.
    fn borrow<'env>(&'env self, scope: &BorrowScope<'env>) -> Result<Self::Borrowed>;

    /// The rows of X that device number `device` holds if it gets only those that its chunks need.
    fn gathered_rows(&self, device: usize) -> Result<HeldRows> {
        Err(Error::Internal(format!("device {device} gathers rows of X, which its kind of work does not")))
    }

    /// Bytes of a chunk of A in a device's memory.
    fn chunk_bytes(&self, chunk: usize) -> Result<u64>;

    /// Writes a chunk of A as a device with the rows `held` of X stores it.
    fn stage(&self, chunk: usize, held: &HeldRows, to: &mut [u8]) -> Result<()>;

    /// Writes the bytes `part` of a chunk of A as a device stores it; of kinds of work that are staged in parts
    /// ([`crate::work::Kind::stages_in_parts`]).
    fn stage_part(&self, chunk: usize, _part: Range<u64>, _to: &mut [u8]) -> Result<()> {
        Err(Error::Internal(format!("chunk {chunk} is staged in parts, which its kind of work does not")))
    }

    /// The copies of a chunk of a borrowed A to `to`.
    fn copies_in_place(&self, chunk: usize, a: &Self::Borrowed, to: MemoryRange)
    -> Result<Vec<HostTransfer>>;

    /// Makes what device number `device` copies in place beside A's own arrays, in page-locked memory from `allocate`, on the current
    /// rayon pool. The inner error is that of `allocate`.
    fn make_beside_a(
        &self,
        _device: usize,
        _page_lock: &dyn Fn(AlignedBuffer<u8>) -> std::result::Result<Pinned, Fault>,
    ) -> Result<std::result::Result<(), Fault>> {
        Ok(Ok(()))
    }

    /// The launch of the kernel of a chunk, which is stored at `a`; its slice `y` of Y becomes `alpha` times the result.
    fn launch(
        &self,
        chunk: usize,
        accelerator: &Accelerator,
        a: MemoryRange,
        y: MemoryRange,
        alpha: f64,
    ) -> Result<Operation<'static>>;

    /// Whether kernels write the rows of a slice of Y without padding between them.
    fn packs_slices(&self) -> bool {
        false
    }

    /// Prepares the host's computation of a chunk, on the current rayon pool.
    fn prepare_on_host(&self, _chunk: usize) -> Result<()> {
        Ok(())
    }

    /// Whether the host's computation of a chunk is prepared and uses one thread only.
    fn is_serial(&self, _chunk: usize) -> bool {
        false
    }

    /// Computes a chunk on the current rayon pool.
    fn compute(
        &self,
        chunk: usize,
        scaling: Scaling,
        x: MultiVectorView<'_, Self::Value>,
        y: MultiVectorViewMut<'_, Self::Value>,
    ) -> Result<()>;

    /// How products are checked. What is made for A is made on the current rayon pool. `None` if this kind of work has no check.
    fn check_method(&self, _check: Check) -> Result<Option<Method>> {
        Ok(None)
    }

    /// Computes the only chunk, which has all rows, on the current rayon pool. Returns wrong rows of Y, as [`Self::wrong_rows`] does, if they
    /// were looked for meanwhile.
    fn compute_checked(
        &self,
        _method: &Method,
        product: CheckedProduct<'_, Self::Value, &mut MultiVectorViewMut<'_, Self::Value>>,
    ) -> Result<Option<Vec<usize>>> {
        self.compute(0, product.scaling, product.x, product.y.reborrow())?;
        Ok(None)
    }

    /// The weighted sums of X, on the current rayon pool; `None` if they are better formed with the check.
    fn sums_of_x(_method: &Method, _x: MultiVectorView<'_, Self::Value>) -> Result<Option<SumsOfX>> {
        Ok(None)
    }

    /// Wrong rows of a Y that was computed, in ascending order, or none if it is right; with the sums of X if they are known. On the current
    /// rayon pool.
    fn wrong_rows(
        &self,
        _method: &Method,
        _product: &CheckedProduct<'_, Self::Value>,
        _x: Option<SumsOfX>,
    ) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }

    /// Computes rows of Y by the reference kernel, on the current rayon pool.
    fn compute_by_reference(
        &self,
        rows: Range<usize>,
        _scaling: Scaling,
        _x: MultiVectorView<'_, Self::Value>,
        _y: MultiVectorViewMut<'_, Self::Value>,
    ) -> Result<()> {
        Err(Error::Internal(format!(
            "rows {rows:?} are computed by a reference, which their kind of work does not have"
        )))
    }

    /// Computes a chunk by the reference kernel from now on, where the kind of work can.
    fn prefer_reference(&self, _chunk: usize) -> Result<()> {
        Ok(())
    }

    /// Combines the partial results of a split row, first to last. Where all chunks add to one row, the first chunk has added up its own
    /// ([`crate::work::Output::adds_up`]).
    fn merge_split_row(
        &self,
        index: usize,
        split: &SplitRow,
        outputs: &Outputs<'_, Self::Value>,
        scaling: Scaling,
    ) -> Result<()> {
        outputs.merge_split_row(index, split, scaling)
    }

    /// A chunk of the plan.
    fn chunk(&self, chunk: usize) -> Result<&Chunk> {
        let found = self.plan().chunks.get(chunk);
        found.ok_or_else(|| Error::Internal(format!("the plan has no chunk {chunk}")))
    }
}

/// A job whose A may be borrowed for `'m`.
pub trait BorrowsA<'m>: Job {
    /// The parts of the arrays of a borrowed A that contain the chunks of device number `device`; none if A is shared.
    fn borrowed_arrays(&self, device: usize) -> Vec<&'m [u8]>;
}
