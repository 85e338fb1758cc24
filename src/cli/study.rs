//! `rowloom study`: sweeps to a folder with tables, plots and one page; what is finished is never measured again.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::args::{StudyArguments, TRANSFERS};
use super::bench::place_of;
use super::console::{Bar, Console};
use super::kernel_bench::{CaseSink, KernelBench, PEERS, Place, check_names, facts};
use super::options::{DeviceWord, Devices, parse_bytes};
use super::overwrite::Output;
use super::planning::kernel;
use super::session::{MatrixSource, Session, check_intact};
use super::study_output::{self, Finished};
use super::{study_conversion, study_run};
use crate::cost::{Model, preset};
use crate::error::{Error, Result};
use crate::matrix::{Csr, Dtype};
use crate::study::{
    Case, CaseResult, Journal, KernelNames, MatrixFacts, Record, StudyConfig, StudySubject, compulsory_bytes,
    key_of, records_of, used_columns,
};

/// The cost model: what `rowloom calibrate` wrote, if anything.
const MODEL: &str = "auto";

/// Finished cases, a line each.
const JOURNAL: &str = "cases.jsonl";

/// Measures what is not finished, and writes the folder.
pub fn run(arguments: &StudyArguments, console: &Console) -> Result<()> {
    let config = StudyConfig::read(&arguments.config)?;
    check_words(&config)?;
    let session = Session::with(None, config.seed)?;
    let provenance = session.provenance.clone();
    let folder = arguments.output.clone().unwrap_or_else(|| default_folder(&arguments.config));
    std::fs::create_dir_all(&folder).map_err(|source| Error::write(&folder, source))?;
    let cases = config.cases(session.machine.usable_threads, count_devices)?;
    let journal = Journal::open(&folder.join(JOURNAL))?;
    let (inner, notes) = console.gathering();
    let mut study = Study {
        config: &config,
        place: json!([place_of(&session), model_of()?]),
        session,
        console: &inner,
        journal,
        held: None,
        records: Vec::new(),
        finished: 0,
        kept: 0,
    };
    let bar = console.bar(cases.len() as u64, "cases");
    let ended = study.measure(&cases, &bar);
    drop(bar);
    if study.records.is_empty() {
        // There is nothing to show, and what was shown before stays.
        return ended;
    }
    let kept = |case: &Case| study.journal.find(&timeline_key(&study.key(case)));
    let timelines = representatives(&cases).into_iter().filter_map(kept).collect();
    let mut notes: Vec<String> = notes.lock().map(|notes| notes.clone()).unwrap_or_default();
    notes.sort();
    notes.dedup();
    for note in &notes {
        console.note(note);
    }
    let finished = Finished {
        config: &config,
        file: &arguments.config,
        folder: &folder,
        provenance: &provenance,
        records: study.records,
        cases: cases.len(),
        finished: study.finished,
        kept: study.kept,
        timelines,
        notes,
        interrupted: matches!(ended, Err(Error::Interrupted)),
    };
    study_output::write(finished, console)?;
    ended
}

/// The files that a study may replace.
pub fn outputs(arguments: &StudyArguments) -> Vec<(PathBuf, Output)> {
    let folder = arguments.output.clone().unwrap_or_else(|| default_folder(&arguments.config));
    study_output::outputs(&folder, &arguments.config)
}

/// A hash of the cost model that plans are made with.
fn model_of() -> Result<Option<String>> {
    let Some((path, _)) = Model::named(MODEL)? else { return Ok(None) };
    let text = std::fs::read_to_string(&path).map_err(|source| Error::read(&path, source))?;
    Ok(Some(key_of(&Value::from(text))))
}

/// `rowloom-quick` for `configs/quick.toml`.
fn default_folder(config: &Path) -> PathBuf {
    let stem = config.file_stem().map_or_else(|| "study".into(), |stem| stem.to_string_lossy());
    format!("rowloom-{stem}").into()
}

/// How many devices a list of them is; those that cannot be known before they are looked for count as one.
fn count_devices(devices: &str) -> usize {
    let count = |word: &DeviceWord| match word {
        DeviceWord::Simulated { machine } => preset(machine).map_or(1, |preset| preset.gpus.len()),
        _ => 1,
    };
    devices.parse().map_or(1, |devices: Devices| devices.words().iter().map(count).sum())
}

