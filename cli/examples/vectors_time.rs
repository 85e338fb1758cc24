//! Compares the time of repeated products with the time of their kernel alone.
//!
//! `cargo run --release --example vectors_time -- DEVICE MATRIX...`, such as `cuda:0 gen:stencil27,n=96 cant.mtx`.
//!
//! For each matrix and K = 1, 8, 32 it prints the median time of a product on vectors that stay on the device, of the kernel of its plan
//! as `rowloom bench` measures it, their ratio and their difference. Products are timed in batches of 50: each reads the Y of the
//! one before it, and a batch ends when the device has computed the last one. On the CPU, products on host memory
//! are timed too. The kernel and the products are timed in turns, so that a change of the clock frequency affects both.

use std::time::Instant;

use rowloom::internal::cost::Form;
use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings};
use rowloom::internal::kernel::{Processor, Schedule};
use rowloom::internal::machine::{Isa, memory_limit_bytes};
use rowloom::internal::runtime::Vectors;
use rowloom::{Csr, Error, MultiVector, Product, Result, Runtime};
use rowloom_cli::measure::{KernelNames, ResidentBench, Subject, SynchronousDevice, form_names};

const BATCH: usize = 50;
const COLUMNS: [usize; 3] = [1, 8, 32];
const LEAST_ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 200;
/// Seconds after which no further round begins.
const CASE_SECONDS: f64 = 1.0;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().unwrap_or_else(|| "auto".into());
    let mut matrices: Vec<String> = arguments.collect();
    if matrices.is_empty() {
        matrices = vec!["gen:stencil5,n=30".into(), "gen:stencil27,n=12".into()];
    }
    let runtime = Runtime::open(&device)?;
    println!("| matrix | K | X and Y | kernel | product µs | kernel µs | ratio | difference µs |");
    println!("|---|---:|---|---|---:|---:|---:|---:|");
    for name in &matrices {
        let a = matrix(name)?;
        for k in COLUMNS {
            time(&runtime, name, &a, k)?;
        }
    }
    Ok(())
}

fn matrix(name: &str) -> Result<Csr<f64>> {
    match name.starts_with("gen:") {
        true => Csr::generate(name),
        false => Csr::read(name),
    }
}

/// Times products with `k` columns and prints one line per place of X and Y.
fn time(runtime: &Runtime, name: &str, a: &Csr<f64>, k: usize) -> Result<()> {
    let x = MultiVector::from_fn(a.cols(), k, |row, column| ((row + 3 * column) % 7) as f64 - 3.0)?;
    let mut product = runtime.product(a).columns(k).uses(10_000).build()?;
    let plan = product.vector_plan()?;
    let [chunk] = &plan.chunks[..] else {
        return Err(Error::usage("the product is divided among several devices; name one device"));
    };
    let device = &plan.devices[chunk.home as usize];
    let (processor, device) = (device.profile.processor, device.name.clone());
    let form = chunk.form(processor);
    let mut chain = Chain::new(&mut product, &x)?;
    let print = |place: &str, form: &Form, product_s: &[f64], kernel_s: &[f64]| {
        let (product_us, kernel_us) = (1e6 * median(product_s), 1e6 * median(kernel_s));
        println!(
            "| {name} | {k} | {place} | {} | {product_us:.2} | {kernel_us:.2} | {:.3} | {:.2} |",
            form_names(form)[0],
            product_us / kernel_us,
            product_us - kernel_us
        );
    };

    let (mut products, mut kernels) = (Vec::new(), Vec::new());
    if processor == Processor::Gpu {
        let mut device = SynchronousDevice::open(runtime, &device)?;
        let mut bench = ResidentBench::new(&mut device, a.view(), &KernelNames::of_form(&form));
        bench.take_x(x.view())?;
        let names = form_names(&form);
        let number = bench.kernels().iter().position(|(_, name)| names.contains(name));
        let missing = || Error::usage(format!("{} cannot be timed alone", names[0]));
        let number = number.ok_or_else(missing)?;
        bench.ready(number)?.map_err(Error::usage)?;
        // The first run finds how many launches a measurement consists of.
        bench.run(number, x.view())?.map_err(Error::usage)?;
        rounds(|| {
            products.push(chain.run(&mut product)?);
            kernels.push(bench.run(number, x.view())?.map_err(Error::usage)?);
            Ok(())
        })?;
        print("vectors", &form, &products, &kernels);
        return Ok(());
    }

    let mut y = MultiVector::zeros(a.rows(), k)?;
    let mut bare = HostKernel::new(runtime, a, k, form)?;
    rounds(|| {
        kernels.push(bare.run(runtime, &x, &mut y)?);
        products.push(chain.run(&mut product)?);
        Ok(())
    })?;
    print("vectors", &form, &products, &kernels);

    product.apply_into(&x, &mut y)?;
    let chunk = product.plan().chunks.first().ok_or_else(|| Error::Internal("an empty plan".into()))?;
    let form = chunk.form(Processor::Cpu);
    let mut bare = HostKernel::new(runtime, a, k, form)?;
    products.clear();
    kernels.clear();
    rounds(|| {
        kernels.push(bare.run(runtime, &x, &mut y)?);
        let start = Instant::now();
        for _ in 0..BATCH {
            product.apply_into(&x, &mut y)?;
        }
        products.push(start.elapsed().as_secs_f64() / BATCH as f64);
        Ok(())
    })?;
    print("host memory", &form, &products, &kernels);
    Ok(())
}

