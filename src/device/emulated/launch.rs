#![allow(unsafe_code)] // The emulator's bridge: passes addresses to kernels.
//! Binds a launch's arguments to a kernel's parameters and runs its grid.
//!
//! Arguments that are adjacent in memory are copied to separate allocations for the launch, so that an overrun of one is
//! not hidden by the next.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::bridge::Parts;
use super::entries::Entry;
use super::fault::{FaultCause, KernelFault};
use super::memory::Allocation;
use super::processor::{Grid, Processor};
use super::region::Region;
use crate::device::{Fault, FaultKind};
use crate::kernel::cuda::LaunchShape;

/// The least distance between two arguments, in bytes.
const GAP_BYTES: usize = 256;

/// An argument, bound to the device's memory.
#[derive(Clone)]
pub enum Bound {
    /// A 64-bit number.
    Number(u64),
    /// A pointer.
    Range(BoundRange),
}

/// How a kernel uses the memory behind a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It only reads.
    Read,
    /// It writes, and reads only bytes that it has written.
    Write,
    /// It reads the previous contents and changes them.
    Update,
}

/// A pointer argument.
#[derive(Clone)]
pub struct BoundRange {
    /// The parameter's name.
    pub name: &'static str,
    /// The memory it points to.
    pub memory: Arc<Allocation>,
    /// The range within the memory.
    pub range: Range<usize>,
    /// Bytes from the address that the kernel gets to the start of the range.
    pub lead_bytes: usize,
    /// How the kernel uses it.
    pub using: Use,
}

impl BoundRange {
    fn is_writable(&self) -> bool {
        self.using != Use::Read
    }

    fn addresses(&self) -> Range<usize> {
        self.memory.address() + self.range.start..self.memory.address() + self.range.end
    }

    /// Whether `other` begins less than [`GAP_BYTES`] after the end of this range.
    fn is_close_before(&self, other: &Self) -> bool {
        let (own, other) = (self.addresses(), other.addresses());
        own.end <= other.start && other.start - own.end < GAP_BYTES
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (own, other) = (self.addresses(), other.addresses());
        own.start < other.end && other.start < own.end
    }
}

/// A launch with bound arguments.
pub struct BoundLaunch {
    /// The entry's name, for messages.
    pub name: String,
    /// The entry.
    pub entry: Entry,
    /// Its grid.
    pub shape: LaunchShape,
    /// Its arguments.
    pub arguments: Vec<Bound>,
}

impl BoundLaunch {
    /// Runs the launch. Its output ranges count as unwritten until the kernel writes them.
    ///
    /// # Safety
    /// Every range is inside its allocation. During the call no other code accesses the writable ranges or writes the
    /// others. Each argument has the kind of its parameter.
    pub unsafe fn run(&self, processor: &mut Processor, stop: &AtomicBool) -> Result<(), Fault> {
        let misuse = |message: String| Fault::new(FaultKind::Misuse, format!("{}: {message}", self.name));
        if self.arguments.len() != self.entry.parameters {
            let (given, wanted) = (self.arguments.len(), self.entry.parameters);
            return Err(misuse(format!("got {given} arguments; it takes {wanted}")));
        }
        let ranges: Vec<&BoundRange> = self.arguments.iter().filter_map(range_of).collect();
        for (at, range) in ranges.iter().enumerate() {
            let aliased = ranges.iter().enumerate().find(|(other_at, other)| {
                *other_at != at && range.is_writable() && !range.range.is_empty() && range.overlaps(other)
            });
            if let Some((_, other)) = aliased {
                return Err(misuse(format!(
                    "its output {} overlaps its argument {}",
                    range.name, other.name
                )));
            }
        }
        let no_memory =
            || Fault::new(FaultKind::OutOfMemory, format!("{}: the host has no memory to run it", self.name));
        let moved: Vec<Option<Allocation>> = ranges
            .iter()
            .map(|range| {
                if ranges.iter().any(|other| other.is_close_before(range)) {
                    // SAFETY: as the caller guarantees; the copy is new.
                    unsafe { copy_of(range) }.map(Some).ok_or_else(no_memory)
                } else {
                    Ok(None)
                }
            })
            .collect::<Result<_, _>>()?;
        let places: Vec<(&Allocation, Range<usize>)> = ranges
            .iter()
            .zip(&moved)
            .map(|(range, moved)| match moved {
                Some(copy) => (copy, 0..range.range.len()),
                None => (&*range.memory, range.range.clone()),
            })
            .collect();
        for ((memory, place), range) in places.iter().zip(&ranges) {
            if range.using == Use::Write {
                // SAFETY: as the caller guarantees.
                unsafe { memory.forget(place.clone()) };
            }
        }
        let result = self.run_placed(&ranges, &places, processor, stop);
        for ((range, copy), (_, place)) in ranges.iter().zip(&moved).zip(&places) {
            if let (true, Some(copy)) = (range.is_writable(), copy) {
                // SAFETY: as the caller guarantees.
                unsafe { range.memory.copy_from(range.range.start, copy, place.clone()) };
            }
        }
        result.map_err(|fault| {
            let kind = match fault.cause {
                FaultCause::Stacks { .. } => FaultKind::OutOfMemory,
                FaultCause::Stopped => FaultKind::Lost,
                _ => FaultKind::Misuse,
            };
            Fault::new(kind, fault.to_string())
        })
    }

    fn run_placed(
        &self,
        ranges: &[&BoundRange],
        places: &[(&Allocation, Range<usize>)],
        processor: &mut Processor,
        stop: &AtomicBool,
    ) -> Result<(), KernelFault> {
        let mut addresses = places.iter().zip(ranges).map(|((memory, place), range)| {
            // The address may be that of other memory, which the kernel cannot access: every access is checked.
            (memory.address() + place.start).wrapping_sub(range.lead_bytes) as u64
        });
        let words: Vec<u64> = self
            .arguments
            .iter()
            .map(|argument| match argument {
                Bound::Number(number) => *number,
                Bound::Range(_) => addresses.next().unwrap_or(0),
            })
            .collect();
        let regions = ranges
            .iter()
            .zip(places)
            .map(|(range, (memory, place))| {
                Region::new(range.name, memory, place.clone(), range.is_writable())
            })
            .collect();
        let parts = Parts {
            entry: self.entry,
            arguments: &words,
            grid: self.shape.grid,
            block_size: self.shape.block,
            dynamic_shared_bytes: self.shape.dynamic_shared_bytes as usize,
        };
        processor.run(Grid { name: &self.name, parts, regions }, stop)
    }
}

fn range_of(argument: &Bound) -> Option<&BoundRange> {
    match argument {
        Bound::Number(_) => None,
        Bound::Range(range) => Some(range),
    }
}

/// A copy of the range in a separate allocation. Output ranges are not copied.
///
/// # Safety
/// The range is inside its allocation, and no other code writes it during the call.
unsafe fn copy_of(range: &BoundRange) -> Option<Allocation> {
    let copy = Allocation::new(range.range.len())?;
    if range.using != Use::Write {
        // SAFETY: as the caller guarantees; the copy is as long as the range.
        unsafe { copy.copy_from(0, &range.memory, range.range.clone()) };
    }
    Some(copy)
}
