//! The flags of `plan`, `run` and `study` in the words of the runtime: devices, options of a product, and the request for its plan.

use super::tune::{Tuning, correct_by_predictions};
use crate::args::no_effect::DeviceKinds;
use crate::args::options::{DeviceWord, Devices, FormatChoice};
use crate::args::{ExecutionArguments, PlanningArguments};
use crate::console::Console;
use crate::operands::session::Session;
use rowloom::internal::adapt::ResolvedDevices;
use rowloom::internal::cost::SimulatedCluster;
use rowloom::internal::error::Result;
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::{Format, KernelId, KindOfWork};
use rowloom::internal::matrix::CsrView;
use rowloom::internal::plan::{Mode, PlanRequest};
use rowloom::internal::runtime::{Check, ProductOptions, Runtime, Transfer};
use rowloom::internal::trace::Clock;
use rowloom::internal::work::Work;

/// A request, with the notes and files that belong to it.
pub struct Requested<'a> {
    /// The request.
    pub request: PlanRequest<'a>,
    /// Notes about missing devices.
    pub notes: Vec<String>,
    /// The devices, as far as the effect of flags depends on them.
    pub kinds: DeviceKinds,
}

/// The runtime on the devices of the flags, with the threads of the session.
pub fn runtime(arguments: &ExecutionArguments, session: &Session, clock: Clock) -> Result<Runtime> {
    runtime_on(arguments.devices.name(), arguments, session, clock)
}

fn runtime_on(
    devices: String,
    arguments: &ExecutionArguments,
    session: &Session,
    clock: Clock,
) -> Result<Runtime> {
    Runtime::builder()
        .devices(devices)
        .model(&arguments.model)
        .refine(!arguments.no_refine)
        .clock(clock)
        .pool(session.machine.clone(), session.pool.clone())
        .open()
}

/// The options of a product of which `products` are computed. Warm-up products do not count: the plan is for the products that the
/// user asked for.
pub fn options(arguments: &PlanningArguments, products: u32) -> Result<ProductOptions> {
    let (kernel, variant) = ProductOptions::kernel_named(&arguments.kernel)?;
    Ok(ProductOptions {
        kernel,
        variant,
        format: match arguments.format {
            FormatChoice::Auto => None,
            FormatChoice::Csr => Some(Format::Csr),
            FormatChoice::Ell => Some(Format::EllPadded),
            FormatChoice::Sell => Some(Format::Sell),
        },
        ..execution_options(arguments, products)
    })
}

/// The kernel of dense work that `name` names; none for `auto`.
pub fn dense_kernel(work: KindOfWork, name: &str) -> Result<Option<KernelId>> {
    if name == "auto" { Ok(None) } else { work.kernel(name).map(Some) }
}

/// The options that all kinds of work have, for work that is done `times` times.
pub fn execution_options(arguments: &ExecutionArguments, times: u32) -> ProductOptions {
    ProductOptions {
        // The parser accepts no other names.
        check: Check::named(&arguments.check).unwrap_or_default(),
        uses: Some(u64::from(times)),
        mode: [Mode::Resident, Mode::Oneshot, Mode::Stream]
            .into_iter()
            .find(|mode| mode.name() == arguments.mode),
        chunks: arguments.chunks.map(|chunks| chunks as usize),
        chunk_bytes: arguments.chunk_bytes,
        cpu_share: arguments.cpu_share,
        transfer: match arguments.transfer.as_str() {
            "staged" => Transfer::Staged,
            "registered" => Transfer::Registered,
            _ => Transfer::Auto,
        },
        memory_limit_bytes: arguments.mem_limit,
        reproducible: arguments.reproducible,
        bound: true,
        ..ProductOptions::default()
    }
}

/// The devices of the flags, with `--tune` applied. `console` shows its progress.
pub fn resolve<T: Kernels>(
    arguments: &PlanningArguments,
    runtime: &Runtime,
    session: &Session,
    console: Option<&Console>,
    matrix: CsrView<'_, T>,
    k: usize,
) -> Result<ResolvedDevices> {
    let mut resolved = runtime.resolve(&options(arguments, 1)?)?;
    if resolved.cluster.as_ref().is_some_and(SimulatedCluster::has_cpu_ranks) {
        // The kernels are timed, or predicted, on all cores of this host, of which each rank has its share.
        let runtime = runtime_on("cpu".into(), arguments, session, Clock::start())?;
        let mut host = runtime.resolve(&options(arguments, 1)?)?.devices;
        match arguments.tune {
            true => Tuning { runtime: &runtime, session, console }.correct(matrix, k, &mut host, true)?,
            false => correct_by_predictions(session, matrix, k, &mut host)?,
        }
        let corrections = host.into_iter().next().map(|cpu| cpu.profile.corrections).unwrap_or_default();
        resolved.devices.iter_mut().for_each(|rank| rank.profile.corrections.clone_from(&corrections));
    } else if arguments.tune && !is_simulated(&arguments.devices) {
        Tuning { runtime, session, console }.correct(matrix, k, &mut resolved.devices, false)?;
    }
    Ok(resolved)
}

/// Makes the request for `products` products of `matrix`; the same flags give the same request in every command.
pub fn plan_request<'a, T: Kernels>(
    arguments: &PlanningArguments,
    session: &Session,
    console: Option<&Console>,
    matrix: CsrView<'a, T>,
    work: Work<'a>,
    products: u32,
) -> Result<Requested<'a>> {
    let runtime = runtime(arguments, session, Clock::start())?;
    let resolved = resolve(arguments, &runtime, session, console, matrix, work.k())?;
    let request = options(arguments, products)?.request(&resolved, work, u64::from(products));
    let (notes, kinds) = (notes(arguments, &resolved), DeviceKinds::of_resolved(&resolved));
    Ok(Requested { request, notes, kinds })
}

/// Whether a simulated machine is among the devices.
pub fn is_simulated(devices: &Devices) -> bool {
    let Devices::List(words) = devices else { return false };
    words.iter().any(|word| matches!(word, DeviceWord::Simulated { .. }))
}

/// Notes on devices that `auto` looked for and that are not there.
pub fn notes(arguments: &ExecutionArguments, resolved: &ResolvedDevices) -> Vec<String> {
    let gpus = resolved.devices.iter().filter(|device| device.profile.link.is_some()).count();
    let mut notes = Vec::new();
    if arguments.devices == Devices::Auto && gpus == 0 {
        notes.push("no GPU can be used; the CPU computes everything (`rowloom devices` says why)".into());
    }
    notes
}
