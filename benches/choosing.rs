//! Times the choice of a kernel: computing the features of all rows, and choosing among all forms for an H200 and for this CPU.
//! Prints both as a share of one product of 32 columns on this CPU, in double precision, whose Y is checked.
//!
//! `cargo bench --bench choosing`

#[path = "support/verified.rs"]
mod verified;

use std::time::Instant;

use rowloom::internal::cost::{Form, cpu_profile, preset};
use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings};
use rowloom::internal::kernel::{KernelId, Processor, Schedule};
use rowloom::internal::machine::{Isa, Machine};
use rowloom::internal::matrix::{Csr, Dtype, MultiVector, generate};
use rowloom::internal::runtime::Pool;
use rowloom::internal::work::ChunkRows;
use rowloom::internal::work::spmm::cost::{choose, eligible};
use rowloom::internal::work::spmm::{Features, Spmm};

const MATRICES: [&str; 6] = [
    "stencil27,n=100",
    "rmat,scale=19,degree=16",
    "road,n=2000000",
    "uniform,rows=1000000,degree=16",
    "fem3,n=40",
    "band,rows=1000000,width=9",
];
const K: usize = 32;
const REPEATS: usize = 9;

/// The shortest of [`REPEATS`] times, in milliseconds.
fn shortest_ms(mut work: impl FnMut()) -> f64 {
    let times = (0..REPEATS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e3
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() -> rowloom::Result<()> {
    let machine = Machine::detect();
    let pool = Pool::new(&machine, None)?;
    let threads = pool.threads();
    let card = preset("h200")?.gpus.remove(0);
    let cpu = cpu_profile(threads, u64::MAX)?;
    println!("{:<32} {:>10} {:>10} {:>10} {:>8}", "matrix", "features", "choice", "product", "share");
    for spec in MATRICES {
        let matrix: Csr<f64> = pool.install(|| generate(spec, 1, u64::MAX))?.matrix;
        let work = Spmm::new(&matrix.view(), K)?;
        let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
        let features = pool.install(|| Features::of(&work, &all));
        let features_ms = pool.install(|| {
            shortest_ms(|| {
                std::hint::black_box(Features::of(&work, &all));
            })
        });
        let choice_ms = shortest_ms(|| {
            for device in [&card, &cpu] {
                let forms = eligible(device.processor).iter();
                let forms = forms.flat_map(|&kernel| match device.processor {
                    Processor::Gpu => Form::all(kernel, Dtype::F64, K as u64, true),
                    Processor::Cpu => vec![Form::cpu(kernel)],
                });
                std::hint::black_box(choose(device, &features, K as u64, Dtype::F64, forms));
            }
        });
        let x = pool.install(|| MultiVector::<f64>::random(matrix.cols(), K, 1))?;
        let mut y = MultiVector::filled(matrix.rows(), K, f64::NAN)?;
        let settings = CpuSettings { k: K, threads, isa: Isa::detect(), schedule: Schedule::Balanced };
        let product_ms = pool.install(|| {
            let mut product = CpuProduct::prepare(matrix.view(), KernelId::CpuCsr, settings, u64::MAX)?;
            let mut failed = Ok(());
            let ms = shortest_ms(|| {
                if let Err(error) = product.run(x.view(), y.view_mut()) {
                    failed = Err(error);
                }
            });
            failed.map(|()| ms)
        })?;
        verified::require(&pool, spec, matrix.view(), x.view(), y.view())?;
        let share = (features_ms + choice_ms) / product_ms * 100.0;
        println!("{spec:<32} {features_ms:>7.3} ms {choice_ms:>7.3} ms {product_ms:>7.2} ms {share:>6.2} %");
    }
    Ok(())
}
