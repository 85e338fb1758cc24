//! Lists of devices in words: `auto`, or names such as `cpu,cuda:0`.

use std::str::FromStr;

use crate::cost::{Preset, preset_names, preset_on};
use crate::device::EmulatedOptions;
use crate::device::cuda::{self, CudaOptions};
use crate::error::{Advice, Error, Result};
use crate::suggest::{did_you_mean, nearest};

/// What helps where the driver cannot be used.
const WITHOUT_DRIVER: [Advice; 1] =
    [if cfg!(feature = "cuda") { Advice::CpuOnly } else { Advice::CudaBuild }];

/// The devices to compute on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// The CPU and all CUDA GPUs of this machine.
    Auto,
    /// These devices.
    List(Vec<DeviceWord>),
}

/// One name in a list of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceWord {
    /// The CPU.
    Cpu,
    /// A device on one CUDA GPU, or on each of them.
    Cuda {
        /// The GPU's number; none for all GPUs.
        card: Option<u32>,
        /// The options behind the question mark, `key=value` pairs.
        options: Vec<(String, String)>,
    },
    /// An emulated GPU.
    Emulated {
        /// Its number.
        index: u32,
        /// The options behind the question mark, `key=value` pairs.
        options: Vec<(String, String)>,
    },
    /// A simulated machine or cluster.
    Simulated {
        /// Its name.
        machine: String,
        /// The network of a cluster, where it is named: a name or the path of a TOML file.
        network: Option<String>,
    },
}

impl DeviceWord {
    /// The name, without options.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu => "cpu".into(),
            Self::Cuda { card: None, .. } => "cuda".into(),
            Self::Cuda { card: Some(card), .. } => format!("cuda:{card}"),
            Self::Emulated { index, .. } => format!("emu:{index}"),
            Self::Simulated { machine, .. } => format!("sim:{machine}"),
        }
    }

    /// The machine of a simulated device; `None` for other devices, and where the file of its network changed meanwhile.
    pub fn preset(&self) -> Option<Preset> {
        let Self::Simulated { machine, network } = self else { return None };
        preset_on(machine, network.as_deref()).ok()
    }

    fn with_options(&self) -> String {
        if let Self::Simulated { network: Some(network), .. } = self {
            return format!("{}?network={network}", self.name());
        }
        let (Self::Emulated { options, .. } | Self::Cuda { options, .. }) = self else { return self.name() };
        let pairs: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let question = if pairs.is_empty() { "" } else { "?" };
        format!("{}{question}{}", self.name(), pairs.join("&"))
    }
}

/// A device on a CUDA GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaWord {
    /// The index of its name in the list.
    pub word: usize,
    /// Its name.
    pub name: String,
    /// The GPU's number.
    pub card: u32,
    /// Its options.
    pub options: CudaOptions,
}

impl Devices {
    /// The text that was typed.
    pub fn name(&self) -> String {
        match self {
            Self::Auto => "auto".into(),
            Self::List(words) => words.iter().map(DeviceWord::with_options).collect::<Vec<_>>().join(","),
        }
    }

    /// The names in the list; for `auto` the CPU and, where the driver lists any, all CUDA GPUs.
    pub fn words(&self) -> &[DeviceWord] {
        static CPU: [DeviceWord; 1] = [DeviceWord::Cpu];
        static ALL: [DeviceWord; 2] = [DeviceWord::Cpu, DeviceWord::Cuda { card: None, options: Vec::new() }];
        match self {
            Self::Auto if cuda::Driver::get().is_ok_and(|driver| driver.cards > 0) => &ALL,
            Self::Auto => &CPU,
            Self::List(words) => words,
        }
    }

    /// Whether CUDA cards are named.
    pub fn has_cuda(&self) -> bool {
        matches!(self, Self::List(words) if words.iter().any(|word| matches!(word, DeviceWord::Cuda { .. })))
    }

    /// An error for a wrong option of a device. Opens nothing.
    pub fn check_options(&self) -> Result<()> {
        let Self::List(words) = self else { return Ok(()) };
        for word in words {
            if let DeviceWord::Cuda { options, .. } = word {
                CudaOptions::parse(options)?;
            }
        }
        self.emulated().map(drop)
    }

    /// An error if a GPU in the list does not exist.
    pub fn check_known(&self) -> Result<()> {
        self.cuda().map(|_| ())
    }

