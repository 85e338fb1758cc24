//! Sums over the rows of multivectors on several owners, in the canonical order.
//!
//! Ranks give each other the partial results of their blocks and the rows of blocks that they share. Each rank then adds them in the
//! order of rows, so all of them have the same bits; [`crate::runtime::vectors::ranks::reduction`].

use std::ops::Range;

use crate::device::network::Call;
use crate::device::{HostTransfer, LaunchWithCopies, MemoryRange, Operation, PinnedRange, VectorLaunch};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::{PartialResults, Sum, rows, sums};
use crate::matrix::{MultiVector, MultiVectorView};
use crate::runtime::vectors::errors::{misuse, unaligned};
use crate::runtime::vectors::ranks::Shape;
use crate::runtime::vectors::simulated_memory::no_values;
use crate::runtime::vectors::{DevicePart, RowsOf, Vectors, lock};

impl<T: Kernels> Vectors<T> {
    pub(crate) fn sum(&self, sum: Sum, other: &Self) -> Result<Vec<T>> {
        let calls = self.distribution.ranks.as_ref().map(|ranks| &ranks.communicator.members().calls);
        let call = calls.map(|calls| calls.begin()).transpose()?;
        self.sum_in_call(sum, other, call)
            .inspect_err(|_| calls.into_iter().for_each(|calls| calls.give_up()))
    }

    fn sum_in_call(&self, sum: Sum, other: &Self, call: Option<Call>) -> Result<Vec<T>> {
        self.check_same(other)?;
        if self.machine().is_some() {
            return Err(no_values(&self.distribution));
        }
        // One lock for both, whatever their order.
        let _reading = self.reading();
        self.partial_sums(sum, other, call)
    }

    fn partial_sums(&self, sum: Sum, other: &Self, call: Option<Call>) -> Result<Vec<T>> {
        let own = self.surviving(|| self.pieces(sum, other))?;
        let mut results = PartialResults::new(sum, self.total_rows() as usize, (self.k, self.k));
        match (&self.distribution.ranks, call) {
            (Some(ranks), Some(call)) if ranks.communicator.size() > 1 => {
                let shape = Shape { sum, k: self.k, value_bytes: size_of::<T>() };
                let add = |all: &[&[u8]]| {
                    for (bytes, owners) in all.iter().zip(&ranks.reductions.owners) {
                        let pieces = decoded(bytes, shape, owners, ranks.span.total)?;
                        pieces.iter().try_for_each(|piece| self.add_piece(&mut results, piece))?;
                    }
                    Ok(())
                };
                ranks.reduce(call, shape, &encoded(&own), add)?;
            }
            _ => own.iter().try_for_each(|piece| self.add_piece(&mut results, piece))?,
        }
        results.finish()
    }

    fn add_piece(&self, results: &mut PartialResults<T>, piece: &Piece<T>) -> Result<()> {
        match piece {
            Piece::Blocks { rows, partials } => results.add_blocks(*rows, partials),
            Piece::Rows { rows, x, y } => {
                let view = |values| MultiVectorView::try_new(values, *rows, self.k, self.k);
                results.add_rows(view(x)?, view(y)?)
            }
        }
    }

    /// The partial results of this rank, in the order of rows.
    fn pieces(&self, sum: Sum, other: &Self) -> Result<Vec<Piece<T>>> {
        let total = self.total_rows();
        // Blocks are counted in the numbers of the whole multivector.
        let begin = self.distribution.own().start;
        let whole = |rows: &Range<u64>| match &self.distribution.ranks {
            Some(ranks) => ranks.whole(rows),
            None => rows.clone(),
        };
        let first = self.first_row();
        let local = |rows: Range<u64>| rows.start - first + begin..rows.end - first + begin;
        let length = sum.length(self.k as u64, self.k as u64) as usize;
        // All devices compute their partial results at the same time; the host computes its own meanwhile.
        let mut downloads = Vec::new();
        for (index, part) in self.distribution.parts.iter().enumerate() {
            let owned = sum.owned(whole(&part.own), total);
            downloads.push(match self.data(index)? {
                RowsOf::Device(device) if !owned.blocks.is_empty() => {
                    Some(self.start_sum(sum, index, device, other, local(owned.rows))?)
                }
                _ => None,
            });
        }
        let mut results = Vec::new();
        for (index, part) in self.distribution.parts.iter().enumerate() {
            let owned = sum.owned(whole(&part.own), total);
            let blocks = (owned.blocks.end - owned.blocks.start) as usize;
            let rows = local(owned.rows);
            let rows = rows.start as usize..rows.end as usize;
            let mut on_device = Vec::new();
            if let (RowsOf::Device(device), Some(fence)) = (self.data(index)?, downloads[index]) {
                let shared = device.allocations.device();
                shared.lock().wait(fence).map_err(|fault| fault.into_error(&part.name))?;
                self.check_faults(index)?;
                other.check_faults(index)?;
                let bytes = device.pinned.read().map_err(misuse)?;
                let numbers: &[T] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
                // Copied, since the rows of an edge arrive in the same memory.
                on_device.extend_from_slice(numbers.get(..blocks * length).unwrap_or_default());
            }
            self.add_edge(&mut results, index, other, local(owned.head))?;
            match self.data(index)? {
                RowsOf::Device(_) if blocks > 0 => {
                    results.push(Piece::Blocks { rows: rows.len(), partials: on_device });
                }
                RowsOf::Host(data) if blocks > 0 => {
                    let mut partials = vec![T::ZERO; blocks * length];
                    let x = lock(data);
                    let x = x.view().rows_in(rows.clone());
                    // A multivector with itself is locked once.
                    let same = std::ptr::eq(self, other);
                    let y = if same { None } else { Some(other.host_part(index)?) };
                    let y = y.as_ref().map_or(x, |y| y.view().rows_in(rows.clone()));
                    self.pool.install(|| sums::partial_results(sum, x, y, &mut partials))?;
                    results.push(Piece::Blocks { rows: rows.len(), partials });
                }
                _ => {}
            }
            self.add_edge(&mut results, index, other, local(owned.tail))?;
        }
        Ok(results)
    }

