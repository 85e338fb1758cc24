//! What can go wrong inside a kernel, told so that its author finds the line.

use std::fmt;

/// A place in a grid or in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Index3 {
    /// Along the first dimension, the fastest.
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

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// It reads.
    Read,
    /// It writes.
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

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultCause {
    /// An access outside of everything the kernel was given; the region is the nearest one.
    OutOfBounds {
        /// What the access does.
        access: AccessKind,
        /// How many bytes it touches.
        bytes: usize,
        /// An argument or a shared variable, by its name in the kernel's text.
        region: String,
        /// Where, counted from the region's start.
        offset: i64,
        /// How large the region is.
        region_bytes: usize,
    },
    /// A read of bytes that nobody has written.
    Unwritten {
        /// How many bytes it touches.
        bytes: usize,
        /// An argument or a shared variable.
        region: String,
        /// Where, counted from the region's start.
        offset: usize,
    },
    /// A write to an argument that is only to be read.
    ReadOnly {
        /// How many bytes it touches.
        bytes: usize,
        /// The argument.
        region: String,
        /// Where, counted from the region's start.
        offset: usize,
    },
    /// An access at an address that is no multiple of what its type asks for.
    Misaligned {
        /// An argument or a shared variable.
        region: String,
        /// Where, counted from the region's start.
        offset: usize,
        /// What the address should be a multiple of.
        alignment: usize,
        /// The access's line in the kernel's text.
        line: u32,
    },
    /// A barrier of the block that some of its threads never reach.
    Barrier {
        /// The barrier's line in the kernel's text.
        line: u32,
        /// Threads that wait there.
        waiting: usize,
        /// One that does not, and why.
        absent: Index3,
        /// The line of the barrier it waits at instead; none where it has left the kernel.
        absent_line: Option<u32>,
    },
    /// An operation of a warp that names lanes which never take part.
    Lanes {
        /// The operation's name.
        operation: &'static str,
        /// Its line in the kernel's text.
        line: u32,
        /// The lanes it names that are not there, one bit each.
        absent: u32,
    },
    /// A shuffle from a lane that does not take part in it, or by one.
    AbsentLane {
        /// The operation's name.
        operation: &'static str,
        /// Its line in the kernel's text.
        line: u32,
        /// The lane that does not take part.
        lane: u32,
    },
    /// More shared memory than a block has.
    SharedMemory {
        /// How much was asked for.
        bytes: usize,
        /// How much there is.
        limit_bytes: usize,
    },
    /// The host has no memory for the stacks of a block's threads.
    Stacks {
        /// How many threads have one.
        threads: usize,
    },
    /// The device was closed meanwhile.
    Stopped,
}

/// A kernel that went wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFault {
    /// The kernel's entry.
    pub kernel: String,
    /// The block.
    pub block: Index3,
    /// The thread of the block.
    pub thread: Index3,
    /// What went wrong.
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
                write!(f, "reads {bytes} bytes at byte {offset} of {region}, which nobody has written")
            }
            Self::ReadOnly { bytes, region, offset } => {
                write!(f, "writes {bytes} bytes at byte {offset} of {region}, which it may only read")
            }
            Self::Misaligned { region, offset, alignment, line } => {
                write!(
                    f,
                    "touches byte {offset} of {region} in line {line}, which is not aligned to {alignment} bytes"
                )
            }
            Self::Barrier { line, waiting, absent, absent_line } => {
                write!(
                    f,
                    "{waiting} threads wait at the barrier in line {line}, which thread {absent} never "
                )?;
                match absent_line {
                    Some(other) => write!(f, "reaches: it waits at the one in line {other}"),
                    None => write!(f, "reaches: it has left the kernel"),
                }
            }
            Self::Lanes { operation, line, absent } => {
                write!(f, "{operation} in line {line} names lanes that never arrive: mask {absent:#010x}")
            }
            Self::AbsentLane { operation, line, lane } => {
                write!(f, "{operation} in line {line} reads from lane {lane}, which does not take part")
            }
            Self::SharedMemory { bytes, limit_bytes } => {
                write!(f, "asks for {bytes} bytes of shared memory of {limit_bytes}")
            }
            Self::Stacks { threads } => {
                write!(f, "finds no memory for the stacks of more than {threads} threads of a block")
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