    /// The devices on CUDA GPUs. Several devices on one GPU get different names.
    pub fn cuda(&self) -> Result<Vec<CudaWord>> {
        let mut devices: Vec<CudaWord> = Vec::new();
        for (word, typed) in self.words().iter().enumerate() {
            let DeviceWord::Cuda { card, options } = typed else { continue };
            let options = CudaOptions::parse(options)?;
            let missing = |reason: String| Error::device(typed.name(), reason);
            let driver = cuda::Driver::get().map_err(|reason| missing(reason).advise(WITHOUT_DRIVER))?;
            let cards = match *card {
                None => 0..driver.cards,
                Some(card) if card < driver.cards => card..card + 1,
                Some(_) => {
                    return Err(missing(match driver.cards {
                        1 => "the driver lists one GPU, cuda:0".to_string(),
                        cards => format!("the driver lists {cards} GPUs, from cuda:0 on"),
                    }));
                }
            };
            for card in cards {
                let again = devices.iter().filter(|before| before.card == card).count();
                let name = cuda::device_name(card, again);
                devices.push(CudaWord { word, name, card, options });
            }
        }
        Ok(devices)
    }

    /// The options of the emulated devices, by name.
    pub fn emulated(&self) -> Result<Vec<(String, EmulatedOptions)>> {
        let Self::List(words) = self else { return Ok(Vec::new()) };
        let special = words.iter().filter_map(|word| match word {
            DeviceWord::Emulated { options, .. } => Some((word.name(), options)),
            _ => None,
        });
        let parsed = special.map(|(name, options)| {
            let pairs: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
            Ok((name, EmulatedOptions::parse(&pairs.join("&"))?))
        });
        parsed.collect()
    }
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let words = text.split(',').map(str::parse).collect::<std::result::Result<Vec<DeviceWord>, _>>()?;
        for (index, word) in words.iter().enumerate() {
            // A CUDA GPU named twice gives two devices on it; every other name may occur once.
            let again = words[..index].iter().any(|before| before.name() == word.name());
            if again && !matches!(word, DeviceWord::Cuda { .. }) {
                return Err(format!("{} is named twice", word.name()));
            }
        }
        let simulated = |word: &DeviceWord| matches!(word, DeviceWord::Simulated { .. });
        let mixes = |word: &DeviceWord| simulated(word) || *word == DeviceWord::Cpu;
        let is_cluster = |word: &DeviceWord| word.preset().is_some_and(|preset| preset.cluster.is_some());
        if let Some(cluster) = words.iter().find(|word| is_cluster(word) && words.len() > 1) {
            return Err(format!(
                "{} is a cluster, whose GPUs compute alone; remove the other devices of the list",
                cluster.name()
            ));
        }
        if words.iter().any(simulated) && !words.iter().all(mixes) {
            return Err(
                "a simulated machine (sim:) can only be combined with cpu, which is then simulated too"
                    .into(),
            );
        }
        Ok(Self::List(words))
    }
}

impl FromStr for DeviceWord {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let unknown = || {
            let words =
                "devices are auto, cpu, cuda (all GPUs), cuda:0, emu:0 and sim:h200, or a list with commas";
            match text {
                "" => format!("a device is missing between two commas; {words}"),
                _ => format!("unknown device '{text}'{}; {words}", device_meant(text)),
            }
        };
        let number = |digits: &str| match digits.parse() {
            Ok(index) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(index),
            _ => Err(unknown()),
        };
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda { card: None, options: Vec::new() }),
            None if text == "auto" => Err("auto cannot be combined with other devices".into()),
            Some((kind @ ("cuda" | "emu"), rest)) => {
                let (index, options) = rest.split_once('?').unwrap_or((rest, ""));
                let pairs = options.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
                    let (key, value) = pair.split_once('=').ok_or_else(|| {
                        format!("'{pair}' is not an option of {text}; options are key=value, joined by &")
                    })?;
                    Ok((key.to_owned(), value.to_owned()))
                });
                let options = pairs.collect::<std::result::Result<_, String>>()?;
                let index = number(index)?;
                match kind {
                    "cuda" => Ok(Self::Cuda { card: Some(index), options }),
                    _ => Ok(Self::Emulated { index, options }),
                }
            }
            Some(("sim", rest)) => {
                let (machine, option) =
                    rest.split_once('?').map_or((rest, None), |(machine, option)| (machine, Some(option)));
                let network = match option.map(|option| option.split_once('=').unwrap_or((option, ""))) {
                    None => None,
                    Some(("network", network)) => Some(network),
                    Some((key, _)) => {
                        return Err(format!(
                            "unknown option '{key}' of sim:{machine}{}; a cluster has network=NAME or network=FILE.toml",
                            did_you_mean(key, ["network"])
                        ));
                    }
                };
                preset_on(machine, network).map_err(|error| error.to_string())?;
                Ok(Self::Simulated { machine: machine.into(), network: network.map(str::to_owned) })
            }
            _ => Err(unknown()),
        }
    }
}

