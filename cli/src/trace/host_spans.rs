//! Spans of the program itself, from `tracing` through `tracing-chrome`, on the clock of the trace.
//!
//! Any code can record a span with `let _span = tracing::info_span!("plan").entered();`. Without `--trace` there is no subscriber, and
//! a span costs one load and a branch. With it `tracing-chrome` records spans in memory on a clock of its own, and
//! [`HostSpans::finish`] converts them to the trace's clock. Both clocks count nanoseconds, from different origins. A few instants,
//! each recorded between two readings of the trace's clock, bound the difference of the origins; half the remaining interval is the
//! error in the metadata.
//!
//! There is one subscriber, and it stays installed: spans are entered on any thread, and `tracing-chrome` binds each thread to its
//! first layer. A second recording gives that layer a new buffer; two recordings at the same time are an error.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::Value;
use tracing::Level;
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};

use rowloom::internal::error::{Error, Result};
use rowloom::internal::threads;
use rowloom::internal::trace::{Arguments, Category, Clock, Span, Trace};

/// The process of the program's own spans.
pub const PROGRAM: &str = "rowloom";
/// The name of the instants that align the two clocks, and their number.
const CLOCK_SYNC: &str = "clock_sync";
const CLOCK_SYNCS: usize = 32;

/// The subscriber of the process.
struct Subscriber {
    guard: FlushGuard,
    recording: bool,
}

static SUBSCRIBER: Mutex<Option<Subscriber>> = Mutex::new(None);

fn subscriber() -> MutexGuard<'static, Option<Subscriber>> {
    SUBSCRIBER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A recording of the program's own spans.
#[derive(Debug)]
pub struct HostSpans {
    clock: Clock,
    written: Receiver<Vec<u8>>,
    /// Readings of the trace's clock before and after each [`CLOCK_SYNC`] instant.
    brackets: Vec<(u64, u64)>,
}

impl HostSpans {
    /// Starts to record the spans of this crate, on all threads.
    pub fn start(clock: &Clock) -> Result<Self> {
        let mut subscriber = subscriber();
        let (done, written) = mpsc::channel();
        let memory = Memory { bytes: Vec::new(), done };
        match &mut *subscriber {
            None => *subscriber = Some(Subscriber { guard: install(memory)?, recording: true }),
            Some(Subscriber { recording: true, .. }) => {
                return Err(Error::Internal("two traces record the program's spans at once".into()));
            }
            Some(known) => {
                known.guard.start_new(Some(Box::new(memory)));
                known.recording = true;
            }
        }
        let mut brackets = Vec::with_capacity(CLOCK_SYNCS);
        for _ in 0..CLOCK_SYNCS {
            let before_ns = clock.now_ns();
            tracing::event!(name: CLOCK_SYNC, Level::INFO, {});
            brackets.push((before_ns, clock.now_ns()));
        }
        Ok(Self { clock: *clock, written, brackets })
    }

    /// Ends the recording and adds its spans to the trace, one lane for each thread. Open spans end now.
    pub fn finish(self, trace: &mut Trace) -> Result<()> {
        let end_ns = self.clock.now_ns();
        stop();
        let failed = |reason: String| Error::Internal(format!("the spans of the program are lost: {reason}"));
        let bytes = self.written.recv().map_err(|error| failed(error.to_string()))?;
        let events: Vec<Event> = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
        let offset = self.align(&events).ok_or_else(|| failed("no instant aligns the clocks".into()))?;
        trace.clock_error("host", offset.error_ns);
        add(trace, &events, offset, end_ns);
        Ok(())
    }

    /// The offset from the recorder's clock to the trace's, from the intervals of all instants.
    fn align(&self, events: &[Event]) -> Option<Offset> {
        let instants = events.iter().filter(|event| event.ph == "i" && event.name == CLOCK_SYNC);
        let bounds = self.brackets.iter().zip(instants).map(|(&(before_ns, after_ns), instant)| {
            let at_ns = instant.at_ns();
            (before_ns as i64 - at_ns, after_ns as i64 - at_ns)
        });
        let (low, high) = bounds.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))?;
        // Rounding to nanoseconds can swap the bounds by one.
        Some(Offset { ns: low + (high - low) / 2, error_ns: (high - low).unsigned_abs() / 2 + 1 })
    }
}

impl Drop for HostSpans {
    fn drop(&mut self) {
        stop();
    }
}

/// Ends the recording, if there is one; later spans are discarded.
fn stop() {
    if let Some(known) = &mut *subscriber()
        && std::mem::take(&mut known.recording)
    {
        known.guard.start_new(Some(Box::new(io::sink())));
    }
}

