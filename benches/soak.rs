//! Random products in one process for a given time: every Y is compared with the reference, and memory, threads and open files must
//! not grow.
//!
//! `cargo bench --bench soak -- 600` (seconds; `--profile dev` builds faster). It ends with exit code 1 after growth, and panics at a
//! wrong Y.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowloom::kernel::reference;
use rowloom::machine::Machine;
use rowloom::matrix::{Csr, MultiVector, generate};
use rowloom::plan::Mode;
use rowloom::runtime::{Pool, ProductOptions, Runtime, Transfer};
use rowloom::{Error, Product, Result};

const MATRICES: [&str; 8] = [
    "stencil27,n=6",
    "rmat,scale=8,degree=6",
    "hub,rows=400,degree=3,hubs=2",
    "arrow,rows=300",
    "road,n=500",
    "fem3,n=4",
    "diagonal,rows=200",
    "uniform,rows=150,degree=20",
];
const DEVICES: [&str; 5] = ["cpu", "emu:0", "cpu,emu:0", "emu:0,emu:1", "cpu,emu:0,emu:1"];
const FAULTS: [&str; 5] =
    ["out_of_memory_at_allocation", "refuse_registration", "fail_launch", "fail_copy", "lost_at_operation"];
/// Products that are kept for further use.
const KEPT: usize = 6;
/// Samples of memory, threads and open files in a whole run.
const SAMPLES: u32 = 24;
/// Growth of memory that counts as none: allocators keep some of what was freed.
const MEMORY_TOLERANCE_KIB: u64 = 4 << 10;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A product that is used again, with what its Y must be.
struct Kept {
    product: Product<'static, f64>,
    x: MultiVector<f64>,
    expected: MultiVector<f64>,
    words: String,
}

/// What the process uses.
#[derive(Debug, Clone, Copy)]
struct Usage {
    memory_kib: u64,
    threads: u64,
    files: usize,
}

impl Usage {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
        let number = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("the kernel names it");
            line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("it is a number")
        };
        let files = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted").count();
        Self { memory_kib: number("VmRSS:"), threads: number("Threads:"), files }
    }
}

struct Soak {
    random: Random,
    machine: Machine,
    pool: Arc<Pool>,
    /// A runtime per device list, open for the whole time.
    runtimes: HashMap<&'static str, Runtime>,
    kept: Vec<Kept>,
    products: u64,
    with_faults: u64,
    refused: u64,
}

impl Soak {
    fn runtime(&self, devices: &str) -> Result<Runtime> {
        let builder = Runtime::builder().devices(devices).model("none").refine(false);
        builder.pool(self.machine.clone(), self.pool.clone()).open()
    }

    /// One random step.
    fn step(&mut self) -> Result<()> {
        if !self.kept.is_empty() && self.random.below(3) > 0 {
            let index = self.random.below(self.kept.len());
            self.use_again(index)?;
            if self.random.below(6) == 0 {
                self.kept.swap_remove(index);
            }
            return Ok(());
        }
        let devices = self.random.one(&DEVICES);
        let is_faulty = self.random.below(3) == 0 && devices != "cpu";
        let (runtime, words) = if is_faulty {
            let fault = format!("emu:0?{}={}", self.random.one(&FAULTS), 1 + self.random.below(30));
            let words = devices.replace("emu:0", &fault);
            (self.runtime(&words)?, words)
        } else {
            if !self.runtimes.contains_key(devices) {
                self.runtimes.insert(devices, self.runtime(devices)?);
            }
            (self.runtimes[devices].clone(), devices.to_string())
        };
        let a: Csr<f64> =
            generate(self.random.one(&MATRICES), self.random.below(1000) as u64, u64::MAX)?.matrix;
        let k = self.random.one(&[1, 2, 3, 8, 17]);
        let x = MultiVector::random(a.cols(), k, self.products)?;
        let mut expected = MultiVector::zeros(a.rows(), k)?;
        reference::csr(a.view(), x.view(), &mut expected.view_mut())?;
        let options = ProductOptions {
            uses: Some(1 + self.random.below(20) as u64),
            mode: self.random.one(&[None, Some(Mode::Oneshot), Some(Mode::Stream), Some(Mode::Resident)]),
            chunks: self.random.one(&[None, Some(1), Some(5), Some(9)]),
            transfer: self.random.one(&[Transfer::Auto, Transfer::Staged, Transfer::Registered]),
            reproducible: true,
            ..ProductOptions::default()
        };
        self.with_faults += u64::from(is_faulty);
        let built = runtime.product(a).columns(k).options(options).build();
        let product = match built {
            Err(Error::Device { .. }) if is_faulty => {
                self.refused += 1;
                return Ok(());
            }
            built => built?,
        };
        self.kept.push(Kept { product, x, expected, words });
        let last = self.kept.len() - 1;
        let used = self.use_again(last);
        if is_faulty || self.kept.len() > KEPT {
            let index = if is_faulty { last } else { 0 };
            self.kept.swap_remove(index);
        }
        match used {
            Err(Error::Device { .. }) if is_faulty => {
                self.refused += 1;
                Ok(())
            }
            used => used,
        }
    }

