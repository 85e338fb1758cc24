//! The owner thread of a card: it owns streams, events and kernels, issues all work and never waits for the card.
//!
//! A wait for a fence becomes a stream wait for an event. If a predecessor could not be issued, the operation is not
//! issued either: a kernel that reads missing data could fault and destroy the whole context.

#![allow(unsafe_code)] // passes addresses to the CUDA driver

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use crossbeam::channel::{Receiver, Sender};
use cudarc::driver::result::DriverError;
use cudarc::driver::{result, sys};

use super::clock::CardClock;
use super::completion_thread::{HeldMemory, InFlightMemory, Issued, Start};
use super::context::{Context, EventWait, Stream};
use super::driver::{fault, message_of};
use super::events::{EventPool, InFlight};
use super::fault_kernels::FaultKernel;
use super::forms::Architecture;
use super::modules::{Modules, Selected};
use super::shared::Shared;
use crate::device::{Fault, FaultKind, Fence, Launch, Reports};
use crate::kernel::cuda::{CudaKernel, LaunchShape, Variant};
use crate::kernel::vectors::VectorKernel;
use crate::matrix::Dtype;
use crate::trace::Clock;

/// An action on a stream.
pub enum Action {
    /// Copies from host memory, which is held for reading.
    Upload(Vec<Copy>),
    /// A copy to host memory, which is held for writing.
    Download(Copy),
    /// A copy from memory of another context, which is held.
    PeerCopy(CardCopy),
    /// A kernel launch with one 64-bit word per parameter.
    Launch { launch: Launch, shape: LaunchShape, words: Vec<u64> },
    /// A launch of a kernel on multivectors, with one 64-bit word per parameter.
    VectorLaunch { kernel: VectorKernel, dtype: Dtype, shape: LaunchShape, words: Vec<u64> },
    /// A kernel that fails, for tests.
    Fault(FaultKernel),
    /// No work.
    Pass,
}

/// A strided copy between host memory and card memory.
#[derive(Debug, Clone, Copy)]
pub struct Copy {
    /// The first row in host memory.
    pub host: *mut u8,
    /// The first row in card memory.
    pub card: sys::CUdeviceptr,
    /// Bytes per row.
    pub bytes: usize,
    /// Number of rows.
    pub rows: usize,
    /// Row pitch in host memory, in bytes.
    pub host_pitch: usize,
    /// Row pitch in card memory, in bytes.
    pub card_pitch: usize,
}

/// A contiguous copy between the memories of two contexts.
pub struct CardCopy {
    /// The first byte in memory of the context that runs the copy.
    pub to: sys::CUdeviceptr,
    /// The first byte in memory of the other context.
    pub from: sys::CUdeviceptr,
    /// The other context.
    pub source: Arc<Context>,
    /// The state of the other context's device.
    pub source_device: Arc<Shared>,
    /// Number of bytes.
    pub bytes: usize,
}

/// A checked operation, ready to be issued.
pub struct Command {
    /// Its fence.
    pub fence: Fence,
    /// Its lane, which is the number of its stream.
    pub lane: usize,
    /// The fences that it waits for.
    pub waits: Vec<Fence>,
    /// How the completion thread waits for it.
    pub waiting: EventWait,
    /// The action.
    pub action: Action,
    /// Its name in messages.
    pub what: &'static str,
    /// The memory of the host, or of another device, that it holds.
    pub held: Vec<HeldMemory>,
}

// SAFETY: the addresses point into memory that `held` keeps, and only this command uses them.
unsafe impl Send for Command {}

/// A request to the owner thread.
pub enum Request {
    /// Issue an operation.
    Issue(Command),
    /// Compile the kernels of these launches and answer when that is done.
    Prepare(Vec<Launch>, Sender<Result<(), Fault>>),
}

