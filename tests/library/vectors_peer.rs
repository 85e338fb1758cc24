//! Products on vectors whose rows are copied from device to device: the same bits as through host memory and as on one device,
//! the pairs that cannot, and faults at every operation.

use std::time::Duration;

use proptest::prelude::*;
use rowloom::internal::device::cuda::Driver;
use rowloom::internal::graph::TaskKind;
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::runtime::{Check, ProductOptions, RunReport};
use rowloom::solver::{SpectrumEnd, SubspaceSettings, start_vectors, subspace_iteration};
use rowloom::{Product, Result, Runtime};

fn matrix(spec: &str) -> Csr<f64> {
    generate::<f64>(spec, 3, u64::MAX).unwrap().matrix
}

fn values(rows: usize, k: usize) -> MultiVector<f64> {
    let value = |row: usize, column: usize| {
        let bits = (row as u64 * 31 + column as u64 * 17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (bits >> 40) as f64 / 1e6 - 8.0
    };
    MultiVector::from_fn(rows, k, value).unwrap()
}

fn build<'a>(devices: &str, a: &'a Csr<f64>, k: usize) -> Result<Product<'a, f64>> {
    let runtime = Runtime::builder().devices(devices).threads(2).model("none").open()?;
    // Faults are at numbers of operations: without those of a check.
    runtime.product(a).columns(k).uses(10).reproducible(true).check(Check::Never).build()
}

fn bits(values: &MultiVector<f64>) -> Vec<u64> {
    values.data().iter().map(|value| value.to_bits()).collect()
}

/// A (A X), and the report of the first product.
fn two_products(devices: &str, a: &Csr<f64>, k: usize) -> (MultiVector<f64>, Option<RunReport>) {
    let mut product = build(devices, a, k).unwrap();
    let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
    x.copy_from(&values(a.rows(), k)).unwrap();
    product.apply_into(&x, &mut y).unwrap();
    let report = product.last_report().cloned();
    product.apply_into(&y, &mut x).unwrap();
    let mut host = MultiVector::zeros(a.rows(), k).unwrap();
    x.copy_to(&mut host).unwrap();
    (host, report)
}

/// Number of completed tasks of a kind.
fn count(report: &RunReport, kind: TaskKind) -> usize {
    let tasks = report.rounds.iter().flat_map(|round| {
        let graph = round.planned.graph();
        round.outcome.records.iter().map(|record| graph.tasks()[record.task.index()].kind)
    });
    tasks.filter(|of| *of == kind).count()
}

#[test]
fn rows_between_two_devices_do_not_pass_through_host_memory() {
    let a = matrix("stencil5,n=40");
    let (y, report) = two_products("emu:0,emu:1", &a, 4);
    let report = report.unwrap();
    assert_eq!(report.link_bytes(), (0, 0));
    // A row of the grid in each direction, with K = 4 columns of 8 bytes.
    assert_eq!(report.peer_bytes(), 2 * 40 * 4 * 8);
    assert_eq!(count(&report, TaskKind::PeerCopy), 2);
    // The rows are consecutive, so no kernel stores them: two gathers and four chunks.
    assert_eq!(count(&report, TaskKind::Kernel), 6);
    assert_eq!(bits(&y), bits(&two_products("emu:0", &a, 4).0));
}

#[test]
fn scattered_rows_are_copied_and_then_stored_in_their_places() {
    let a = matrix("rmat,scale=8,degree=3");
    let (y, report) = two_products("emu:0,emu:1", &a, 3);
    let report = report.unwrap();
    let (peer_copies, kernels) = (count(&report, TaskKind::PeerCopy), count(&report, TaskKind::Kernel));
    assert_eq!((report.link_bytes(), peer_copies), ((0, 0), 2));
    assert!(kernels >= 6, "two gathers, two scatters and a chunk on each device, not {kernels} kernels");
    assert_eq!(bits(&y), bits(&two_products("emu:0", &a, 3).0));
}

#[test]
fn one_kernel_packs_the_rows_for_all_devices_and_one_stores_those_of_all_devices() {
    let a = matrix("rmat,scale=8,degree=6");
    let want = bits(&two_products("emu:0", &a, 3).0);
    let devices = "emu:0,emu:1,emu:2,emu:3";
    for (options, peer_copies) in [("", 12), ("?refuse_peer_copies=1", 0)] {
        let list =
            devices.split(',').map(|device| format!("{device}{options}")).collect::<Vec<_>>().join(",");
        let (y, report) = two_products(&list, &a, 3);
        let report = report.unwrap();
        assert_eq!(count(&report, TaskKind::PeerCopy), peer_copies, "{list}");
        assert_eq!(count(&report, TaskKind::Download), 12 - peer_copies, "{list}");
        // A gather, a scatter and a chunk of all rows on each device.
        assert_eq!(count(&report, TaskKind::Kernel), 12, "{list}");
        assert_eq!(bits(&y), want, "{list}");
    }
    // The host packs and stores the rows of each message by itself.
    let (y, report) = two_products("cpu,emu:0,emu:1", &a, 3);
    assert!(count(&report.unwrap(), TaskKind::Kernel) <= 6);
    assert_eq!(bits(&y), want);
}

