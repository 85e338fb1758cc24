//! A CUDA device: a card, or a share of one, through NVIDIA's driver, which is loaded at run time.
//!
//! A logical device has a CUDA context, three streams (uploads, kernels, downloads), an owner thread that issues work and
//! one completion thread per stream. Device memory is freed when the device closes, host memory when its last user drops
//! it.
//!
//! `cuda:0,cuda:0` opens two logical devices, `cuda:0` and `cuda:0#2`, with a context each on one card. The contexts do
//! not isolate faults: on an H200 a kernel fault in `cuda:0` also ended `cuda:0#2` (`benches/results/cuda-h200.md`).

mod actions;
mod bind;
mod built_in;
mod cards;
mod clock;
mod compiler_threads;
mod completion_thread;
mod context;
mod cublas;
mod cusparse;
mod direct;
mod driver;
mod events;
mod fault_kernels;
mod foreign;
mod forms;
mod host_memory;
mod host_time;
mod issue;
mod kernel_cache;
mod libraries;
mod loader;
mod measure;
mod modules;
mod nvrtc;
mod owner;
mod peer;
mod shared;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod thread_tests;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

pub use super::cuda_options::{CudaOptions, card_number, device_name, share_cards};
pub use built_in::Architecture;
pub use cards::card_facts;
pub use cublas::cublas_is_installed;
pub use cusparse::{AlgorithmTimes, CsrArrays, Cusparse, CusparseMatrix};
pub use driver::Driver;
pub use libraries::{Library, libraries, nvrtc_is_installed};
pub use measure::{CardRates, measure_card};
pub use modules::Modules;

use clock::{CardClock, SharedHostTime};
use completion_thread::CompletionThread;
use context::{Context, DeviceMemory, EventWait, Stream};
use events::EventPool;
use issue::IssuedLaunches;
use owner::{Command, Owner, Request};
use shared::Shared;

use super::completion::CLOSE_TIMEOUT;
use super::memories::Memories;
use super::pinned::{PinnedRead, PinnedWrite};
use super::sync;
use super::{
    Description, Device, DirectMemory, Fault, FaultKind, Fence, ForeignMemory, HostMemory, LaneInfo,
    LaneKind, Launch, Memory, MemoryPlace, Operation, PeerMemory, Pinned, Registration, Reports, StableBytes,
    StreamHandle,
};
use crate::graph::Demand;
use crate::matrix::AlignedBuffer;
use crate::trace::Clock;

/// Operations in flight per lane; enough that the card never waits for the host.
const LANE_DEPTH: usize = 64;

/// Operations predicted to be shorter than this are polled. A blocking event costs an interrupt, after which the thread wakes up
/// 50 µs later.
const SPIN_BELOW_NS: u64 = 2_000_000;

/// A CUDA device.
pub struct CudaDevice {
    description: Description,
    options: CudaOptions,
    clock: Clock,
    context: Arc<Context>,
    shared: Arc<Shared>,
    host_time: SharedHostTime,
    /// By number; `None` once freed.
    memories: Memories<Arc<DeviceMemory>>,
    allocated_bytes: u64,
    next_fence: u64,
    launches: u64,
    compute_stream: StreamHandle,
    /// Launches of calling threads.
    issued: IssuedLaunches,
    /// `None` after the device is closed.
    threads: Option<Threads>,
}

struct Threads {
    orders: Sender<Request>,
    handles: Vec<JoinHandle<()>>,
    /// Disconnected once every thread has ended; no message is ever sent.
    ended: Receiver<Infallible>,
}

/// Bytes of `free_bytes` that a device may allocate. The rest is left to the driver and to kernels.
pub fn usable_bytes(free_bytes: u64) -> u64 {
    const MIN_MARGIN_BYTES: u64 = 256 << 20;
    free_bytes - (free_bytes / 64).max(MIN_MARGIN_BYTES).min(free_bytes / 2)
}

