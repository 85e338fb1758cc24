//! The plan of a product over time: prepares what [`ProcessorChoice`] decides, and reports the measured times to it.

mod opening;
mod sharing;
mod vectors;

use std::sync::Arc;
use std::time::Instant;

use crate::adapt::{
    Alternative, ProcessorChoice, Processors, ProductKey, ProductTimes, ResolvedDevices, restricted_to,
};
use crate::device::completion::WATCHDOG_TIMEOUT;
use crate::error::{Counted, Error, Result, Seconds};
use crate::kernel::cpu::{CpuSettings, Kernels};
use crate::kernel::{Format, Processor};
use crate::machine::Isa;
use crate::plan::{Plan, PlanRequest, ResidentLayout, make};
use crate::runtime::Runtime;
use crate::runtime::open::Devices;
use crate::runtime::run::{FaultReport, RunReport};
use crate::runtime::spmm::{Matrix, PreparedProduct, Settings};
use crate::runtime::vectors::RankLists;
use crate::runtime::{ProductBuilder, ProductOptions, Transfer};
use crate::work::spmm::{Features, Spmm};
use crate::work::{ChunkRows, Kind};

/// Seconds to start the CUDA driver and open a card; a process with an open card also takes so much longer to exit. Measured on an H200.
const OPENING_SECONDS: f64 = 0.4;
/// Seconds that the first products on a GPU take longer than predicted, for kernels that are loaded and memory that is touched.
const FIRST_USE_SECONDS: f64 = 0.03;

/// Largest number of times that shares are adjusted.
const MAX_ROUNDS: usize = 3;

/// The alternatives of a product and their prepared plans.
pub(super) struct Adaptation<'a, T: Kernels> {
    pub runtime: Runtime,
    pub matrix: Matrix<'a, T>,
    pub k: usize,
    pub options: ProductOptions,
    features: Features,
    /// The rates of all devices; `None` while only the CPU is known.
    rates: Option<ResolvedDevices>,
    /// The rates of the CPU, for `auto`.
    cpu_rates: Option<ResolvedDevices>,
    /// The rates for the shared product, corrected by measured times.
    shared_rates: Option<ResolvedDevices>,
    best_shares: Option<BestShares>,
    rounds: usize,
    considered_sharing: bool,
    choice: ProcessorChoice,
    prepared: Vec<(Processors, PreparedProduct<'a, T>)>,
    /// Faults of plans that are no longer prepared.
    past_faults: Vec<FaultReport>,
    /// A plan that the caller gave.
    given: Option<Plan>,
    /// Predictions for the GPUs that the system lists, before they are opened.
    expected_gpu: Option<ExpectedGpu>,
    first_plan: Plan,
    /// Plans of alternatives that are not prepared yet.
    proposed: Vec<(Processors, Plan)>,
    /// Whether X and Y are the same arrays with every product.
    bound: bool,
    /// The other ranks of the job.
    ranks: Option<Arc<RankLists>>,
    times: Option<ProductTimes>,
    /// Measured over predicted seconds of the last set-up on a GPU.
    set_up_ratio: f64,
    pub plan_s: f64,
    pub prepare_s: f64,
    /// How often the plan changed.
    pub changes: u64,
    pub notes: Vec<String>,
}

/// Predicted seconds of products on GPUs that are not open yet.
struct ExpectedGpu {
    /// Seconds of a product on the GPUs alone.
    product_s: f64,
    /// Seconds of a product that the CPU and the GPUs share, where that may pay.
    shared_s: Option<f64>,
    /// Seconds of the set-up, without opening the GPUs.
    set_up_s: f64,
}

/// The best shares so far: the rates that gave them and the seconds of a product.
struct BestShares {
    rates: ResolvedDevices,
    seconds: f64,
}

