//! `rowloom study`: measures the cases of a study file and writes a folder with tables, plots and one page. A finished case
//! is never measured again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::kernels::KernelCases;
use super::matrix::LoadedMatrix;
use super::output;
use super::output::Finished;
use super::product::CaseRun;
use super::refusals::{is_measured, refusals, refused};
use super::{built_in, check, conversion, dense, estimate, product, ranks, solver, vectors};
use crate::args::MatrixSource;
use crate::args::StudyArguments;
use crate::args::options::{Devices, count_devices};
use crate::bench::command::build_and_machine;
use crate::bench::kernels::{KernelBench, MeasuredMatrix, check_names, not_measured, open_devices};
use crate::console::overwrite::Output;
use crate::console::table::count_of;
use crate::console::{Bar, Console};
use crate::measure::compulsory_bytes;
use crate::measure::{KernelNames, MatrixDescription, MatrixFacts, PythonPeer};
use crate::operands::session::Session;
use crate::results::{Case, Journal, Record, StudyConfig, StudySubject, key_of};
use rowloom::internal::cost::Model;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::files::read_text;
use rowloom::internal::matrix::Dtype;

/// The cost model that plans are made with: the one that `rowloom calibrate` wrote, where there is one.
const MODEL: &str = "auto";

/// The file of finished cases, one line each.
const JOURNAL: &str = "cases.jsonl";

/// Measures the cases that are not finished, and writes the folder.
pub fn run(arguments: &StudyArguments, console: &Console) -> Result<()> {
    let Some(typed) = &arguments.config else { return built_in::list(console) };
    if let Some(file) = built_in::saved_file(arguments) {
        return built_in::save(typed, &file, arguments, console);
    }
    let (config, file) = built_in::read(typed)?;
    check::check_names(&config, &file)?;
    let session = Session::with(None, config.seed)?;
    let provenance = session.provenance.clone();
    let folder = arguments.output.clone().unwrap_or_else(|| default_folder(typed));
    std::fs::create_dir_all(&folder).map_err(|source| Error::write(&folder, source))?;
    let cases = config.cases(session.machine.usable_threads, count_devices)?;
    check::check_matrices(&config, &file, &cases)?;
    let journal = Journal::open(&folder.join(JOURNAL))?;
    let (inner, notes) = console.gathering();
    let mut study = Study {
        config: &config,
        environment: json!([build_and_machine(&session), model_of()?]),
        session,
        console: &inner,
        journal,
        loaded: None,
        records: Vec::new(),
        finished: 0,
        kept: 0,
    };
    for missing in missing_peers(&config, study.session.pool.threads()) {
        console.note(&missing);
    }
    console.note(&study.estimate(&cases));
    let bar = console.bar(cases.len() as u64, "cases");
    let measuring = study.session.interrupt.measure(&console.under(&bar), "run");
    let ended = study.measure(&cases, &bar);
    drop(measuring);
    drop(bar);
    if study.records.is_empty() {
        // There is nothing to write; the results of an earlier study stay.
        return ended;
    }
    let kept = |case: &Case| study.journal.find(&timeline_key(&study.key(case)));
    let matrices = study.descriptions(&cases);
    let timelines = timeline_cases(&cases).into_iter().filter_map(kept).collect();
    let mut notes: Vec<String> = notes.lock().map(|notes| notes.clone()).unwrap_or_default();
    notes.sort();
    notes.dedup();
    for note in &notes {
        console.note(note);
    }
    let (is_measured, refusals) = (study.records.iter().any(is_measured), refusals(&study.records));
    let finished = Finished {
        config: &config,
        file: typed,
        folder: &folder,
        provenance: &provenance,
        records: study.records,
        cases: cases.len(),
        finished: study.finished,
        kept: study.kept,
        timelines,
        matrices,
        notes,
        interrupted: matches!(ended, Err(Error::Interrupted)),
    };
    output::write(finished, console)?;
    ended?;
    match refusals {
        Some(reasons) if !is_measured => Err(Error::NothingMeasured(reasons)),
        Some(reasons) => {
            console.note(&format!("not measured: {reasons}"));
            Ok(())
        }
        None => Ok(()),
    }
}