impl CudaDevice {
    /// Opens the device named `name`. Its times are on `clock`; completions go to `reports`.
    pub fn open(
        name: impl Into<String>,
        options: CudaOptions,
        clock: Clock,
        reports: Reports,
    ) -> Result<Self, Fault> {
        let name = name.into();
        let card = card_number(&name).ok_or_else(|| {
            Fault::new(FaultKind::Misuse, format!("'{name}' does not name a card; use cuda:0"))
        })?;
        let context = cards::context(card, options.primary_context)?;
        let (free_bytes, _) = context.memory()?;
        let unknown = || Fault::new(FaultKind::Lost, "the card does not report its compute capability");
        let (major, minor) = context.compute_capability().ok_or_else(unknown)?;
        let kinds =
            [("upload", LaneKind::Upload), ("compute", LaneKind::Compute), ("download", LaneKind::Download)];
        let lanes =
            kinds.map(|(name, kind)| LaneInfo { name: name.into(), kind, depth: LANE_DEPTH }).to_vec();
        let card_clock = CardClock::start(&context, clock)?;
        let host_time = card_clock.host_time().clone();
        let shared = Arc::new(Shared::default());
        let (orders, to_do) = unbounded();
        let (alive, ended) = bounded::<Infallible>(0);
        let (seen, seen_ends) = unbounded();
        let mut handles = Vec::new();
        let mut start = |role: &str, work: Box<dyn FnOnce() + Send>| {
            let alive = alive.clone();
            let thread = thread::Builder::new().name(format!("{name} {role}"));
            let thread = thread.spawn(move || {
                work();
                drop(alive);
            });
            thread.map(|handle| handles.push(handle)).map_err(|error| {
                Fault::new(FaultKind::Lost, format!("the {role} thread cannot be started: {error}"))
            })
        };
        let mut completion_threads = Vec::new();
        for (role, kind) in kinds {
            let (sender, issued) = unbounded();
            completion_threads.push(sender);
            let completion_thread = CompletionThread {
                shared: shared.clone(),
                context: context.clone(),
                kind,
                issued,
                ended: seen.clone(),
                host_time: host_time.clone(),
                clock,
                reports: reports.clone(),
            };
            start(role, Box::new(move || completion_thread.work()))?;
        }
        let streams: Vec<Stream> =
            kinds.iter().map(|_| Stream::create(&context)).collect::<Result<_, _>>()?;
        let compute = streams.iter().zip(kinds).find(|(_, (_, kind))| *kind == LaneKind::Compute);
        let compute_stream = compute.map(|(stream, _)| stream.handle()).ok_or_else(unknown)?;
        let issued = IssuedLaunches::new(card_clock.last_epoch());
        let owner = Owner {
            shared: shared.clone(),
            context: context.clone(),
            architecture: Architecture { major, minor },
            driver_major: Driver::get().map_or(0, |driver| driver.cuda_major),
            streams,
            completion_threads,
            ended: seen_ends,
            card_clock,
            clock,
            reports,
            event_pool: EventPool::default(),
            in_flight: HashMap::new(),
            last: vec![None; kinds.len()],
            failed: HashSet::new(),
        };
        start("owner", Box::new(move || owner.work(&to_do)))?;
        let memory_bytes = Some(usable_bytes(free_bytes));
        Ok(Self {
            description: Description { name, memory_bytes, lanes, stream_ordered: true },
            options,
            clock,
            context,
            shared,
            host_time,
            memories: Memories::default(),
            allocated_bytes: 0,
            next_fence: 0,
            launches: 0,
            compute_stream,
            issued,
            threads: Some(Threads { orders, handles, ended }),
        })
    }

    fn check_open(&self) -> Result<(), Fault> {
        if self.threads.is_none() {
            return Err(Fault::new(FaultKind::Lost, format!("{} is closed", self.description.name)));
        }
        self.shared.check_alive()
    }
}

