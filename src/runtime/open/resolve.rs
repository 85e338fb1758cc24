//! The devices of a list, with their profiles and the rates of the host.

use std::cell::LazyCell;
use std::path::PathBuf;

use super::device_list::{DeviceWord, Devices};
use super::runtime_devices::DeviceOptions;
use crate::adapt::ResolvedDevices;
use crate::cost::{
    CardFacts, HostRates, LearnedFactors, Model, Preset, Profile, SimulatedCluster, card_profile,
    cpu_profile, emulated_profile, host_rates, preset_on, rank_count, ranks_of_host,
};
use crate::device::cuda::{card_facts, nvrtc_is_installed};
use crate::error::Result;
use crate::machine::Gpu;
use crate::plan::DeviceSpec;

/// Memory that a GPU is assumed to have before the driver is started.
const LISTED_GPU_BYTES: u64 = 32 << 30;

/// What the profiles of devices depend on.
#[derive(Debug, Clone)]
pub(crate) struct Resolving<'a> {
    /// The devices.
    pub devices: &'a Devices,
    /// Threads of the pool.
    pub threads: usize,
    /// Memory of the host.
    pub host_memory_bytes: u64,
    /// Upper limit of the memory use of each device.
    pub memory_limit_bytes: Option<u64>,
    /// The cost model of this machine and its path.
    pub model: Option<&'a (PathBuf, Model)>,
    /// Whether factors that runs learn are used.
    pub refine: bool,
}