impl<'a, T: Kernels> Adaptation<'a, T> {
    pub fn new(builder: ProductBuilder<'a, T>) -> Result<Self> {
        let ProductBuilder { runtime, matrix, k, options, resolved, features, plan, ranks } = builder;
        let start = Instant::now();
        let is_auto =
            plan.is_none() && resolved.is_none() && !options.fixed && *runtime.devices() == Devices::Auto;
        let (all, fingerprint) = {
            let view = matrix.view();
            let work = Spmm::new(&view, k)?.with_features(features);
            let rows = ChunkRows::Rows { begin: 0, end: view.rows() };
            runtime.pool().install(|| (Features::of(&work, &rows), work.fingerprint()))
        };
        let learns = runtime.refines() && is_auto && !options.fixes_shares();
        let key = learns.then(|| ProductKey {
            matrix: fingerprint.clone(),
            k: k as u64,
            dtype: T::DTYPE,
            threads: runtime.pool().threads(),
            request: format!(
                "{} {:?}",
                runtime.devices().name(),
                ProductOptions { uses: None, ..options.clone() }
            ),
            program: env!("CARGO_PKG_VERSION").into(),
        });
        let (rates, cpu_rates) = match (&plan, resolved) {
            (Some(_), _) => (None, None),
            (None, Some(resolved)) => (Some(resolved), None),
            (None, None) if is_auto => (None, Some(runtime.resolve_cpu(&options)?)),
            (None, None) => (Some(runtime.resolve(&options)?), None),
        };
        let choice = ProcessorChoice::new(options.uses);
        let bound = options.bound;
        let first_plan = match (&plan, rates.as_ref().or(cpu_rates.as_ref())) {
            (Some(plan), _) => {
                plan.check_fits(&fingerprint, k as u64, T::DTYPE)?;
                plan.clone()
            }
            (None, Some(rates)) => {
                let view = matrix.view();
                let work = Spmm::new(&view, k)?.with_features(Some(all)).into();
                let mut request = options.request(rates, work, choice.remaining());
                keep_unbound_staged(&mut request, bound, &options, &matrix);
                request.host_memory_bytes = host_memory_bytes(&options, &runtime);
                request.resident = runtime.layouts_of(view.content(), &[]);
                runtime.pool().install(|| make(&request))?
            }
            (None, None) => return Err(Error::Internal("a product has no devices".into())),
        };
        let mut adaptation = Self {
            runtime,
            matrix,
            k,
            options,
            features: all,
            rates,
            cpu_rates,
            shared_rates: None,
            best_shares: None,
            rounds: 0,
            considered_sharing: false,
            choice,
            prepared: Vec::new(),
            past_faults: Vec::new(),
            expected_gpu: None,
            first_plan,
            proposed: Vec::new(),
            given: plan,
            bound,
            ranks,
            times: key.map(ProductTimes::load),
            set_up_ratio: 1.0,
            plan_s: 0.0,
            prepare_s: 0.0,
            changes: 0,
            notes: Vec::new(),
        };
        let plan = adaptation.first_plan.clone();
        adaptation.propose(processors_of(&plan), plan);
        adaptation.plan_s = start.elapsed().as_secs_f64();
        Ok(adaptation)
    }

    fn propose(&mut self, processors: Processors, plan: Plan) {
        // Devices are opened before they are proposed, except where the caller named them and has no choice.
        let set_up_s = plan.set_up.total_s() - plan.set_up.open_s;
        let first_use_s = if plan.devices.len() > 1 { FIRST_USE_SECONDS } else { 0.0 };
        let remembered_s = self.times.as_ref().and_then(|times| times.seconds(processors));
        let set_up_s = self.set_up_ratio * set_up_s + first_use_s;
        self.choice.propose(Alternative::new(processors, plan.predicted_s, set_up_s, remembered_s));
        self.proposed.retain(|(of, _)| *of != processors);
        self.proposed.push((processors, plan));
    }

    /// The plan for `rates`, restricted to one kind of processors if one is given.
    fn plan_with(&self, rates: &ResolvedDevices, kind: Option<Processor>) -> Result<Plan> {
        let view = self.matrix.view();
        let request = self.request(&view, rates, kind)?;
        self.runtime.pool().install(|| make(&request))
    }

