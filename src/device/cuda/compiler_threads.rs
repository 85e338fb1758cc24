//! Background threads that compile kernels.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::forms::Form;
use super::kernel_cache::KernelCache;

/// Most compiler threads. Only `prepare` requests many forms at once, and it waits for them; a product requests few.
const MAX_COMPILER_THREADS: usize = 16;

/// A compiler from kernel forms to machine code. Several threads call it concurrently.
pub trait Compile: Send + Sync {
    /// Its name and version. They are part of the cache key, since another version may produce other code.
    fn version(&self) -> String;

    /// The machine code, or the compiler's message.
    fn compile(&self, form: &Form) -> Result<Vec<u8>, String>;
}

/// A form with its machine code, or with the compiler's message.
pub type CompileResult = (Form, Result<Vec<u8>, String>);

/// A compiler with its threads and its cache of compiled kernels. Dropping it waits for running compilations and discards
/// queued ones: a process that exits during a compilation may crash.
pub struct CompilerThreads {
    compiler: Arc<dyn Compile>,
    version: String,
    cache: KernelCache,
    requests: Option<Sender<Form>>,
    results: Receiver<CompileResult>,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
}

impl CompilerThreads {
    /// Uses `compiler` and `cache`. The threads start at the first request.
    pub fn new(compiler: Arc<dyn Compile>, cache: KernelCache) -> Self {
        let (_, results) = unbounded();
        let version = compiler.version();
        let stop = Arc::new(AtomicBool::new(false));
        Self { compiler, version, cache, requests: None, results, stop, workers: Vec::new() }
    }

    /// The cached machine code of `form`, possibly from another process.
    pub fn cached(&self, form: &Form) -> Option<Vec<u8>> {
        self.cache.load(form, &self.version)
    }

    /// Requests a form. [`CompilerThreads::try_next`] or [`CompilerThreads::wait_next`] returns the result.
    pub fn request(&mut self, form: Form) -> Result<(), String> {
        if self.requests.is_none() {
            self.start()?;
        }
        let sent = self.requests.as_ref().map(|requests| requests.send(form));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err("the compiler threads have ended".into()) }
    }

    /// A finished compilation, if there is one.
    pub fn try_next(&self) -> Option<CompileResult> {
        self.results.try_recv().ok()
    }

    /// Waits for the next finished compilation; `None` if the threads have ended.
    pub fn wait_next(&self) -> Option<CompileResult> {
        self.results.recv().ok()
    }

    fn start(&mut self) -> Result<(), String> {
        let (requests, queue) = unbounded::<Form>();
        let (sender, results) = unbounded();
        let count = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_COMPILER_THREADS);
        for _ in 0..count {
            let (queue, sender, stop) = (queue.clone(), sender.clone(), Arc::clone(&self.stop));
            let (compiler, version, cache) =
                (Arc::clone(&self.compiler), self.version.clone(), self.cache.clone());
            let work = move || {
                for form in queue.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
                    let result = compiler.compile(&form);
                    if let Ok(code) = &result {
                        cache.store(&form, &version, code);
                    }
                    if sender.send((form, result)).is_err() {
                        return;
                    }
                }
            };
            let builder = thread::Builder::new().name("compile kernels".into());
            match builder.spawn(work) {
                Ok(worker) => self.workers.push(worker),
                Err(error) if self.workers.is_empty() => return Err(error.to_string()),
                // Fewer threads compile all the same.
                Err(_) => break,
            }
        }
        self.requests = Some(requests);
        self.results = results;
        Ok(())
    }
}

impl Drop for CompilerThreads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.requests = None;
        for worker in self.workers.drain(..) {
            // A thread that panicked has already ended.
            let _ = worker.join();
        }
    }
}