#[test]
fn a_pair_that_may_not_copy_directly_exchanges_rows_through_host_memory() {
    let a = matrix("stencil5,n=24");
    let want = bits(&two_products("emu:0", &a, 3).0);
    let bytes = 24 * 4 * 8;
    // Each device, as the receiver, decides for one of the two messages.
    for (devices, refused) in [
        ("emu:0?refuse_peer_copies=1,emu:1", 1),
        ("emu:0,emu:1?refuse_peer_copies=1", 1),
        ("emu:0?refuse_peer_copies=1,emu:1?refuse_peer_copies=1", 2),
    ] {
        let (y, report) = two_products(devices, &a, 3);
        let report = report.unwrap();
        let (up, down) = report.link_bytes();
        assert_eq!(
            (up, down, report.peer_bytes()),
            (refused * bytes, refused * bytes, (2 - refused) * bytes)
        );
        assert_eq!(bits(&y), want, "{devices}");
    }
    // The rows of the host cross over the link, those of the two devices do not.
    let (y, report) = two_products("cpu,emu:0,emu:1", &a, 3);
    let report = report.unwrap();
    assert!(report.link_bytes().0 > 0 && report.peer_bytes() > 0);
    assert_eq!(bits(&y), want);
}

#[test]
fn a_simulated_pair_copies_rows_over_the_link_of_the_receiver_only() {
    let a = matrix("stencil27,n=16");
    let (mut product, k) = (build("sim:h200x2", &a, 8).unwrap(), 8);
    let (x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
    product.apply_into(&x, &mut y).unwrap();
    let report = product.last_report().cloned().unwrap();
    assert_eq!(report.link_bytes(), (0, 0));
    assert_eq!(report.peer_bytes(), product.exchanged_rows().unwrap() as u64 * k * 8);
    let graph = report.rounds[0].planned.graph();
    for task in graph.tasks().iter().filter(|task| task.kind == TaskKind::PeerCopy) {
        assert!(task.demand.link_bytes > 0 && task.demand.host_bytes == 0 && task.demand.alone_ns > 0);
    }
}

/// A matrix with the given columns of each row, and values that depend on the place.
fn random_matrix(rows: &[Vec<usize>]) -> Csr<f64> {
    let n = rows.len();
    let (mut pointers, mut columns, mut numbers) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        let mut row: Vec<u32> = row.iter().map(|column| (column % n) as u32).collect();
        row.sort_unstable();
        row.dedup();
        numbers.extend(row.iter().map(|&column| 1.0 / f64::from(column + 3) - 0.1));
        columns.extend(row);
        pointers.push(columns.len() as u64);
    }
    Csr::try_new(n, n, pointers, columns, numbers).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn y_has_the_same_bits_with_peer_copies_through_host_memory_and_on_one_device(
        rows in prop::collection::vec(prop::collection::vec(0..1000_usize, 0..12), 8..160),
        k in 1..9_usize,
        devices in 2..5_usize,
        delay_seed in 0..1000_u64,
    ) {
        let a = random_matrix(&rows);
        let list = |options: &str| {
            (0..devices).map(|device| format!("emu:{device}?{options}")).collect::<Vec<_>>().join(",")
        };
        let want = bits(&two_products("emu:0", &a, k).0);
        let (direct, report) = two_products(&list(&format!("delay_seed={delay_seed}")), &a, k);
        prop_assert_eq!(report.map_or((0, 0), |report| report.link_bytes()), (0, 0));
        prop_assert_eq!(&bits(&direct), &want);
        let (staged, report) = two_products(&list("refuse_peer_copies=1"), &a, k);
        prop_assert_eq!(report.map_or(0, |report| report.peer_bytes()), 0);
        prop_assert_eq!(&bits(&staged), &want);
    }
}

/// Two products with faults, of which the second updates Y in place; and the number of faults that were survived.
fn faulty_products(devices: &str, a: &Csr<f64>, keep: bool) -> Result<(MultiVector<f64>, usize)> {
    let mut product = build(devices, a, 3)?;
    let (mut x, mut y) = (product.vectors()?, product.vectors()?);
    if keep {
        x.keep_host_copy();
        y.keep_host_copy();
    }
    x.copy_from(&values(a.rows(), 3))?;
    let mut host = MultiVector::zeros(a.rows(), 3)?;
    product.apply_into(&x, &mut y)?;
    // With the copy, the host has the values that are updated next.
    y.copy_to(&mut host)?;
    x.scale(0.5)?;
    x.copy_to(&mut host)?;
    product.apply_scaled(0.5, &x, -2.0, &mut y)?;
    y.copy_to(&mut host)?;
    Ok((host, product.faults().len()))
}

