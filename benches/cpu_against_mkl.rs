//! Compares Rowloom's CPU kernels with Intel MKL's inspector-executor, in one process, on the same arrays.
//!
//! ```text
//! python3 -m venv venv && venv/bin/pip install mkl
//! cargo bench --bench cpu_against_mkl -- --mkl venv/lib/libmkl_rt.so.3 --matrices FOLDER
//! ```
//!
//! FOLDER holds SuiteSparse matrices as `.mtx.gz`; without it only generated matrices are measured. Preparation is not
//! timed on either side: MKL gets a hint for a thousand products and optimises. Rounds of both alternate. After a round of MKL its
//! threads get time to go to sleep, since they would otherwise spin on the cores that Rowloom uses. Speed-ups are of Rowloom over
//! MKL: above 1, Rowloom is faster. Every Y of both is verified after it was timed; a wrong one ends the program with exit code 1 and without
//! ratios. This program asserts no speed.

#[path = "support/mkl.rs"]
mod mkl;
#[path = "support/verified.rs"]
mod verified;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings, Kernels};
use rowloom::internal::kernel::{KernelId, Schedule};
use rowloom::internal::machine::{Isa, Machine};
use rowloom::internal::matrix::io::{self, ReadOptions};
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::runtime::Pool;

/// Matrices that are measured together.
struct Set {
    name: &'static str,
    generated: &'static [&'static str],
    /// Names of SuiteSparse matrices.
    files: &'static [&'static str],
}

const SETS: [Set; 3] = [
    // The ten largest of the project's SuiteSparse matrices, with which the kernels were developed.
    Set {
        name: "large",
        generated: &["stencil27,n=64", "fem3,n=32", "rmat,scale=17,degree=16"],
        files: &[
            "mycielskian15",
            "bibd_22_8",
            "cnr-2000",
            "wave",
            "boyd1",
            "pkustk02",
            "bcsstk33",
            "Trefethen_20000",
            "GT01R",
            "usroads",
        ],
    },
    // At most eight nonzeros a row.
    Set {
        name: "short",
        generated: &[
            "uniform,rows=50000,degree=4,cols=14000",
            "uniform,rows=20000,degree=8",
            "uniform,rows=400000,degree=3",
            "uniform,rows=30000,degree=6,cols=200000",
            "stencil5,n=250",
            "stencil7,n=40",
            "road,n=100000",
            "rmat,scale=15,degree=4",
            "holes,rows=60000,degree=5",
            "band,rows=100000,width=5",
        ],
        files: &[
            "ch7-8-b3",
            "mk12-b5",
            "luxembourg_osm",
            "internet",
            "delaunay_n15",
            "D6-6",
            "lp_stocfor3",
            "bayer10",
            "finance256",
            "lp_dfl001",
        ],
    },
    // A few long rows among short ones.
    Set {
        name: "long-rows",
        generated: &[
            "hub,rows=16000,degree=10,hubs=1",
            "hub,rows=60000,degree=4,hubs=3",
            "arrow,rows=50000",
            "mixed,n=16,degree=4,hubs=2",
        ],
        files: &["lowThrust_13", "memplus", "adder_dcop_05", "G64", "Reuters911", "orani678"],
    },
];

/// How long MKL's threads spin after a call; `KMP_BLOCKTIME` is set to this.
const MKL_SPIN_TIME: Duration = Duration::from_millis(10);
const ROUNDS: usize = 5;
const ROUND_SECONDS: f64 = 0.06;

struct Options {
    mkl: String,
    matrices: Option<PathBuf>,
    set: &'static Set,
    only: Option<String>,
    ks: Vec<usize>,
    dtypes: Vec<String>,
    kernel: KernelId,
    threads: usize,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self {
            mkl: "libmkl_rt.so.3".into(),
            matrices: None,
            set: &SETS[0],
            only: None,
            ks: vec![1, 2, 4, 8, 16, 32, 64, 128],
            dtypes: vec!["f64".into(), "f32".into()],
            kernel: KernelId::CpuCsr,
            threads: Machine::detect().usable_threads,
        };
        let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_else(|| panic!("{name} needs a value"));
            match name.as_str() {
                "--mkl" => options.mkl = value,
                "--matrices" => options.matrices = Some(value.into()),
                "--set" => {
                    options.set =
                        SETS.iter().find(|set| set.name == value).expect("large, short or long-rows")
                }
                "--only" => options.only = Some(value),
                "-k" => options.ks = value.split(',').map(|k| k.parse().expect("a number")).collect(),
                "--dtype" => options.dtypes = value.split(',').map(String::from).collect(),
                "--kernel" => options.kernel = KernelId::by_name(&value).expect("a kernel"),
                "--threads" => options.threads = value.parse().expect("a number"),
                _ => panic!("unknown option {name}"),
            }
        }
        options
    }
}

/// Times of one side, in seconds.
#[derive(Default)]
struct Samples(Vec<f64>);

impl Samples {
    fn round(&mut self, mut run: impl FnMut()) {
        run();
        let begin = Instant::now();
        while begin.elapsed().as_secs_f64() < ROUND_SECONDS {
            let start = Instant::now();
            run();
            self.0.push(start.elapsed().as_secs_f64());
        }
    }