impl<'run> Device<'run> for CudaDevice {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&mut self, bytes: u64) -> Result<Memory, Fault> {
        self.check_open()?;
        let limit = self.description.memory_bytes.unwrap_or(0);
        let left = limit.saturating_sub(self.allocated_bytes);
        if bytes > left {
            let message = format!("{bytes} bytes requested, {left} of {limit} bytes free");
            return Err(Fault::new(FaultKind::OutOfMemory, message));
        }
        let memory = self.memories.add(Arc::new(DeviceMemory::allocate(&self.context, bytes)?));
        self.allocated_bytes += bytes;
        Ok(memory)
    }

    fn free(&mut self, memory: Memory) {
        if let Some(freed) = self.memories.remove(memory) {
            self.allocated_bytes -= if freed.is_foreign() { 0 } else { freed.bytes() };
        }
    }

    fn adopt(&mut self, memory: ForeignMemory) -> Result<Memory, Fault> {
        self.adopt_memory(&memory)
    }

    fn place(&self) -> Option<MemoryPlace> {
        let card = card_number(&self.description.name)?;
        self.options.primary_context.then_some(MemoryPlace::Card(card))
    }

    fn address_of(&self, memory: Memory) -> Option<u64> {
        self.memories.get(memory).map(|memory| memory.address())
    }

    fn compute_stream(&self) -> Option<StreamHandle> {
        Some(self.compute_stream)
    }

    fn issue(&mut self, stream: StreamHandle, launches: Vec<Operation<'run>>) -> Result<(), Fault> {
        self.issue_launches(stream, launches)
    }

    fn finish_issued(&mut self, timeout: Duration) -> Result<bool, Fault> {
        self.wait_for_issued(timeout)
    }

    fn last_issued_ns(&mut self) -> Result<Option<(u64, u64)>, Fault> {
        self.times_of_last_issued()
    }

    fn allocate_pinned(&mut self, bytes: u64) -> Result<Pinned, Fault> {
        self.check_open()?;
        host_memory::allocate(&self.context, bytes)
    }

    fn page_lock(&mut self, buffer: AlignedBuffer<u8>) -> Result<Pinned, Fault> {
        self.check_open()?;
        host_memory::page_lock(&self.context, buffer)
    }

    fn allocate_host(&mut self, bytes: u64, kind: HostMemory) -> Result<Pinned, Fault> {
        self.check_open()?;
        match kind {
            HostMemory::Pageable => Pinned::pageable(bytes as usize)
                .map_err(|error| Fault::new(FaultKind::OutOfMemory, error.message())),
            HostMemory::PageLocked => host_memory::allocate(&self.context, bytes),
            HostMemory::Registered => host_memory::allocate_registered(&self.context, bytes),
            HostMemory::WriteCombined => host_memory::allocate_write_combined(&self.context, bytes),
        }
    }

    fn peer_memory(&self, memory: Memory) -> Option<PeerMemory> {
        self.peer_of(memory)
    }

    fn direct_memory(&self, memory: Memory) -> Option<Arc<dyn DirectMemory>> {
        self.direct_of(memory)
    }

    fn can_copy_from(&mut self, peer: &PeerMemory) -> bool {
        self.allows_copies_from(peer)
    }

    fn register<'a>(&mut self, bytes: StableBytes<'a>) -> Result<Registration<'a>, Fault> {
        self.check_open()?;
        host_memory::register(&self.context, bytes)
    }

    fn compiles(&self) -> bool {
        nvrtc_is_installed()
    }

    fn has_cublas(&self) -> bool {
        cublas_is_installed()
    }

    fn prepare(&mut self, launches: &[Launch]) -> Result<(), Fault> {
        self.check_open()?;
        self.ask(|answer| Request::Prepare(launches.to_vec(), answer))
    }

    fn submit(
        &mut self,
        lane: usize,
        operation: Operation<'run>,
        demand: Demand,
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        self.check_open()?;
        let no_lane = || misuse(format!("there is no lane {lane}"));
        let kind = self.description.lanes.get(lane).ok_or_else(no_lane)?.kind;
        if let Some(unknown) = waits.iter().find(|wait| wait.0 >= self.next_fence) {
            return Err(misuse(format!("fence {} was never returned by submit", unknown.0)));
        }
        let (action, what, held) = self.bind(operation, kind)?;
        let fence = Fence(self.next_fence);
        let waiting = if demand.alone_ns < SPIN_BELOW_NS { EventWait::Spinning } else { EventWait::Blocking };
        let predicted_ns = demand.alone_ns;
        let command =
            Command { fence, lane, waits: waits.to_vec(), waiting, predicted_ns, action, what, held };
        if self
            .threads
            .as_ref()
            .is_none_or(|threads| threads.orders.send(Request::Issue(Box::new(command))).is_err())
        {
            return Err(Fault::new(FaultKind::Lost, "the thread that issues work has ended"));
        }
        self.next_fence += 1;
        Ok(fence)
    }

    fn mark_synchronized(&mut self) {}

    fn advance(&mut self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn clock_error_ns(&self) -> Option<u64> {
        Some(self.host_time.largest_error_ns())
    }

    fn close(&mut self) {
        let Some(Threads { orders, handles, ended }) = self.threads.take() else { return };
        // The kernels are unloaded when the owner thread ends. A fault means that the card has stopped.
        let issued_ended = self.wait_for_issued(CLOSE_TIMEOUT).unwrap_or(true);
        self.shared.close();
        drop(orders);
        if issued_ended && ended.recv_timeout(CLOSE_TIMEOUT) == Err(RecvTimeoutError::Disconnected) {
            for handle in handles {
                // The result does not matter: a thread that panicked has ended too.
                let _ = handle.join();
            }
        } else {
            // An operation hangs and may still use the memory; it is freed when the process ends.
            self.context.abandon();
        }
        self.memories = Memories::default();
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        Device::close(self);
    }
}

fn misuse(message: String) -> Fault {
    Fault::new(FaultKind::Misuse, message)
}
