//! What would help against an error, as data.
//!
//! The library returns the values; each client names them in its own words, in one place: the command as flags (`cli::advice`), the
//! Python package as arguments, and this file as methods of Rust.

use std::fmt;

/// What would help against an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Advice {
    /// Fewer columns of X and Y.
    FewerColumns,
    /// Fewer columns of the dense matrix B.
    FewerColumnsOfB,
    /// Fewer columns of the dense matrix whose columns are summed.
    FewerColumnsOfTable,
    /// The CPU, beside the devices that are named.
    AddCpu,
    /// A GPU, beside the devices that are named.
    AddGpu,
    /// A CUDA GPU, beside the devices that are named.
    AddCudaGpu,
    /// The CPU as the only device.
    CpuOnly,
    /// A higher limit of device memory.
    MoreDeviceMemory,
    /// Fewer worker threads.
    FewerThreads,
    /// A passes through device memory with every product.
    StreamA,
    /// The planner's choice of how A reaches GPUs.
    AutomaticMode,
    /// The planner's choice of the share of the CPU.
    AutomaticCpuShare,
    /// More chunks.
    MoreChunks,
    /// More bytes of A per chunk.
    LargerChunks,
    /// Fewer bytes of A per chunk.
    SmallerChunks,
    /// The planner's choice of kernels.
    AutomaticKernel,
    /// Another kernel than the one that is named.
    OtherKernel,
    /// A kernel, by name.
    NamedKernel,
    /// The list of the kernels.
    ListOfKernels,
    /// The planner's choice of the storage format of A.
    AutomaticFormat,
    /// CSR or ELLPACK as the storage format of A.
    CsrOrEllpack,
    /// Kernels with any order of additions.
    AnyOrder,
    /// Products without checks.
    NoChecks,
    /// Values of double precision.
    DoublePrecision,
    /// Values that are not finite are allowed.
    AnyValues,
    /// A new cost model, measured on this machine.
    NewModel,
    /// No cost model.
    NoModel,
    /// A new plan.
    NewPlan,
    /// No plan that was made before.
    NoPlan,
    /// The matrix in a file of Rowloom's cache (`.rlm`).
    CacheFile,
    /// A new trace.
    NewTrace,
    /// The list of the libraries that Rowloom uses, and how to install them.
    ListOfLibraries,
    /// A build with emulated devices.
    EmulatorBuild,
    /// A build with CUDA.
    CudaBuild,
    /// A higher limit of the size of a download.
    LargerDownloads,
    /// A new download.
    NewDownload,
}

impl Advice {
    /// Every value.
    #[doc(hidden)]
    pub const ALL: [Self; 36] = [
        Self::FewerColumns,
        Self::FewerColumnsOfB,
        Self::FewerColumnsOfTable,
        Self::AddCpu,
        Self::AddGpu,
        Self::AddCudaGpu,
        Self::CpuOnly,
        Self::MoreDeviceMemory,
        Self::FewerThreads,
        Self::StreamA,
        Self::AutomaticMode,
        Self::AutomaticCpuShare,
        Self::MoreChunks,
        Self::LargerChunks,
        Self::SmallerChunks,
        Self::AutomaticKernel,
        Self::OtherKernel,
        Self::NamedKernel,
        Self::ListOfKernels,
        Self::AutomaticFormat,
        Self::CsrOrEllpack,
        Self::AnyOrder,
        Self::NoChecks,
        Self::DoublePrecision,
        Self::AnyValues,
        Self::NewModel,
        Self::NoModel,
        Self::NewPlan,
        Self::NoPlan,
        Self::CacheFile,
        Self::NewTrace,
        Self::ListOfLibraries,
        Self::EmulatorBuild,
        Self::CudaBuild,
        Self::LargerDownloads,
        Self::NewDownload,
    ];

