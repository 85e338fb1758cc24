//! What the flags of `run` and `plan` mean.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use crate::cost::preset;
use crate::device::EmulatedOptions;
use crate::device::cuda::{self, CudaOptions};
use crate::error::{Error, Result};

/// Where to compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// On whatever this machine has.
    Auto,
    /// On these devices.
    List(Vec<DeviceWord>),
}

/// One word of a list of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceWord {
    /// The CPU's cores.
    Cpu,
    /// A device on a CUDA card, or on each of them.
    Cuda {
        /// The card's number; none for all of them.
        card: Option<u32>,
        /// What was typed behind the question mark, `key=value` pairs.
        options: Vec<(String, String)>,
    },
    /// An emulated GPU.
    Emulated {
        /// Its number.
        index: u32,
        /// What was typed behind the question mark, `key=value` pairs.
        options: Vec<(String, String)>,
    },
    /// A machine that is simulated.
    Simulated {
        /// Its name.
        machine: String,
    },
}

impl DeviceWord {
    /// As typed, without options.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu => "cpu".into(),
            Self::Cuda { card: None, .. } => "cuda".into(),
            Self::Cuda { card: Some(card), .. } => format!("cuda:{card}"),
            Self::Emulated { index, .. } => format!("emu:{index}"),
            Self::Simulated { machine } => format!("sim:{machine}"),
        }
    }

    fn with_options(&self) -> String {
        let (Self::Emulated { options, .. } | Self::Cuda { options, .. }) = self else { return self.name() };
        let pairs: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let question = if pairs.is_empty() { "" } else { "?" };
        format!("{}{question}{}", self.name(), pairs.join("&"))
    }
}

/// A device on a CUDA card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaWord {
    /// The number of the word that asks for it.
    pub word: usize,
    /// Its name.
    pub name: String,
    /// The number of the card.
    pub card: u32,
    /// What is special about it.
    pub options: CudaOptions,
}

impl Devices {
    /// As typed.
    pub fn name(&self) -> String {
        match self {
            Self::Auto => "auto".into(),
            Self::List(words) => words.iter().map(DeviceWord::with_options).collect::<Vec<_>>().join(","),
        }
    }

    /// The words; for `auto` the CPU and, where there is a driver that shows some, every CUDA card.
    pub fn words(&self) -> &[DeviceWord] {
        static CPU: [DeviceWord; 1] = [DeviceWord::Cpu];
        static ALL: [DeviceWord; 2] = [DeviceWord::Cpu, DeviceWord::Cuda { card: None, options: Vec::new() }];
        match self {
            Self::Auto if cuda::Driver::get().is_ok_and(|driver| driver.cards > 0) => &ALL,
            Self::Auto => &CPU,
            Self::List(words) => words,
        }
    }

    /// An error if a card is asked for that is not there.
    pub fn check_known(&self) -> Result<()> {
        self.cuda().map(|_| ())
    }