impl Resolving<'_> {
    /// The CPU alone, without a look at the CUDA driver.
    pub fn cpu(&self) -> Result<ResolvedDevices> {
        let required = *self.devices != Devices::Auto;
        let memory_limit_bytes = self.memory_limit_bytes;
        let profile = cpu_profile(self.threads, self.host_memory_bytes)?;
        self.corrected(
            vec![DeviceSpec { name: "cpu".into(), profile, memory_limit_bytes, taken_bytes: 0, required }],
            &[],
        )
    }

    /// The CPU and the GPUs that the system lists, without starting the CUDA driver: how much of their memory is free is not known.
    pub fn listed(&self, gpus: &[Gpu]) -> Result<ResolvedDevices> {
        let (required, memory_limit_bytes) = (false, self.memory_limit_bytes);
        let cpu = cpu_profile(self.threads, self.host_memory_bytes)?;
        let mut devices = vec![DeviceSpec {
            name: "cpu".into(),
            profile: cpu,
            memory_limit_bytes,
            taken_bytes: 0,
            required,
        }];
        for gpu in gpus {
            let facts = CardFacts {
                name: gpu.name.clone(),
                memory_bytes: gpu.memory_bytes.unwrap_or(LISTED_GPU_BYTES),
                memory_gb_per_s: None,
                cache_bytes: None,
            };
            let (name, profile) = (format!("cuda:{}", gpu.index), card_profile(&facts)?);
            devices.push(DeviceSpec { name, profile, memory_limit_bytes, taken_bytes: 0, required });
        }
        self.corrected(devices, &[])
    }

    /// All devices of the list. Opens the CUDA driver if cards are among them.
    pub fn all(&self) -> Result<ResolvedDevices> {
        let cuda = self.devices.cuda()?;
        let required = *self.devices != Devices::Auto;
        let memory_limit_bytes = self.memory_limit_bytes;
        let presets = self.simulated()?;
        let emulated = self.devices.emulated()?;
        let compiles = LazyCell::new(nvrtc_is_installed);
        let mut devices = Vec::new();
        for (number, word) in self.devices.words().iter().enumerate() {
            let spec = |name: String, profile| DeviceSpec {
                name,
                profile,
                memory_limit_bytes,
                taken_bytes: 0,
                required,
            };
            match word {
                DeviceWord::Cpu => devices.push(spec(
                    word.name(),
                    match presets.first() {
                        Some(machine) => machine.cpu.clone(),
                        None => cpu_profile(self.threads, self.host_memory_bytes)?,
                    },
                )),
                DeviceWord::Emulated { .. } => {
                    let mut profile = emulated_profile()?;
                    let special = emulated.iter().find(|(name, _)| *name == word.name());
                    profile.memory_bytes =
                        special.map_or(profile.memory_bytes, |(_, options)| options.memory_bytes);
                    devices.push(spec(word.name(), profile));
                }
                DeviceWord::Simulated { machine, .. } => {
                    let of_word = presets.iter().filter(|preset| preset.name == *machine);
                    for Preset { gpus, cluster, .. } in of_word {
                        let named = |(index, gpu): (usize, &Profile)| {
                            let of_machine = match cluster {
                                Some(SimulatedCluster { gpus_per_node: per_node @ 1.., .. }) => {
                                    let per_node = *per_node as usize;
                                    format!("{}.{}", index / per_node, index % per_node)
                                }
                                _ => format!("{index}"),
                            };
                            spec(format!("sim:{machine}/{of_machine}"), gpu.clone())
                        };
                        devices.extend(gpus.iter().enumerate().map(named));
                    }
                }
                DeviceWord::Cuda { .. } => {
                    for device in cuda.iter().filter(|device| device.word == number) {
                        let sharing = cuda.iter().filter(|other| other.card == device.card).count();
                        let facts = card_facts(device.card, sharing as u64, device.options.primary_context);
                        let facts = facts.map_err(|fault| fault.into_error(&device.name))?;
                        let profile = Profile { compiles: *compiles, ..card_profile(&facts)? };
                        devices.push(spec(device.name.clone(), profile));
                    }
                }
            }
        }
        self.corrected(devices, &presets)
    }

    /// The devices with the cost model of this machine and the factors that runs learned.
    fn corrected(&self, mut devices: Vec<DeviceSpec>, presets: &[Preset]) -> Result<ResolvedDevices> {
        let known = self.model.filter(|_| presets.is_empty());
        let factors_path = known.filter(|_| self.refine).map(|(path, _)| LearnedFactors::beside(path));
        for device in &mut devices {
            if let Some((_, model)) = known {
                model.apply(&mut device.profile, self.threads as u32);
            }
            if let Some(path) = &factors_path {
                LearnedFactors::load(path).apply(&mut device.profile, self.threads as u32);
            }
        }
        let measured = known.and_then(|(_, model)| model.host.clone());
        let measured = measured.filter(|host| host.cores as usize == self.threads);
        let host = match presets.split_first() {
            None => measured.map_or_else(|| host_rates(self.threads), Ok)?,
            // The hosts of all simulated machines are added up.
            Some((first, others)) => others.iter().fold(first.host.clone(), |sum, machine| HostRates {
                cores: sum.cores + machine.host.cores,
                memory_gb_per_s: sum.memory_gb_per_s + machine.host.memory_gb_per_s,
                copy_gb_per_s: sum.copy_gb_per_s + machine.host.copy_gb_per_s,
            }),
        };
        let cluster = presets.iter().find_map(|machine| machine.cluster.clone());
        // The rates of ranks are those of the modelled host.
        let are_ranks = cluster.as_ref().is_some_and(SimulatedCluster::has_cpu_ranks);
        let has_model = known.is_some() || are_ranks && self.model.is_some();
        Ok(ResolvedDevices { devices, host, cluster, factors_path, has_model })
    }

    /// The simulated machines of the list.
    fn simulated(&self) -> Result<Vec<Preset>> {
        let Devices::List(words) = self.devices else { return Ok(Vec::new()) };
        let machines = words.iter().filter_map(|word| match word {
            DeviceWord::Simulated { machine, network } => Some((machine, network.as_deref())),
            _ => None,
        });
        let preset = |(machine, network): (&String, _)| match rank_count(machine) {
            None => preset_on(machine, network),
            Some(ranks) => {
                let ResolvedDevices { devices, host, .. } = self.modelled_host().cpu()?;
                let cpu = devices.first().map_or_else(
                    || cpu_profile(self.threads, self.host_memory_bytes),
                    |cpu| Ok(cpu.profile.clone()),
                )?;
                ranks_of_host(machine, ranks?, &cpu, &host, network)
            }
        };
        machines.map(preset).collect()
    }

    /// The same with the cores of the host that the cost model describes; those of this machine without one.
    fn modelled_host(&self) -> Self {
        let modelled = self.model.and_then(|(_, model)| model.host.as_ref());
        Self { threads: modelled.map_or(self.threads, |host| host.cores as usize), ..self.clone() }
    }
}

/// The options of the devices of a list.
pub(crate) fn device_options(devices: &Devices) -> Result<DeviceOptions> {
    let cuda = devices.cuda()?.into_iter().map(|device| (device.name, device.options)).collect();
    Ok(DeviceOptions { emulated: devices.emulated()?, cuda })
}