/// The state of the owner thread.
pub struct Owner {
    /// State shared by all threads of the device.
    pub shared: Arc<Shared>,
    /// The device's CUDA context.
    pub context: Arc<Context>,
    /// The architecture that kernels are compiled for.
    pub architecture: Architecture,
    /// The major CUDA version of the driver.
    pub driver_major: u32,
    /// The stream of each lane.
    pub streams: Vec<Stream>,
    /// The channel to each lane's completion thread.
    pub completion_threads: Vec<Sender<Issued>>,
    /// Completed operations, from the completion threads.
    pub ended: Receiver<Fence>,
    /// The card's clock.
    pub card_clock: CardClock,
    /// The host's clock.
    pub clock: Clock,
    /// Where operations that could not be issued are reported as faults.
    pub reports: Reports,
    /// Events for reuse.
    pub event_pool: EventPool,
    /// Operations in flight.
    pub in_flight: HashMap<Fence, Arc<InFlight>>,
    /// The last operation of each lane.
    pub last: Vec<Option<Fence>>,
    /// Operations that could not be issued.
    pub failed: HashSet<Fence>,
}

impl Owner {
    /// Serves requests until the channel is closed. After a panic, which is a bug, the device is lost and every request is
    /// refused.
    pub fn work(self, orders: &Receiver<Request>) {
        let (shared, reports, clock) = (self.shared.clone(), self.reports.clone(), self.clock);
        let issuing = Cell::new(None);
        if catch_unwind(AssertUnwindSafe(|| self.serve(orders, &issuing))).is_err() {
            let fault = shared.mark_lost("the thread that issues work has panicked");
            // The completion threads poll while requests are queued.
            shared.set_queued(0);
            let refuse = |fence| reports.send(fence, clock.now_ns(), clock.now_ns(), Err(fault.clone()));
            issuing.get().into_iter().for_each(refuse);
            for order in orders {
                if let Request::Issue(Command { fence, held, .. }) = order {
                    drop(held);
                    refuse(fence);
                }
            }
        }
    }

    fn serve(mut self, orders: &Receiver<Request>, issuing: &Cell<Option<Fence>>) {
        let context = self.context.clone();
        let entered = context.enter();
        if let Err(fault) = &entered {
            self.shared.mark_lost(&fault.message);
        }
        // Kernels are loaded into the context current on this thread and unloaded before it is left.
        let mut modules = Modules::new(self.architecture, self.driver_major);
        for order in orders {
            self.shared.set_queued(orders.len());
            let command = match order {
                Request::Issue(command) => command,
                Request::Prepare(launches, answer) => {
                    let done = self.shared.check_alive().and_then(|()| modules.prepare(&launches));
                    // The caller may have stopped waiting.
                    let _ = answer.send(done);
                    continue;
                }
            };
            let (fence, now_ns) = (command.fence, self.clock.now_ns());
            issuing.set(Some(fence));
            // `issue` has dropped the host memory that the operation held before the fault is reported.
            if let Err(mut fault) = self.issue(command, now_ns, &mut modules) {
                if fault.kind == FaultKind::Lost {
                    fault = self.shared.mark_lost(&fault.message);
                }
                self.failed.insert(fence);
                self.reports.send(fence, now_ns, self.clock.now_ns(), Err(fault));
            }
        }
    }