    /// The layouts of A that devices have already.
    fn layouts(&self) -> Vec<ResidentLayout> {
        let own: Vec<u64> = self.prepared.iter().flat_map(|(_, prepared)| prepared.layouts()).collect();
        self.runtime.layouts_of(self.matrix.view().content(), &own)
    }

    fn request<'w>(
        &self,
        view: &crate::matrix::CsrView<'w, T>,
        rates: &ResolvedDevices,
        kind: Option<Processor>,
    ) -> Result<PlanRequest<'w>> {
        let own_columns = self.ranks.as_ref().map(|ranks| ranks.own_columns());
        let work = Spmm::new(view, self.k)?.with_features(Some(self.features)).with_own_columns(own_columns);
        let work = work.into();
        let uses = self.choice.remaining();
        let mut request = self.options.request(rates, work, uses);
        keep_unbound_staged(&mut request, self.bound, &self.options, &self.matrix);
        request.resident = self.layouts();
        request.host_memory_bytes = host_memory_bytes(&self.options, &self.runtime);
        match kind {
            None => Ok(request),
            Some(kind) => restricted_to(&request, kind)
                .ok_or_else(|| Error::Internal("no device of that kind is in the list".into())),
        }
    }

    /// The current plan: of the last product, or the first plan before it.
    pub fn plan(&self) -> &Plan {
        self.current().map_or(&self.first_plan, PreparedProduct::plan)
    }

    /// The prepared or proposed plan with these processors.
    fn plan_of(&self, processors: Processors) -> Option<&Plan> {
        let prepared = self.prepared.iter().find(|(of, _)| *of == processors).map(|(_, one)| one.plan());
        let proposed = || self.proposed.iter().find(|(of, _)| *of == processors).map(|(_, plan)| plan);
        prepared.or_else(proposed)
    }

    /// The prepared plan of the last product.
    pub fn current(&self) -> Option<&PreparedProduct<'a, T>> {
        let current = self.choice.current()?;
        self.prepared.iter().find(|(of, _)| *of == current).map(|(_, prepared)| prepared)
    }

    /// The same, to be changed.
    pub fn current_mut(&mut self) -> Option<&mut PreparedProduct<'a, T>> {
        let current = self.choice.current()?;
        self.prepared.iter_mut().find(|(of, _)| *of == current).map(|(_, prepared)| prepared)
    }

    /// Faults of all plans before their first product, and refused registrations.
    pub fn faults(&self) -> impl Iterator<Item = &FaultReport> {
        self.past_faults.iter().chain(self.prepared.iter().flat_map(|(_, prepared)| prepared.faults()))
    }

    /// Whether X and Y are the same arrays with every product from now on, so that they may be registered.
    pub fn set_bound(&mut self, bound: bool) {
        if bound == self.bound || self.given.is_some() || self.options.transfer != Transfer::Auto {
            return;
        }
        self.bound = bound;
        self.proposed.clear();
        let choice = &mut self.choice;
        let faults = &mut self.past_faults;
        self.prepared.retain(|(processors, prepared)| {
            let keeps = prepared.plan().devices.len() == 1;
            if !keeps {
                choice.release(*processors);
                faults.extend_from_slice(prepared.faults());
            }
            keeps
        });
    }

    /// The prepared plan for the next product.
    pub fn next(&mut self) -> Result<&mut PreparedProduct<'a, T>> {
        let processors = loop {
            if self.given.is_none() {
                self.propose_more();
            }
            let none = || Error::Internal("no device of the product can be used".into());
            let next = self.choice.next().ok_or_else(none)?;
            if !self.prepared.iter().any(|(of, _)| *of == next) {
                match self.prepare(next) {
                    Ok(prepared) => self.prepared.push((next, prepared)),
                    Err(error) => {
                        self.choice.refuse(next);
                        if self.choice.next().is_none() {
                            // The next product gets this error, too, and not that there is no alternative.
                            self.choice.readmit(next);
                            return Err(error);
                        }
                        self.notes.push(format!("{} cannot be used: {}", next.name(), error.message()));
                        continue;
                    }
                }
            }
            break next;
        };
        if self.choice.current() != Some(processors) {
            self.note_change(processors);
            self.choice.change_to(processors);
            self.changes += 1;
        }
        self.release_slower(processors);
        let found = self.prepared.iter_mut().find(|(of, _)| *of == processors);
        found.map(|(_, prepared)| prepared).ok_or_else(|| Error::Internal("a prepared plan is gone".into()))
    }

    fn settings(&self) -> Settings {
        Settings {
            cpu: CpuSettings {
                k: self.k,
                threads: self.runtime.pool().threads(),
                isa: Isa::detect(),
                schedule: self.options.schedule,
            },
            memory_limit_bytes: host_memory_bytes(&self.options, &self.runtime),
            watchdog_timeout: self.options.watchdog_timeout.unwrap_or(WATCHDOG_TIMEOUT),
            check: self.options.check,
        }
    }

    /// Prepares the plan of some processors. If a layout that the planner chose does not fit in memory, plans use A as it is stored, in
    /// CSR, from now on.
    fn prepare(&mut self, processors: Processors) -> Result<PreparedProduct<'a, T>> {
        let is_free = self.given.is_none() && self.options.kernel.is_none() && self.options.format.is_none();
        match self.prepare_planned(processors) {
            Err(error @ Error::DoesNotFit { .. }) if is_free => {
                self.options.format = Some(Format::Csr);
                self.proposed.clear();
                let prepared = self.prepare_planned(processors);
                match &prepared {
                    Ok(_) => self.notes.push(format!("A stays in CSR: {}", error.message())),
                    Err(_) => self.options.format = None,
                }
                prepared.map_err(|_| error)
            }
            prepared => prepared,
        }
    }

    fn prepare_planned(&mut self, processors: Processors) -> Result<PreparedProduct<'a, T>> {
        let start = Instant::now();
        let settings = self.settings();
        let runtime = self.runtime.clone();
        let prepared = if let Some(plan) = &self.given {
            PreparedProduct::with_plan(&runtime, &self.matrix, plan.clone(), &settings)?
        } else {
            let rates = match processors {
                Processors::Cpu => self.cpu_rates.as_ref().or(self.rates.as_ref()),
                Processors::Both => self.shared_rates.as_ref().or(self.rates.as_ref()),
                Processors::Gpu => self.rates.as_ref(),
            };
            let rates =
                rates.ok_or_else(|| Error::Internal("the rates of the devices are not known".into()))?;
            let kind = match processors {
                Processors::Cpu => Some(Processor::Cpu),
                Processors::Gpu => Some(Processor::Gpu),
                Processors::Both => None,
            };
            let view = self.matrix.view();
            let request = self.request(&view, rates, kind)?;
            let known = self.proposed.iter().find(|(of, _)| *of == processors).map(|(_, plan)| plan.clone());
            let known = known.filter(|plan| !request.misses_layouts(plan));
            PreparedProduct::of_request(&runtime, &self.matrix, request, known, &settings)?
        };
        self.proposed.retain(|(of, _)| *of != processors);
        let seconds = start.elapsed().as_secs_f64();
        self.plan_s += prepared.plan_s();
        self.prepare_s += seconds - prepared.plan_s();
        let set_up = &prepared.plan().set_up;
        let predicted_s = set_up.total_s() - set_up.open_s;
        if prepared.plan().devices.len() > 1 && predicted_s > 1e-3 {
            self.set_up_ratio = ((seconds - prepared.plan_s()) / predicted_s).clamp(0.3, 5.0);
        }
        Ok(prepared)
    }

    /// Proposes alternatives as devices become known and as times are measured.
    fn propose_more(&mut self) {
        if self.cpu_rates.is_some() && self.rates.is_none() {
            self.probe_cards();
        }
        if self.options.fixes_shares() {
            return;
        }
        self.propose_sharing();
    }

    /// Records a product, and adjusts the shares of devices where that pays.
    pub fn record(&mut self, report: &RunReport) {
        if report.cancelled || !report.faults.is_empty() {
            return;
        }
        // Threads that open GPUs interrupt those of the CPU.
        if self.cpu_rates.is_some() && self.rates.is_none() && self.runtime.is_probing() {
            self.choice.record_untimed(report.seconds());
            return;
        }
        self.choice.record(report.seconds());
        let shared = self.choice.current() == Some(Processors::Both) && self.rounds < MAX_ROUNDS;
        if shared && !self.options.fixes_shares() && self.given.is_none() {
            let measured = self.choice.alternative(Processors::Both);
            if let Some(seconds) = measured.and_then(Alternative::steady_state_s) {
                self.adjust_shares(report, seconds);
            }
        }
    }

    fn note_change(&mut self, to: Processors) {
        let (Some(from), Some(next)) = (self.choice.current(), self.choice.alternative(to)) else { return };
        let Some(before) = self.choice.alternative(from) else { return };
        self.notes.push(format!(
            "after {} the plan changed from {} to {}: {} per product instead of {}",
            Counted(self.choice.done(), "product"),
            from.name(),
            to.name(),
            Seconds(next.product_s()),
            Seconds(before.product_s())
        ));
    }

    /// Frees the memory of plans that measured slower than the current one.
    fn release_slower(&mut self, current: Processors) {
        if self.prepared.len() < 2 {
            return;
        }
        let Some(current_s) = self.choice.alternative(current).and_then(Alternative::steady_state_s) else {
            return;
        };
        let choice = &mut self.choice;
        let faults = &mut self.past_faults;
        self.prepared.retain(|(processors, prepared)| {
            let slower = choice
                .alternative(*processors)
                .is_some_and(|one| *processors != current && one.product_s() > 1.05 * current_s);
            if slower {
                choice.release(*processors);
                faults.extend_from_slice(prepared.faults());
            }
            !slower
        });
    }

    /// Stores what was learned about the matrix.
    pub fn remember(&mut self) {
        // Without GPUs there was nothing to decide.
        let Some(times) = self.times.as_mut().filter(|_| self.rates.is_some()) else { return };
        if times.update(&self.choice) {
            times.save();
        }
    }
}