#[test]
fn a_fault_at_any_operation_of_an_exchange_is_survived_or_a_typed_error() {
    for (spec, list) in [("stencil5,n=12", "emu:0,emu:1?F"), ("rmat,scale=6,degree=3", "emu:0?F,emu:1")] {
        let a = matrix(spec);
        let want = bits(&faulty_products("cpu", &a, true).unwrap().0);
        for fault in ["lost_at_operation", "panic_at_operation", "fail_copy", "fail_launch"] {
            for keep in [true, false] {
                let (mut survived, mut refused) = (0, 0);
                for place in 1..24 {
                    let devices = list.replace('F', &format!("{fault}={place}"));
                    match faulty_products(&devices, &a, keep) {
                        Ok((y, faults)) => {
                            assert_eq!(bits(&y), want, "{spec} on {devices}, copies kept: {keep}");
                            survived += usize::from(faults > 0);
                        }
                        Err(error) => {
                            assert_eq!(error.exit_code(), 4, "{devices}, copies kept: {keep}: {error}");
                            refused += 1;
                        }
                    }
                }
                let is_loss = fault.ends_with("at_operation");
                let what = format!("{fault} on {list}, copies kept: {keep}");
                assert_eq!(survived > 0, is_loss && keep, "{what}: {survived} survived");
                assert!(refused > 0, "{what}");
            }
        }
    }
}

#[test]
fn a_copy_that_hangs_is_survived_where_the_host_has_the_rows_of_its_device() {
    let a = matrix("stencil5,n=12");
    let want = bits(&build("cpu", &a, 3).unwrap().apply(&values(a.rows(), 3)).unwrap());
    let mut hung_copies = 0;
    // The copy is operation 9. The operations before the product are queued, with a longer timeout.
    for operation in 9..12 {
        let devices = format!("emu:0,emu:1?hang_at_operation={operation}");
        let runtime = Runtime::builder().devices(&devices).threads(2).model("none").open().unwrap();
        let watchdog_timeout = Some(Duration::from_secs(2));
        let options = ProductOptions { watchdog_timeout, ..ProductOptions::default() };
        let builder =
            runtime.product(&a).options(options).columns(3).uses(10).reproducible(true).check(Check::Never);
        let mut product = builder.build().unwrap();
        let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
        x.keep_host_copy();
        x.copy_from(&values(a.rows(), 3)).unwrap();
        x.synchronize().unwrap();
        product.apply_into(&x, &mut y).unwrap();
        if product.faults().iter().any(|fault| fault.task.contains("peer_copy")) {
            let mut host = MultiVector::zeros(a.rows(), 3).unwrap();
            y.copy_to(&mut host).unwrap();
            assert_eq!(bits(&host), want, "{devices}");
            hung_copies += 1;
            break;
        }
    }
    assert_eq!(hung_copies, 1);
}

#[test]
fn two_devices_of_one_card_copy_rows_directly_with_the_bits_of_one_device() {
    if let Err(missing) = Driver::get() {
        crate::skip::skip("gpu", missing);
        return;
    }
    for spec in ["stencil27,n=24", "rmat,scale=12,degree=8"] {
        let a = matrix(spec);
        for k in [1, 8, 32] {
            let (y, report) = two_products("cuda:0,cuda:0", &a, k);
            let report = report.unwrap();
            assert_eq!(report.link_bytes(), (0, 0), "{spec}, K = {k}");
            assert!(report.peer_bytes() > 0 && count(&report, TaskKind::PeerCopy) == 2, "{spec}, K = {k}");
            let want = bits(&two_products("cuda:0", &a, k).0);
            assert_eq!(bits(&y), want, "{spec}, K = {k}");
            assert_eq!(
                bits(&two_products("cpu,cuda:0,cuda:0", &a, k).0),
                want,
                "{spec}, K = {k}, with the CPU"
            );
        }
    }
    let a = matrix("stencil27,n=12");
    let end = SpectrumEnd::Smallest;
    let settings = SubspaceSettings::new(end, 4).degree(12).iterations(20);
    let solved = |devices: &str| {
        let mut product = build(devices, &a, 8).unwrap();
        let mut x = start_vectors(&mut product).unwrap();
        let report = subspace_iteration(&mut product, &mut x, &settings).unwrap();
        report.eigenvalues.iter().map(|value| value.to_bits()).collect::<Vec<u64>>()
    };
    assert_eq!(solved("cuda:0,cuda:0"), solved("cuda:0"));
}
