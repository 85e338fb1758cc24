//! Random use of the library in one process for a given time: every Y is compared with the reference, and memory, threads and open files
//! must not grow. Threads share runtimes, matrices, plans and vectors.
//!
//! `cargo bench --bench soak -- 600 8` (seconds, threads; `--profile dev` builds faster). It ends with exit code 1 after growth, panics
//! at a wrong Y, and aborts if a thread makes no step for two minutes.

mod shared;
mod usage;
mod worker;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use shared::Shared;
use usage::Usage;
use worker::{Counts, Worker};

/// Samples of memory, threads and open files in a whole run.
const SAMPLES: u32 = 24;
/// A thread without a step for so long waits for ever.
const LONGEST_STEP: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let mut numbers = std::env::args().filter_map(|word| word.parse().ok());
    let (seconds, workers) = (numbers.next().unwrap_or(600u64), numbers.next().unwrap_or(1u64));
    let shared = Shared::new().expect("matrices and threads");
    let (start, interval) = (Instant::now(), Duration::from_secs(seconds) / SAMPLES);
    println!(
        "| seconds | products | with faults | refused | shared vectors | memory KiB | threads | files |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|");
    let barrier = Barrier::new(workers as usize + 1);
    let counts: Vec<Mutex<Counts>> = (0..workers).map(|_| Mutex::default()).collect();
    let steps: Vec<AtomicU64> = (0..workers).map(|_| AtomicU64::new(0)).collect();
    let mut samples: Vec<Usage> = Vec::new();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, (counts, steps)) in counts.iter().zip(&steps).enumerate() {
            let (shared, barrier) = (&shared, &barrier);
            scope.spawn(move || {
                // The other threads would wait for this one.
                let aborts = AbortOnPanic;
                let mut worker = Worker::new(shared, seconds + ((number as u64) << 32));
                for sample in 1..=SAMPLES {
                    while start.elapsed() < interval * sample {
                        worker.step().expect("a step");
                        steps.fetch_add(1, Ordering::Relaxed);
                    }
                    // Products are dropped before each sample, so that their number does not count.
                    worker.clear();
                    *counts.lock().expect("no thread panics") = worker.counts;
                    barrier.wait();
                    barrier.wait();
                }
                std::mem::forget(aborts);
            });
        }
        let (steps, ended) = (&steps, &ended);
        scope.spawn(move || watch(steps, ended, interval));
        for _ in 0..SAMPLES {
            barrier.wait();
            shared.clear();
            let usage = Usage::now();
            samples.push(usage);
            print_row(start.elapsed().as_secs(), &counts, usage);
            barrier.wait();
        }
        ended.store(true, Ordering::Relaxed);
    });
    ExitCode::from(u8::from(usage::grows(&samples, workers)))
}

fn print_row(seconds: u64, counts: &[Mutex<Counts>], usage: Usage) {
    let all: Vec<Counts> = counts.iter().map(|counts| *counts.lock().expect("no thread panics")).collect();
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>();
    println!(
        "| {seconds} | {} | {} | {} | {} | {} | {} | {} |",
        sum(|counts| counts.products),
        sum(|counts| counts.with_faults),
        sum(|counts| counts.refused),
        sum(|counts| counts.on_shared_vectors),
        usage.memory_kib,
        usage.threads,
        usage.files
    );
}

/// Aborts if a thread makes no step for [`LONGEST_STEP`], beside the waits for samples.
fn watch(steps: &[AtomicU64], ended: &AtomicBool, interval: Duration) {
    let mut last: Vec<(u64, Instant)> = steps.iter().map(|_| (0, Instant::now())).collect();
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        for (thread, (steps, last)) in steps.iter().zip(&mut last).enumerate() {
            let now = steps.load(Ordering::Relaxed);
            if now != last.0 {
                *last = (now, Instant::now());
            } else if last.1.elapsed() > LONGEST_STEP + interval {
                eprintln!("thread {thread} makes no step: threads wait for each other");
                std::process::abort();
            }
        }
    }
}

/// Ends the process at a panic of a thread.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        std::process::abort();
    }
}
