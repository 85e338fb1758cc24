//! Checks every name in a study before anything is measured; errors name the file and the line.

use std::io::ErrorKind;

use super::{dense, ranks};
use crate::args::MatrixSource;
use crate::args::PEERS;
use crate::args::TRANSFERS;
use crate::args::options::{Devices, parse_bytes};
use crate::console::advice;
use crate::measure::KernelNames;
use crate::results::{Case, StudyConfig, StudySubject};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::runtime::ProductOptions;
use rowloom::internal::suggest::did_you_mean;
use rowloom::internal::toml_file::TomlFile;

/// An error for the first name in the study that does not exist.
pub fn check_names(config: &StudyConfig, file: &TomlFile) -> Result<()> {
    for (number, sweep) in config.sweep.iter().enumerate() {
        let number = number.to_string();
        let wrong = |key: &str, index: usize, reason: String| {
            let place = file.place_of(&["sweep", &number, key, &index.to_string()]);
            Error::usage(format!("{place}: sweep {}: {reason}", sweep.name))
        };
        if !sweep.ranks.is_empty() {
            ranks::check().map_err(|reason| wrong("ranks", 0, reason))?;
        }
        for (index, devices) in sweep.devices.iter().enumerate() {
            devices.parse::<Devices>().map_err(|reason| wrong("devices", index, reason))?;
        }
        for (index, bytes) in sweep.chunk_bytes.iter().enumerate() {
            parse_bytes(bytes).map_err(|reason| wrong("chunk_bytes", index, reason))?;
        }
        for (key, words, known) in [
            ("mode", &sweep.mode, &["auto", "resident", "oneshot", "stream"][..]),
            ("transfer", &sweep.transfer, &TRANSFERS),
            ("schedule", &sweep.schedule, &["balanced", "equal-rows"]),
            ("against", &sweep.against, &PEERS),
        ] {
            let unknown = words.iter().enumerate().find(|(_, word)| !known.contains(&word.as_str()));
            if let Some((index, word)) = unknown {
                let nearest = did_you_mean(word, known.iter().copied());
                let reason =
                    format!("{key}: unknown value '{word}'{nearest}; values are {}", known.join(", "));
                return Err(wrong(key, index, reason));
            }
        }
        for (index, name) in sweep.kernels.iter().enumerate() {
            match sweep.subject {
                StudySubject::Kernel => KernelNames::new(std::slice::from_ref(name)).map(drop),
                StudySubject::Run
                | StudySubject::Vectors
                | StudySubject::PowerIteration
                | StudySubject::SubspaceIteration => ProductOptions::kernel_named(name).map(drop),
                StudySubject::Gemm | StudySubject::Colmean => match dense::kind_of(sweep.subject) {
                    Some(kind) if name != "auto" => kind.kernel(name).map(drop),
                    _ => Ok(()),
                },
                StudySubject::Conversion | StudySubject::Transfers => Ok(()),
            }
            .map_err(|error| {
                let command = match sweep.subject {
                    StudySubject::Gemm => "gemm",
                    StudySubject::Colmean => "colmean",
                    _ => "run",
                };
                wrong("kernels", index, advice::text_for(&error, command))
            })?;
        }
    }
    Ok(())
}

/// An error for the first case whose matrix is a missing file or an unknown generator.
pub fn check_matrices(config: &StudyConfig, file: &TomlFile, cases: &[Case]) -> Result<()> {
    for case in cases {
        let source = MatrixSource::new(case.matrix.as_ref());
        let checked = match case.subject {
            StudySubject::Transfers => continue,
            StudySubject::Gemm | StudySubject::Colmean => source.check_dense(),
            _ => source.check(),
        };
        let Err(error) = checked else { continue };
        let number = config.sweep.iter().position(|sweep| sweep.name == case.sweep).unwrap_or(0);
        let names = config.sweep.get(number).map_or(&[][..], |sweep| &sweep.matrices);
        let index = names.iter().position(|name| *name == case.matrix).unwrap_or(0);
        let place = file.place_of(&["sweep", &number.to_string(), "matrices", &index.to_string()]);
        return Err(match error {
            Error::Usage(reason) => Error::usage(reason.map_words(|words| format!("{place}: {words}"))),
            Error::Read { path, source } if source.kind() == ErrorKind::NotFound && path.is_relative() => {
                let reason = "not found (paths are relative to the current folder)";
                Error::input(place, format!("{}: {reason}", path.display()))
            }
            error => Error::input(place, error.as_reason()),
        });
    }
    Ok(())
}
