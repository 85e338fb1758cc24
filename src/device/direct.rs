//! The memory of messages between ranks: host memory, or memory of a device that the communicator reads and writes itself.
//!
//! A message in device memory needs no copy to host memory. The network reads and writes it from another thread than the lanes of the
//! device, so the caller orders both: a message is sent after the operation that wrote its bytes has completed, and its bytes are read
//! after it was received.

use std::any::Any;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::{Fault, Pinned, PinnedRead, PinnedWrite};

/// What a communicator does with memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectAccess {
    /// It sends the bytes.
    Read,
    /// It receives them.
    Write,
}

/// Keeps a context until it is dropped.
pub type HeldContext = Box<dyn Any + Send>;

/// An allocation of a device that communicators access; [`Device::direct_memory`](super::Device::direct_memory). It stays allocated as
/// long as this object, also if its device frees it or is lost.
pub trait DirectMemory: Send + Sync {
    /// The name of its device.
    fn device(&self) -> &str;

    /// Address of the first byte, as libraries for this kind of device take it.
    fn address(&self) -> u64;

    /// Lets libraries that the calling thread calls access the memory: makes the context of its device current until another one is. The
    /// context exists at least as long as the returned object.
    fn make_current(&self) -> Result<HeldContext, Fault>;

    /// Begins an access to the bytes `begin..end`, which ends when the returned object is dropped. A fault of the kind
    /// [`PeerLost`](super::FaultKind::PeerLost) if the device is lost. A device with a race detector refuses accesses that are not ordered.
    fn begin(&self, begin: u64, end: u64, access: DirectAccess) -> Result<Box<dyn DirectBytes>, Fault>;
}

/// An access to bytes of a device. It keeps them allocated.
pub trait DirectBytes: Send {
    /// Copies all of them to host memory. `to` has as many.
    fn copy_to(&self, to: &mut [u8]) -> Result<(), Fault>;

    /// Copies host memory to all of them. `from` has as many, and the access is one to write.
    fn copy_from(&mut self, from: &[u8]) -> Result<(), Fault>;

    /// Notes that another library has written all of them.
    fn mark_written(&mut self) {}
}

/// Bytes `begin..end` of an allocation that communicators access.
#[derive(Clone)]
pub struct DirectRange {
    /// The allocation.
    pub memory: Arc<dyn DirectMemory>,
    /// First byte.
    pub begin: u64,
    /// One past the last byte.
    pub end: u64,
}

impl DirectRange {
    fn bytes(&self) -> usize {
        self.end.saturating_sub(self.begin) as usize
    }

    fn address(&self) -> usize {
        (self.memory.address() + self.begin) as usize
    }
}

impl fmt::Debug for DirectRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes(), self.memory.device())
    }
}

/// The memory of a message.
#[derive(Debug, Clone)]
pub enum MessageBytes {
    /// Host memory, which is sent and received as a whole.
    Host(Pinned),
    /// Memory of a device.
    Device(DirectRange),
}

impl MessageBytes {
    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Host(memory) => memory.bytes(),
            Self::Device(range) => range.bytes(),
        }
    }

    /// Whether the memory is that of a device.
    pub fn is_direct(&self) -> bool {
        matches!(self, Self::Device(_))
    }

    /// Starts an access to send the bytes.
    pub fn read(&self) -> Result<MessageRead, Fault> {
        match self {
            Self::Host(memory) => memory.read().map(MessageRead::from),
            Self::Device(range) => {
                let access = range.memory.begin(range.begin, range.end, DirectAccess::Read)?;
                Ok(MessageRead(Reading::Device(range.clone(), access)))
            }
        }
    }

    /// Starts an access to receive the bytes.
    pub fn write(&self) -> Result<MessageWrite, Fault> {
        match self {
            Self::Host(memory) => memory.write().map(MessageWrite::from),
            Self::Device(range) => {
                let access = range.memory.begin(range.begin, range.end, DirectAccess::Write)?;
                Ok(MessageWrite(Writing::Device(range.clone(), access)))
            }
        }
    }
}

/// An access to the bytes of a message that is sent. It keeps them, and no other access writes them meanwhile.
pub struct MessageRead(Reading);

enum Reading {
    Host(PinnedRead),
    Device(DirectRange, Box<dyn DirectBytes>),
}

impl From<PinnedRead> for MessageRead {
    fn from(bytes: PinnedRead) -> Self {
        Self(Reading::Host(bytes))
    }
}

impl MessageRead {
    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Reading::Host(bytes) => bytes.len(),
            Reading::Device(range, _) => range.bytes(),
        }
    }

    /// Address of the first byte, in host memory or in that of a device.
    pub fn address(&self) -> *const u8 {
        match &self.0 {
            Reading::Host(bytes) => bytes.as_ptr(),
            Reading::Device(range, _) => ptr::with_exposed_provenance(range.address()),
        }
    }

    /// A copy of the bytes in host memory.
    pub fn to_vec(&self) -> Result<Vec<u8>, Fault> {
        match &self.0 {
            Reading::Host(bytes) => Ok(bytes.to_vec()),
            Reading::Device(range, access) => {
                let mut bytes = vec![0; range.bytes()];
                access.copy_to(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

/// An access to the bytes of a message that is received. It keeps them, and there is no other access meanwhile.
pub struct MessageWrite(Writing);

enum Writing {
    Host(PinnedWrite),
    Device(DirectRange, Box<dyn DirectBytes>),
}

impl From<PinnedWrite> for MessageWrite {
    fn from(bytes: PinnedWrite) -> Self {
        Self(Writing::Host(bytes))
    }
}

impl MessageWrite {
    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Writing::Host(bytes) => bytes.len(),
            Writing::Device(range, _) => range.bytes(),
        }
    }

    /// Address of the first byte, in host memory or in that of a device.
    pub fn address(&mut self) -> *mut u8 {
        match &mut self.0 {
            Writing::Host(bytes) => bytes.as_mut_ptr(),
            Writing::Device(range, _) => ptr::with_exposed_provenance_mut(range.address()),
        }
    }

    /// Ends the access after another library has written all bytes.
    pub fn written(self) {
        if let Writing::Device(_, mut access) = self.0 {
            access.mark_written();
        }
    }

    /// Writes all bytes; `from` has as many.
    pub fn write(&mut self, from: &[u8]) -> Result<(), Fault> {
        match &mut self.0 {
            Writing::Host(bytes) => {
                bytes.copy_from_slice(from);
                Ok(())
            }
            Writing::Device(_, access) => access.copy_from(from),
        }
    }
}
