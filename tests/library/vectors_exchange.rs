//! Products on vectors with several owners of rows: the exchange of rows as tasks of a graph, and lost devices.

use rowloom::internal::graph::{Graph, TaskId, TaskKind};
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::Item;
use rowloom::internal::runtime::Check;
use rowloom::{Product, Runtime};

fn matrix(spec: &str) -> Csr<f64> {
    generate::<f64>(spec, 3, u64::MAX).unwrap().matrix
}

fn values(rows: usize, k: usize, seed: u64) -> MultiVector<f64> {
    let value = |row: usize, column: usize| {
        let bits = (row as u64 * 31 + column as u64 * 17 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (bits >> 40) as f64 / 1e6 - 8.0
    };
    MultiVector::from_fn(rows, k, value).unwrap()
}

fn build<'a>(devices: &str, a: &'a Csr<f64>, k: usize) -> rowloom::Result<Product<'a, f64>> {
    let runtime = Runtime::builder().devices(devices).threads(2).model("none").open()?;
    // Faults are at numbers of operations: without those of a check.
    runtime.product(a).columns(k).uses(10).reproducible(true).check(Check::Never).build()
}

fn bits(values: &MultiVector<f64>) -> Vec<u64> {
    values.data().iter().map(|value| value.to_bits()).collect()
}

/// Whether a path of edges leads from a task of `kind` to `task`.
fn comes_after(graph: &Graph, task: TaskId, kind: TaskKind) -> bool {
    graph
        .predecessors(task)
        .iter()
        .any(|&before| graph.tasks()[before.index()].kind == kind || comes_after(graph, before, kind))
}