impl<T: Kernels> Drop for Adaptation<'_, T> {
    fn drop(&mut self) {
        self.remember();
    }
}

/// Without [`bind`](crate::runtime::product::product::Product::bind) X and Y are staged, and so is a borrowed A: each is the program's own again after a call.
fn keep_unbound_staged<T: Kernels>(
    request: &mut PlanRequest<'_>,
    bound: bool,
    options: &ProductOptions,
    matrix: &Matrix<'_, T>,
) {
    request.vectors_change = !bound && options.transfer == Transfer::Auto;
    if request.vectors_change && matches!(matrix, Matrix::Borrowed(_)) {
        let links = request.devices.iter_mut().filter_map(|device| device.profile.link.as_mut());
        links.for_each(|link| link.register_s_per_gb = None);
    }
}

/// The processors that may compute in a plan.
fn processors_of(plan: &Plan) -> Processors {
    let has = |processor| {
        plan.devices.iter().any(|device| device.computes && device.profile.processor == processor)
    };
    match (has(Processor::Cpu), has(Processor::Gpu)) {
        (true, true) => Processors::Both,
        (false, true) => Processors::Gpu,
        _ => Processors::Cpu,
    }
}

/// The most memory of converted copies of A on the host.
fn host_memory_bytes(options: &ProductOptions, runtime: &Runtime) -> u64 {
    options.host_memory_limit_bytes.unwrap_or_else(|| runtime.machine().memory_limit_bytes())
}
