//! What the flags of `run` mean.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Where to compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// On whatever this machine has.
    Auto,
    /// On the CPU's cores.
    Cpu,
    /// On CUDA devices asked for by name, as typed.
    Cuda(String),
}

impl Devices {
    /// As typed.
    pub fn name(&self) -> &str {
        match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Cuda(name) => name,
        }
    }

    /// An error unless this version can compute there.
    pub fn check_usable(&self) -> Result<()> {
        match self {
            Self::Auto | Self::Cpu => Ok(()),
            Self::Cuda(name) => Err(Error::Device {
                device: name.clone(),
                reason: "this version of rowloom computes on the CPU only; take --devices cpu".into(),
            }),
        }
    }
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let is_cuda = |word: &str| {
            word == "cuda" || word.strip_prefix("cuda:").is_some_and(|index| index.parse::<u32>().is_ok())
        };
        let mut words = text.split(',');
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            _ if words.all(|word| word == "cpu" || is_cuda(word)) && words_differ(text) => {
                Ok(Self::Cuda(text.to_owned()))
            }
            _ => Err("there are auto and cpu".into()),
        }
    }
}

/// `cpu,cpu` is no list of devices; naming a CUDA device twice is.
fn words_differ(text: &str) -> bool {
    text.split(',').filter(|&word| word == "cpu").count() <= 1
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
        assert_eq!("cpu".parse(), Ok(Devices::Cpu));
        for cuda in ["cuda", "cuda:0", "cpu,cuda:0", "cuda:0,cuda:0"] {
            let devices: Devices = cuda.parse().unwrap();
            assert_eq!(devices.check_usable().unwrap_err().exit_code(), 4, "{cuda}");
        }
        for nonsense in ["", "gpu", "cuda:x", "cpu,", "cpu,cpu", "auto,cpu"] {
            assert!(nonsense.parse::<Devices>().is_err(), "{nonsense}");
        }
    }
}