/// The files that a study may replace.
pub fn outputs(arguments: &StudyArguments) -> Vec<(PathBuf, Output)> {
    let Some(typed) = arguments.config.as_ref().filter(|_| !arguments.save) else { return Vec::new() };
    let folder = arguments.output.clone().unwrap_or_else(|| default_folder(typed));
    output::outputs(&folder, typed)
}

/// Why Python peers that the study names cannot be measured: one sentence for each.
fn missing_peers(config: &StudyConfig, threads: usize) -> Vec<String> {
    let named = config.sweep.iter().flat_map(|sweep| &sweep.against).filter(|peer| *peer != "cusparse");
    let mut peers: Vec<&String> = named.collect();
    peers.sort_unstable();
    peers.dedup();
    let missing = |peer: &String| PythonPeer::probe(peer, threads).err().map(|why| not_measured(peer, &why));
    peers.into_iter().filter_map(missing).collect()
}

/// A hash of the cost model that plans are made with.
fn model_of() -> Result<Option<String>> {
    let Some((path, _)) = Model::named(MODEL)? else { return Ok(None) };
    let text = read_text(&path)?;
    Ok(Some(key_of(&Value::from(text))))
}

/// `rowloom-quick` for `quick` and for `configs/quick.toml`.
fn default_folder(config: &Path) -> PathBuf {
    let stem = config.file_stem().map_or_else(|| "study".into(), |stem| stem.to_string_lossy());
    format!("rowloom-{stem}").into()
}

/// The runs whose timelines the report shows: the one on most devices of the real runs, and likewise of the simulated runs.
fn timeline_cases(cases: &[Case]) -> Vec<&Case> {
    let is_simulated = |case: &&Case| case.devices.contains("sim:");
    let is_run =
        |case: &&Case| matches!(case.subject, StudySubject::Run | StudySubject::Gemm | StudySubject::Colmean);
    let runs = || cases.iter().filter(is_run);
    let devices = |case: &&Case| count_devices(&case.devices);
    let real = runs().filter(|case| !is_simulated(case)).max_by_key(devices);
    let simulated = runs().filter(is_simulated).max_by_key(devices);
    real.into_iter().chain(simulated).collect()
}

/// The length and the time of the last change of the file of a case's matrix; none where it is no file.
fn version_of_file(case: &Case) -> Option<(u64, Option<String>)> {
    match MatrixSource::new(case.matrix.as_ref()) {
        MatrixSource::File(path) => std::fs::metadata(path).ok().map(|file| {
            let modified =
                file.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            (file.len(), modified.map(|time| time.as_nanos().to_string()))
        }),
        MatrixSource::Generated(_) | MatrixSource::Collection(_) => None,
    }
}

fn timeline_key(key: &str) -> String {
    format!("{key} timeline")
}

/// A study in progress.
struct Study<'a> {
    config: &'a StudyConfig,
    /// The program, the machine and the cost model, as part of every case's key.
    environment: Value,
    session: Session,
    console: &'a Console,
    journal: Journal,
    loaded: Option<LoadedMatrix>,
    records: Vec<Record>,
    finished: usize,
    /// Cases that an earlier run finished.
    kept: usize,
}

