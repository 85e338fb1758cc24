#![allow(unsafe_code)] // The emulator's bridge: hands addresses to kernels.
//! Binds a launch's arguments to a kernel's parameters and runs its grid.
//!
//! Arguments that lie close together are moved apart for the length of the launch, so that running over the end of one
//! does not go unnoticed in the next.

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

/// Bytes that arguments are apart at least.
const GAP_BYTES: usize = 256;

/// An argument, bound to the device's memory.
#[derive(Clone)]
pub enum Bound {
    /// A 64-bit number.
    Number(u64),
    /// A pointer.
    Range(BoundRange),
}

/// What a kernel does with what a pointer points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It reads and nothing else.
    Read,
    /// It writes, and reads only what it wrote.
    Write,
    /// It finds what was left there, and changes it.
    Update,
}

/// A pointer argument.
#[derive(Clone)]
pub struct BoundRange {
    /// The parameter's name.
    pub name: &'static str,
    /// Where it points.
    pub memory: Arc<Allocation>,
    /// Which bytes of it.
    pub range: Range<usize>,
    /// What the kernel does with it.
    pub using: Use,
}

impl BoundRange {
    fn is_writable(&self) -> bool {
        self.using != Use::Read
    }

    fn addresses(&self) -> Range<usize> {
        self.memory.address() + self.range.start..self.memory.address() + self.range.end
    }

    /// Whether the other one begins where this one ends, or nearly so.
    fn is_close_before(&self, other: &Self) -> bool {
        let (own, other) = (self.addresses(), other.addresses());
        own.end <= other.start && other.start - own.end < GAP_BYTES
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (own, other) = (self.addresses(), other.addresses());
        own.start < other.end && other.start < own.end
    }
}

/// A launch with everything it needs.
pub struct BoundLaunch {
    /// The entry's name, for reports.
    pub name: String,
    /// The entry.
    pub entry: Entry,
    /// Its grid.
    pub shape: LaunchShape,
    /// Its arguments.
    pub arguments: Vec<Bound>,
}

impl BoundLaunch {
    /// Runs it. What it is to write is unwritten until it does.
    ///
    /// # Safety
    /// Every range lies inside its allocation, nobody else uses the writable ones and nobody writes the others
    /// meanwhile, and each argument is what the entry's parameter wants.
    pub unsafe fn run(&self, processor: &mut Processor, stop: &AtomicBool) -> Result<(), Fault> {
        let misuse = |message: String| Fault::new(FaultKind::Misuse, format!("{}: {message}", self.name));
        if self.arguments.len() != self.entry.parameters {
            let (given, wanted) = (self.arguments.len(), self.entry.parameters);
            return Err(misuse(format!("is given {given} arguments instead of {wanted}")));
        }
        let ranges: Vec<&BoundRange> = self.arguments.iter().filter_map(range_of).collect();
        for (at, range) in ranges.iter().enumerate() {
            let aliased = ranges.iter().enumerate().find(|(other_at, other)| {
                *other_at != at && range.is_writable() && !range.range.is_empty() && range.overlaps(other)
            });
            if let Some((_, other)) = aliased {
                return Err(misuse(format!("writes {} where it reads or writes {}", range.name, other.name)));
            }
        }
        let no_memory = || Fault::new(FaultKind::OutOfMemory, format!("{}: no memory to run it", self.name));
        let moved: Vec<Option<Allocation>> = ranges
            .iter()
            .map(|range| {
                if ranges.iter().any(|other| other.is_close_before(range)) {
                    // SAFETY: the caller's promise; the copy is new.
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
                // SAFETY: the caller's promise.
                unsafe { memory.forget(place.clone()) };
            }
        }
        let result = self.run_placed(&ranges, &places, processor, stop);
        for ((range, copy), (_, place)) in ranges.iter().zip(&moved).zip(&places) {
            if let (true, Some(copy)) = (range.is_writable(), copy) {
                // SAFETY: the caller's promise.
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
        let mut addresses = places.iter().map(|(memory, place)| (memory.address() + place.start) as u64);
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

/// A copy with nothing near it; what the kernel is to write need not be copied.
///
/// # Safety
/// The range lies inside its allocation and nobody writes it meanwhile.
unsafe fn copy_of(range: &BoundRange) -> Option<Allocation> {
    let copy = Allocation::new(range.range.len())?;
    if range.using != Use::Write {
        // SAFETY: the caller's promise; the copy is as long as the range.
        unsafe { copy.copy_from(0, &range.memory, range.range.clone()) };
    }
    Some(copy)
}
