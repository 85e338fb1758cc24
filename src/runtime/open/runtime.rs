//! The runtime: opened once, shared by all products of a program.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::thread::JoinHandle;

use super::device_list::{DeviceWord, Devices};
use super::resolve::{Resolving, device_options};
use super::runtime_devices::{RecordedRound, RuntimeDevices};
use crate::adapt::ResolvedDevices;
use crate::cost::{LearnedFactors, Model};
use crate::device::{Description, Reports};
use crate::error::{Error, Result};
use crate::kernel::cpu::slow_build;
use crate::machine::{Machine, may_have_nvidia_gpu};
use crate::matrix::ContentId;
use crate::plan::{Plan, PlanRequest, ResidentLayout};
use crate::runtime::devices::{BoxedDevice, OpenDevice, Pool, open_device};
use crate::runtime::run::{PlanDevices, Round, Timeline, add_records};
use crate::runtime::{ProductOptions, Transfer};
use crate::trace::{Clock, Trace};
use crate::work::Work;

/// The worker threads, the open devices and the cost model of a program. Cloning it is cheap; all clones are the same runtime.
///
/// Devices are opened when a product first needs them and stay open until the last clone and the last product are dropped.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    machine: Machine,
    pool: Arc<Pool>,
    devices: Devices,
    open: Arc<RuntimeDevices>,
    model: Option<(PathBuf, Model)>,
    refine: bool,
    /// Probes the CUDA cards of `auto` while products already run on the CPU.
    probe_thread: Mutex<Option<JoinHandle<()>>>,
    /// The errors of devices that could not be used; set once all devices were probed.
    probe_result: Arc<OnceLock<Option<String>>>,
}

/// How a runtime is opened; [`Runtime::builder`].
#[derive(Debug, Clone)]
pub struct RuntimeBuilder {
    devices: String,
    threads: Option<usize>,
    model: String,
    refine: bool,
    clock: Option<Clock>,
    pool: Option<(Machine, Arc<Pool>)>,
    /// The part of the machine that the worker threads may use.
    machine: Option<Machine>,
}

impl RuntimeBuilder {
    /// The devices: `auto` (the CPU, and every GPU that makes products faster) or a list such as `cpu,cuda:0`.
    #[must_use]
    pub fn devices(mut self, devices: impl Into<String>) -> Self {
        self.devices = devices.into();
        self
    }

    /// The number of worker threads; one per hardware thread without it.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The cost model of this machine: `auto` (written by `rowloom calibrate`), `none`, or a file.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Whether products use and update what earlier ones learned: corrections of the cost model, and times by matrix.
    #[must_use]
    pub fn refine(mut self, refine: bool) -> Self {
        self.refine = refine;
        self
    }

    /// The clock of all reported times; without it, time zero is the opening of the runtime.
    #[must_use]
    #[doc(hidden)]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The devices that were asked for.
    pub(crate) fn asked_devices(&self) -> &str {
        &self.devices
    }

    /// Restricts the worker threads to the hardware threads of `machine`.
    #[must_use]
    pub(crate) fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// The worker threads of another runtime on the same machine, instead of new ones.
    #[must_use]
    #[doc(hidden)]
    pub fn pool(mut self, machine: Machine, pool: Arc<Pool>) -> Self {
        self.pool = Some((machine, pool));
        self
    }

    /// Starts the worker threads. Devices are opened later, when they are needed.
    pub fn open(self) -> Result<Runtime> {
        let devices: Devices = self.devices.parse().map_err(Error::usage)?;
        let (machine, pool) = match self.pool {
            Some(known) => known,
            None => {
                let machine = self.machine.unwrap_or_else(Machine::detect);
                let pool = Arc::new(Pool::new(&machine, self.threads)?);
                (machine, pool)
            }
        };
        let clock = self.clock.unwrap_or_else(Clock::start);
        let open = Arc::new(RuntimeDevices::new(clock));
        devices.check_options()?;
        // A missing GPU is an error now, not after the matrix was read. Starting the driver takes longer and waits.
        if devices.has_cuda() && !may_have_nvidia_gpu() {
            devices.check_known()?;
        }
        let model = Model::named(&self.model)?;
        static SAID: Once = Once::new();
        if let Some(reason) = slow_build() {
            SAID.call_once(|| tracing::warn!("{reason}"));
        }
        let (probe_thread, probe_result) = (Mutex::new(None), Arc::default());
        let inner =
            Inner { machine, pool, devices, open, model, refine: self.refine, probe_thread, probe_result };
        Ok(Runtime { inner: Arc::new(inner) })
    }
}

impl Runtime {
    /// Opens a runtime on `devices`: `auto`, or a list such as `cpu,cuda:0`.
    pub fn open(devices: &str) -> Result<Self> {
        Self::builder().devices(devices).open()
    }