    fn issue(&mut self, command: Command, issued_ns: u64, modules: &mut Modules) -> Result<(), Fault> {
        self.shared.check_alive()?;
        if command.waits.iter().any(|wait| self.failed.contains(wait)) {
            let message =
                format!("the {} was not issued because an operation that it waits for failed", command.what);
            return Err(Fault::new(FaultKind::Launch, message));
        }
        while let Ok(ended) = self.ended.try_recv() {
            if let Some(in_flight) = self.in_flight.remove(&ended) {
                self.event_pool.release(in_flight.events.clone());
            }
        }
        let Command { fence, lane, waits, waiting, mut action, what, held } = command;
        if let Action::PeerCopy(copy) = &action {
            copy.check_source()?;
        }
        let function = match &mut action {
            Action::Launch { launch, shape, .. } => {
                let Selected { function, variant } = modules.function(launch)?;
                if variant != launch.variant {
                    *shape = shape_of(launch, &variant)?;
                }
                Some(function)
            }
            Action::VectorLaunch { kernel, dtype, .. } => Some(modules.vector_function(*kernel, *dtype)?),
            Action::Fault(kernel) => Some(kernel.load(&self.context)?),
            _ => None,
        };
        let epoch = self.card_clock.epoch(self.in_flight.is_empty());
        let events = self.event_pool.take(&self.context, waiting)?;
        let kind = if function.is_some() { FaultKind::Launch } else { FaultKind::Copy };
        let missing = || Fault::new(FaultKind::Misuse, format!("there is no lane {lane}"));
        let stream = self.streams.get(lane).ok_or_else(missing)?;
        let completion_thread = self.completion_threads.get(lane).ok_or_else(missing)?;
        let last = self.last.get_mut(lane).ok_or_else(missing)?;
        let mut predecessors = Vec::new();
        for wait in &waits {
            if let Some(before) = self.in_flight.get(wait)
                && before.lane != lane
            {
                stream.wait(&before.events.end).map_err(|error| fault(kind, what, error))?;
                predecessors.push(before.clone());
            }
        }
        let batch = match &action {
            Action::Launch { launch, .. } => launch.batch,
            _ => None,
        };
        // Recording a start event costs the driver as much as a launch, so it is omitted where the start time is known
        // anyway: on a busy lane without other waits it is the end of the previous operation, and for a download it is
        // the end of its kernel.
        let lane_is_busy = last.is_some_and(|last| self.in_flight.contains_key(&last));
        let start_is_implied = match &action {
            Action::Download(_) => lane_is_busy || !predecessors.is_empty(),
            _ => lane_is_busy && predecessors.is_empty() && batch.is_none(),
        };
        let start = if start_is_implied { Start::AfterPredecessors(predecessors) } else { Start::Recorded };
        let ahead = if batch.is_some() { enqueue(stream, &action, function, 1) } else { Ok(()) };
        let started =
            ahead.and_then(|()| if start_is_implied { Ok(()) } else { events.start.record(stream) });
        // From here on the card may access the host memory, until the end event is complete.
        let held = InFlightMemory::new(held);
        let given = started.and_then(|()| enqueue(stream, &action, function, batch.unwrap_or(1)));
        // The first of several copies may be in flight if a later one fails. The completion thread then waits for the end
        // event before it releases the memory and reports the fault.
        let failure = given.err().map(|error| match fault(kind, what, error) {
            lost if lost.kind == FaultKind::Lost => self.shared.mark_lost(&lost.message),
            refused => refused,
        });
        if failure.is_some() {
            self.failed.insert(fence);
        }
        if let Err(error) = events.end.record(stream) {
            // The card has stopped all work of a lost context. Otherwise the host memory stays held: without an end event
            // the end of the operation is unknown.
            if fault(kind, what, error).kind == FaultKind::Lost {
                held.release();
            }
            return Err(self.shared.mark_lost(&message_of(error)));
        }
        *last = Some(fence);
        let in_flight = Arc::new(InFlight { lane, events, end_ns: OnceLock::new() });
        self.in_flight.insert(fence, in_flight.clone());
        let issued = Issued { fence, in_flight, start, epoch, issued_ns, what, held, failure };
        completion_thread
            .send(issued)
            .map_err(|_| Fault::new(FaultKind::Lost, "the lane's completion thread has ended"))
    }
}

/// The launch shape with another variant than the launch's own.
fn shape_of(launch: &Launch, variant: &Variant) -> Result<LaunchShape, Fault> {
    let shape = CudaKernel::of(launch.kernel)
        .and_then(|kernel| kernel.shape(variant, launch.dtype, launch.items, launch.k));
    shape.map_err(|error| Fault::new(FaultKind::Misuse, error.to_string()))
}

