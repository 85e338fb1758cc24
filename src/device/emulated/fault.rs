//! Faults inside a kernel, with the location that its author needs to find the bug.

use std::fmt;

/// An index in a grid or in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Index3 {
    /// Along the first dimension, which varies fastest.
    pub x: u32,
    /// Along the second.
    pub y: u32,
    /// Along the third.
    pub z: u32,
}

impl fmt::Display for Index3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.y == 0 && self.z == 0 {
            write!(f, "{}", self.x)
        } else {
            write!(f, "({}, {}, {})", self.x, self.y, self.z)
        }
    }
}

/// The kind of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// A read.
    Read,
    /// A write.
    Write,
}

impl AccessKind {
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
        }
    }
}

/// The cause of a kernel fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultCause {
    /// An access outside all regions of the kernel; `region` is the nearest one.
    OutOfBounds {
        /// The kind of the access.
        access: AccessKind,
        /// Number of bytes accessed.
        bytes: usize,
        /// An argument or a shared variable, by its name in the source.
        region: String,
        /// Offset from the region's start, in bytes.
        offset: i64,
        /// Size of the region, in bytes.
        region_bytes: usize,
    },
    /// A read of unwritten bytes.
    Unwritten {
        /// Number of bytes accessed.
        bytes: usize,
        /// An argument or a shared variable.
        region: String,
        /// Offset from the region's start, in bytes.
        offset: usize,
    },
    /// A write to a read-only argument.
    ReadOnly {
        /// Number of bytes accessed.
        bytes: usize,
        /// The argument.
        region: String,
        /// Offset from the region's start, in bytes.
        offset: usize,
    },
    /// An access at an address that is not aligned for its type.
    Misaligned {
        /// An argument or a shared variable.
        region: String,
        /// Offset from the region's start, in bytes.
        offset: usize,
        /// The required alignment, in bytes.
        alignment: usize,
        /// The line of the access in the source.
        line: u32,
    },
    /// A block barrier that some threads never reach.
    Barrier {
        /// The line of the barrier in the source.
        line: u32,
        /// Number of threads that wait there.
        waiting: usize,
        /// A thread that does not.
        absent: Index3,
        /// The line of the barrier where that thread waits; `None` if it has returned.
        absent_line: Option<u32>,
    },
    /// A warp operation whose mask contains lanes that never take part.
    Lanes {
        /// The operation's name.
        operation: &'static str,
        /// Its line in the source.
        line: u32,
        /// The lanes of the mask that do not take part, one bit each.
        absent: u32,
    },
    /// A shuffle from or by a lane that does not take part in it.
    AbsentLane {
        /// The operation's name.
        operation: &'static str,
        /// Its line in the source.
        line: u32,
        /// The lane that does not take part.
        lane: u32,
    },
    /// More shared memory than a block has.
    SharedMemory {
        /// The requested bytes.
        bytes: usize,
        /// The available bytes.
        limit_bytes: usize,
    },
    /// The host has no memory for the stacks of a block's threads.
    Stacks {
        /// Number of threads that have a stack.
        threads: usize,
    },
    /// The device was closed.
    Stopped,
}

/// A kernel fault and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFault {
    /// The kernel's entry.
    pub kernel: String,
    /// The block.
    pub block: Index3,
    /// The thread of the block.
    pub thread: Index3,
    /// The cause.
    pub cause: FaultCause,
}

impl fmt::Display for FaultCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { access, bytes, region, offset, region_bytes } => {
                let verb = access.verb();
                write!(f, "{verb} {bytes} bytes at byte {offset} of {region}, which has {region_bytes} bytes")
            }
            Self::Unwritten { bytes, region, offset } => {
                write!(f, "reads {bytes} bytes at byte {offset} of {region}, which are unwritten")
            }
            Self::ReadOnly { bytes, region, offset } => {
                write!(f, "writes {bytes} bytes at byte {offset} of {region}, which is read-only")
            }
            Self::Misaligned { region, offset, alignment, line } => {
                write!(
                    f,
                    "accesses byte {offset} of {region} in line {line}, which is not aligned to {alignment} bytes"
                )
            }
            Self::Barrier { line, waiting, absent, absent_line } => {
                write!(
                    f,
                    "{waiting} threads wait at the barrier in line {line}, which thread {absent} never "
                )?;
                match absent_line {
                    Some(other) => write!(f, "reaches: it waits at the barrier in line {other}"),
                    None => write!(f, "reaches: it has returned"),
                }
            }
            Self::Lanes { operation, line, absent } => {
                write!(
                    f,
                    "{operation} in line {line} has lanes in its mask that never arrive: {absent:#010x}"
                )
            }
            Self::AbsentLane { operation, line, lane } => {
                write!(f, "{operation} in line {line} reads from lane {lane}, which does not take part")
            }
            Self::SharedMemory { bytes, limit_bytes } => {
                write!(f, "requests {bytes} bytes of shared memory; {limit_bytes} are available")
            }
            Self::Stacks { threads } => {
                write!(
                    f,
                    "cannot run: the host has no memory for the stacks of more than {threads} threads of a block"
                )
            }
            Self::Stopped => f.write_str("was stopped because the device was closed"),
        }
    }
}

impl fmt::Display for KernelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, block {}, thread {}: {}", self.kernel, self.block, self.thread, self.cause)
    }
}
