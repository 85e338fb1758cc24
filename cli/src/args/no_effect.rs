//! Flags that were typed and have no effect on the devices, matrix or mode at hand. Each is noted once.

use super::common::CommonArguments;
use super::matrix_source::MatrixSource;
use super::measure::CalibrateArguments;
use super::options::{Devices, XSource};
use super::tools::{ConvertArguments, InspectArguments};
use super::work::{PlanArguments, RunArguments};
use rowloom::internal::adapt::ResolvedDevices;
use rowloom::internal::cost::Profile;
use rowloom::internal::kernel::Processor;
use rowloom::internal::plan::{DeviceSpec, Plan};

/// The devices of a product, as far as flags depend on them.
#[derive(Debug, Clone, Copy)]
pub struct DeviceKinds {
    /// Whether the CPU may compute.
    pub has_cpu: bool,
    /// Whether a device with its own memory may compute.
    pub has_gpu: bool,
    /// Whether the devices are simulated.
    pub simulated: bool,
    /// Whether they are ranks that share this host, whose rates are those of its CPU.
    pub are_ranks: bool,
    /// Whether a cost model of this machine is used.
    pub has_model: bool,
}

impl DeviceKinds {
    /// Of devices that are not planned for with a cost model of this machine.
    pub fn of(devices: &[DeviceSpec]) -> Self {
        Self {
            has_cpu: devices.iter().any(|device| device.profile.link.is_none()),
            has_gpu: devices.iter().any(|device| device.profile.link.is_some()),
            simulated: devices.iter().any(|device| device.name.starts_with("sim:")),
            are_ranks: devices.iter().any(|device| is_rank(&device.profile)),
            has_model: false,
        }
    }

    /// Of the devices that a product may use.
    pub fn of_resolved(resolved: &ResolvedDevices) -> Self {
        Self { has_model: resolved.has_model, ..Self::of(&resolved.devices) }
    }

    /// Of a saved plan's devices.
    pub fn of_plan(plan: &Plan) -> Self {
        Self {
            has_cpu: plan.devices.iter().any(|device| device.profile.link.is_none()),
            has_gpu: plan.devices.iter().any(|device| device.profile.link.is_some()),
            simulated: plan.devices.iter().any(|device| device.name.starts_with("sim:")),
            are_ranks: plan.devices.iter().any(|device| is_rank(&device.profile)),
            has_model: false,
        }
    }
}

/// Whether a device is the share of a rank of a CPU.
fn is_rank(profile: &Profile) -> bool {
    profile.processor == Processor::Cpu && profile.link.is_some()
}

/// A flag's name, whether it has no effect, and why.
type Rule = (&'static str, bool, &'static str);

fn notes(common: &CommonArguments, rules: &[Rule]) -> Vec<String> {
    let idle = rules.iter().filter(|(name, is_idle, _)| *is_idle && common.is_typed(name));
    let dashes = |name: &str| if name == "k" { "-" } else { "--" };
    idle.map(|(name, _, why)| format!("{}{} has no effect: {why}", dashes(name), name.replace('_', "-")))
        .collect()
}

/// Rules that `run` and `plan` share.
fn planning(devices: DeviceKinds, remembers: bool) -> Vec<Rule> {
    let DeviceKinds { has_cpu, has_gpu, simulated, are_ranks, has_model } = devices;
    let other_machine = simulated && !are_ranks;
    vec![
        ("mode", !has_gpu, "the CPU reads A in place"),
        ("transfer", !has_gpu, "nothing is copied to a GPU"),
        ("check", simulated, "simulated devices compute no Y that could be checked"),
        ("mem_limit", !has_gpu, "it limits the memory of GPUs"),
        ("cpu_share", !(has_cpu && has_gpu), "it divides the product between the CPU and GPUs"),
        ("model", other_machine, "a simulated machine has its own cost model"),
        ("tune", other_machine, "no kernel can be timed on a simulated machine"),
        ("no_refine", other_machine || !(has_model || remembers), "no cost model of this machine is used"),
        ("threads", other_machine || are_ranks && has_model, "a simulated machine has its own cores"),
    ]
}

/// Notes on the flags of `run`.
pub fn of_run(arguments: &RunArguments, devices: DeviceKinds) -> Vec<String> {
    // `auto` remembers the times of products where it can choose between processors.
    let remembers = arguments.planning.devices == Devices::Auto && devices.has_gpu;
    let mut rules = planning(devices, remembers);
    let (reads_matrix, simulated) = (is_file(&arguments.matrix), devices.simulated);
    let random_x = arguments.x == XSource::Random && !simulated;
    let reads_x = matches!(arguments.x, XSource::File(_));
    rules.extend([
        ("schedule", simulated || !devices.has_cpu, "it divides the rows between threads of this CPU"),
        ("warmup", simulated, "simulated times do not vary"),
        ("seed", reads_matrix && !random_x, "neither the matrix nor X is random"),
        ("finite", !reads_matrix && !reads_x, "neither the matrix nor X is read from a file"),
        ("x", simulated && !reads_x, "a simulated machine does not read the values of X"),
    ]);
    notes(&arguments.common, &rules)
}

/// Notes on the flags of `gemm` and `colmean`, which read or generate matrices.
pub fn of_dense(common: &CommonArguments, devices: DeviceKinds, reads: bool, generates: bool) -> Vec<String> {
    let mut rules = planning(devices, false);
    rules.extend([
        ("warmup", devices.simulated, "simulated times do not vary"),
        ("seed", !generates, "no matrix is generated"),
        ("finite", !reads, "no matrix is read from a file"),
    ]);
    notes(common, &rules)
}

/// Notes on the flags of `plan`.
pub fn of_plan(arguments: &PlanArguments, devices: DeviceKinds) -> Vec<String> {
    let mut rules = planning(devices, false);
    rules.retain(|(name, ..)| *name != "check");
    rules.push(("check", true, "a plan computes no Y"));
    rules.extend(of_matrix(is_file(&arguments.matrix)));
    notes(&arguments.common, &rules)
}

/// Notes on the flags of `plan` with the shape of dense work.
pub fn of_dense_plan(common: &CommonArguments, devices: DeviceKinds) -> Vec<String> {
    let mut rules = planning(devices, false);
    rules.retain(|(name, ..)| *name != "tune");
    let (sparse, shape) = ("it is for sparse matrices", "a shape has no values");
    rules.extend([
        ("k", true, sparse),
        ("x", true, sparse),
        ("format", true, sparse),
        ("tune", true, sparse),
    ]);
    rules.extend([("seed", true, shape), ("finite", true, shape)]);
    notes(common, &rules)
}

/// Notes on the flags of `inspect`.
pub fn of_inspect(arguments: &InspectArguments) -> Vec<String> {
    notes(&arguments.common, &of_matrix(is_file(&arguments.matrix)))
}

/// Notes on the flags of `convert`.
pub fn of_convert(arguments: &ConvertArguments) -> Vec<String> {
    notes(&arguments.common, &of_matrix(is_file(&arguments.input)))
}

/// Notes on the flags of `calibrate`.
pub fn of_calibrate(arguments: &CalibrateArguments) -> Vec<String> {
    notes(&arguments.common, &[("seed", !arguments.from.is_empty(), "--from measures nothing")])
}

fn of_matrix(is_file: bool) -> [Rule; 2] {
    [
        ("seed", is_file, "the matrix is read from a file"),
        ("finite", !is_file, "a generated matrix has finite values only"),
    ]
}

fn is_file(matrix: &std::ffi::OsStr) -> bool {
    !matches!(MatrixSource::new(matrix), MatrixSource::Generated(_))
}
