//! The devices that `--devices` names, with their profiles and the rates of the host.

use std::cell::LazyCell;
use std::path::PathBuf;

use super::args::PlanningArguments;
use super::no_effect::DeviceKinds;
use super::options::{DeviceWord, Devices};
use super::session::Session;
use crate::cost::{
    HostRates, Model, Preset, Profile, Refined, card_profile, cpu_profile, emulated_profile, host_rates,
    preset,
};
use crate::device::cuda::{card_facts, libraries};
use crate::error::Result;
use crate::plan::DeviceSpec;

/// The devices that may compute, and the memory they share.
pub struct Resolved {
    /// The devices, in the order of `--devices`.
    pub devices: Vec<DeviceSpec>,
    /// Rates of the host's memory.
    pub host: HostRates,
    /// The file of factors that runs learn; `None` where none are kept.
    pub refined: Option<PathBuf>,
    /// Whether a cost model of this machine is used.
    pub has_model: bool,
}

impl Resolved {
    /// The devices, as far as the effect of flags depends on them.
    pub fn kinds(&self) -> DeviceKinds {
        DeviceKinds { has_model: self.has_model, ..DeviceKinds::of(&self.devices) }
    }
}

/// The profiles of the devices that `--devices` names.
pub fn resolve(arguments: &PlanningArguments, session: &Session) -> Result<Resolved> {
    let cuda = arguments.devices.cuda()?;
    let threads = session.pool.threads();
    let required = arguments.devices != Devices::Auto;
    let memory_limit_bytes = arguments.mem_limit;
    let presets = simulated(&arguments.devices)?;
    let emulated = arguments.devices.emulated()?;
    let compiles = LazyCell::new(|| {
        libraries().iter().any(|library| library.name == "NVRTC" && library.found.is_some())
    });
    let mut devices = Vec::new();
    for (number, word) in arguments.devices.words().iter().enumerate() {
        let spec = |name: String, profile| DeviceSpec { name, profile, memory_limit_bytes, required };
        match word {
            DeviceWord::Cpu => devices.push(spec(
                word.name(),
                match presets.first() {
                    Some(machine) => machine.cpu.clone(),
                    None => cpu_profile(threads, session.memory_limit_bytes())?,
                },
            )),
            DeviceWord::Emulated { .. } => {
                let mut profile = emulated_profile()?;
                let special = emulated.iter().find(|(name, _)| *name == word.name());
                profile.memory_bytes =
                    special.map_or(profile.memory_bytes, |(_, options)| options.memory_bytes);
                devices.push(spec(word.name(), profile));
            }
            DeviceWord::Simulated { machine } => {
                let gpus = preset(machine)?.gpus;
                devices.extend(
                    gpus.into_iter()
                        .enumerate()
                        .map(|(index, gpu)| spec(format!("sim:{machine}/{index}"), gpu)),
                );
            }
            DeviceWord::Cuda { .. } => {
                for device in cuda.iter().filter(|device| device.word == number) {
                    let sharing = cuda.iter().filter(|other| other.card == device.card).count();
                    let facts = card_facts(device.card, sharing as u64);
                    let facts = facts.map_err(|fault| fault.into_error(&device.name))?;
                    let profile = Profile { compiles: *compiles, ..card_profile(&facts)? };
                    devices.push(spec(device.name.clone(), profile));
                }
            }
        }
    }
    let known = Model::named(&arguments.model)?.filter(|_| presets.is_empty());
    let (model_path, model) = known.map_or_else(Default::default, |(path, model)| (Some(path), model));
    let refined = model_path.as_deref().filter(|_| !arguments.no_refine).map(Refined::beside);
    for device in &mut devices {
        model.apply(&mut device.profile, threads as u32);
        if let Some(path) = &refined {
            Refined::load(path).apply(&mut device.profile, threads as u32);
        }
    }
    let measured = model.host.filter(|host| host.cores as usize == threads);
    let host = match presets.split_first() {
        None => measured.map_or_else(|| host_rates(threads), Ok)?,
        // The hosts of all simulated machines are added up.
        Some((first, others)) => others.iter().fold(first.host.clone(), |sum, machine| HostRates {
            cores: sum.cores + machine.host.cores,
            memory_gb_per_s: sum.memory_gb_per_s + machine.host.memory_gb_per_s,
            copy_gb_per_s: sum.copy_gb_per_s + machine.host.copy_gb_per_s,
        }),
    };
    for link in devices.iter_mut().filter_map(|device: &mut DeviceSpec| device.profile.link.as_mut()) {
        if arguments.transfer == "staged" {
            link.register_s_per_gb = None;
        }
    }
    Ok(Resolved { devices, host, refined, has_model: model_path.is_some() })
}

fn simulated(devices: &Devices) -> Result<Vec<Preset>> {
    let machines = devices.words().iter().filter_map(|word| match word {
        DeviceWord::Simulated { machine } => Some(preset(machine)),
        _ => None,
    });
    machines.collect()
}
