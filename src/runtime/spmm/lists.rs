//! The lists of long rows of chunks, each with the value of all nonzeros where the kernel needs only one, and packed chunks. They are made
//! once for a job, since A stays the same: in page-locked memory where devices copy A in place, otherwise when a chunk is staged first.

use std::ops::Range;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::spmm_job::{SpmmJob, missing_chunk};
use crate::device::{Fault, Pinned, PinnedRange};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::AlignedBuffer;
use crate::runtime::job::Job;

/// For each chunk its list, made when it is first needed.
pub struct Lists(Vec<OnceLock<PinnedRange>>);

impl Lists {
    /// Lists of so many chunks.
    pub fn new(chunks: usize) -> Self {
        Self((0..chunks).map(|_| OnceLock::new()).collect())
    }

    fn list(&self, chunk: usize) -> Result<&OnceLock<PinnedRange>> {
        self.0.get(chunk).ok_or_else(|| missing_chunk(chunk))
    }
}

impl<T: Kernels> SpmmJob<'_, T> {
    /// The list of a chunk, in pageable memory if it was not planned for a device that copies A in place.
    pub(super) fn list_of(&self, chunk: usize) -> Result<PinnedRange> {
        let list = self.lists.list(chunk)?;
        if let Some(known) = list.get() {
            return Ok(known.clone());
        }
        let bytes = self.storage(chunk)?.list_bytes();
        let pinned = Pinned::of_buffer(self.written_lists(vec![(chunk, 0..bytes)])?);
        Ok(list.get_or_init(|| PinnedRange { pinned, begin: 0, end: bytes }).clone())
    }

    /// Copies the list of a chunk to `to`, which has as many bytes.
    pub(super) fn copy_list(&self, chunk: usize, to: &mut [u8]) -> Result<()> {
        let PinnedRange { pinned, begin, end } = self.list_of(chunk)?;
        let bytes = pinned.read().map_err(|fault| Error::Internal(fault.message))?;
        let list = bytes.get(begin as usize..end as usize).filter(|list| list.len() == to.len());
        let list = list.ok_or_else(|| Error::Internal("a list does not fit its slot".into()))?;
        to.copy_from_slice(list);
        Ok(())
    }

    /// Makes the lists of the chunks that device number `device` may compute, in memory that `page_lock` locks. The inner error is that of
    /// `page_lock`.
    pub(super) fn make_lists(
        &self,
        device: usize,
        page_lock: &dyn Fn(AlignedBuffer<u8>) -> std::result::Result<Pinned, Fault>,
    ) -> Result<std::result::Result<(), Fault>> {
        let number = device as u32;
        let (mut ranges, mut end) = (Vec::new(), 0);
        for (index, chunk) in self.plan().chunks.iter().enumerate() {
            let bytes = self.storage(index)?.list_bytes();
            let is_own = chunk.home == number || chunk.also.contains(&number);
            if is_own && bytes > 0 && self.lists.list(index)?.get().is_none() {
                ranges.push((index, end..end + bytes));
                end += bytes;
            }
        }
        if ranges.is_empty() {
            return Ok(Ok(()));
        }
        let pinned = match page_lock(self.written_lists(ranges.clone())?) {
            Ok(pinned) => pinned,
            Err(fault) => return Ok(Err(fault)),
        };
        for (chunk, Range { start, end }) in ranges {
            self.lists.list(chunk)?.get_or_init(|| PinnedRange { pinned: pinned.clone(), begin: start, end });
        }
        Ok(Ok(()))
    }

    /// The lists of chunks, written in the rayon pool of the caller, each in its range; the ranges follow each other from 0 on.
    fn written_lists(&self, ranges: Vec<(usize, Range<u64>)>) -> Result<AlignedBuffer<u8>> {
        let size = ranges.last().map_or(0, |(_, range)| range.end as usize);
        let mut bytes = AlignedBuffer::<u8>::zeroed(size)?;
        let mut rest = &mut bytes[..];
        let mut lists = Vec::with_capacity(ranges.len());
        for (chunk, range) in ranges {
            let own = rest.split_off_mut(..(range.end - range.start) as usize);
            lists.push((
                chunk,
                own.ok_or_else(|| Error::Internal("lists have other sizes than their memory".into()))?,
            ));
        }
        lists
            .into_par_iter()
            .try_for_each(|(chunk, list)| self.storage(chunk)?.write_list(self.rows(chunk)?, list))?;
        Ok(bytes)
    }
}