    fn median(&mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0[self.0.len() / 2]
    }

    fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

fn case<T: Kernels>(
    options: &Options,
    mkl: &mkl::Mkl,
    pool: &Pool,
    name: &str,
    matrix: &Csr<T>,
    k: usize,
) -> rowloom::Result<f64> {
    let mut state = 1u64;
    let x = MultiVector::from_fn(matrix.cols(), k, |_, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        T::from_f64((state >> 33) as f64 / f64::from(1 << 30) - 1.0)
    })
    .unwrap();
    let unwritten = || MultiVector::filled(matrix.rows(), k, T::from_f64(f64::NAN)).unwrap();
    let (mut y, mut y_mkl) = (unwritten(), unwritten());
    let settings =
        CpuSettings { k, threads: options.threads, isa: Isa::detect(), schedule: Schedule::Balanced };
    let mut ours =
        pool.install(|| CpuProduct::prepare(matrix.view(), options.kernel, settings, u64::MAX)).unwrap();
    let theirs = mkl.csr(matrix.view(), k);
    let (mut our_times, mut their_times) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        their_times.round(|| theirs.multiply(x.data(), y_mkl.data_mut()));
        std::thread::sleep(MKL_SPIN_TIME + MKL_SPIN_TIME / 2);
        pool.install(|| our_times.round(|| ours.run(x.view(), y.view_mut()).unwrap()));
    }
    for (whose, y) in [("Rowloom", &y), ("MKL", &y_mkl)] {
        let what = format!("{whose}, {name}, {}, K = {k}", T::DTYPE);
        verified::require(pool, &what, matrix.view(), x.view(), y.view())?;
    }
    let (our_median, their_median) = (our_times.median(), their_times.median());
    let gflops = |seconds: f64| 2.0 * matrix.nnz() as f64 * k as f64 / seconds / 1e9;
    let speedup = their_median / our_median;
    println!(
        "| {name} | {} | {k} | {:.3} | {:.3} | {:.1} | {:.1} | {speedup:.2} | {:.2} |",
        T::DTYPE,
        our_median * 1e3,
        their_median * 1e3,
        gflops(our_median),
        gflops(their_median),
        their_times.min() / our_times.min(),
    );
    Ok(speedup)
}

fn main() -> rowloom::Result<()> {
    // MKL reads these when it is loaded. A short spin keeps its threads awake between its own calls, and they sleep during
    // Rowloom's.
    // SAFETY: no other thread runs yet.
    unsafe {
        std::env::set_var("KMP_BLOCKTIME", MKL_SPIN_TIME.as_millis().to_string());
        std::env::set_var("MKL_THREADING_LAYER", "INTEL");
    }
    let options = Options::parse();
    let mkl = match mkl::Mkl::load(&options.mkl) {
        Ok(mkl) => mkl,
        Err(error) => {
            println!("MKL cannot be loaded, so nothing is compared: {error}");
            return Ok(());
        }
    };
    mkl.set_threads(options.threads as i32);
    let machine = Machine::detect();
    let pool = Pool::new(&machine, Some(options.threads)).unwrap();
    println!(
        "{}, {} threads, {}; kernel {}",
        machine.cpu,
        options.threads,
        machine.isa.name(),
        options.kernel.name()
    );
    println!(
        "\n| matrix | dtype | K | Rowloom ms | MKL ms | Rowloom GFLOP/s | MKL GFLOP/s | speed-up | speed-up of minima |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|");
    let mut names: Vec<String> = options.set.generated.iter().map(|spec| format!("gen:{spec}")).collect();
    if options.matrices.is_some() {
        names.extend(options.set.files.iter().map(|name| name.to_string()));
    }
    let mut ratios = Vec::new();
    for name in
        names.iter().filter(|name| options.only.as_ref().is_none_or(|only| name.contains(only.as_str())))
    {
        let matrix = pool.install(|| match (name.strip_prefix("gen:"), &options.matrices) {
            (Some(spec), _) => generate::<f64>(spec, 1, u64::MAX).unwrap().matrix,
            (None, Some(folder)) => {
                let path = folder.join(format!("{name}.mtx.gz"));
                io::read::<f64>(&path, &ReadOptions::default()).unwrap().matrix
            }
            (None, None) => unreachable!("files are listed only with --matrices"),
        });
        for dtype in &options.dtypes {
            for &k in &options.ks {
                let ratio = match dtype.as_str() {
                    "f64" => case(&options, &mkl, &pool, name, &matrix, k)?,
                    _ => case(&options, &mkl, &pool, name, &matrix.cast::<f32>().unwrap(), k)?,
                };
                ratios.push((ratio, format!("{name} {dtype} K={k}")));
            }
        }
    }
    let geomean = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let below = ratios.iter().filter(|(ratio, _)| *ratio < 0.95).count();
    let slower = ratios.iter().filter(|(ratio, _)| *ratio < 1.0).count();
    println!(
        "\nspeed-up over MKL, {} cases: geometric mean {geomean:.3}, {slower} below 1, {below} below 0.95; the lowest:",
        ratios.len()
    );
    for (ratio, case) in ratios.iter().take(12) {
        println!("  {ratio:.3}  {case}");
    }
    Ok(())
}
