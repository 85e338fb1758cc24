//! The thread that gives a card its work: it owns streams, events and kernels, and never waits for the card.
//!
//! Waits become waits of a stream for an event. An operation whose predecessor could not be issued is not issued
//! either: a kernel on bytes that never came would take the whole context with it.

#![allow(unsafe_code)] // gives the CUDA driver addresses

use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use crossbeam::channel::{Receiver, Sender};
use cudarc::driver::result::DriverError;
use cudarc::driver::{result, sys};

use super::clock::CardClock;
use super::completion_thread::{HeldMemory, Issued, Start};
use super::context::{Context, EventWait, Stream};
use super::driver::{fault, words};
use super::events::{EventPool, UnderWay};
use super::forms::Architecture;
use super::illegal_address::IllegalAddress;
use super::modules::Modules;
use super::shared::Shared;
use crate::device::{Fault, FaultKind, Fence, Launch, Reports};
use crate::kernel::cuda::LaunchShape;
use crate::trace::Clock;

/// What a stream is given.
pub enum Action {
    /// Host memory to the card, which nobody writes meanwhile.
    Upload(Vec<Copy>),
    /// The card's memory to the host's, which nobody else uses meanwhile.
    Download(Copy),
    /// A kernel, with a word for each of its parameters.
    Launch { launch: Launch, shape: LaunchShape, words: Vec<u64> },
    /// A kernel that writes where nothing is, on purpose.
    IllegalAddress,
    /// Nothing.
    Pass,
}

/// A copy between the host's memory and the card's: rows of so many bytes, some distance apart on either side.
#[derive(Debug, Clone, Copy)]
pub struct Copy {
    /// The first row in the host's memory.
    pub host: *mut u8,
    /// The same in the card's.
    pub card: sys::CUdeviceptr,
    /// Bytes of a row.
    pub bytes: usize,
    /// Number of rows.
    pub rows: usize,
    /// From one row to the next in the host's memory.
    pub host_pitch: usize,
    /// The same in the card's.
    pub card_pitch: usize,
}

/// An operation that was looked at and found possible.
pub struct Command {
    /// The fence it goes by.
    pub fence: Fence,
    /// The lane, which is the number of its stream.
    pub lane: usize,
    /// What it waits for.
    pub waits: Vec<Fence>,
    /// How its end is waited for.
    pub waiting: EventWait,
    /// What it is.
    pub action: Action,
    /// Its name in messages.
    pub what: &'static str,
    /// The host memory it uses.
    pub held: Vec<HeldMemory>,
}

// SAFETY: the addresses are those of memory that `held` keeps, and nobody else goes through them.
unsafe impl Send for Command {}

/// What the owner is told.
pub enum Request {
    /// To issue an operation.
    Issue(Command),
    /// To compile what these launches need, and to answer when that is done.
    Prepare(Vec<Launch>, Sender<Result<(), Fault>>),
}

/// The owner's state.
pub struct Owner {
    /// What all threads of the device know.
    pub shared: Arc<Shared>,
    /// Where everything is.
    pub context: Arc<Context>,
    /// What the card's kernels are compiled for.
    pub architecture: Architecture,
    /// The CUDA version that the driver serves.
    pub driver_major: u32,
    /// For each lane its stream.
    pub streams: Vec<Stream>,
    /// For each lane who waits for its operations to end.
    pub completion_threads: Vec<Sender<Issued>>,
    /// Operations that the completion_threads have seen end.
    pub ended: Receiver<Fence>,
    /// The card's clock.
    pub card_clock: CardClock,
    /// The host's.
    pub clock: Clock,
    /// Where operations that could not be issued are reported.
    pub reports: Reports,
    /// Events that nobody uses.
    pub event_pool: EventPool,
    /// What is under way.
    pub under_way: HashMap<Fence, Arc<UnderWay>>,
    /// For each lane what it was given last.
    pub last: Vec<Option<Fence>>,
    /// What could not be issued.
    pub failed: HashSet<Fence>,
    /// The kernel that faults on purpose, once it was needed.
    pub illegal_address: Option<IllegalAddress>,
}

