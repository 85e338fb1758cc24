//! Weighted sums of the rows of multivectors on a device, for the check of a product.
//!
//! A device has the weights of its rows in its memory. It adds up blocks of rows, then the sums of the blocks; a few numbers for each
//! column cross the link.

use std::ops::Range;
use std::sync::Arc;

use crate::device::completion::{OperationOwner, Timeouts};
use crate::device::{
    DeviceRows, Fault, Fence, HostTransfer, Memory, MemoryRange, Operation, Pinned, PinnedRange, VectorLaunch,
};
use crate::error::Result;
use crate::kernel::check::ColumnSums;
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::WEIGH_BLOCK_ROWS;
use crate::matrix::Dtype;
use crate::runtime::devices::{Allocations, COMPUTE, DOWNLOAD, OpenDevice, Submission, UPLOAD};
use crate::runtime::vectors::Vectors;
use crate::runtime::vectors::errors::{misuse, unaligned};

/// Bytes of the two weights of a row.
const WEIGHTS_BYTES: u64 = 16;

/// Rows of a multivector with their weights, which are in the memory of a device.
pub(crate) struct DeviceWeights {
    /// Ranges of rows, whose weights follow one another.
    pieces: Vec<Range<u64>>,
    memory: Memory,
    /// Number of blocks of all ranges.
    blocks: u64,
}

/// The memory of a device for weighted sums of multivectors of `k` columns.
pub(crate) struct DeviceSums {
    k: u64,
    /// The weights of the rows of X and of Y.
    x: DeviceWeights,
    y: DeviceWeights,
    /// The sums of blocks.
    partials: MemoryRange,
    /// Weights one, for the sums of blocks.
    ones: MemoryRange,
    /// The sums of X, of Y, and of the old Y.
    results: MemoryRange,
    pinned: Pinned,
    allocations: Allocations,
    /// The owner of its operations.
    operations: Arc<OperationOwner>,
}

/// A term of the comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SumOf {
    X,
    Y,
    OldY,
}

fn blocks(rows: u64) -> u64 {
    rows.div_ceil(WEIGH_BLOCK_ROWS as u64)
}

/// The weight of each row of a range, and the factor that makes it a weight of squares.
pub(crate) type WeightedRange<'w> = (Range<u64>, &'w [f64], f64);