    /// The devices on CUDA cards among them, each with the number of its word. Several on one card have names of their
    /// own.
    pub fn cuda(&self) -> Result<Vec<CudaWord>> {
        let mut devices: Vec<CudaWord> = Vec::new();
        for (word, typed) in self.words().iter().enumerate() {
            let DeviceWord::Cuda { card, options } = typed else { continue };
            let options = CudaOptions::parse(options)?;
            let missing = |reason| Error::Device { device: typed.name(), reason };
            let driver = cuda::Driver::get().map_err(missing)?;
            let cards = match *card {
                None => 0..driver.cards,
                Some(card) if card < driver.cards => card..card + 1,
                Some(_) => {
                    return Err(missing(format!("the driver shows {} cards, from cuda:0 on", driver.cards)));
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

    /// What is special about the emulated devices among them, by name.
    pub fn emulated(&self) -> Result<Vec<(String, EmulatedOptions)>> {
        let special = self.words().iter().filter_map(|word| match word {
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
            // Naming a CUDA device twice gives two devices on one card; nothing else can be had twice.
            let again = words[..index].iter().any(|before| before.name() == word.name());
            if again && !matches!(word, DeviceWord::Cuda { .. }) {
                return Err(format!("{} is named twice", word.name()));
            }
        }
        let simulated = |word: &DeviceWord| matches!(word, DeviceWord::Simulated { .. });
        let mixes = |word: &DeviceWord| simulated(word) || *word == DeviceWord::Cpu;
        if words.iter().any(simulated) && !words.iter().all(mixes) {
            return Err(
                "simulated machines mix with cpu, which is then simulated too, and with nothing else".into(),
            );
        }
        Ok(Self::List(words))
    }
}

impl FromStr for DeviceWord {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let unknown = || {
            let word = if text.is_empty() { "an empty word".into() } else { format!("'{text}'") };
            format!(
                "{word} is no device; there are auto, cpu, cuda, cuda:0, emu:0 and sim:h200, and lists of them"
            )
        };
        let number = |digits: &str| match digits.parse() {
            Ok(index) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(index),
            _ => Err(unknown()),
        };
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda { card: None, options: Vec::new() }),
            None if text == "auto" => Err("auto stands alone".into()),
            Some((kind @ ("cuda" | "emu"), rest)) => {
                let (index, options) = rest.split_once('?').unwrap_or((rest, ""));
                let pairs = options.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
                    let (key, value) = pair.split_once('=').ok_or_else(|| {
                        format!("'{pair}' is no option of {text}; options are key=value, with & between them")
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
            Some(("sim", machine)) => {
                preset(machine).map_err(|error| error.to_string())?;
                Ok(Self::Simulated { machine: machine.into() })
            }
            _ => Err(unknown()),
        }
    }
}

/// A number of bytes: `8GiB`, `512MiB`, `100MB`, `4096`.
pub fn parse_bytes(text: &str) -> std::result::Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("B", 1),
    ];
    let wrong = || "a number of bytes such as 8GiB, 512MiB or 4096 is needed".to_string();
    let (digits, unit) = UNITS
        .iter()
        .find_map(|(unit, bytes)| text.strip_suffix(unit).map(|digits| (digits, *bytes)))
        .unwrap_or((text, 1));
    let number: f64 = match digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        true => digits.parse().map_err(|_| wrong())?,
        false => return Err(wrong()),
    };
    let bytes = number * unit as f64;
    // Whole numbers stay exact where floating point would round them.
    let exact = digits.parse::<u64>().ok().map(|number| number.checked_mul(unit));
    match exact {
        Some(Some(bytes @ 1..)) => Ok(bytes),
        Some(_) => Err(wrong()),
        None if (1.0..u64::MAX as f64).contains(&bytes) => Ok(bytes as u64),
        None => Err(wrong()),
    }
}

/// How A is to be stored while products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FormatChoice {
    /// As the kernel wants it.
    #[default]
    Auto,
    /// Compressed sparse rows.
    Csr,
    /// Padded ELLPACK.
    Ell,
    /// Sliced ELLPACK.
    Sell,
}

/// Where X comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XSource {
    /// Uniform numbers from -1 to 1, from the seed.
    Random,
    /// All ones.
    Ones,
    /// A file.
    File(PathBuf),
}

impl XSource {
    /// As typed.
    pub fn name(&self) -> String {
        match self {
            Self::Random => "random".into(),
            Self::Ones => "ones".into(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

impl From<OsString> for XSource {
    fn from(text: OsString) -> Self {
        match text.to_str() {
            Some("random") => Self::Random,
            Some("ones") => Self::Ones,
            _ => Self::File(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_name_are_told_from_nonsense() {
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
            "cpu:0",
            "emu:99999999999",
        ] {
            assert!(nonsense.parse::<Devices>().is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_wrong_option_of_a_card_is_usage_whether_the_card_is_there_or_not() {
        let devices: Devices = "cuda:0?fail_launch=3".parse().unwrap();
        assert_eq!(devices.cuda().unwrap_err().exit_code(), 2);
    }

    #[test]
    fn cards_are_there_or_an_error_of_the_device() {
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
    fn lists_of_devices_come_back_as_typed() {
        for words in [
            "auto",
            "cpu",
            "emu:0",
            "cpu,emu:0,emu:12",
            "emu:0?seed=3&lost=7,emu:1",
            "sim:h200x4",
            "cpu,sim:node8",
            "sim:h200,sim:a100x2",
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

    #[test]
    fn bytes_have_units() {
        assert_eq!(parse_bytes("8GiB"), Ok(8 << 30));
        assert_eq!(parse_bytes("1.5MiB"), Ok(3 << 19));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("2kB"), Ok(2000));
        assert_eq!(parse_bytes("18446744073709551615"), Ok(u64::MAX));
        for nonsense in ["", "GiB", "0", "-1", "1e9", "8 GiB", "0.1", "99999999999TiB", "8Gb", "inf", "1.2.3"]
        {
            assert!(parse_bytes(nonsense).is_err(), "{nonsense}");
        }
    }
}