/// An error for a word of the study that means nothing.
fn check_words(config: &StudyConfig) -> Result<()> {
    for sweep in &config.sweep {
        let wrong = |what: String| Error::Usage(format!("sweep {}: {what}", sweep.name));
        for devices in &sweep.devices {
            devices.parse::<Devices>().map_err(wrong)?;
        }
        for bytes in &sweep.chunk_bytes {
            parse_bytes(bytes).map_err(wrong)?;
        }
        for (name, words, known) in [
            ("mode", &sweep.mode, &["auto", "resident", "oneshot", "stream"][..]),
            ("transfer", &sweep.transfer, &TRANSFERS),
            ("schedule", &sweep.schedule, &["balanced", "equal-rows"]),
            ("against", &sweep.against, &PEERS),
        ] {
            if let Some(word) = words.iter().find(|word| !known.contains(&word.as_str())) {
                return Err(wrong(format!("{name}: there is no '{word}'; there are {}", known.join(", "))));
            }
        }
        match sweep.subject {
            StudySubject::Kernel => drop(KernelNames::new(&sweep.kernels)?),
            StudySubject::Run => sweep.kernels.iter().try_for_each(|name| kernel(name).map(drop))?,
            StudySubject::Conversion => {}
        }
    }
    Ok(())
}

/// The runs that are looked into: of those that compute and of those that are simulated the one on most devices, the last
/// of several.
fn representatives(cases: &[Case]) -> Vec<&Case> {
    let is_simulated = |case: &&Case| case.devices.contains("sim:");
    let runs = || cases.iter().filter(|case| case.subject == StudySubject::Run);
    let devices = |case: &&Case| count_devices(&case.devices);
    let real = runs().filter(|case| !is_simulated(case)).max_by_key(devices);
    let simulated = runs().filter(is_simulated).max_by_key(devices);
    real.into_iter().chain(simulated).collect()
}

fn timeline_key(key: &str) -> String {
    format!("{key} timeline")
}

/// A matrix in both precisions, as needed.
struct Held {
    name: String,
    double: Csr<f64>,
    single: Option<Csr<f32>>,
    facts: MatrixFacts,
    used_columns: u64,
}

/// A study in the making.
struct Study<'a> {
    config: &'a StudyConfig,
    /// The program and the machine.
    place: Value,
    session: Session,
    console: &'a Console,
    journal: Journal,
    held: Option<Held>,
    records: Vec<Record>,
    finished: usize,
    /// Cases that were finished before.
    kept: usize,
}

