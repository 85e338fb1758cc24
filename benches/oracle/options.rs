//! The words of the command line.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use rowloom::internal::kernel::{KernelId, KindOfWork};

use crate::case::{FAMILIES, Family};
use crate::lab::Restrictions;

#[derive(Debug)]
pub struct Options {
    pub seconds: f64,
    pub seed: u64,
    /// One case to replay.
    pub case: Option<u64>,
    pub only: Vec<Family>,
    pub jobs: usize,
    /// A folder of matrices to multiply instead of drawn ones.
    pub matrices: Option<PathBuf>,
    pub restrictions: Restrictions,
}

const USAGE: &str = "options: --seconds N, --seed S, --case SEED, --devices cuda, --only FAMILY[,FAMILY], --kernel NAME, --jobs N, --matrices FOLDER";

impl Options {
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        let mut options = Self {
            seconds: 60.0,
            seed: crate::random::derived(clock, 0),
            case: None,
            only: Vec::new(),
            jobs: 1,
            matrices: None,
            restrictions: Restrictions::default(),
        };
        let mut words = words.filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value; {USAGE}"));
            match word.as_str() {
                "--seconds" => options.seconds = number(&value()?)?,
                "--seed" => options.seed = seed(&value()?)?,
                "--case" => options.case = Some(seed(&value()?)?),
                "--matrices" => options.matrices = Some(value()?.into()),
                "--jobs" => options.jobs = number::<usize>(&value()?)?.max(1),
                "--devices" if value()? == "cuda" => options.restrictions.cuda = true,
                "--devices" => return Err("--devices takes only cuda, which adds lists with cuda:0".into()),
                "--kernel" => {
                    let name = value()?;
                    let dense = [KindOfWork::Gemm, KindOfWork::Colmean];
                    let kernel = dense.into_iter().find_map(|work| work.kernel(&name).ok());
                    let kernel = kernel.map_or_else(|| KernelId::by_name(&name), Ok);
                    options.restrictions.kernel = Some(kernel.map_err(|error| error.to_string())?);
                }
                "--only" => {
                    for name in value()?.split(',') {
                        let families = FAMILIES.iter().map(|(family, _)| *family);
                        let named: Vec<Family> =
                            families.clone().filter(|family| family.name() == name).collect();
                        if named.is_empty() {
                            let mut names: Vec<&str> = families.map(Family::name).collect();
                            names.dedup();
                            return Err(format!("no family '{name}'; there are {}", names.join(", ")));
                        }
                        options.only.extend(named);
                    }
                }
                _ => return Err(format!("unknown option '{word}'; {USAGE}")),
            }
        }
        Ok(options)
    }

    /// The families to draw, with their weights.
    pub fn families(&self) -> Vec<(Family, usize)> {
        let work = self.restrictions.kernel.map(|kernel| kernel.info().work);
        let wanted = |&(family, _): &(Family, usize)| match family {
            // These two have one name.
            Family::Gemm if work == Some(KindOfWork::Colmean) => false,
            Family::Colmean if work == Some(KindOfWork::Gemm) => false,
            _ if !self.only.is_empty() => self.only.contains(&family),
            Family::Cuda => self.restrictions.cuda,
            _ => true,
        };
        FAMILIES.into_iter().filter(wanted).map(|(family, weight)| (family, weight.max(1))).collect()
    }

    /// The options that a case depends on besides its seed.
    pub fn words(&self) -> String {
        let mut words = String::new();
        if self.restrictions.cuda {
            words += " --devices cuda";
        }
        if let Some(kernel) = self.restrictions.kernel {
            words += &format!(" --kernel {}", kernel.name());
        }
        words
    }
}

fn number<N: std::str::FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("'{word}' is not a number"))
}

/// A seed in decimal, or in hexadecimal after 0x.
pub fn seed(word: &str) -> Result<u64, String> {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| format!("'{word}' is not a seed"))
}