    /// All options: devices, threads, cost model.
    pub fn builder() -> RuntimeBuilder {
        let auto = || "auto".to_string();
        RuntimeBuilder {
            devices: auto(),
            threads: None,
            model: auto(),
            refine: true,
            clock: None,
            pool: None,
            machine: None,
        }
    }

    /// The machine.
    #[doc(hidden)]
    pub fn machine(&self) -> &Machine {
        &self.inner.machine
    }

    /// The worker threads.
    #[doc(hidden)]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.inner.pool
    }

    /// The clock of all reported times.
    #[doc(hidden)]
    pub fn clock(&self) -> Clock {
        self.inner.open.clock()
    }

    /// The devices, as they were named.
    #[doc(hidden)]
    pub fn devices(&self) -> &Devices {
        &self.inner.devices
    }

    /// Whether times that earlier processes measured are used and updated.
    #[doc(hidden)]
    pub fn refines(&self) -> bool {
        self.inner.refine
    }

    /// Whether a cost model of this machine is used.
    #[doc(hidden)]
    pub fn has_model(&self) -> bool {
        self.inner.model.is_some()
    }

    /// The file of factors that products learn; `None` where none are kept.
    #[doc(hidden)]
    pub fn factors_path(&self) -> Option<PathBuf> {
        let simulated = |word: &DeviceWord| matches!(word, DeviceWord::Simulated { .. });
        let is_simulated = matches!(&self.inner.devices, Devices::List(words) if words.iter().any(simulated));
        let model = self.inner.model.as_ref().filter(|_| self.inner.refine && !is_simulated);
        model.map(|(path, _)| LearnedFactors::beside(path))
    }

    /// The device named `name`, which is opened unless it is open.
    pub(crate) fn device(&self, name: &str) -> Result<Arc<OpenDevice>> {
        self.inner.open.get(name, &device_options(&self.inner.devices)?)
    }

    /// The devices of `plan`, of which every one is opened that is not open.
    pub(crate) fn open_devices(&self, plan: &Plan) -> Result<PlanDevices> {
        let devices = plan.devices.iter().skip(1).map(|device| self.device(&device.name));
        Ok(PlanDevices::new(self.clock(), devices.collect::<Result<_>>()?))
    }

    /// The layouts of a matrix that devices have, the most recently used first on each. `own` has the number of a layout once for each
    /// product whose use does not count.
    pub(crate) fn layouts_of(&self, content: Option<ContentId>, own: &[u64]) -> Vec<ResidentLayout> {
        let Some(content) = content else { return Vec::new() };
        let open = self.inner.open.all_open();
        open.iter().flat_map(|(name, device)| device.memory().layouts_of(content, name, own)).collect()
    }

    /// Starts to open the CUDA driver and the named cards on a thread of its own, so that a matrix can be read meanwhile. Does
    /// nothing for `auto` and where no card is named.
    #[doc(hidden)]
    pub fn start_opening(&self) {
        if self.inner.devices.has_cuda() {
            self.start_probe();
        }
    }

    /// Waits until no thread of the runtime opens a card. A process must not end meanwhile: the CUDA driver may crash. A program
    /// that keeps its runtimes in static variables, which are never dropped, calls this at its end.
    #[doc(hidden)]
    pub fn finish_opening(&self) {
        let thread = self.inner.probe_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// The profiles of all devices. Opens the CUDA driver if cards may be among them.
    #[doc(hidden)]
    pub fn resolve(&self, options: &ProductOptions) -> Result<ResolvedDevices> {
        let mut resolved = self.resolving(options).all()?;
        forbid_registering(&mut resolved, options);
        let open = self.inner.open.all_open();
        for device in &mut resolved.devices {
            let Some((_, of)) = open.iter().find(|(name, _)| *name == device.name) else { continue };
            match device.name.starts_with("cuda:") {
                // What the driver calls free is without the memory that products share.
                true => device.profile.memory_bytes += of.memory().shared_bytes(),
                false => device.taken_bytes = of.memory().private_bytes(),
            }
        }
        Ok(resolved)
    }

    /// Opens a device of the runtime a second time, apart from the one that its products use; it reports to `reports`.
    #[doc(hidden)]
    pub fn open_apart(&self, name: &str, reports: Reports) -> Result<BoxedDevice> {
        let options = device_options(&self.inner.devices)?;
        let (emulated, cuda) = (options.emulated_of(name), options.cuda_of(name));
        open_device(name, emulated, cuda, self.inner.open.clock(), reports)
    }

    /// The profile of the CPU, without a look at other devices.
    pub(crate) fn resolve_cpu(&self, options: &ProductOptions) -> Result<ResolvedDevices> {
        self.resolving(options).cpu()
    }

    fn resolving(&self, options: &ProductOptions) -> Resolving<'_> {
        Resolving {
            devices: &self.inner.devices,
            threads: self.inner.pool.threads(),
            host_memory_bytes: self.inner.machine.memory_limit_bytes(),
            memory_limit_bytes: options.memory_limit_bytes,
            model: self.inner.model.as_ref(),
            refine: self.inner.refine,
        }
    }

    /// The request for a plan of `uses` products of `work`; the same options give the same request everywhere.
    #[doc(hidden)]
    pub fn request<'w>(
        &self,
        options: &ProductOptions,
        resolved: &ResolvedDevices,
        work: Work<'w>,
        uses: u64,
    ) -> PlanRequest<'w> {
        options.request(resolved, work, uses)
    }

    /// Records operations on [`Vectors`](crate::runtime::Vectors) from now on, for [`Self::add_operations`].
    pub fn start_recording(&self) {
        self.inner.open.start_recording();
    }

    /// Whether operations are recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.inner.open.is_recording()
    }

    /// Keeps a product on vectors that ran as a graph.
    pub(crate) fn record_round(&self, plan: &Arc<Plan>, descriptions: &Arc<[Description]>, round: &Round) {
        let (plan, descriptions, round) = (plan.clone(), descriptions.clone(), round.clone());
        self.inner.open.record_round(RecordedRound { plan, descriptions, round });
    }

    /// Adds the recorded operations on vectors to a trace: products, row-wise operations, sums, and the exchange of rows, on the
    /// lanes of their devices. An arrow leads from every copy of exchanged rows to the operation that uses them.
    pub fn add_operations(&self, trace: &mut Trace) {
        for RecordedRound { plan, descriptions, round } in self.inner.open.take_rounds() {
            Timeline::new(trace, &plan, &descriptions).add_round(trace, &round, None);
        }
        for (device, records) in self.inner.open.take_records() {
            add_records(trace, &device, &records);
        }
    }

    /// Starts to probe CUDA cards and to open them, on a thread of its own. Returns at once.
    pub(crate) fn start_probe(&self) {
        let mut probe_thread = self.inner.probe_thread.lock().unwrap_or_else(PoisonError::into_inner);
        if probe_thread.is_some() || self.inner.probe_result.get().is_some() {
            return;
        }
        if !may_have_nvidia_gpu() {
            let _ = self.inner.probe_result.set(Some("this machine has no NVIDIA GPU".into()));
            return;
        }
        let Inner { devices, open, probe_result, .. } = &*self.inner;
        let (devices, open, probe_result) = (devices.clone(), open.clone(), probe_result.clone());
        let thread = std::thread::Builder::new().name("open GPUs".into());
        let spawned = thread.spawn(move || {
            let failed = open_cards(&devices, &open).err().map(|error| error.message());
            let _ = probe_result.set(failed);
        });
        match spawned {
            Ok(handle) => *probe_thread = Some(handle),
            Err(error) => drop(self.inner.probe_result.set(Some(error.to_string()))),
        }
    }

    /// Whether cards are being opened now.
    pub(crate) fn is_probing(&self) -> bool {
        let has_started = self.inner.probe_thread.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        has_started && self.inner.probe_result.get().is_none()
    }

    /// The profiles of the CPU and of the GPUs that the system lists, without starting the CUDA driver.
    pub(crate) fn resolve_listed(&self, options: &ProductOptions) -> Result<ResolvedDevices> {
        self.resolving(options).listed(&self.inner.machine.gpus)
    }

    /// Waits until the probe of the cards has ended. It must have been started.
    pub(crate) fn wait_for_probe(&self) {
        self.inner.probe_result.wait();
    }

    /// The result of the probe, once it has ended; `Err` with the reason where no card can be used.
    pub(crate) fn probe_result(&self) -> Option<std::result::Result<(), &str>> {
        self.inner.probe_result.get().map(|failed| failed.as_deref().map_or(Ok(()), Err))
    }
}

fn open_cards(devices: &Devices, open: &RuntimeDevices) -> Result<()> {
    let cuda = devices.cuda()?;
    if cuda.is_empty() {
        return Err(Error::device("cuda", "the driver lists no GPU"));
    }
    let options = device_options(devices)?;
    cuda.iter().try_for_each(|device| open.get(&device.name, &options).map(drop))
}

/// Removes the rate of registering memory where the options ask for staging.
fn forbid_registering(resolved: &mut ResolvedDevices, options: &ProductOptions) {
    if options.transfer == Transfer::Staged {
        let links = resolved.devices.iter_mut().filter_map(|device| device.profile.link.as_mut());
        links.for_each(|link| link.register_s_per_gb = None);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A process that ends while the driver starts may crash.
        if let Some(thread) = self.probe_thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}