impl DeviceSums {
    /// Uploads the weights of the rows of X and of Y that `device` has, for the product that owns `operations`.
    pub fn new(
        device: &Arc<OpenDevice>,
        operations: &Arc<OperationOwner>,
        k: usize,
        x: &[WeightedRange<'_>],
        y: &[WeightedRange<'_>],
    ) -> std::result::Result<Self, Fault> {
        let mut allocations = Allocations::on(device);
        let timeouts = operations.timeouts();
        let mut upload = |ranges: &[WeightedRange<'_>]| upload(&mut allocations, ranges, timeouts);
        let (x, y) = (upload(x)?, upload(y)?);
        let k = k as u64;
        let most = x.blocks.max(y.blocks).max(1);
        let ones = vec![1.0; most as usize];
        let ones = upload(&[(0..most, &ones[..], 1.0)])?;
        let ones = MemoryRange { memory: ones.memory, begin: 0, end: most * WEIGHTS_BYTES };
        let partials = most * 2 * k * 8;
        let partials = MemoryRange { memory: allocations.allocate(partials)?, begin: 0, end: partials };
        let bytes = result_bytes(k, x.blocks) + 2 * result_bytes(k, y.blocks);
        let results = MemoryRange { memory: allocations.allocate(bytes)?, begin: 0, end: bytes };
        let pinned = allocations.allocate_pinned(bytes)?;
        Ok(Self { k, x, y, partials, ones, results, pinned, allocations, operations: operations.clone() })
    }

    fn weights(&self, of: SumOf) -> &DeviceWeights {
        if matches!(of, SumOf::X) { &self.x } else { &self.y }
    }

    /// The memory of a result: for each block of blocks the sums of the columns of the first sums, then those of their squares.
    fn result(&self, of: SumOf) -> MemoryRange {
        let (x, y) = (result_bytes(self.k, self.x.blocks), result_bytes(self.k, self.y.blocks));
        let (begin, end) = match of {
            SumOf::X => (0, x),
            SumOf::Y => (x, x + y),
            SumOf::OldY => (x + y, x + 2 * y),
        };
        MemoryRange { begin, end, ..self.results }
    }

    /// Queues the sums of the rows of `vectors` that the owner number `index` has.
    pub fn start<T: Kernels>(&self, of: SumOf, vectors: &Vectors<T>, index: usize) -> Result<Fence> {
        let weights = self.weights(of);
        let part = &vectors.distribution.parts[index];
        let mut device = self.allocations.device().lock();
        let mut submit = |launch: VectorLaunch, bytes: u64| {
            let (launch, predicted_s) = (Operation::VectorLaunch(launch), part.predicted_s(bytes));
            let queued =
                device.submit(Submission::new(&self.operations, "check", COMPUTE, predicted_s), launch, &[]);
            queued.map_err(|fault| fault.into_error(&part.name))
        };
        let (mut row, mut block) = (0, 0);
        for piece in &weights.pieces {
            let y = vectors.own_rows(index, piece.clone())?;
            let at = MemoryRange {
                memory: weights.memory,
                begin: row * WEIGHTS_BYTES,
                end: (row + y.rows) * WEIGHTS_BYTES,
            };
            let partials = self.partial_results(block..block + blocks(y.rows));
            submit(VectorLaunch::weigh(at, y, partials)?, y.memory.bytes())?;
            (row, block) = (row + y.rows, block + blocks(y.rows));
        }
        let columns = 2 * self.k;
        let sums = DeviceRows {
            dtype: Dtype::F64,
            memory: self.partial_results(0..block),
            rows: block,
            columns,
            leading_dimension: columns,
        };
        submit(VectorLaunch::weigh(self.ones, sums, self.result(of))?, sums.memory.bytes())
    }

    fn partial_results(&self, blocks: Range<u64>) -> MemoryRange {
        let bytes = 2 * self.k * 8;
        MemoryRange { begin: blocks.start * bytes, end: blocks.end * bytes, ..self.partials }
    }

    /// Waits for the results that were queued, and adds each to the sums of its term. The caller checks for faults.
    pub fn finish(&self, terms: &mut [(SumOf, Fence, &mut ColumnSums)]) -> Result<()> {
        let mut device = self.allocations.device().lock();
        let name = device.description().name;
        let fault = |fault: Fault| fault.into_error(&name);
        // Those of one product follow one another in memory.
        let results = terms.iter().map(|(of, ..)| self.result(*of));
        let from = results.reduce(|all, next| MemoryRange {
            begin: all.begin.min(next.begin),
            end: all.end.max(next.end),
            ..all
        });
        let Some(from) = from.filter(|from| from.bytes() > 0) else { return Ok(()) };
        let computed: Vec<Fence> = terms.iter().map(|(_, computed, _)| *computed).collect();
        let host = PinnedRange { pinned: self.pinned.clone(), begin: from.begin, end: from.end };
        let download = Operation::Download(HostTransfer::whole(host, from));
        let downloaded =
            device.submit(Submission::new(&self.operations, "check", DOWNLOAD, 1e-5), download, &computed);
        device.wait(downloaded.map_err(fault)?).map_err(fault)?;
        let bytes = self.pinned.read().map_err(misuse)?;
        let numbers: &[f64] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
        for (of, _, sums) in terms {
            let range = self.result(*of);
            let own = numbers.get(range.begin as usize / 8..range.end as usize / 8).unwrap_or_default();
            // The second half of each result has squares of sums, which have no meaning.
            for result in own.chunks_exact(4 * self.k.max(1) as usize) {
                let (first, rest) = result.split_at(self.k as usize);
                sums.add_numbers(first, &rest[..self.k as usize]);
            }
        }
        Ok(())
    }
}

/// Bytes of the sums of `blocks` blocks.
fn result_bytes(k: u64, blocks_of_rows: u64) -> u64 {
    blocks(blocks_of_rows) * 4 * k * 8
}

fn upload(
    allocations: &mut Allocations,
    ranges: &[WeightedRange<'_>],
    timeouts: Timeouts,
) -> std::result::Result<DeviceWeights, Fault> {
    let pieces: Vec<Range<u64>> = ranges.iter().map(|(rows, ..)| rows.clone()).collect();
    let rows: u64 = pieces.iter().map(|rows| rows.end - rows.start).sum();
    let bytes = rows * WEIGHTS_BYTES;
    let memory = allocations.allocate(bytes)?;
    let blocks = pieces.iter().map(|rows| blocks(rows.end - rows.start)).sum();
    if bytes > 0 {
        let mut staging = Allocations::on(allocations.device());
        let pinned = staging.allocate_pinned(bytes)?;
        {
            let mut to = pinned.write()?;
            let pairs =
                ranges.iter().flat_map(|(_, weights, factor)| weights.iter().map(move |w| (*w, w * factor)));
            for (to, (weight, square)) in to.chunks_exact_mut(WEIGHTS_BYTES as usize).zip(pairs) {
                let (first, second) = to.split_at_mut(8);
                first.copy_from_slice(&weight.to_ne_bytes());
                second.copy_from_slice(&square.to_ne_bytes());
            }
        }
        let host = PinnedRange { pinned: pinned.clone(), begin: 0, end: bytes };
        let to = MemoryRange { memory, begin: 0, end: bytes };
        let upload = (Operation::upload(host, to), 1e-5);
        allocations.device().lock().run(timeouts, "weights", UPLOAD, [upload])?;
    }
    Ok(DeviceWeights { pieces, memory, blocks })
}
