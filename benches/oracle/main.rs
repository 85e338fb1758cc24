//! The differential oracle: draws products of every kind and compares them with a slow reference.
//!
//! `cargo bench --bench oracle -- --seconds 120` (`--profile dev` builds faster). Every case has a seed of its own, from which
//! `--case SEED` repeats it. The first failure is reduced, printed, and ends the run with exit code 1. A value of a dimension that was
//! never drawn is a failure, too. docs/reliability.md has all options.

mod case;
mod checks;
mod colmean;
mod coverage;
mod cpu;
mod dense;
mod failure;
mod files;
mod gemm;
mod grid;
mod judge;
mod lab;
mod operations;
mod options;
mod panics;
mod problem;
mod random;
mod ranks;
mod reference;
mod runs;
mod runtime;
mod shrink;
mod sparse;
mod structure;
mod values;
mod vectors;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use case::{Family, Tally};
use coverage::Coverage;
use lab::Lab;
use options::Options;
use problem::Problem;
use random::{Random, derived};

/// Seeds that failed once.
const SEEDS: &str = include_str!("seeds.txt");

/// What all threads have found so far.
#[derive(Default)]
struct Found {
    coverage: Coverage,
    families: BTreeMap<Family, Counts>,
    refused: BTreeMap<String, u64>,
    failure: Option<(u64, String, Problem)>,
}

#[derive(Default)]
struct Counts {
    cases: u64,
    products: u64,
    seconds: f64,
}

impl Found {
    fn add(&mut self, seed: u64, family: Family, tally: Tally, coverage: &Coverage, seconds: f64) {
        self.coverage.add(coverage);
        let counts = self.families.entry(family).or_default();
        counts.cases += 1;
        counts.products += tally.compared;
        counts.seconds += seconds;
        for reason in tally.refused {
            *self.refused.entry(format!("{}: {reason}", family.name())).or_default() += 1;
        }
        if let (None, Some((what, problem))) = (&self.failure, tally.failure) {
            self.failure = Some((seed, what, problem));
        }
    }

    fn report(&self, elapsed: f64) {
        println!("{}", self.coverage.table());
        if !self.refused.is_empty() {
            println!("refused with a typed error:");
            self.refused.iter().for_each(|(reason, count)| println!("{count:>8}  {reason}"));
            println!();
        }
        let mut all = 0;
        for (family, Counts { cases, products, seconds }) in &self.families {
            let rate = *products as f64 / seconds.max(1e-9);
            println!("{}: {products} products in {cases} cases, {rate:.0} per second", family.words());
            all += products;
        }
        println!("{}", checks::report());
        let failures = u64::from(self.failure.is_some());
        println!(
            "{all} products compared in {elapsed:.0} s, {:.0} per second; {failures} failures",
            all as f64 / elapsed
        );
    }
}

/// Runs one case, and stops all threads at a failure.
fn run_case(seed: u64, options: &Options, lab: &mut Lab, found: &Mutex<Found>, stop: &AtomicBool) {
    let Some(family) = Family::of_seed(seed) else { return };
    let (start, mut coverage) = (Instant::now(), Coverage::default());
    let tally = case::run(seed, family, &options.restrictions, &mut coverage, lab);
    if tally.failure.is_some() {
        stop.store(true, Ordering::Relaxed);
    }
    let mut found = found.lock().expect("no thread panics while it holds the lock");
    found.add(seed, family, tally, &coverage, start.elapsed().as_secs_f64());
}

/// Draws cases until the time is over or one fails.
fn work(options: &Options, next: &AtomicU64, found: &Mutex<Found>, stop: &AtomicBool, start: Instant) {
    let mut lab = Lab::new();
    let families = options.families();
    while !stop.load(Ordering::Relaxed) && start.elapsed().as_secs_f64() < options.seconds {
        let drawn = derived(options.seed, next.fetch_add(1, Ordering::Relaxed));
        let family = Random::new(drawn).weighted(&families);
        run_case(family.seed(drawn), options, &mut lab, found, stop);
    }
}

/// The seeds of the list whose family is drawn.
fn known_seeds(options: &Options) -> Vec<u64> {
    let families = options.families();
    let words = SEEDS.lines().filter_map(|line| line.split('#').next()?.split_whitespace().next());
    let seeds = words.map(|word| options::seed(word).expect("seeds.txt has seeds"));
    let is_drawn = |seed: &u64| {
        Family::of_seed(*seed).is_some_and(|own| families.iter().any(|(family, _)| *family == own))
    };
    seeds.filter(is_drawn).collect()
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    if let Some(folder) = &options.matrices {
        return match files::check(folder) {
            Ok(products) => {
                println!("{products} products with matrices of files; 0 failures");
                ExitCode::SUCCESS
            }
            Err(what) => {
                println!("{what}");
                ExitCode::FAILURE
            }
        };
    }
    panics::collect();
    let (found, stop, next) = (Mutex::new(Found::default()), AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    let mut lab = Lab::new();
    match options.case {
        Some(seed) => {
            println!("case {seed:#x}");
            run_case(seed, &options, &mut lab, &found, &stop);
        }
        None => {
            println!("seed {:#x}", options.seed);
            for (family, _) in options.families() {
                case::expect(&mut found.lock().expect("it is free").coverage, family, &options.restrictions);
            }
            for seed in known_seeds(&options) {
                run_case(seed, &options, &mut lab, &found, &stop);
            }
            std::thread::scope(|scope| {
                for _ in 0..options.jobs {
                    scope.spawn(|| work(&options, &next, &found, &stop, start));
                }
            });
        }
    }
    let found = found.into_inner().expect("no thread panicked");
    found.report(start.elapsed().as_secs_f64());
    let mut failed = false;
    if let Some((seed, what, problem)) = &found.failure {
        failure::report(*seed, what, problem, &mut lab, &options.words(), Duration::from_secs(60));
        failed = true;
    } else if options.case.is_none() {
        for value in found.coverage.never_drawn() {
            println!("never drawn: {value}");
            failed = true;
        }
    }
    ExitCode::from(u8::from(failed))
}
