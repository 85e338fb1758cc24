//! Products and vectors of several ranks, which are threads here: the same bits as in one process, and exactly the rows that are needed
//! cross between ranks.

use std::sync::Arc;

use rowloom::internal::device::network::{
    Communicator, thread_communicators, thread_communicators_with_timeout,
};
use rowloom::internal::graph::{Graph, TaskId, TaskKind};
use rowloom::internal::kernel::verify::verify;
use rowloom::internal::matrix::{Csr, Dtype, MultiVector, generate};
use rowloom::internal::runtime::{Cluster, ClusterProduct, RowBlock, Vectors};
use rowloom::{Error, Result, Runtime};

pub(crate) fn matrix(spec: &str) -> Csr<f64> {
    generate::<f64>(spec, 3, u64::MAX).unwrap().matrix
}

pub(crate) fn values(first: u64, rows: usize, k: usize) -> MultiVector<f64> {
    let value = |row: usize, column: usize| {
        let bits = ((first + row as u64) * 31 + column as u64 * 17 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (bits >> 40) as f64 / 1e6 - 8.0
    };
    MultiVector::from_fn(rows, k, value).unwrap()
}

/// Runs `work` on ranks that are threads and returns the results in the order of ranks.
pub(crate) fn run_ranks<R: Send>(
    ranks: Vec<Arc<dyn Communicator>>,
    devices: &str,
    work: impl Fn(&Cluster) -> R + Sync,
) -> Vec<R> {
    let run = |communicator| {
        let builder = Runtime::builder().devices(devices).threads(1).model("none").refine(false);
        work(&builder.over(communicator).unwrap())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(|| run(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub(crate) fn on_ranks<R: Send>(ranks: usize, devices: &str, work: impl Fn(&Cluster) -> R + Sync) -> Vec<R> {
    run_ranks(thread_communicators(ranks), devices, work)
}

/// The rows of a rank.
pub(crate) fn block(cluster: &Cluster, a: &Csr<f64>, k: usize) -> RowBlock<f64> {
    let bounds = cluster.row_bounds(a.view().row_pointers(), k, Dtype::F64).unwrap();
    let rank = cluster.communicator().rank();
    block_of(a, bounds[rank]..bounds[rank + 1])
}

fn block_of(a: &Csr<f64>, rows: std::ops::Range<u64>) -> RowBlock<f64> {
    let pointers = &a.view().row_pointers()[rows.start as usize..=rows.end as usize];
    let entries = pointers[0] as usize..pointers[pointers.len() - 1] as usize;
    let own: Vec<u64> = pointers.iter().map(|pointer| pointer - pointers[0]).collect();
    let (columns, values) =
        (a.view().columns()[entries.clone()].to_vec(), a.view().values()[entries].to_vec());
    let count = (rows.end - rows.start) as usize;
    let matrix = Csr::try_new(count, a.cols(), own, columns, values).unwrap();
    RowBlock { first_row: rows.start, total_rows: a.rows() as u64, matrix }
}

pub(crate) fn filled(mut vectors: Vectors<f64>) -> Vectors<f64> {
    let own = values(vectors.first_row(), vectors.rows(), vectors.columns());
    vectors.copy_from(&own).unwrap();
    vectors
}

pub(crate) fn host(vectors: &Vectors<f64>) -> Vec<f64> {
    let mut host = MultiVector::zeros(vectors.rows(), vectors.columns()).unwrap();
    vectors.copy_to(&mut host).unwrap();
    host.data().to_vec()
}

pub(crate) fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// X and Y of a rank after one product.
pub(crate) fn multiplied(product: &mut ClusterProduct<f64>, is_square: bool) -> Result<Vectors<f64>> {
    let x = filled(if is_square { product.vectors()? } else { product.x_vectors()? });
    let mut y = product.vectors()?;
    product.apply_into(&x, &mut y)?;
    Ok(y)
}

pub(crate) const MATRICES: [&str; 12] = [
    "stencil5,n=40",
    "stencil27,n=9",
    "fem3,n=5",
    "rmat,scale=9,degree=6",
    "road,n=700",
    "uniform,rows=500,degree=7",
    "uniform,rows=300,degree=5,cols=800",
    "uniform,rows=800,degree=5,cols=90",
    "hub,rows=3000,degree=4,hubs=2",
    "arrow,rows=900",
    "holes,rows=400,degree=6",
    "band,rows=600,width=9",
];

#[test]
fn y_has_the_same_bits_on_any_number_of_ranks_and_devices() {
    for spec in MATRICES {
        let a = matrix(spec);
        for k in [1, 8, 33] {
            let x = values(0, a.cols(), k);
            let runtime =
                Runtime::builder().devices("cpu").threads(1).model("none").refine(false).open().unwrap();
            let mut product = runtime.product(&a).columns(k).reproducible(true).build().unwrap();
            let want = product.apply(&x).unwrap();
            let verified = verify(a.view(), x.view(), want.view()).unwrap();
            assert!(verified.passed, "{spec}, K = {k}");
            for devices in ["cpu", "cpu,emu:0"] {
                for ranks in 1..=4 {
                    let parts = on_ranks(ranks, devices, |cluster| {
                        let mut product = cluster.product(block(cluster, &a, k)).columns(k).build().unwrap();
                        host(&multiplied(&mut product, a.rows() == a.cols()).unwrap())
                    });
                    assert_eq!(
                        bits(&parts.concat()),
                        bits(want.data()),
                        "{spec}, K = {k} on {ranks} ranks of {devices}"
                    );
                }
            }
        }
    }
}

#[test]
fn exactly_the_distinct_columns_of_other_ranks_are_exchanged_with_every_product() {
    for (spec, k) in
        [("rmat,scale=9,degree=6", 5), ("stencil27,n=9", 33), ("uniform,rows=300,degree=5,cols=800", 8)]
    {
        let a = matrix(spec);
        for devices in ["cpu", "cpu,emu:0"] {
            let ranks = on_ranks(4, devices, |cluster| {
                let rows = block(cluster, &a, k);
                let first = rows.first_row as usize;
                let count = rows.matrix.rows();
                let mut product = cluster.product(rows).columns(k).build().unwrap();
                let x = filled(
                    if a.rows() == a.cols() { product.vectors() } else { product.x_vectors() }.unwrap(),
                );
                let own = x.first_row()..x.first_row() + x.rows() as u64;
                let mut outside: Vec<u32> = (first..first + count)
                    .flat_map(|row| a.view().row(row).0.to_vec())
                    .filter(|&column| !own.contains(&u64::from(column)))
                    .collect();
                outside.sort_unstable();
                outside.dedup();
                let mut y = product.vectors().unwrap();
                for _ in 0..3 {
                    product.apply_into(&x, &mut y).unwrap();
                }
                assert_eq!(product.received_rows().unwrap(), outside.len() as u64);
                cluster.communicator().barrier().unwrap();
                (outside.len() as u64, cluster.sent_bytes())
            });
            let (needed, sent) = ranks.iter().fold((0, 0), |sum, rank| (sum.0 + rank.0, sum.1 + rank.1));
            assert!(needed > 0);
            assert_eq!(sent, 3 * needed * k as u64 * 8, "{spec}, K = {k} on {devices}");
        }
    }
}

#[test]
fn operations_and_sums_have_the_same_bits_on_any_number_of_ranks() {
    // More rows than blocks of sums have, and ranks whose bounds are inside blocks.
    let a = matrix("stencil5,n=100");
    let k = 3;
    let run = |ranks: usize, devices: &str| {
        let results = on_ranks(ranks, devices, |cluster| {
            let mut product = cluster.product(block(cluster, &a, k)).columns(k).build().unwrap();
            let x = filled(product.vectors().unwrap());
            let (mut y, mut z) = (product.vectors().unwrap(), product.vectors().unwrap());
            y.fill(0.5).unwrap();
            product.apply_scaled(2.0, &x, -0.25, &mut y).unwrap();
            y.axpby(0.3, &x, 1.5).unwrap();
            y.scale(0.9).unwrap();
            let small = MultiVector::from_fn(k, k, |row, column| (row + 2 * column) as f64 / 7.0).unwrap();
            y.times(&small, &mut z).unwrap();
            let sums = [z.dot(&x).unwrap(), z.norm().unwrap(), z.gram(&x).unwrap().data().to_vec()].concat();
            assert_eq!((x.total_rows(), x.columns()), (a.rows() as u64, k));
            (host(&z), sums)
        });
        let sums = bits(&results[0].1);
        assert!(results.iter().all(|(_, other)| bits(other) == sums), "ranks have the same sums");
        (bits(&results.iter().flat_map(|(z, _)| z.clone()).collect::<Vec<_>>()), sums)
    };
    let want = run(1, "cpu");
    for (ranks, devices) in [(2, "cpu"), (3, "cpu"), (4, "cpu"), (1, "cpu,emu:0"), (3, "cpu,emu:0")] {
        assert_eq!(run(ranks, devices), want, "{ranks} ranks of {devices}");
    }
}

/// The inverse of the upper Cholesky factor of a symmetric positive definite matrix.
fn inverse_cholesky(gram: &MultiVector<f64>) -> MultiVector<f64> {
    let k = gram.k();
    let mut upper = vec![vec![0.0; k]; k];
    for i in 0..k {
        for j in i..k {
            let rest: f64 = (0..i).map(|l| upper[l][i] * upper[l][j]).sum();
            let value = gram.row(i)[j] - rest;
            upper[i][j] = if i == j { value.sqrt() } else { value / upper[i][i] };
        }
    }
    let mut inverse = vec![vec![0.0; k]; k];
    for j in 0..k {
        inverse[j][j] = 1.0 / upper[j][j];
        for i in (0..j).rev() {
            let sum: f64 = (i + 1..=j).map(|l| upper[i][l] * inverse[l][j]).sum();
            inverse[i][j] = -sum / upper[i][i];
        }
    }
    MultiVector::from_fn(k, k, |row, column| inverse[row][column]).unwrap()
}

#[test]
fn subspace_iteration_converges_with_the_same_bits_on_one_and_four_ranks() {
    // The largest eigenvalues of a diagonal matrix with well separated values and weak coupling are near its diagonal.
    let n = 400usize;
    let (mut pointers, mut columns, mut entries) = (vec![0u64], Vec::new(), Vec::new());
    for row in 0..n {
        for column in row.saturating_sub(1)..(row + 2).min(n) {
            columns.push(column as u32);
            entries.push(if row == column { 1.0 + 100.0 * 0.5f64.powi((n - row) as i32) } else { 1e-3 });
        }
        pointers.push(columns.len() as u64);
    }
    let a = Csr::try_new(n, n, pointers, columns, entries).unwrap();
    let k = 4;
    let solve = |ranks: usize, devices: &str| {
        let results = on_ranks(ranks, devices, |cluster| {
            let mut product = cluster.product(block(cluster, &a, k)).columns(k).build().unwrap();
            let mut x = filled(product.vectors().unwrap());
            let mut y = product.vectors().unwrap();
            let mut largest = 0.0;
            for step in 0.. {
                product.apply_into(&x, &mut y).unwrap();
                let gram = y.gram(&y).unwrap();
                let before = std::mem::replace(&mut largest, gram.row(k - 1)[k - 1]);
                if step > 5 && (largest - before).abs() < 1e-9 * largest {
                    return (step, bits(&host(&x)), bits(gram.data()));
                }
                assert!(step < 200, "no convergence");
                y.times(&inverse_cholesky(&gram), &mut x).unwrap();
            }
            unreachable!()
        });
        let x: Vec<u64> = results.iter().flat_map(|(_, x, _)| x.clone()).collect();
        (results[0].0, x, results[0].2.clone())
    };
    let want = solve(1, "cpu");
    assert_eq!(solve(4, "cpu"), want);
    assert_eq!(solve(4, "cpu,emu:0"), want);
}

#[test]
fn ranks_without_rows_or_nonzeros_take_part() {
    for spec in ["diagonal,rows=3", "empty,rows=50", "empty,rows=0", "empty,rows=7,cols=3", "arrow,rows=5"] {
        let a = matrix(spec);
        for ranks in [1, 2, 6] {
            let parts = on_ranks(ranks, "cpu", |cluster| {
                let mut product = cluster.product(block(cluster, &a, 2)).columns(2).build().unwrap();
                let y = multiplied(&mut product, a.rows() == a.cols()).unwrap();
                (host(&y), y.norm().unwrap())
            });
            let y: Vec<f64> = parts.iter().flat_map(|(y, _)| y.clone()).collect();
            let x = values(0, a.cols(), 2);
            let want: Vec<f64> = (0..a.rows())
                .flat_map(|row| {
                    let (columns, entries) = a.view().row(row);
                    let sum = |column| {
                        columns
                            .iter()
                            .zip(entries)
                            .map(|(&at, entry)| entry * x.row(at as usize)[column])
                            .sum()
                    };
                    [sum(0), sum(1)]
                })
                .collect();
            let close = y.iter().zip(&want).all(|(y, want)| (y - want).abs() <= 1e-12 * want.abs().max(1.0));
            assert!(y.len() == want.len() && close, "{spec} on {ranks} ranks");
            assert!(parts.iter().all(|(_, norm)| bits(norm) == bits(&parts[0].1)));
        }
    }
}

#[test]
fn rows_that_do_not_continue_those_of_lower_ranks_are_refused() {
    let a = matrix("stencil5,n=10");
    let errors = on_ranks(2, "cpu", |cluster| {
        let rows = if cluster.communicator().rank() == 0 { 0..50 } else { 51..100 };
        cluster.product(block_of(&a, rows)).build().err().unwrap()
    });
    for error in errors {
        assert!(
            matches!(&error, Error::Usage(text) if text.words().contains("rank 1 has 49 rows")),
            "{error}"
        );
    }
}

/// Whether a task waits for one of this kind.
#[test]
fn an_unknown_device_of_one_rank_is_an_error_on_all_ranks() {
    let timeout = std::time::Duration::from_secs(20);
    let ranks: Vec<_> = thread_communicators_with_timeout(3, timeout)
        .into_iter()
        .map(|communicator| {
            std::thread::spawn(move || {
                let devices = if communicator.rank() == 1 { "nothing" } else { "cpu" };
                let opened = Runtime::builder().devices(devices).over(communicator);
                opened.err().map(|error| error.to_string())
            })
        })
        .collect();
    for (rank, thread) in ranks.into_iter().enumerate() {
        let error = thread.join().unwrap().unwrap();
        assert!(error.contains("rank 1") && error.contains("nothing"), "rank {rank}: {error}");
    }
}

fn follows(graph: &Graph, task: TaskId, kind: TaskKind) -> bool {
    let before = graph.predecessors(task);
    before.iter().any(|&task| graph.tasks()[task.index()].kind == kind || follows(graph, task, kind))
}

#[test]
fn interior_rows_are_computed_before_the_rows_of_other_ranks_arrive() {
    let a = matrix("stencil27,n=16");
    let ranks = on_ranks(2, "cpu", |cluster| {
        let mut product = cluster.product(block(cluster, &a, 4)).columns(4).build().unwrap();
        multiplied(&mut product, true).unwrap();
        let report = product.last_report().unwrap();
        let graph = report.rounds[0].planned.graph();
        let kinds = |kind| graph.tasks().iter().filter(move |task| task.kind == kind).count();
        let chunks = (0..graph.tasks().len() as u32).map(TaskId);
        let chunks = chunks.filter(|task| graph.tasks()[task.0 as usize].kind == TaskKind::CpuCompute);
        let interior = chunks.filter(|&task| !follows(graph, task, TaskKind::Receive)).count();
        (kinds(TaskKind::Send), kinds(TaskKind::Receive), kinds(TaskKind::CpuCompute), interior)
    });
    assert_eq!(ranks, [(1, 1, 2, 1); 2], "one message each way, one interior and one boundary chunk");
}

#[test]
fn a_sum_over_ranks_is_a_task_that_a_trace_shows_after_the_messages_that_it_waits_for() {
    let a = matrix("stencil5,n=40");
    let texts = on_ranks(3, "cpu", |cluster| {
        cluster.runtime().start_recording();
        let mut product = cluster.product(block(cluster, &a, 2)).columns(2).build().unwrap();
        filled(product.vectors().unwrap()).norm().unwrap();
        let mut trace = rowloom::internal::trace::Trace::default();
        cluster.runtime().add_operations(&mut trace);
        String::from_utf8(trace.to_bytes().unwrap()).unwrap()
    });
    for (rank, text) in texts.iter().enumerate() {
        for other in 0..3 {
            for message in ["send partial sums to rank", "receive partial sums from rank"] {
                assert_eq!(
                    text.contains(&format!("{message} {other}")),
                    other != rank,
                    "rank {rank}: {message}"
                );
            }
        }
        assert!(
            text.contains("add the partial sums of all ranks") && text.contains("\"reduce\""),
            "rank {rank}"
        );
    }
}