/// ` (did you mean 'cuda:0'?)` for a device that does not exist, or nothing where no device is near.
fn device_meant(typed: &str) -> String {
    let (kind, rest) = typed.split_once(':').map_or((typed, None), |(kind, rest)| (kind, Some(rest)));
    if let Some(machine) = preset_names().find(|machine| kind.starts_with(machine)) {
        return format!(" (did you mean 'sim:{}'?)", if kind == machine { machine } else { typed });
    }
    let letters = kind.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = rest.unwrap_or(&kind[letters.len()..]);
    let kind = match letters {
        "gpu" | "nvidia" => Some("cuda"),
        _ => nearest(letters, ["auto", "cpu", "cuda", "emu", "sim"]),
    };
    let meant = match kind {
        None => return String::new(),
        Some("emu") => format!("emu:{}", if number.is_empty() { "0" } else { number }),
        Some("sim") => "sim:h200".into(),
        Some("cuda") if !number.is_empty() => format!("cuda:{number}"),
        Some(kind) => kind.into(),
    };
    if meant == typed { String::new() } else { format!(" (did you mean '{meant}'?)") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_device_lists_are_refused() {
        assert_eq!("cpu".parse(), Ok(Devices::List(vec![DeviceWord::Cpu])));
        for nonsense in [
            "",
            "gpu",
            "cuda:x",
            "cpu,",
            "cpu,cpu",
            "auto,cpu",
            "emu",
            "emu:",
            "emu:-1",
            "emu:+1",
            "emu:0?delay",
            "emu:0,emu:0",
            "sim:",
            "sim:h300",
            "sim:h200,cuda:0",
            "emu:0,sim:h200",
            "cpu,sim:node8x2",
            "sim:node8x2,sim:h200",
            "sim:node8x0",
            "sim:node8x129",
            "sim:node8x2?",
            "sim:node8x2?network=",
            "sim:node8x2?network=pigeon",
            "sim:node8x2?network=missing.toml",
            "sim:node8x2?speed=fast",
            "sim:h200?network=ndr400",
            "cpu:0",
            "emu:99999999999",
        ] {
            assert!(nonsense.parse::<Devices>().is_err(), "{nonsense}");
        }
    }

    #[test]
    fn an_unknown_device_suggests_the_nearest() {
        for (typed, meant) in [
            ("gpu", "cuda"),
            ("gpu:1", "cuda:1"),
            ("cuda0", "cuda:0"),
            ("cdua:3", "cuda:3"),
            ("cpu0", "cpu"),
            ("emu", "emu:0"),
            ("h200", "sim:h200"),
            ("h200x4", "sim:h200x4"),
            ("sim:h20", "sim:h200"),
            ("sim:h20x4", "sim:h200x4"),
            ("sim", "sim:h200"),
            ("sim:nod8x4", "sim:node8x4"),
            ("sim:node8x4?network=ndr40", "ndr400"),
            ("sim:node8x4?netwrok=ndr400", "network"),
        ] {
            let error = typed.parse::<Devices>().unwrap_err();
            assert!(error.contains(&format!("(did you mean '{meant}'?)")), "{error}");
        }
        assert!(!"zzzzz".parse::<Devices>().unwrap_err().contains("did you mean"));
    }

    #[test]
    fn a_wrong_option_of_a_gpu_is_a_usage_error_with_or_without_that_gpu() {
        let devices: Devices = "cuda:0?fail_launch=3".parse().unwrap();
        assert_eq!(devices.cuda().unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_missing_gpu_is_a_device_error() {
        for (words, names) in [
            ("cuda:0", &["cuda:0"][..]),
            ("cpu,cuda:0,cuda:0?illegal_address_at_launch=2", &["cuda:0", "cuda:0#2"]),
            ("cuda:12345", &[]),
        ] {
            let devices: Devices = words.parse().unwrap();
            assert_eq!(devices.name(), words);
            match (devices.cuda(), cuda::Driver::get()) {
                (Ok(found), Ok(_)) => {
                    assert_eq!(found.iter().map(|device| &device.name).collect::<Vec<_>>(), names);
                }
                (Err(error), driver) => {
                    assert!(driver.is_err() || names.is_empty());
                    assert_eq!(error.exit_code(), 4, "{words}");
                }
                (Ok(_), Err(missing)) => panic!("{words} without a driver: {missing}"),
            }
        }
    }

    #[test]
    fn lists_of_devices_keep_their_text() {
        for words in [
            "auto",
            "cpu",
            "emu:0",
            "cpu,emu:0,emu:12",
            "emu:0?seed=3&lost=7,emu:1",
            "sim:h200x4",
            "cpu,sim:node8",
            "sim:h200,sim:a100x2",
            "sim:node8x64",
            "sim:node8x2?network=hdr200",
            "emu:0,cpu",
        ] {
            let devices: Devices = words.parse().unwrap();
            assert_eq!(devices.name(), words);
            assert!(devices.check_known().is_ok());
        }
        let Ok(Devices::List(words)) = "emu:0?seed=3&lost=".parse() else { panic!("a list") };
        let options = vec![("seed".into(), "3".into()), ("lost".into(), String::new())];
        assert_eq!(words, [DeviceWord::Emulated { index: 0, options }]);
    }
}