    fn use_again(&mut self, index: usize) -> Result<()> {
        let Kept { product, x, expected, words } = &mut self.kept[index];
        let in_vectors = !words.contains('?') && expected.rows() == x.rows() && self.random.below(3) == 0;
        let y = if in_vectors {
            let (mut on_devices, mut y) = (product.vectors()?, product.vectors()?);
            on_devices.copy_from(&*x)?;
            product.apply_into(&on_devices, &mut y)?;
            let mut host = MultiVector::zeros(y.rows(), y.columns())?;
            y.copy_to(&mut host)?;
            host
        } else {
            product.apply(&*x)?
        };
        let bits =
            |values: &MultiVector<f64>| values.data().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert!(bits(&y) == bits(expected), "a wrong Y on {words}");
        self.products += 1;
        Ok(())
    }
}

fn main() -> ExitCode {
    let seconds = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(600u64);
    let machine = Machine::detect();
    let pool = Arc::new(Pool::new(&machine, Some(2)).expect("two threads can be started"));
    let (runtimes, kept) = (HashMap::new(), Vec::new());
    let random = Random(seconds);
    let mut soak = Soak { random, machine, pool, runtimes, kept, products: 0, with_faults: 0, refused: 0 };
    let (start, interval) = (Instant::now(), Duration::from_secs(seconds) / SAMPLES);
    let mut samples: Vec<Usage> = Vec::new();
    println!("| seconds | products | with faults | refused | memory KiB | threads | files |");
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    while samples.len() < SAMPLES as usize {
        while start.elapsed() < interval * (samples.len() as u32 + 1) {
            soak.step().expect("a step");
        }
        // Products are dropped before each sample, so that their number does not count.
        soak.kept.clear();
        let usage = Usage::now();
        let Soak { products, with_faults, refused, .. } = &soak;
        let Usage { memory_kib, threads, files } = usage;
        let elapsed = start.elapsed().as_secs();
        println!(
            "| {elapsed} | {products} | {with_faults} | {refused} | {memory_kib} | {threads} | {files} |"
        );
        samples.push(usage);
    }
    // The first third warms up; the medians of the second and the last are compared.
    let third = samples.len() / 3;
    let median = |part: &[Usage], of: fn(&Usage) -> u64| {
        let mut values: Vec<u64> = part.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let (middle, last) = (&samples[third..2 * third], &samples[2 * third..]);
    let mut grown = false;
    for (name, of, tolerance) in [
        ("memory in KiB", (|usage| usage.memory_kib) as fn(&Usage) -> u64, MEMORY_TOLERANCE_KIB),
        ("threads", |usage| usage.threads, 0),
        ("open files", |usage| usage.files as u64, 0),
    ] {
        let (before, after) = (median(middle, of), median(last, of));
        let grows = after > before + tolerance;
        println!("{name}: {before}, then {after}{}", if grows { ": it grows" } else { "" });
        grown |= grows;
    }
    ExitCode::from(u8::from(grown))
}