/// Enqueues an action on the stream; kernel launches `times` times.
fn enqueue(
    stream: &Stream,
    action: &Action,
    function: Option<sys::CUfunction>,
    times: u32,
) -> Result<(), DriverError> {
    match (action, function) {
        (Action::Upload(copies), _) => copies.iter().try_for_each(|copy| upload(stream, copy)),
        (Action::Download(copy), _) => download(stream, copy),
        (Action::PeerCopy(CardCopy { to, from, source, bytes, .. }), _) if *bytes > 0 => {
            // SAFETY: both ranges are inside allocations, as `submit` has checked. The allocation of the other context is held until
            // the copy completes; this context's memory is not freed while an operation uses it.
            unsafe { stream.copy_from_peer(*to, *from, source, *bytes) }
        }
        (Action::Launch { shape, words, .. } | Action::VectorLaunch { shape, words, .. }, Some(function))
            if !shape.grid.contains(&0) =>
        {
            let mut parameters: Vec<*mut c_void> =
                words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast()).collect();
            let [x, y, z] = shape.grid;
            let [bx, by, bz] = shape.block;
            let shared_bytes = shape.dynamic_shared_bytes;
            // SAFETY: one 8-byte word per parameter, as the kernel's table says and `submit` has checked. Pointers refer to
            // memory of this card. The driver copies the words before it returns.
            (0..times).try_for_each(|_| unsafe {
                result::launch_kernel(
                    function,
                    (x, y, z),
                    (bx, by, bz),
                    shared_bytes,
                    stream.raw(),
                    &mut parameters,
                )
            })
        }
        (Action::Fault(_), Some(function)) => {
            // SAFETY: it has no parameters. It destroys or blocks the context, which is its purpose.
            unsafe { result::launch_kernel(function, (1, 1, 1), (1, 1, 1), 0, stream.raw(), &mut []) }
        }
        _ => Ok(()),
    }
}

fn upload(stream: &Stream, copy: &Copy) -> Result<(), DriverError> {
    use sys::CUmemorytype as memory;
    let Copy { host, card, bytes, rows, host_pitch, card_pitch } = *copy;
    match (bytes, rows) {
        (0, _) | (_, 0) => Ok(()),
        // SAFETY: all rows are inside memory that lives until the operation completes. `Issued` holds the host memory for
        // reading until then.
        (_, 1) => unsafe { sys::cuMemcpyHtoDAsync_v2(card, host.cast(), bytes, stream.raw()) }.result(),
        _ => {
            let copy = sys::CUDA_MEMCPY2D {
                srcMemoryType: memory::CU_MEMORYTYPE_HOST,
                srcHost: host.cast(),
                srcPitch: host_pitch,
                dstMemoryType: memory::CU_MEMORYTYPE_DEVICE,
                dstDevice: card,
                dstPitch: card_pitch,
                ..rectangle(bytes, rows)
            };
            // SAFETY: the same.
            unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream.raw()) }.result()
        }
    }
}

fn download(stream: &Stream, copy: &Copy) -> Result<(), DriverError> {
    use sys::CUmemorytype as memory;
    let Copy { host, card, bytes, rows, host_pitch, card_pitch } = *copy;
    match (bytes, rows) {
        (0, _) | (_, 0) => Ok(()),
        // SAFETY: all rows are inside memory that lives until the operation completes. `Issued` holds the host memory for
        // writing until then.
        (_, 1) => unsafe { sys::cuMemcpyDtoHAsync_v2(host.cast(), card, bytes, stream.raw()) }.result(),
        _ => {
            let copy = sys::CUDA_MEMCPY2D {
                srcMemoryType: memory::CU_MEMORYTYPE_DEVICE,
                srcDevice: card,
                srcPitch: card_pitch,
                dstMemoryType: memory::CU_MEMORYTYPE_HOST,
                dstHost: host.cast(),
                dstPitch: host_pitch,
                ..rectangle(bytes, rows)
            };
            // SAFETY: the same.
            unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream.raw()) }.result()
        }
    }
}

/// A 2D copy descriptor with the size set and both ends unset.
fn rectangle(bytes: usize, rows: usize) -> sys::CUDA_MEMCPY2D {
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: std::ptr::null(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: std::ptr::null_mut(),
        dstDevice: 0,
        dstArray: std::ptr::null_mut(),
        dstPitch: 0,
        WidthInBytes: bytes,
        Height: rows,
    }
}
