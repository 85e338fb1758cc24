//! Errors in the words of the command line: the message, and the advice as flags and commands.

use rowloom::internal::error::{Advice, Error};

/// The text of an error.
pub fn text(error: &Error) -> String {
    error.for_client(|advice| Some(as_flag(advice)))
}

/// The text of an error about `command`, which names the help that lists its kernels.
pub fn text_for(error: &Error, command: &str) -> String {
    error.for_client(|advice| match (advice, command) {
        (Advice::ListOfKernels, "gemm") => Some("`rowloom gemm --help` lists the kernels"),
        (Advice::ListOfKernels, "colmean") => Some("`rowloom colmean --help` lists the kernels"),
        _ => Some(as_flag(advice)),
    })
}

/// The advice as a flag or a command.
fn as_flag(advice: Advice) -> &'static str {
    match advice {
        Advice::FewerColumns => "use a smaller -k",
        Advice::FewerColumnsOfB => "use fewer columns of B",
        Advice::FewerColumnsOfTable => "use fewer columns",
        Advice::AddCpu => "add cpu to --devices",
        Advice::AddGpu => "add one to --devices, for example cuda:0, or the emulated GPU emu:0",
        Advice::AddCudaGpu => "add cuda:0 to --devices",
        Advice::CpuOnly => "use --devices cpu",
        Advice::MoreDeviceMemory => "use a larger --mem-limit",
        Advice::FewerThreads => "use a smaller --threads",
        Advice::StreamA => "use --mode stream",
        Advice::AutomaticMode => "leave out --mode",
        Advice::AutomaticCpuShare => "leave out --cpu-share",
        Advice::MoreChunks => "use more --chunks",
        Advice::LargerChunks => "use a larger --chunk-bytes",
        Advice::SmallerChunks => "use a smaller --chunk-bytes",
        Advice::AutomaticKernel => "leave out --kernel",
        Advice::OtherKernel => "use another --kernel",
        Advice::NamedKernel => "name one with --kernel",
        Advice::ListOfKernels => "`rowloom run --help` lists the kernels",
        Advice::AutomaticFormat => "leave out --format",
        Advice::CsrOrEllpack => "use --format csr or ell",
        Advice::AnyOrder => "leave out --reproducible",
        Advice::NoChecks => "use --check never",
        Advice::DoublePrecision => "use --dtype f64",
        Advice::AnyValues => "leave out --finite",
        Advice::NewModel => "make it again with `rowloom calibrate`",
        Advice::NoModel => "use --model none",
        Advice::NewPlan => "make it again with `rowloom plan --save`",
        Advice::NoPlan => "leave out --plan",
        Advice::CacheFile => "convert the matrix with `rowloom convert MATRIX FILE.rlm`",
        Advice::NewTrace => "make one with `rowloom run MATRIX --trace FILE`",
        Advice::ListOfLibraries => "`rowloom devices` says how to install it",
        Advice::EmulatorBuild => "a build with `--features emulator` has it",
        Advice::CudaBuild => "a build with `--features cuda` has it",
        Advice::DenseProduct => "`rowloom gemm` multiplies dense matrices",
        Advice::ComplexProduct => {
            "`rowloom run` multiplies complex matrices and `rowloom inspect` describes them"
        }
        Advice::LargerDownloads => "raise it with --max-mib",
        Advice::NewDownload => "fetch it again with --again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_flags_and_no_methods() {
        for &advice in Advice::ALL {
            assert!(!as_flag(advice).contains('('), "{advice:?}");
        }
        let error = Error::usage("X does not fit").advise([
            Advice::MoreDeviceMemory,
            Advice::FewerColumns,
            Advice::CpuOnly,
        ]);
        let expected = "X does not fit; use a larger --mem-limit, a smaller -k, or --devices cpu";
        assert_eq!(text(&error), expected);
    }

    #[test]
    fn flags_of_advice_exist() {
        use clap::CommandFactory;
        let program = crate::args::Arguments::command();
        let known: Vec<String> = program
            .get_subcommands()
            .flat_map(|command| command.get_arguments())
            .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
            .chain(["--help".into(), "--features".into()])
            .collect();
        for &advice in Advice::ALL {
            let words = as_flag(advice).split([' ', '`', ',']);
            for flag in words.filter(|word| word.starts_with("--")) {
                assert!(known.iter().any(|known| known == flag), "{flag}");
            }
        }
    }
}