#[test]
fn interior_rows_wait_for_no_copy_and_boundary_rows_do() {
    let a = matrix("stencil5,n=40");
    let mut product = build("emu:0,emu:1", &a, 4).unwrap();
    let (x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
    product.apply_into(&x, &mut y).unwrap();
    let plan = product.vector_plan().unwrap().clone();
    // Two devices: each has interior rows and one boundary.
    assert_eq!(plan.chunks.len(), 4);
    let report = product.last_report().unwrap();
    let planned = &report.rounds[0].planned;
    let (mut interior, mut boundary) = (0, 0);
    for (number, task) in planned.graph().tasks().iter().enumerate() {
        let (Item::Chunk(chunk), TaskKind::Kernel) = (planned.items()[task.item as usize], task.kind) else {
            continue;
        };
        let chunk = &plan.chunks[chunk as usize];
        let rowloom::internal::work::ChunkRows::Rows { begin, end } = chunk.rows else {
            panic!("a row is divided")
        };
        let own = |row: usize| {
            plan.chunks.iter().any(|other| {
            matches!(other.rows, rowloom::internal::work::ChunkRows::Rows { begin, end } if (begin..end).contains(&row))
                && other.home == chunk.home
        })
        };
        let needs_others =
            (begin..end).any(|row| a.view().row(row).0.iter().any(|&column| !own(column as usize)));
        assert_eq!(comes_after(planned.graph(), TaskId(number as u32), TaskKind::PeerCopy), needs_others);
        *(if needs_others { &mut boundary } else { &mut interior }) += 1;
    }
    assert_eq!((interior, boundary), (2, 2));
}

#[test]
fn rows_that_were_exchanged_are_not_exchanged_again() {
    let a = matrix("stencil5,n=40");
    for devices in ["emu:0,emu:1", "cpu,emu:0"] {
        let mut product = build(devices, &a, 4).unwrap();
        let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
        let mut bytes = |x: &_| {
            product.apply_into(x, &mut y).unwrap();
            let report = product.last_report().unwrap();
            let (up, down) = report.link_bytes();
            up + down + report.peer_bytes()
        };
        let first = bytes(&x);
        assert!(first > 0, "{devices}");
        assert_eq!(bytes(&x), 0, "{devices}");
        x.fill(1.0).unwrap();
        assert_eq!(bytes(&x), first, "{devices}: X has changed");
    }
}

/// Two products, of which the second updates Y in place, with a device that is lost at operation `lost`. Returns whether both were
/// computed, and Y if it could be read.
fn two_products(
    devices: &str,
    a: &Csr<f64>,
    x: &MultiVector<f64>,
    keep: bool,
) -> rowloom::Result<(rowloom::Result<()>, rowloom::Result<MultiVector<f64>>, usize)> {
    let mut product = build(devices, a, x.k())?;
    let (mut on_x, mut y) = (product.vectors()?, product.vectors()?);
    if keep {
        on_x.keep_host_copy();
        y.keep_host_copy();
    }
    on_x.copy_from(x)?;
    let mut host = MultiVector::zeros(a.rows(), x.k())?;
    let mut apply = || -> rowloom::Result<()> {
        product.apply_into(&on_x, &mut y)?;
        // With the copy, the host has the values that are updated next.
        y.copy_to(&mut host)?;
        product.apply_scaled(0.5, &on_x, -2.0, &mut y)
    };
    let applied = apply();
    let faults = product.faults().len();
    let read = y.copy_to(&mut host).map(|()| host);
    Ok((applied, read, faults))
}

#[test]
fn a_lost_device_is_survived_where_the_host_has_its_rows_and_is_an_error_elsewhere() {
    let a = matrix("stencil5,n=24");
    let x = values(a.rows(), 3, 1);
    let mut reference = build("cpu", &a, 3).unwrap();
    let mut want = reference.apply(&x).unwrap();
    reference.apply_scaled(0.5, &x, -2.0, &mut want).unwrap();
    for list in ["emu:0?F", "cpu,emu:0?F", "emu:0?F,emu:1", "emu:0,emu:1?F", "cpu,emu:0?F,emu:1"] {
        for keep in [true, false] {
            let (mut survived, mut refused) = (0, 0);
            for operation in 1..40 {
                let devices = list.replace("F", &format!("lost_at_operation={operation}"));
                let what = format!("{devices}, copies kept: {keep}");
                let (applied, read, faults) = match two_products(&devices, &a, &x, keep) {
                    Ok(results) => results,
                    Err(error) => {
                        assert_eq!(error.exit_code(), 4, "{what}: {error}");
                        continue;
                    }
                };
                match (&applied, &read) {
                    (Ok(()), Ok(y)) => {
                        assert_eq!(bits(y), bits(&want), "{what}");
                        survived += usize::from(faults > 0);
                    }
                    (Ok(()), Err(error)) | (Err(error), _) => {
                        assert_eq!(error.exit_code(), 4, "{what}: {error}");
                        refused += 1;
                    }
                }
            }
            let several = list.contains(',');
            assert_eq!(survived > 0, keep && several, "{list}, copies kept: {keep}: {survived} survived");
            assert!(refused > 0, "{list}, copies kept: {keep}");
        }
    }
}

#[test]
fn an_update_in_place_is_not_repeated_on_devices_that_were_not_lost() {
    // The second device has a copy of its rows of Y only by their common value, the first one none of its own after the product.
    let a = matrix("stencil5,n=24");
    let x = values(a.rows(), 2, 1);
    let mut want = MultiVector::from_fn(a.rows(), 2, |_, _| 3.0).unwrap();
    build("cpu", &a, 2).unwrap().apply_scaled(1.5, &x, 0.25, &mut want).unwrap();
    let mut survived = 0;
    for operation in 1..30 {
        let devices = format!("emu:0,emu:1?lost_at_operation={operation}");
        let computed = || -> rowloom::Result<(MultiVector<f64>, usize)> {
            let mut product = build(&devices, &a, 2)?;
            let (mut on_x, mut y) = (product.vectors()?, product.vectors()?);
            on_x.keep_host_copy();
            on_x.copy_from(&x)?;
            y.fill(3.0)?;
            product.apply_scaled(1.5, &on_x, 0.25, &mut y)?;
            let mut host = MultiVector::zeros(a.rows(), 2)?;
            y.copy_to(&mut host)?;
            Ok((host, product.faults().len()))
        };
        match computed() {
            Ok((y, faults)) => {
                assert_eq!(bits(&y), bits(&want), "{devices}");
                survived += usize::from(faults > 0);
            }
            Err(error) => assert_eq!(error.exit_code(), 4, "{devices}: {error}"),
        }
    }
    assert!(survived > 2, "{survived}");
}
