//! Values that shells complete: names of devices, kernels and generators.
//!
//! The lists do not limit what may be typed: `cuda:3`, `csr_vector_subwarp_w4` and lists with commas are checked later,
//! where an error can suggest the nearest name.

use std::ffi::OsStr;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};

use super::options::Devices;
use rowloom::internal::cost::preset_names;
use rowloom::internal::kernel::{KindOfWork, kernels_for};
use rowloom::internal::matrix::generate::{DENSE_KINDS, KINDS, Kind};

/// A parser that offers names to shell completions.
#[derive(Clone)]
pub(super) struct Offering<P> {
    parser: P,
    names: &'static LazyLock<Vec<String>>,
}

impl<P: TypedValueParser> TypedValueParser for Offering<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(|name| PossibleValue::new(name.as_str()))))
    }
}

/// The devices that `--devices` takes, the first of each kind.
static DEVICES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let real = ["auto", "cpu", "cuda", "cuda:0", "emu:0"].map(String::from);
    real.into_iter().chain(preset_names().map(|machine| format!("sim:{machine}"))).collect()
});

static KERNEL: LazyLock<Vec<String>> = LazyLock::new(|| kernel_names("auto", KindOfWork::Spmm));
static KERNELS: LazyLock<Vec<String>> = LazyLock::new(|| kernel_names("all", KindOfWork::Spmm));
static GEMM_KERNEL: LazyLock<Vec<String>> = LazyLock::new(|| kernel_names("auto", KindOfWork::Gemm));
static COLMEAN_KERNEL: LazyLock<Vec<String>> = LazyLock::new(|| kernel_names("auto", KindOfWork::Colmean));

fn kernel_names(first: &str, work: KindOfWork) -> Vec<String> {
    let names = kernels_for(work).map(|kernel| kernel.name);
    std::iter::once(first).chain(names).map(String::from).collect()
}

/// The kinds of matrices that can be generated, each with its first required key.
pub static GENERATORS: LazyLock<Vec<String>> = LazyLock::new(|| generators(KINDS));

/// The same for dense matrices.
pub static DENSE_GENERATORS: LazyLock<Vec<String>> = LazyLock::new(|| generators(DENSE_KINDS));

fn generators(kinds: &[Kind]) -> Vec<String> {
    let name = |kind: &Kind| match kind.keys.iter().find(|key| key.required) {
        Some(key) => format!("{},{}=", kind.name, key.name),
        None => kind.name.to_string(),
    };
    kinds.iter().map(name).collect()
}

/// The parser of a list of devices.
type DevicesParser = fn(&str) -> Result<Devices, String>;

pub(super) fn devices() -> Offering<DevicesParser> {
    Offering { parser: |text| text.parse(), names: &DEVICES }
}

pub(super) fn kernel() -> Offering<StringValueParser> {
    Offering { parser: StringValueParser::new(), names: &KERNEL }
}

pub(super) fn gemm_kernel() -> Offering<StringValueParser> {
    Offering { parser: StringValueParser::new(), names: &GEMM_KERNEL }
}

pub(super) fn colmean_kernel() -> Offering<StringValueParser> {
    Offering { parser: StringValueParser::new(), names: &COLMEAN_KERNEL }
}

pub(super) fn kernels() -> Offering<StringValueParser> {
    Offering { parser: StringValueParser::new(), names: &KERNELS }
}

pub(super) fn generator() -> Offering<StringValueParser> {
    Offering { parser: StringValueParser::new(), names: &GENERATORS }
}

/// The libraries that `--against` can name.
pub const PEERS: [&str; 3] = ["cusparse", "mkl", "scipy"];
