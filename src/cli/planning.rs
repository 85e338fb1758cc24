//! The plan request of `plan`, `run` and `study`: the planning flags, resolved on this machine or on a simulated one.

use std::path::PathBuf;

use super::args::PlanningArguments;
use super::console::Console;
use super::no_effect::DeviceKinds;
use super::options::{DeviceWord, Devices, FormatChoice};
use super::resolve::{Resolved, resolve};
use super::session::Session;
use super::tune::tune;
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::cuda::{CudaKernel, Variant};
use crate::kernel::{Format, KernelId};
use crate::matrix::CsrView;
use crate::plan::{Mode, PlanRequest};
use crate::work::Work;

/// A request, with the notes and files that belong to it.
pub struct Requested<'a> {
    /// The request.
    pub request: PlanRequest<'a>,
    /// The file of factors that runs learn; `None` where none are kept.
    pub refined: Option<PathBuf>,
    /// Notes about missing devices.
    pub notes: Vec<String>,
    /// The devices, as far as the effect of flags depends on them.
    pub kinds: DeviceKinds,
}

/// Makes the request for `products` products of `matrix`; the same flags give the same request in every command. Warm-up products do
/// not count: the plan is for the products that the user asked for. `console` shows the progress of `--tune`.
pub fn plan_request<'a, T: Kernels>(
    arguments: &PlanningArguments,
    session: &Session,
    console: Option<&Console>,
    matrix: CsrView<'a, T>,
    work: Work<'a>,
    products: u32,
) -> Result<Requested<'a>> {
    let mut resolved = resolve(arguments, session)?;
    let (notes, kinds) = (notes(arguments, &resolved), resolved.kinds());
    let refined = resolved.refined.take();
    if arguments.tune && !is_simulated(&arguments.devices) {
        tune(&arguments.devices, session, console, matrix, work.k(), &mut resolved.devices)?;
    }
    let request = request(arguments, resolved, work, u64::from(products))?;
    Ok(Requested { request, refined, notes, kinds })
}

/// Whether a simulated machine is among the devices.
pub fn is_simulated(devices: &Devices) -> bool {
    devices.words().iter().any(|word| matches!(word, DeviceWord::Simulated { .. }))
}

/// Notes on devices that `auto` looked for and that are not there.
fn notes(arguments: &PlanningArguments, resolved: &Resolved) -> Vec<String> {
    let gpus = resolved.devices.iter().filter(|device| device.profile.link.is_some()).count();
    let mut notes = Vec::new();
    if arguments.devices == Devices::Auto && gpus == 0 {
        notes.push("no GPU can be used; the CPU computes everything (`rowloom devices` says why)".into());
    }
    notes
}

/// The request from resolved devices.
fn request<'a>(
    arguments: &PlanningArguments,
    resolved: Resolved,
    work: Work<'a>,
    repeat: u64,
) -> Result<PlanRequest<'a>> {
    let (kernel, variant) = kernel(&arguments.kernel)?;
    Ok(PlanRequest {
        work,
        devices: resolved.devices,
        host: resolved.host,
        mode: mode(&arguments.mode),
        kernel,
        variant,
        format: match arguments.format {
            FormatChoice::Auto => None,
            FormatChoice::Csr => Some(Format::Csr),
            FormatChoice::Ell => Some(Format::EllPadded),
            FormatChoice::Sell => Some(Format::Sell),
        },
        chunks: arguments.chunks.map(|chunks| chunks as usize),
        chunk_bytes: arguments.chunk_bytes,
        cpu_share: arguments.cpu_share,
        repeat,
        always_register: arguments.transfer == "registered",
        reproducible: arguments.reproducible,
    })
}

/// The kernel of that name and its variant, where the name has one; `None` for auto.
pub fn kernel(name: &str) -> Result<(Option<KernelId>, Option<Variant>)> {
    match CudaKernel::by_name(name) {
        _ if name == "auto" => Ok((None, None)),
        Some((kernel, variant)) => Ok((Some(kernel), Some(variant))),
        None => Ok((Some(KernelId::by_name(name)?), None)),
    }
}

fn mode(name: &str) -> Option<Mode> {
    [Mode::Resident, Mode::Oneshot, Mode::Stream].into_iter().find(|mode| mode.name() == name)
}
