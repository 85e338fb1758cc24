//! The modelled card: streams of work that a thread performs later, events, and faults of the driver.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::yield_now;

use super::sync::switch;
use super::{Fault, FaultKind, Launch};

/// The address of pinned memory that a copy uses.
pub type Address = usize;

/// Steps of the longest copy. All other threads take steps meanwhile.
const MAX_COPY_STEPS: u32 = 40;

/// What a stream has to do.
#[derive(Debug)]
enum Work {
    /// A copy, with the number of steps that it still takes.
    Copy(Address, u32),
    Kernel,
    /// A kernel that destroys the context.
    IllegalAddress,
    Record(Arc<Marks>, u64),
    Wait(Arc<Marks>, u64),
}

/// How often an event was recorded, and which record is complete.
#[derive(Debug, Default)]
struct Marks {
    recorded: AtomicU64,
    complete: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    streams: Vec<VecDeque<Work>>,
    is_lost: bool,
    is_closed: bool,
    /// After so many queries of events the thread that asks panics.
    queries_to_panic: Option<u32>,
}

/// The card and its context.
#[derive(Debug, Default)]
pub struct Context(Mutex<State>);

impl Context {
    /// A card; if `queries` is given, a thread panics at that query of an event.
    pub fn new(queries_to_panic: Option<u32>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { queries_to_panic, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether a copy of the memory at `address` is enqueued or runs.
    pub fn is_copying(&self, address: Address) -> bool {
        let copies = |work: &Work| matches!(work, Work::Copy(of, _) if *of == address);
        self.state().streams.iter().flatten().any(copies)
    }

    /// Whether a kernel fault has destroyed the context.
    pub fn is_lost(&self) -> bool {
        self.state().is_lost
    }

    /// Ends [`Context::work`] once all work is done.
    pub fn close(&self) {
        self.state().is_closed = true;
    }

    /// Performs the work of all streams, in a random order among streams. A copy stays in its stream until it is complete.
    pub fn work(&self) {
        loop {
            switch();
            let mut state = self.state();
            let may_go = |work: &Work| match work {
                Work::Wait(marks, record) => marks.complete.load(Ordering::SeqCst) >= *record,
                _ => true,
            };
            let ready: Vec<usize> = (0..state.streams.len())
                .filter(|stream| state.streams[*stream].front().is_some_and(may_go))
                .collect();
            if ready.is_empty() {
                let ends = state.is_closed && state.streams.iter().all(VecDeque::is_empty);
                drop(state);
                if ends {
                    return;
                }
                yield_now();
                continue;
            }
            let stream = ready[thread_rng().gen_range(0..ready.len())];
            match state.streams[stream].pop_front() {
                Some(Work::Copy(address, steps @ 1..)) => {
                    state.streams[stream].push_front(Work::Copy(address, steps - 1));
                }
                Some(Work::Record(marks, record)) => {
                    marks.complete.fetch_max(record, Ordering::SeqCst);
                }
                Some(Work::IllegalAddress) => {
                    state.is_lost = true;
                    state.streams.iter_mut().for_each(VecDeque::clear);
                }
                _ => {}
            }
        }
    }
}

/// Memory of another card, which the model does not use.
pub struct DeviceMemory;

/// A stream of the card.
pub struct Stream {
    context: Arc<Context>,
    number: usize,
}

impl Stream {
    pub fn create(context: &Arc<Context>) -> Result<Self, Fault> {
        let streams = &mut context.state().streams;
        streams.push(VecDeque::new());
        Ok(Self { context: context.clone(), number: streams.len() - 1 })
    }

    fn push(&self, work: Work) -> Result<(), DriverError> {
        switch();
        {
            let mut state = self.context.state();
            if state.is_lost {
                return Err(DriverError::Lost);
            }
            state.streams[self.number].push_back(work);
        }
        switch();
        Ok(())
    }

    /// Enqueues a copy of random duration.
    fn push_copy(&self, address: Address) -> Result<(), DriverError> {
        self.push(Work::Copy(address, thread_rng().gen_range(0..MAX_COPY_STEPS)))
    }

    pub fn wait(&self, event: &Event) -> Result<(), DriverError> {
        self.push(Work::Wait(event.marks.clone(), event.marks.recorded.load(Ordering::SeqCst)))
    }
}

/// How a thread waits for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventWait {
    Blocking,
    Spinning,
}

/// An event of the card.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    marks: Arc<Marks>,
}

