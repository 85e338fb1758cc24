//! What would help against an error, as data.
//!
//! The library returns the values; each client names them in its own words, in one place: the command as flags (`cli::advice`), the
//! Python package as arguments, and this file as methods of Rust. Programs get the names.

use std::fmt;

/// Defines the kinds of advice, each with its words for Rust programs. They name public items, and commands where the library has no other way.
macro_rules! advice {
    ($($(#[$doc:meta])* $kind:ident = $in_rust:literal,)*) => {
        /// What would help against an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Advice {
            $($(#[$doc])* $kind,)*
        }

        impl Advice {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The advice as methods, fields and functions of Rust.
            pub fn in_rust(self) -> &'static str {
                match self {
                    $(Self::$kind => $in_rust,)*
                }
            }

            /// The name by which programs know it, as in `"FewerColumns"`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                }
            }
        }
    };
}

advice! {
    /// Fewer columns of X and Y.
    FewerColumns = "use fewer `.columns(…)`",
    /// Fewer columns of the dense matrix B.
    FewerColumnsOfB = "use fewer columns of B",
    /// Fewer columns of the dense matrix whose columns are summed.
    FewerColumnsOfTable = "use fewer columns",
    /// The CPU, beside the devices that are named.
    AddCpu = "add cpu to the devices of `Runtime::open(…)`",
    /// A GPU, beside the devices that are named.
    AddGpu = "add one to the devices of `Runtime::open(…)`, for example cuda:0, or the emulated GPU emu:0",
    /// A CUDA GPU, beside the devices that are named.
    AddCudaGpu = "add cuda:0 to the devices of `Runtime::open(…)`",
    /// The CPU as the only device.
    CpuOnly = "use `Runtime::open(\"cpu\")`",
    /// A higher limit of device memory.
    MoreDeviceMemory = "use a larger `.memory_limit(…)`",
    /// Fewer worker threads.
    FewerThreads = "use fewer `.threads(…)`",
    /// A passes through device memory with every product.
    StreamA = "use `.mode(Mode::Stream)`",
    /// The planner's choice of how A reaches GPUs.
    AutomaticMode = "leave out `.mode(…)`",
    /// The planner's choice of the share of the CPU.
    AutomaticCpuShare = "leave out `.cpu_share(…)`",
    /// More chunks.
    MoreChunks = "use a plan with more chunks",
    /// More bytes of A per chunk.
    LargerChunks = "use a plan with larger chunks",
    /// Fewer bytes of A per chunk.
    SmallerChunks = "use a plan with smaller chunks",
    /// The planner's choice of kernels.
    AutomaticKernel = "leave out `.kernel(…)`",
    /// Another kernel than the one that is named.
    OtherKernel = "use another `.kernel(…)`",
    /// A kernel, by name.
    NamedKernel = "name one with `.kernel(…)`",
    /// The list of the kernels.
    ListOfKernels = "docs/kernels.md lists the kernels",
    /// The planner's choice of the storage format of A.
    AutomaticFormat = "use a plan with the planner's format",
    /// CSR or ELLPACK as the storage format of A.
    CsrOrEllpack = "use a plan with CSR or ELLPACK",
    /// Kernels with any order of additions.
    AnyOrder = "leave out `.reproducible(true)`",
    /// Products without checks.
    NoChecks = "use `.check(Check::Never)`",
    /// Values of double precision.
    DoublePrecision = "use the value type f64, as in `Csr::<f64>::read(…)`",
    /// Values that are not finite are allowed.
    AnyValues = "allow values that are not finite",
    /// A new cost model, measured on this machine.
    NewModel = "make it again with the command `rowloom calibrate`",
    /// No cost model.
    NoModel = "use `.model(\"none\")`",
    /// A new plan.
    NewPlan = "make it again with `product.plan()` and `Plan::save(…)`",
    /// No plan that was made before.
    NoPlan = "leave out `.plan(…)`",
    /// The matrix in a file of Rowloom's cache (`.rlm`).
    CacheFile = "convert the matrix with the command `rowloom convert`",
    /// A new trace.
    NewTrace = "make one with `Trace::write(…)`",
    /// The list of the libraries that Rowloom uses, and how to install them.
    ListOfLibraries = "the command `rowloom devices` says how to install it",
    /// A build with emulated devices.
    EmulatorBuild = "the feature `emulator` of the crate adds it",
    /// A build with CUDA.
    CudaBuild = "the feature `cuda` of the crate adds it",
    /// The product of two dense matrices.
    DenseProduct = "multiply dense matrices with `Runtime::gemm(…)`",
    /// What computes with complex matrices.
    ComplexProduct = "multiply a complex matrix with the command `rowloom run` or in Python",
    /// A higher limit of the size of a download.
    LargerDownloads = "raise the limit of the command `rowloom fetch`",
    /// A new download.
    NewDownload = "fetch it again with the command `rowloom fetch`",
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
}