impl Study<'_> {
    /// Everything that defines a case, in one word.
    fn key(&self, case: &Case) -> String {
        let file = match MatrixSource::new(case.matrix.as_ref()) {
            MatrixSource::File(path) => std::fs::metadata(path).ok().map(|file| {
                let modified =
                    file.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
                (file.len(), modified.map(|time| time.as_nanos().to_string()))
            }),
            MatrixSource::Generated(_) => None,
        };
        let StudyConfig { measure, seed, .. } = self.config;
        key_of(&json!({"case": case, "file": file, "measure": measure, "seed": seed, "where": self.place}))
    }

    /// All cases in order; those of kernels that share a matrix and a device together.
    fn measure(&mut self, cases: &[Case], bar: &Bar) -> Result<()> {
        cases.iter().try_for_each(|case| MatrixSource::new(case.matrix.as_ref()).check())?;
        let look_into: Vec<String> = representatives(cases).into_iter().map(|case| self.key(case)).collect();
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
            match self.group(group, &look_into) {
                Ok(()) => {}
                // A matrix that cannot be had is a mistake in the study; what cannot be done with it is a result.
                Err(error @ Error::Usage(_)) if self.held.is_none() => return Err(error),
                Err(error @ (Error::Usage(_) | Error::Device { .. } | Error::DoesNotFit { .. })) => {
                    // Not kept: with another driver or more memory it may work.
                    let facts = self.held.as_ref().map(|held| (held.name.clone(), held.facts.clone()));
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
                    "{kernel} computed a wrong result on {matrix}; see results.csv"
                )))
            }
        }
    }

    /// Cases that differ in K only, or one case.
    fn group(&mut self, group: &[Case], look_into: &[String]) -> Result<()> {
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
        self.session.interrupt.defer();
        self.hold(first)?;
        match first.subject {
            StudySubject::Kernel => self.kernels(&open),
            StudySubject::Run => self.run(first, look_into),
            StudySubject::Conversion => self.conversions(first),
        }
    }

    /// Loads the matrix of a case unless it is there.
    fn hold(&mut self, case: &Case) -> Result<()> {
        if self.held.as_ref().is_none_or(|held| held.name != case.matrix) {
            self.held = None;
            let source = MatrixSource::new(case.matrix.as_ref());
            let (loaded, _) = self.session.load::<f64>(&source, false, self.console)?;
            check_intact(&loaded.matrix, &source)?;
            self.held = Some(Held {
                name: case.matrix.clone(),
                facts: facts(&loaded.info.name, loaded.matrix.view()),
                used_columns: used_columns(loaded.matrix.view()),
                double: loaded.matrix,
                single: None,
            });
        }
        if let (Dtype::F32, Some(held)) = (case.dtype, &mut self.held)
            && held.single.is_none()
        {
            held.single = Some(self.session.pool.install(|| held.double.cast())?);
        }
        Ok(())
    }

    fn held(&self) -> Result<&Held> {
        self.held.as_ref().ok_or_else(|| Error::Internal("no matrix is loaded".into()))
    }

    /// What every record of a case says of the matrix.
    fn base(&self, case: &Case) -> Result<Record> {
        let held = self.held()?;
        let MatrixFacts { rows, nnz, .. } = held.facts;
        let bytes = case.k.map(|k| compulsory_bytes(rows, nnz, held.used_columns, k as u64, case.dtype));
        Ok(Record {
            sweep: case.sweep.clone(),
            matrix: held.facts.clone(),
            dtype: Some(case.dtype),
            devices: "cpu".into(),
            device_count: 1,
            threads: case.threads,
            bytes,
            ..Record::default()
        })
    }

    /// Keeps a finished case.
    fn keep(&mut self, case: &Case, records: Vec<Record>) -> Result<()> {
        self.journal.append(&self.key(case), &records)?;
        self.records.extend(records);
        self.finished += 1;
        Ok(())
    }

    fn run(&mut self, case: &Case, look_into: &[String]) -> Result<()> {
        let (base, held) = (self.base(case)?, self.held()?);
        let ran = match (&held.single, case.dtype) {
            (Some(single), Dtype::F32) => study_run::run(case, self.config, &self.session, single, &base)?,
            _ => study_run::run(case, self.config, &self.session, &held.double, &base)?,
        };
        let key = self.key(case);
        if look_into.contains(&key) {
            self.journal.append(&timeline_key(&key), &ran.timeline)?;
        }
        self.keep(case, vec![ran.record])
    }

    fn conversions(&mut self, case: &Case) -> Result<()> {
        let (base, held) = (self.base(case)?, self.held()?);
        let settings = study_run::settings(self.config);
        let records = match (&held.single, case.dtype) {
            (Some(single), Dtype::F32) => {
                study_conversion::measure(&single.view(), &self.session, settings, &base)?
            }
            _ => study_conversion::measure(&held.double.view(), &self.session, settings, &base)?,
        };
        self.keep(case, records)
    }

    fn kernels(&mut self, cases: &[&Case]) -> Result<()> {
        let Some(&first) = cases.first() else { return Ok(()) };
        let keys: Vec<String> = cases.iter().map(|case| self.key(case)).collect();
        let Self { config, session, console, journal, held, records, finished, .. } = self;
        let held = held.as_ref().ok_or_else(|| Error::Internal("no matrix is loaded".into()))?;
        let devices: Devices = first.devices.parse().map_err(Error::Usage)?;
        let mut places = Place::open(&devices, MODEL, session)?;
        let names = KernelNames::new(&first.kernels)?;
        check_names(&names, &places, &first.kernels)?;
        let settings = study_run::settings(config);
        let schedule = study_run::schedule(&first.schedule)?;
        let bench = KernelBench::new(session, console, names, settings, schedule, &first.against, &places);
        let ks: Vec<usize> = cases.iter().filter_map(|case| case.k).collect();
        let wanted = places.len();
        let mut taken = Taken { cases, keys, wanted, journal, records, finished, pending: Vec::new() };
        let (facts, used) = (&held.facts, held.used_columns);
        match (&held.single, first.dtype) {
            (Some(single), Dtype::F32) => bench.matrix(facts, single, used, &ks, &mut places, &mut taken)?,
            _ => bench.matrix(facts, &held.double, used, &ks, &mut places, &mut taken)?,
        }
        session.interrupt.check()
    }
}