    /// Starts the partial results of the whole blocks of a device and their download.
    fn start_sum(
        &self,
        sum: Sum,
        index: usize,
        device: &DevicePart<T>,
        other: &Self,
        rows: Range<u64>,
    ) -> Result<crate::device::Fence> {
        let (x, y) = (self.own_rows(index, rows.clone())?, other.own_rows(index, rows)?);
        let launch = match sum {
            Sum::Dot => VectorLaunch::dot(x, y, device.scratch)?,
            Sum::Gram => VectorLaunch::gram(x, y, device.scratch)?,
        };
        let name = if sum == Sum::Dot { "dot and partial sums" } else { "gram and partial sums" };
        let blocks = x.rows.div_ceil(sum.block_rows());
        let bytes = blocks * sum.length(self.k as u64, self.k as u64) * size_of::<T>() as u64;
        let host = PinnedRange { pinned: device.pinned.clone(), begin: 0, end: bytes };
        let from = MemoryRange { end: device.scratch.begin + bytes, ..device.scratch };
        // The copy follows the kernel on its lane: a copy on another lane would start after an event, which costs more than the copy.
        let download = Some(HostTransfer::whole(host, from));
        let launch = LaunchWithCopies { numbers: None, launch: Some(launch), download };
        self.queue(index, name, Operation::LaunchWithCopies(Box::new(launch)), 2 * x.memory.bytes())
    }

    /// Adds the rows of an owner that belong to blocks with rows of several owners.
    fn add_edge(
        &self,
        results: &mut Vec<Piece<T>>,
        index: usize,
        other: &Self,
        rows: Range<u64>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let count = (rows.end - rows.start) as usize;
        let read = |vectors: &Self| -> Result<MultiVector<T>> {
            let mut packed = MultiVector::zeros(count, vectors.k)?;
            match vectors.data(index)? {
                RowsOf::Host(data) => {
                    let data = lock(data);
                    let from = data.view().rows_in(rows.start as usize..rows.end as usize);
                    rows::copy(from, packed.view_mut())?;
                }
                RowsOf::Device(device) => vectors.download(index, device, rows.clone(), packed.view_mut())?,
            }
            Ok(packed)
        };
        let (x, y) = (read(self)?.data().to_vec(), read(other)?.data().to_vec());
        results.push(Piece::Rows { rows: count, x, y });
        Ok(())
    }
}

/// A part of the partial results of a sum.
enum Piece<T> {
    /// The partial results of whole blocks, which have so many rows.
    Blocks { rows: usize, partials: Vec<T> },
    /// Rows of X and Y, packed, that belong to blocks with rows of several owners.
    Rows { rows: usize, x: Vec<T>, y: Vec<T> },
}

/// The values of the pieces, one after the other.
fn encoded<T: Kernels>(pieces: &[Piece<T>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        let values = match piece {
            Piece::Blocks { partials, .. } => [&partials[..], &[]],
            Piece::Rows { x, y, .. } => [&x[..], &y[..]],
        };
        values.iter().for_each(|part| bytes.extend_from_slice(bytemuck::cast_slice(part)));
    }
    bytes
}

/// The pieces of a rank whose rows have these owners.
fn decoded<T: Kernels>(
    mut bytes: &[u8],
    Shape { sum, k, .. }: Shape,
    owners: &[Range<u64>],
    total: u64,
) -> Result<Vec<Piece<T>>> {
    let mut values = |count: usize| -> Result<Vec<T>> {
        let damaged = || Error::Internal("the partial results of a rank are too short".into());
        let (values, rest) = bytes.split_at_checked(count * size_of::<T>()).ok_or_else(damaged)?;
        bytes = rest;
        Ok(bytemuck::pod_collect_to_vec(values))
    };
    let length = |range: &Range<u64>| (range.end - range.start) as usize;
    let mut pieces = Vec::new();
    for owned in owners.iter().map(|rows| sum.owned(rows.clone(), total)) {
        let (head, tail) = (length(&owned.head), length(&owned.tail));
        pieces.push(Piece::Rows { rows: head, x: values(head * k)?, y: values(head * k)? });
        let partials = values(length(&owned.blocks) * sum.length(k as u64, k as u64) as usize)?;
        pieces.push(Piece::Blocks { rows: length(&owned.rows), partials });
        pieces.push(Piece::Rows { rows: tail, x: values(tail * k)?, y: values(tail * k)? });
    }
    Ok(pieces)
}
