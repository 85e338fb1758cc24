//! Threads that compile kernels in the background.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::forms::Form;
use super::kernel_cache::KernelCache;

/// Most threads that compile at a time. Where many forms are asked for at once somebody waits for them; a product asks for few.
const MAX_COMPILER_THREADS: usize = 16;

/// Something that makes machine code of a form. Called by several threads at once.
pub trait Compile: Send + Sync {
    /// Its name and version: another one may make other code of the same form.
    fn version(&self) -> String;

    /// The machine code, or the compiler's words.
    fn compile(&self, form: &Form) -> Result<Vec<u8>, String>;
}

/// Machine code of a form, or why there is none.
pub type CompileResult = (Form, Result<Vec<u8>, String>);

/// A compiler with its threads and what it made earlier. Dropping it waits for what is being compiled, not for what is
/// still to be: a program that ends inside its compiler may crash.
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
    /// A compiler with that compiler; its threads start with the first order.
    pub fn new(compiler: Arc<dyn Compile>, cache: KernelCache) -> Self {
        let (_, results) = unbounded();
        let version = compiler.version();
        let stop = Arc::new(AtomicBool::new(false));
        Self { compiler, version, cache, requests: None, results, stop, workers: Vec::new() }
    }

    /// What was made of `form` earlier, maybe by another process.
    pub fn cached(&self, form: &Form) -> Option<Vec<u8>> {
        self.cache.load(form, &self.version)
    }

    /// Asks for a form; it comes back from [`CompilerThreads::try_next`] or [`CompilerThreads::wait_next`].
    pub fn request(&mut self, form: Form) -> Result<(), String> {
        if self.requests.is_none() {
            self.start()?;
        }
        let sent = self.requests.as_ref().map(|requests| requests.send(form));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err("the compiling threads have ended".into()) }
    }

    /// A form that is ready, where one is.
    pub fn try_next(&self) -> Option<CompileResult> {
        self.results.try_recv().ok()
    }

    /// The next form that is ready; `None` where the threads have ended.
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
            self.workers.push(builder.spawn(work).map_err(|error| error.to_string())?);
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
            // A worker that panicked has nothing to say here.
            let _ = worker.join();
        }
    }
}