/// Products on vectors, each with the Y of the one before it as X, where the matrix is square.
struct Chain {
    start: Vectors<f64>,
    x: Vectors<f64>,
    y: Vectors<f64>,
    square: bool,
}

impl Chain {
    fn new(product: &mut Product<'_, f64>, x: &MultiVector<f64>) -> Result<Self> {
        let square = product.matrix().rows() == product.matrix().cols();
        let mut start = product.x_vectors()?;
        start.copy_from(x)?;
        Ok(Self { start, x: product.x_vectors()?, y: product.vectors()?, square })
    }

    /// Seconds per product of a batch.
    fn run(&mut self, product: &mut Product<'_, f64>) -> Result<f64> {
        let Self { start, x, y, square } = self;
        // Values that overflow or vanish take another time.
        x.axpby(1.0, start, 0.0)?;
        x.synchronize()?;
        let begin = Instant::now();
        for _ in 0..BATCH {
            product.apply_into(x, y)?;
            if *square {
                std::mem::swap(x, y);
            }
        }
        x.synchronize()?;
        Ok(begin.elapsed().as_secs_f64() / BATCH as f64)
    }
}

/// A kernel of the CPU alone.
struct HostKernel<'a> {
    product: CpuProduct<'a, f64>,
}

impl<'a> HostKernel<'a> {
    fn new(runtime: &Runtime, a: &'a Csr<f64>, k: usize, form: Form) -> Result<Self> {
        let pool = runtime.pool();
        let settings =
            CpuSettings { k, threads: pool.threads(), isa: Isa::detect(), schedule: Schedule::default() };
        let prepare = || CpuProduct::prepare(a.view(), form.kernel, settings, memory_limit_bytes());
        Ok(Self { product: pool.install(prepare)? })
    }

    /// Seconds per run of a batch on the worker threads.
    fn run(&mut self, runtime: &Runtime, x: &MultiVector<f64>, y: &mut MultiVector<f64>) -> Result<f64> {
        runtime.pool().install(|| {
            let begin = Instant::now();
            for _ in 0..BATCH {
                self.product.run(x.view(), y.view_mut())?;
            }
            Ok(begin.elapsed().as_secs_f64() / BATCH as f64)
        })
    }
}

/// Repeats `round` for about `CASE_SECONDS`.
fn rounds(mut round: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    for done in 0..MOST_ROUNDS {
        if done >= LEAST_ROUNDS && start.elapsed().as_secs_f64() > CASE_SECONDS {
            break;
        }
        round()?;
    }
    Ok(())
}

fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