    /// The advice as methods, fields and functions of Rust.
    #[doc(hidden)]
    pub fn in_rust(self) -> &'static str {
        match self {
            Self::FewerColumns => "use fewer `.columns(…)`",
            Self::FewerColumnsOfB => "use fewer columns of B",
            Self::FewerColumnsOfTable => "use fewer columns",
            Self::AddCpu => "add cpu to the devices of `Runtime::open(…)`",
            Self::AddGpu => {
                "add one to the devices of `Runtime::open(…)`, for example cuda:0, or the emulated GPU emu:0"
            }
            Self::AddCudaGpu => "add cuda:0 to the devices of `Runtime::open(…)`",
            Self::CpuOnly => "use `Runtime::open(\"cpu\")`",
            Self::MoreDeviceMemory => "use a larger `.memory_limit(…)`",
            Self::FewerThreads => "use fewer `.threads(…)`",
            Self::StreamA => "use `.mode(Mode::Stream)`",
            Self::AutomaticMode => "leave out `.mode(…)`",
            Self::AutomaticCpuShare => "leave out `.cpu_share(…)`",
            Self::MoreChunks => "use more `ProductOptions::chunks`",
            Self::LargerChunks => "use a larger `ProductOptions::chunk_bytes`",
            Self::SmallerChunks => "use a smaller `ProductOptions::chunk_bytes`",
            Self::AutomaticKernel => "leave out `.kernel(…)`",
            Self::OtherKernel => "use another `.kernel(…)`",
            Self::NamedKernel => "name one with `.kernel(…)`",
            Self::ListOfKernels => "`kernel::kernels_for(…)` lists the kernels",
            Self::AutomaticFormat => "leave out `ProductOptions::format`",
            Self::CsrOrEllpack => "use `Format::Csr` or `Format::EllPadded`",
            Self::AnyOrder => "leave out `.reproducible(true)`",
            Self::NoChecks => "use `.check(Check::Never)`",
            Self::DoublePrecision => "use the value type f64, as in `Csr::<f64>::read(…)`",
            Self::AnyValues => "leave out `ReadOptions::finite`",
            Self::NewModel => "make it again with `study::calibrate(…)` and `Model::save(…)`",
            Self::NoModel => "use `.model(\"none\")`",
            Self::NewPlan => "make it again with `product.plan()` and `Plan::save(…)`",
            Self::NoPlan => "leave out `.plan(…)`",
            Self::CacheFile => "convert the matrix with `matrix::io::cache::write_cache(…)`",
            Self::NewTrace => "make one with `Trace::write(…)`",
            Self::ListOfLibraries => "`device::cuda::libraries()` says how to install it",
            Self::EmulatorBuild => "the feature `emulator` of the crate adds it",
            Self::CudaBuild => "the feature `cuda` of the crate adds it",
            Self::LargerDownloads => "raise it with `Collection::up_to(…)`",
            Self::NewDownload => "fetch it again with `Collection::fetch(name, true, …)`",
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.in_rust())
    }
}

/// Verbs that are said once if several phrases begin with them.
const VERBS: [&str; 2] = ["use ", "leave out "];

/// A text and the advice after it, in the words of a client: `text; use A, B, or C`. Advice for which the client has no words is left
/// out.
pub(super) fn with_advice(
    text: &str,
    advice: &[Advice],
    words: impl Fn(Advice) -> Option<&'static str>,
) -> String {
    let phrases: Vec<&str> = advice.iter().filter_map(|&advice| words(advice)).collect();
    let mut all = text.to_owned();
    for (index, phrase) in phrases.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| phrases.get(before));
        let is_repeated =
            |verb: &&str| phrase.starts_with(*verb) && before.is_some_and(|before| before.starts_with(*verb));
        let verb = VERBS.iter().find(|verb| is_repeated(verb));
        all += match (index, index + 1 == phrases.len()) {
            (0, _) if all.is_empty() => "",
            (0, _) => "; ",
            (1, true) if verb.is_some() => " or ",
            (_, true) => ", or ",
            (_, false) => ", ",
        };
        all += verb.and_then(|verb| phrase.strip_prefix(verb)).unwrap_or(phrase);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(advice: &[Advice]) -> String {
        with_advice("too large", advice, |advice| match advice {
            Advice::NewPlan => None,
            advice => Some(advice.in_rust()),
        })
    }

    #[test]
    fn several_pieces_of_advice_are_one_sentence() {
        use Advice::{AddCpu, CpuOnly, FewerColumns, MoreDeviceMemory, NewPlan, StreamA};
        let cpu = "`Runtime::open(\"cpu\")`";
        for (advice, text) in [
            (&[][..], "too large".into()),
            (&[FewerColumns], "too large; use fewer `.columns(…)`".into()),
            (&[StreamA, CpuOnly], format!("too large; use `.mode(Mode::Stream)` or {cpu}")),
            (
                &[StreamA, AddCpu],
                "too large; use `.mode(Mode::Stream)`, or add cpu to the devices of `Runtime::open(…)`"
                    .into(),
            ),
            (
                &[MoreDeviceMemory, FewerColumns, CpuOnly],
                format!("too large; use a larger `.memory_limit(…)`, fewer `.columns(…)`, or {cpu}"),
            ),
            // A client that has no words for some advice leaves it out.
            (&[StreamA, NewPlan], "too large; use `.mode(Mode::Stream)`".into()),
        ] {
            assert_eq!(told(advice), text);
        }
    }

    #[test]
    fn every_advice_is_listed_once() {
        for (index, advice) in Advice::ALL.iter().enumerate() {
            assert_eq!(*advice as usize, index);
        }
    }
}