impl Owner {
    /// Does what it is told, until nobody can tell it anything any more.
    pub fn work(mut self, orders: &Receiver<Request>) {
        let context = self.context.clone();
        let entered = context.enter();
        if let Err(fault) = &entered {
            self.shared.mark_lost(&fault.message);
        }
        // Kernels are loaded into the context that is current here, and unloaded before it is left.
        let mut modules = Modules::new(self.architecture, self.driver_major);
        for order in orders {
            self.shared.set_queued(orders.len());
            let command = match order {
                Request::Issue(command) => command,
                Request::Prepare(launches, answer) => {
                    let done = self.shared.check_alive().and_then(|()| modules.prepare(&launches));
                    // Who does not wait any more needs no answer.
                    let _ = answer.send(done);
                    continue;
                }
            };
            let (fence, now_ns) = (command.fence, self.clock.now_ns());
            // What an operation holds is given back before anybody hears of its end.
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
            let message = format!("what the {} waits for failed", command.what);
            return Err(Fault::new(FaultKind::Launch, message));
        }
        while let Ok(ended) = self.ended.try_recv() {
            if let Some(under_way) = self.under_way.remove(&ended) {
                self.event_pool.release(under_way.events.clone());
            }
        }
        let Command { fence, lane, waits, waiting, action, what, held } = command;
        let function = match &action {
            Action::Launch { launch, .. } => Some(modules.function(launch)?),
            Action::IllegalAddress => Some(self.illegal_address()?),
            _ => None,
        };
        let epoch = self.card_clock.epoch(self.under_way.is_empty());
        let events = self.event_pool.take(&self.context, waiting)?;
        let kind = if function.is_some() { FaultKind::Launch } else { FaultKind::Copy };
        let missing = || Fault::new(FaultKind::Misuse, format!("there is no lane {lane}"));
        let stream = self.streams.get(lane).ok_or_else(missing)?;
        let completion_thread = self.completion_threads.get(lane).ok_or_else(missing)?;
        let last = self.last.get_mut(lane).ok_or_else(missing)?;
        let mut predecessors = Vec::new();
        for wait in &waits {
            if let Some(before) = self.under_way.get(wait)
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
        // On a lane that is busy and waits for no other, an operation starts when the one before it ends, and a download at
        // once when its kernel has ended: an event would tell the same, and takes the driver as long as a launch.
        let lane_is_busy = last.is_some_and(|last| self.under_way.contains_key(&last));
        let start_is_implied = match &action {
            Action::Download(_) => lane_is_busy || !predecessors.is_empty(),
            _ => lane_is_busy && predecessors.is_empty() && batch.is_none(),
        };
        let start = if start_is_implied { Start::AfterPredecessors(predecessors) } else { Start::Recorded };
        let ahead = if batch.is_some() { enqueue(stream, &action, function, 1) } else { Ok(()) };
        let started =
            ahead.and_then(|()| if start_is_implied { Ok(()) } else { events.start.record(stream) });
        let given = started.and_then(|()| enqueue(stream, &action, function, batch.unwrap_or(1)));
        given.map_err(|error| fault(kind, what, error))?;
        if let Err(error) = events.end.record(stream) {
            // It is under way and nobody will know when it ends: its memory is never free again.
            std::mem::forget(held);
            return Err(self.shared.mark_lost(&words(error)));
        }
        *last = Some(fence);
        let under_way = Arc::new(UnderWay { lane, events, end_ns: OnceLock::new() });
        self.under_way.insert(fence, under_way.clone());
        let issued = Issued { fence, under_way, start, epoch, issued_ns, what, held };
        completion_thread
            .send(issued)
            .map_err(|_| Fault::new(FaultKind::Lost, "the thread of the lane has ended"))
    }

    fn illegal_address(&mut self) -> Result<sys::CUfunction, Fault> {
        let kernel = match self.illegal_address.take() {
            Some(kernel) => kernel,
            None => IllegalAddress::load(&self.context)?,
        };
        Ok(self.illegal_address.insert(kernel).function())
    }
}

/// Gives the stream an action; kernels so many times.
fn enqueue(
    stream: &Stream,
    action: &Action,
    function: Option<sys::CUfunction>,
    times: u32,
) -> Result<(), DriverError> {
    match (action, function) {
        (Action::Upload(copies), _) => copies.iter().try_for_each(|copy| upload(stream, copy)),
        (Action::Download(copy), _) => download(stream, copy),
        (Action::Launch { shape, words, .. }, Some(function)) if !shape.grid.contains(&0) => {
            let mut parameters: Vec<*mut c_void> =
                words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast()).collect();
            let [x, y, z] = shape.grid;
            let [bx, by, bz] = shape.block;
            let shared_bytes = shape.dynamic_shared_bytes;
            // SAFETY: a word of eight bytes for each parameter, as the kernel's table says and `submit` has checked; the
            // ranges they point to lie in the card's memory. The driver copies the words before it returns.
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
        (Action::IllegalAddress, Some(function)) => {
            // SAFETY: it has no parameters; what it does to the context is what was asked for.
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
        // SAFETY: all rows lie in memory that lives until the operation has ended, and nobody writes the host's before
        // that: `Issued` holds it.
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
        // SAFETY: all rows lie in memory that lives until the operation has ended, and nobody else uses the host's before
        // that: `Issued` holds it.
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

/// A copy of that many rows, from nowhere to nowhere.
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