impl Event {
    pub fn create(context: &Arc<Context>, _waiting: EventWait) -> Result<Self, Fault> {
        Ok(Self { context: context.clone(), marks: Arc::default() })
    }

    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        let record = self.marks.recorded.fetch_add(1, Ordering::SeqCst) + 1;
        stream.push(Work::Record(self.marks.clone(), record))
    }

    pub fn is_complete(&self) -> Result<bool, DriverError> {
        switch();
        let mut state = self.context.state();
        if let Some(left) = state.queries_to_panic.as_mut() {
            *left = left.saturating_sub(1);
            if *left == 0 {
                state.queries_to_panic = None;
                drop(state);
                resume_unwind(Box::new("a completion thread panics"));
            }
        }
        let complete = self.marks.complete.load(Ordering::SeqCst);
        let is_complete = complete >= self.marks.recorded.load(Ordering::SeqCst);
        if state.is_lost && !is_complete { Err(DriverError::Lost) } else { Ok(is_complete) }
    }

    pub fn wait(&self) -> Result<(), DriverError> {
        while !self.is_complete()? {
            yield_now();
        }
        Ok(())
    }
}

/// An error of the driver.
#[derive(Debug, Clone, Copy)]
pub enum DriverError {
    Refused,
    Lost,
}

pub fn message_of(error: DriverError) -> String {
    format!("{error:?}")
}

pub fn fault(kind: FaultKind, what: &str, error: DriverError) -> Fault {
    let kind = if matches!(error, DriverError::Lost) { FaultKind::Lost } else { kind };
    Fault::new(kind, what)
}

/// What the model does on a stream.
#[derive(Debug, Clone)]
pub enum Action {
    Upload(Vec<Address>),
    Download(Address),
    Kernel,
    IllegalAddress,
    /// The copies are enqueued, then the driver refuses one more.
    RefusedAfter(Vec<Address>),
    /// The owner panics before anything is enqueued.
    PanicBefore,
    /// The owner panics after the copies are enqueued.
    PanicAfter(Vec<Address>),
}

impl Action {
    pub fn function(&mut self, _context: &Arc<Context>, _modules: &mut Modules) -> Result<Option<()>, Fault> {
        match self {
            Self::PanicBefore => resume_unwind(Box::new("an owner panics")),
            Self::Kernel | Self::IllegalAddress => Ok(Some(())),
            _ => Ok(None),
        }
    }

    pub fn batch(&self) -> Option<u32> {
        None
    }

    pub fn is_download(&self) -> bool {
        matches!(self, Self::Download(_))
    }

    pub fn enqueue(&self, stream: &Stream, _function: Option<()>, _times: u32) -> Result<(), DriverError> {
        match self {
            Self::Kernel => stream.push(Work::Kernel)?,
            Self::IllegalAddress => stream.push(Work::IllegalAddress)?,
            Self::Download(to) => stream.push_copy(*to)?,
            Self::Upload(from) | Self::RefusedAfter(from) | Self::PanicAfter(from) => {
                from.iter().try_for_each(|from| stream.push_copy(*from))?;
            }
            Self::PanicBefore => {}
        }
        match self {
            Self::RefusedAfter(_) => Err(DriverError::Refused),
            Self::PanicAfter(_) => resume_unwind(Box::new("an owner panics")),
            _ => Ok(()),
        }
    }
}

/// Clocks show nothing: times do not matter here.
pub struct CardClock;

impl CardClock {
    pub fn epoch(&mut self, _idle: bool) -> Arc<Epoch> {
        Arc::new(Epoch)
    }
}

pub struct Epoch;

impl Epoch {
    pub fn card_ns(&self, _event: &Event) -> Result<f64, DriverError> {
        Ok(0.0)
    }
}

#[derive(Clone)]
pub struct SharedHostTime;

impl SharedHostTime {
    pub fn host_ns(&self, _card_ns: f64) -> u64 {
        0
    }
}

#[derive(Clone, Copy)]
pub struct Architecture;

pub struct Modules;

impl Modules {
    pub fn new(_architecture: Architecture, _driver_major: u32) -> Self {
        Self
    }

    /// The owner panics.
    pub fn prepare(&mut self, _launches: &[Launch]) -> Result<(), Fault> {
        resume_unwind(Box::new("an owner panics"))
    }

    pub fn settled_function(&mut self, _launch: &Launch) -> Result<Settled, Fault> {
        Ok(Settled)
    }
}

pub struct Settled;