/// Makes `tracing-chrome` the subscriber of the process, writing to `memory`.
fn install(memory: Memory) -> Result<FlushGuard> {
    let builder = ChromeLayerBuilder::new().writer(memory).include_args(true).include_locations(false);
    let (layer, guard) = without_panic(|| builder.build())?;
    // A prefix: the targets of the library and of the program.
    let ours = Targets::new().with_target(PROGRAM, LevelFilter::INFO);
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(ours));
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| Error::Internal(format!("the program's spans cannot be recorded: {error}")))?;
    Ok(guard)
}

/// What `build` returns. It starts a thread and panics only where it cannot, which is an error here and without a message.
fn without_panic<R>(build: impl FnOnce() -> R) -> Result<R> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let built = panic::catch_unwind(AssertUnwindSafe(build));
    panic::set_hook(hook);
    built.map_err(|_| threads::refused("the recorder of the program's spans has no thread"))
}

/// The buffer that `tracing-chrome` writes to; sends its content when it is dropped.
struct Memory {
    bytes: Vec<u8>,
    done: Sender<Vec<u8>>,
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The receiver of a cancelled recording is gone.
        let _ = self.done.send(std::mem::take(&mut self.bytes));
    }
}

/// The offset from the recorder's clock to the trace's.
#[derive(Debug, Clone, Copy)]
struct Offset {
    ns: i64,
    error_ns: u64,
}

/// An event of `tracing-chrome`: `B` and `E` begin and end a span, `i` is an instant, `M` names a thread.
#[derive(Debug, Deserialize)]
struct Event {
    ph: String,
    tid: u64,
    #[serde(default)]
    ts: f64,
    name: String,
    #[serde(default)]
    args: BTreeMap<String, Value>,
}

impl Event {
    /// Its time on the recorder's clock.
    fn at_ns(&self) -> i64 {
        (self.ts * 1000.0).round() as i64
    }

    /// The arguments of a span; all values are text.
    fn arguments(&self) -> Arguments {
        let text = |key: &str| self.args.get(key).and_then(Value::as_str);
        let number = |key: &str| text(key).and_then(|text| text.parse().ok());
        Arguments {
            chunk: number("chunk"),
            rows: number("rows"),
            bytes: number("bytes"),
            run: number("run"),
            kernel: text("kernel").map(|name| name.trim_matches('"').to_owned().into()),
            ..Arguments::default()
        }
    }
}

/// A thread and its open spans, the innermost last.
#[derive(Default)]
struct Thread<'a> {
    name: Option<&'a str>,
    open: Vec<(&'a Event, Arguments)>,
    closed: Vec<(&'a str, u64, u64, Arguments)>,
}

fn add(trace: &mut Trace, events: &[Event], offset: Offset, end_ns: u64) {
    let time = |event: &Event| (event.at_ns() + offset.ns).max(0) as u64;
    let mut threads: BTreeMap<u64, Thread<'_>> = BTreeMap::new();
    for event in events {
        let thread = threads.entry(event.tid).or_default();
        match event.ph.as_str() {
            "M" => thread.name = event.args.get("name").and_then(Value::as_str),
            "B" => thread.open.push((event, event.arguments())),
            "E" => {
                // A span that was entered before the recording has no start here.
                let begun = thread.open.iter().rposition(|(begun, _)| begun.name == event.name);
                if let Some(begun) = begun {
                    let (begun, mut arguments) = thread.open.remove(begun);
                    // Values recorded inside the span come with its end.
                    if !event.args.is_empty() {
                        arguments = event.arguments();
                    }
                    thread.closed.push((&event.name, time(begun), time(event), arguments));
                }
            }
            _ => {}
        }
    }
    let process = trace.process(PROGRAM);
    for (number, mut thread) in threads {
        // The innermost span ends first.
        for (depth, (begun, arguments)) in (0..).zip(std::mem::take(&mut thread.open).into_iter().rev()) {
            thread.closed.push((&begun.name, time(begun), end_ns.max(time(begun)) + depth, arguments));
        }
        if thread.closed.is_empty() {
            continue;
        }
        thread.closed.sort_by_key(|&(_, start_ns, end_ns, _)| (start_ns, std::cmp::Reverse(end_ns)));
        let name = thread.name.map_or_else(|| format!("thread {number}"), str::to_owned);
        let lane = trace.new_lane(process, &name);
        for (name, start_ns, end_ns, arguments) in thread.closed {
            let (name, category) = (name.to_owned(), Category::Host);
            trace.span(Span { lane, name, category, start_ns, end_ns, arguments });
        }
    }
}
