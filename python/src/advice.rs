//! Errors in the words of Python: the message, and the advice as arguments.

use rowloom::Error;
use rowloom::internal::error::Advice;

/// The text of an error.
pub fn text(error: &Error) -> String {
    error.for_client(as_argument)
}

/// The advice as an argument; `None` where the package has no choice. Commands are named only where the package has no other way.
fn as_argument(advice: Advice) -> Option<&'static str> {
    Some(match advice {
        Advice::FewerColumns => "use an x with fewer columns",
        Advice::AddCpu => "add cpu to the devices, as in devices=\"cpu,cuda:0\"",
        Advice::AddGpu => "add one to the devices, as in devices=\"cpu,cuda:0\"",
        Advice::CpuOnly => "use devices=\"cpu\"",
        Advice::FewerThreads => "use a smaller number as threads=",
        Advice::AnyOrder => "leave out reproducible=True",
        Advice::NoChecks => "use check=\"never\"",
        Advice::DoublePrecision => "use dtype=\"float64\"",
        Advice::NewModel => "make it again with the command `rowloom calibrate`, or remove the file",
        Advice::CacheFile => "convert the matrix with the command `rowloom convert`",
        Advice::NewTrace => "make one with a.trace(path)",
        Advice::EmulatorBuild => {
            "install the package from its sources with emulated GPUs: \
             pip install --config-settings=build-args='--features emulator' ./python"
        }
        Advice::ComplexProduct => {
            "read it with SciPy, as with scipy.io.mmread, and pass the matrix to rowloom.csr"
        }
        Advice::LargerDownloads => "fetch it with the command `rowloom fetch --max-mib`",
        Advice::NewDownload => "remove the file, or fetch it again with the command `rowloom fetch --again`",
        Advice::CudaBuild => "a build of the package with the feature cuda has it",
        _ => return None,
    })
}