/// The record of a case that could not be measured. `loaded` is the matrix in memory, which names it as other records do.
fn refused(case: &Case, loaded: Option<&(String, MatrixFacts)>, error: &Error) -> Record {
    let facts = loaded.filter(|(name, _)| *name == case.matrix).map(|(_, facts)| facts.clone());
    let is_run = case.subject == StudySubject::Run;
    Record {
        sweep: case.sweep.clone(),
        matrix: facts.unwrap_or_else(|| MatrixFacts { name: case.matrix.clone(), ..MatrixFacts::default() }),
        mode: Some(case.mode.clone()).filter(|_| is_run),
        schedule: Some(case.schedule.clone()),
        transfer: Some(case.transfer.clone()).filter(|_| is_run),
        cpu_share: case.cpu_share,
        dtype: Some(case.dtype),
        k: case.k,
        devices: case.devices.clone(),
        device_count: count_devices(&case.devices),
        threads: case.threads,
        kernel: case.kernels.join(","),
        reason: Some(error.to_string()),
        ..Record::default()
    }
}

/// Takes cases of kernels and keeps each as it is finished.
struct Taken<'a> {
    cases: &'a [&'a Case],
    keys: Vec<String>,
    /// Devices that a case is measured on, one after the other.
    wanted: usize,
    journal: &'a mut Journal,
    records: &'a mut Vec<Record>,
    finished: &'a mut usize,
    /// What the present K gave on the devices so far.
    pending: Vec<CaseResult>,
}

impl CaseSink for Taken<'_> {
    fn wants(&mut self, _dtype: Dtype, _k: usize, _device: &str) -> bool {
        true
    }

    fn take(&mut self, case: CaseResult) -> Result<()> {
        let k = case.k;
        self.pending.push(case);
        if self.pending.len() < self.wanted {
            return Ok(());
        }
        let done = std::mem::take(&mut self.pending);
        let place = self.cases.iter().position(|case| case.k == Some(k));
        let Some((case, key)) = place.and_then(|place| self.cases.get(place).zip(self.keys.get(place)))
        else {
            return Err(Error::Internal(format!("nobody asked for k = {k}")));
        };
        let mut records: Vec<Record> = done.iter().flat_map(records_of).collect();
        for record in &mut records {
            record.sweep = case.sweep.clone();
            record.schedule = Some(case.schedule.clone());
        }
        self.journal.append(key, &records)?;
        self.records.extend(records);
        *self.finished += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ready_study_asks_for_something_that_there_is() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                let config = StudyConfig::read(&path).unwrap();
                check_words(&config).unwrap();
                assert!(config.cases(4, count_devices).unwrap().len() > 1, "{}", path.display());
                for sweep in config.sweep.iter().flat_map(|sweep| &sweep.matrices) {
                    assert!(sweep.starts_with("gen:"), "{sweep}: ready studies need no files");
                }
                files += 1;
            }
        }
        assert!(files >= 10, "{files} studies");
    }

    #[test]
    fn devices_are_counted_whether_they_are_here_or_not() {
        let counts = ["cpu", "cpu,emu:0", "sim:h200x4", "cpu,sim:node8", "cuda:0,cuda:1", "nonsense"]
            .map(count_devices);
        assert_eq!(counts, [1, 2, 4, 9, 2, 1]);
    }
}