impl Study<'_> {
    /// A hash of everything that defines a case.
    fn key(&self, case: &Case) -> String {
        let file = version_of_file(case);
        let StudyConfig { measure, seed, .. } = self.config;
        key_of(
            &json!({"case": case, "file": file, "measure": measure, "seed": seed, "where": self.environment}),
        )
    }

    /// A hash of what defines the matrix of a case.
    fn matrix_key(&self, case: &Case) -> String {
        let (file, seed) = (version_of_file(case), self.config.seed);
        let has_values = LoadedMatrix::needs_values(case);
        format!(
            "{} matrix",
            key_of(&json!({"matrix": case.matrix, "file": file, "seed": seed, "values": has_values}))
        )
    }

    /// The matrices of the cases, in their order; those that neither this run nor an earlier one loaded are missing.
    fn descriptions(&self, cases: &[Case]) -> Vec<MatrixDescription> {
        let mut seen = HashSet::new();
        let sparse = cases.iter().filter(|case| case.subject.is_sparse());
        let distinct = sparse.filter(|case| seen.insert((&case.matrix, LoadedMatrix::needs_values(case))));
        distinct.filter_map(|case| self.journal.find(&self.matrix_key(case))).collect()
    }

    /// How many cases are left to measure, and about how long they take.
    fn estimate(&self, cases: &[Case]) -> String {
        let left: Vec<&Case> =
            cases.iter().filter(|case| self.journal.find::<Vec<Record>>(&self.key(case)).is_none()).collect();
        let kept = match cases.len() - left.len() {
            0 => String::new(),
            kept => format!("; {} finished earlier", count_of(kept as u64, "case", "cases")),
        };
        if left.is_empty() {
            return format!("no case to measure{kept}");
        }
        let (settings, verify) = (product::settings(self.config), self.config.measure.verify);
        let span = estimate::estimate(left.iter().copied(), settings, verify, &self.session);
        format!("{} to measure, {span}{kept}", count_of(left.len() as u64, "case", "cases"))
    }

    /// Measures all cases in order; cases of kernels that differ only in K are measured together.
    fn measure(&mut self, cases: &[Case], bar: &Bar) -> Result<()> {
        let timeline_keys: Vec<String> =
            timeline_cases(cases).into_iter().map(|case| self.key(case)).collect();
        let mut left = cases;
        while let Some(first) = left.first() {
            self.session.interrupt.check()?;
            let together = |case: &&Case| {
                first.subject == StudySubject::Kernel && Case { k: first.k, ..(*case).clone() } == *first
            };
            let count = left.iter().take_while(together).count().max(1);
            let (group, rest) = left.split_at(count);
            left = rest;
            bar.say(&format!("{} on {}", first.matrix, first.devices));
            match self.group(group, &timeline_keys) {
                Ok(()) => {}
                // A matrix that cannot be loaded is a mistake in the study; a product that cannot be computed is a result.
                Err(error @ Error::Usage(_)) if self.loaded.is_none() && first.subject.is_sparse() => {
                    return Err(error);
                }
                Err(error @ (Error::Usage(_) | Error::Device { .. } | Error::DoesNotFit { .. })) => {
                    // Not kept in the journal: with another driver or more memory the case may work.
                    let facts =
                        self.loaded.as_ref().map(|loaded| (loaded.name.clone(), loaded.facts.clone()));
                    self.records.extend(group.iter().map(|case| refused(case, facts.as_ref(), &error)));
                }
                Err(error) => return Err(error),
            }
            bar.advance(count as u64);
        }
        let wrong = self.records.iter().find(|record| record.is_wrong());
        match wrong {
            None => Ok(()),
            Some(record) => {
                let (kernel, matrix) = (&record.kernel, &record.matrix.name);
                Err(Error::Verification(format!(
                    "{kernel} computed a wrong result for {matrix}; results.csv has the details"
                )))
            }
        }
    }

    /// Measures cases that differ only in K, or one case.
    fn group(&mut self, group: &[Case], timeline_keys: &[String]) -> Result<()> {
        let mut open = Vec::new();
        for case in group {
            match self.journal.find::<Vec<Record>>(&self.key(case)) {
                Some(records) => {
                    self.records.extend(records);
                    self.finished += 1;
                    self.kept += 1;
                }
                None => open.push(case),
            }
        }
        let Some(first) = open.first().copied() else { return Ok(()) };
        if self.session.pool.threads() != first.threads {
            self.session = Session::with(Some(first.threads), self.config.seed)?;
        }
        if !first.subject.is_sparse() {
            self.loaded = None;
            return self.dense(first, timeline_keys);
        }
        self.load(first)?;
        let measured = match first.subject {
            StudySubject::Kernel => self.kernels(&open),
            StudySubject::Run => self.run(first, timeline_keys),
            StudySubject::Vectors => self.vectors(first),
            StudySubject::Conversion => self.conversions(first),
            StudySubject::PowerIteration | StudySubject::SubspaceIteration => self.solve(first),
            StudySubject::Gemm | StudySubject::Colmean | StudySubject::Transfers => {
                Err(Error::Internal("a case without a sparse matrix was given one".into()))
            }
        };
        measured.or_else(|error| self.loaded()?.check().and(Err(error)))
    }

    /// Loads the matrix of a case unless it is loaded already.
    fn load(&mut self, case: &Case) -> Result<()> {
        if !self.loaded.as_ref().is_some_and(|loaded| loaded.is_of(case)) {
            // Its memory is free before the next matrix is loaded.
            self.loaded = None;
            let loaded = LoadedMatrix::new(case, &self.session, self.console)?;
            let key = self.matrix_key(case);
            if self.journal.find::<MatrixDescription>(&key).is_none() {
                self.journal.append(&key, &loaded.description(&self.session))?;
            }
            self.loaded = Some(loaded);
        }
        self.loaded.as_mut().map_or(Ok(()), |loaded| loaded.convert(case, &self.session))
    }

    fn loaded(&self) -> Result<&LoadedMatrix> {
        self.loaded.as_ref().ok_or_else(|| Error::Internal("no matrix is loaded".into()))
    }

    /// The fields that all records of a case share.
    fn base(&self, case: &Case) -> Result<Record> {
        let loaded = self.loaded()?;
        let MatrixFacts { rows, nnz, .. } = loaded.facts;
        let bytes = case.k.map(|k| compulsory_bytes(rows, nnz, loaded.used_columns, k as u64, case.dtype));
        Ok(Record {
            sweep: case.sweep.clone(),
            matrix: loaded.facts.clone(),
            dtype: Some(case.dtype),
            devices: "cpu".into(),
            device_count: 1,
            threads: case.threads,
            bytes,
            ..Record::default()
        })
    }

    /// Adds a finished case to the journal and the results.
    fn keep(&mut self, case: &Case, records: Vec<Record>) -> Result<()> {
        if let Some(loaded) = &self.loaded {
            loaded.check()?;
        }
        self.journal.append(&self.key(case), &records)?;
        self.records.extend(records);
        self.finished += 1;
        Ok(())
    }

    fn run(&mut self, case: &Case, timeline_keys: &[String]) -> Result<()> {
        let (base, loaded) = (self.base(case)?, self.loaded()?);
        if let Some(ranks) = case.ranks {
            let record = ranks::run(case, self.config, &self.session, &base, ranks)?;
            return self.keep(case, vec![record]);
        }
        let ran = match (&loaded.single, case.dtype) {
            (Some(single), Dtype::F32) => product::run(case, self.config, &self.session, single, &base)?,
            _ => product::run(case, self.config, &self.session, &loaded.double, &base)?,
        };
        self.keep_run(case, ran, timeline_keys)
    }

    fn keep_run(&mut self, case: &Case, ran: CaseRun, timeline_keys: &[String]) -> Result<()> {
        let key = self.key(case);
        if timeline_keys.contains(&key) {
            self.journal.append(&timeline_key(&key), &ran.timeline)?;
        }
        self.keep(case, vec![ran.record])
    }

    /// A case without a sparse matrix.
    fn dense(&mut self, case: &Case, timeline_keys: &[String]) -> Result<()> {
        if case.subject == StudySubject::Transfers {
            let records = dense::transfers(case, &self.session)?;
            return self.keep(case, records);
        }
        let ran = match case.dtype {
            Dtype::F64 => dense::run::<f64>(case, self.config, &self.session, self.console)?,
            Dtype::F32 => dense::run::<f32>(case, self.config, &self.session, self.console)?,
        };
        self.keep_run(case, ran, timeline_keys)
    }

    fn solve(&mut self, case: &Case) -> Result<()> {
        let (base, loaded) = (self.base(case)?, self.loaded()?);
        let record = match (&loaded.single, case.dtype) {
            (Some(single), Dtype::F32) => solver::measure(case, self.config, &self.session, single, &base)?,
            _ => solver::measure(case, self.config, &self.session, &loaded.double, &base)?,
        };
        self.keep(case, vec![record])
    }

    fn vectors(&mut self, case: &Case) -> Result<()> {
        let (base, loaded) = (self.base(case)?, self.loaded()?);
        let record = vectors::run(case, self.config, &self.session, &loaded.double, &base)?;
        self.keep(case, vec![record])
    }

    fn conversions(&mut self, case: &Case) -> Result<()> {
        let (base, loaded) = (self.base(case)?, self.loaded()?);
        let settings = product::settings(self.config);
        let records = match (&loaded.single, case.dtype) {
            (Some(single), Dtype::F32) => {
                conversion::measure(&single.view(), &self.session, settings, &base)?
            }
            _ => conversion::measure(&loaded.double.view(), &self.session, settings, &base)?,
        };
        self.keep(case, records)
    }

    fn kernels(&mut self, cases: &[&Case]) -> Result<()> {
        let Some(&first) = cases.first() else { return Ok(()) };
        let keys: Vec<String> = cases.iter().map(|case| self.key(case)).collect();
        let Self { config, session, console, journal, loaded, records, finished, .. } = self;
        let loaded = loaded.as_ref().ok_or_else(|| Error::Internal("no matrix is loaded".into()))?;
        let devices: Devices = first.devices.parse().map_err(Error::usage)?;
        let mut places = open_devices(&devices, MODEL, session)?;
        let names = KernelNames::new(&first.kernels)?;
        check_names(&names, &places, &first.kernels)?;
        let settings = product::settings(config);
        let schedule = product::schedule(&first.schedule)?;
        let bench = KernelBench::new(session, console, names, settings, schedule);
        let bench = bench.against(&first.against, &places);
        let ks: Vec<usize> = cases.iter().filter_map(|case| case.k).collect();
        let device_count = places.len();
        let mut taken = KernelCases {
            cases,
            keys,
            devices: device_count,
            journal,
            records,
            finished,
            pending: Vec::new(),
        };
        let (facts, used_columns) = (&loaded.facts, loaded.used_columns);
        match (&loaded.single, first.dtype) {
            (Some(matrix), Dtype::F32) => {
                let single = MeasuredMatrix { facts, matrix, used_columns };
                bench.matrix(&single, &ks, &mut places, &mut taken)?;
            }
            _ => {
                let double = MeasuredMatrix { facts, matrix: &loaded.double, used_columns };
                bench.matrix(&double, &ks, &mut places, &mut taken)?;
            }
        }
        session.interrupt.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_in_configs_names_only_what_exists() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("configs");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                let (config, file) = StudyConfig::read(&path).unwrap();
                check::check_names(&config, &file).unwrap();
                assert!(config.cases(4, count_devices).unwrap().len() > 1, "{}", path.display());
                for sweep in config.sweep.iter().flat_map(|sweep| &sweep.matrices) {
                    assert!(sweep.starts_with("gen:"), "{sweep}: studies in configs/ need no files");
                }
                files += 1;
            }
        }
        assert!(files >= 10, "{files} studies");
    }

    #[test]
    fn devices_are_counted_whether_they_are_present_or_not() {
        let counts = ["cpu", "cpu,emu:0", "sim:h200x4", "cpu,sim:node8", "cuda:0,cuda:1", "nonsense"]
            .map(count_devices);
        assert_eq!(counts, [1, 2, 4, 9, 2, 1]);
    }
}
