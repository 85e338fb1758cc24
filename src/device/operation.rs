//! The operations of a device: copies, kernel launches, messages and host jobs.

use super::host_transfer::{HostTransfer, MemoryRange, PinnedRange};
use super::launch::{EntryLaunch, Launch};
use super::{DeviceRows, MessageBytes, PeerCopy, VectorLaunch};
use crate::error::Result;

/// A launch of a kernel on multivectors with small copies before and after it, or a small copy alone, on the lane of launches.
///
/// The lane's order alone keeps the memory of the copies from being used by two operations at once, so no caller waits between
/// operations.
#[derive(Debug, Clone)]
pub struct LaunchWithCopies {
    /// Bytes that are written to the device's memory before the launch.
    pub numbers: Option<(Vec<u8>, MemoryRange)>,
    /// The launch.
    pub launch: Option<VectorLaunch>,
    /// A copy to the host after the launch.
    pub download: Option<HostTransfer>,
}

/// `C = alpha A B + beta C` by the vendor's library, cuBLAS. C is not read if beta is zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LibraryGemm {
    /// Alpha and beta, which are rounded to the precision of the matrices.
    pub factors: (f64, f64),
    /// A.
    pub a: DeviceRows,
    /// B.
    pub b: DeviceRows,
    /// C.
    pub c: DeviceRows,
}

/// A message to or from another rank.
#[derive(Debug, Clone)]
pub struct RankMessage {
    /// The other rank.
    pub rank: usize,
    /// The number of the message among those of the same call, sender and receiver.
    pub tag: u32,
    /// The bytes.
    pub bytes: MessageBytes,
}

/// One operation on a lane.
pub enum Operation<'run> {
    /// A job on the host's thread pool. It may use all threads and must not block.
    Job(Box<dyn FnOnce() -> Result<()> + Send + 'run>),
    /// A job on the host that uses one thread and ends before another thread would be awake. The thread that submits it runs it.
    ShortJob(Box<dyn FnOnce() -> Result<()> + Send + 'run>),
    /// Copies from pinned host memory to the device, one after the other.
    Upload(Vec<HostTransfer>),
    /// A copy from device memory to pinned host memory.
    Download(HostTransfer),
    /// A copy from the memory of another device, on an upload lane. The caller submits it after the operation that wrote the bytes
    /// has completed, and changes them after the copy has completed.
    PeerCopy(PeerCopy),
    /// A launch of a kernel for products.
    Launch(Launch),
    /// A launch of a kernel on multivectors.
    VectorLaunch(VectorLaunch),
    /// A launch of a kernel on multivectors with small copies before and after it.
    LaunchWithCopies(Box<LaunchWithCopies>),
    /// Launches of kernels that have a single form, one after the other.
    EntryLaunches(Vec<EntryLaunch>),
    /// A dense product by the vendor's library, on devices that have it ([`super::Device::has_cublas`]).
    LibraryGemm(LibraryGemm),
    /// Sends a message; on a network.
    Send(RankMessage),
    /// Receives a message; on a network.
    Receive(RankMessage),
    /// No work; simulated devices let the operation's predicted time pass.
    Pass,
}

impl Operation<'_> {
    /// A launch of a kernel that has a single form.
    pub fn launch(launch: EntryLaunch) -> Self {
        Self::EntryLaunches(vec![launch])
    }

    /// The operation on another thread than the one that submits it.
    #[must_use]
    pub fn on_another_thread(self) -> Self {
        match self {
            Self::ShortJob(job) => Self::Job(job),
            other => other,
        }
    }

    /// A contiguous copy to the device.
    pub fn upload(from: PinnedRange, to: MemoryRange) -> Self {
        Self::Upload(vec![HostTransfer::whole(from, to)])
    }

    /// A contiguous copy to the host.
    pub fn download(from: MemoryRange, to: PinnedRange) -> Self {
        Self::Download(HostTransfer::whole(to, from))
    }
}
