//! Ranks that end, abort, hang or lose a card: the others name them in bounded time, or Y has the same bits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rowloom::internal::device::network::{Communicator, thread_communicators_with_timeout};
use rowloom::internal::runtime::{Cluster, ProductOptions};
use rowloom::{Error, MultiVector, Result, Runtime, Vectors};

use crate::ranks::{bits, block, filled, host, matrix, run_ranks};

/// The errors of the ranks other than `rank`, which leaves after two products as `leave` says.
fn errors_without(rank: usize, devices: &str, leave: impl Fn(&Cluster) + Sync) -> Vec<Error> {
    let a = matrix("stencil5,n=40");
    let ranks = thread_communicators_with_timeout(3, Duration::from_secs(2));
    let errors = run_ranks(ranks, devices, |cluster| {
        let mut product = cluster.product(block(cluster, &a, 4)).columns(4).build().unwrap();
        let x = filled(product.vectors().unwrap());
        let mut y = product.vectors().unwrap();
        for step in 0.. {
            if step == 2 && cluster.communicator().rank() == rank {
                leave(cluster);
                return None;
            }
            if let Err(error) = product.apply_into(&x, &mut y) {
                return Some(error);
            }
        }
        None
    });
    errors.into_iter().flatten().collect()
}

#[test]
fn a_rank_that_ends_aborts_or_hangs_is_named_by_the_others_in_bounded_time() {
    let hang = || std::thread::sleep(Duration::from_secs(6));
    for devices in ["cpu", "cpu,emu:0"] {
        let start = Instant::now();
        let ended = errors_without(1, devices, |_| {});
        let aborted = errors_without(1, devices, |cluster| cluster.communicator().abort(3, "out of memory"));
        let hung = errors_without(1, devices, |_| hang());
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
        for (errors, reason) in [(ended, "ended"), (aborted, "out of memory"), (hung, "no answer")] {
            assert_eq!(errors.len(), 2, "{reason}");
            for error in errors {
                assert!(matches!(&error, Error::Rank { rank: 1, .. }), "{reason} on {devices}: {error}");
                assert!(error.to_string().contains(reason), "{devices}: {error}");
            }
        }
    }
}

#[test]
fn a_device_that_is_lost_on_one_rank_is_an_error_that_names_it_and_ends_the_other_ranks() {
    let a = matrix("stencil5,n=40");
    let run = |communicator: Arc<dyn Communicator>| -> Error {
        let devices = if communicator.rank() == 1 { "cpu,emu:0?lost_at_operation=40" } else { "cpu" };
        let builder = Runtime::builder().devices(devices).threads(1).model("none").refine(false);
        let repeat = || -> Result<()> {
            let cluster = builder.over(communicator)?;
            let mut product = cluster.product(block(&cluster, &a, 4)).columns(4).build()?;
            let x = filled(product.vectors()?);
            let mut y = product.vectors()?;
            for _ in 0..200 {
                product.apply_into(&x, &mut y)?;
            }
            Ok(())
        };
        repeat().expect_err("a device was lost")
    };
    let results: Vec<Error> = std::thread::scope(|scope| {
        let ranks = thread_communicators_with_timeout(3, Duration::from_secs(20)).into_iter();
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(|| run(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(matches!(&results[1], Error::Device { device, .. } if device == "emu:0"), "{}", results[1]);
    for other in [0, 2] {
        assert!(matches!(&results[other], Error::Rank { rank: 1, .. }), "{}", results[other]);
    }
}

/// A matrix with which the card of a rank sends rows to the next rank only, whose host sends the rows back.
const NEIGHBOURS: &str = "stencil5,n=40";
/// A matrix with which every owner of rows has rows for every other one, so that cards of two ranks wait for each other.
const ALL_TO_ALL: &str = "uniform,rows=500,degree=7";

/// Y, its norm and the lost cards of each rank after 30 products. `lost_at` has the operation at which each rank loses its card; a rank
/// without one has no card.
fn products_with_lost_cards(spec: &str, lost_at: &[Option<usize>]) -> Vec<(Vec<u64>, Vec<u64>, Vec<String>)> {
    let (a, k) = (matrix(spec), 4);
    let work = |communicator: Arc<dyn Communicator>| {
        let devices = match lost_at[communicator.rank()] {
            Some(operation) => format!("cpu,emu:0?lost_at_operation={operation}"),
            None => "cpu".into(),
        };
        let builder = Runtime::builder().devices(devices).threads(1).model("none").refine(false);
        let cluster = builder.over(communicator).unwrap();
        let mut product = cluster.product(block(&cluster, &a, k)).columns(k).build().unwrap();
        let mut x = product.vectors().unwrap();
        x.keep_host_copy();
        let (x, mut y) = (filled(x), product.vectors().unwrap());
        (0..30).for_each(|_| product.apply_into(&x, &mut y).unwrap());
        let faults: Vec<String> = product.faults().into_iter().map(|fault| fault.device).collect();
        (bits(&host(&y)), bits(&y.norm().unwrap()), faults)
    };
    std::thread::scope(|scope| {
        let ranks = thread_communicators_with_timeout(lost_at.len(), Duration::from_secs(20)).into_iter();
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(|| work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Asserts that the ranks lose their cards as `lost_at` says and have the results of ranks without cards.
fn assert_cards_are_replaced(
    spec: &str,
    lost_at: &[Option<usize>],
    want: &[(Vec<u64>, Vec<u64>, Vec<String>)],
) {
    let y = |ranks: &[(Vec<u64>, Vec<u64>, Vec<String>)]| -> Vec<u64> {
        ranks.iter().flat_map(|(y, ..)| y.clone()).collect()
    };
    let found = products_with_lost_cards(spec, lost_at);
    assert_eq!(y(&found), y(want), "lost at operations {lost_at:?}");
    for (rank, (_, norms, faults)) in found.iter().enumerate() {
        assert_eq!(*norms, want[0].1, "lost at operations {lost_at:?}");
        let expected: Vec<&str> = lost_at[rank].iter().map(|_| "emu:0").collect();
        assert_eq!(*faults, expected, "rank {rank}, lost at operations {lost_at:?}");
    }
}

/// Every operation of a product: rows are gathered, downloaded, uploaded and scattered, and chunks are computed.
const OPERATIONS_OF_A_PRODUCT: std::ops::Range<usize> = 40..53;

#[test]
fn a_card_that_is_lost_on_one_rank_is_replaced_by_its_other_devices_with_the_same_bits() {
    let want = products_with_lost_cards(NEIGHBOURS, &[None; 3]);
    for operation in OPERATIONS_OF_A_PRODUCT {
        assert_cards_are_replaced(NEIGHBOURS, &[None, Some(operation), None], &want);
    }
}

#[test]
fn cards_that_are_lost_on_two_ranks_in_the_same_product_are_replaced_with_the_same_bits() {
    for spec in [NEIGHBOURS, ALL_TO_ALL] {
        let want = products_with_lost_cards(spec, &[None; 2]);
        for first in OPERATIONS_OF_A_PRODUCT {
            for second in OPERATIONS_OF_A_PRODUCT {
                assert_cards_are_replaced(spec, &[Some(first), Some(second)], &want);
            }
        }
        let want = products_with_lost_cards(spec, &[None; 4]);
        for operation in OPERATIONS_OF_A_PRODUCT {
            let lost_at = [Some(operation), Some(operation + 2), None, Some(operation)];
            assert_cards_are_replaced(spec, &lost_at, &want);
        }
    }
}

#[test]
fn cards_that_two_ranks_lose_together_without_a_copy_of_x_are_errors_of_both_in_bounded_time() {
    let a = matrix(ALL_TO_ALL);
    let start = Instant::now();
    for operation in OPERATIONS_OF_A_PRODUCT {
        let run = |communicator: Arc<dyn Communicator>| -> Error {
            let devices = format!("cpu,emu:0?lost_at_operation={operation}");
            let builder = Runtime::builder().devices(devices).threads(1).model("none").refine(false);
            let cluster = builder.over(communicator).unwrap();
            let mut product = cluster.product(block(&cluster, &a, 4)).columns(4).build().unwrap();
            let x = filled(product.vectors().unwrap());
            let mut y = product.vectors().unwrap();
            let mut products = (0..30).map(|_| product.apply_into(&x, &mut y));
            products.find_map(Result::err).expect("a card was lost")
        };
        let errors: Vec<Error> = std::thread::scope(|scope| {
            let ranks = thread_communicators_with_timeout(2, Duration::from_secs(600)).into_iter();
            let threads: Vec<_> = ranks.map(|rank| scope.spawn(|| run(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // A rank that loses its card a moment later may see first that the other one ended.
        let is_named = |error: &Error| matches!(error, Error::Device { device, .. } if device == "emu:0");
        assert!(errors.iter().any(is_named), "lost at operation {operation}: {errors:?}");
        let is_typed = |error: &Error| is_named(error) || matches!(error, Error::Rank { .. });
        assert!(errors.iter().all(is_typed), "lost at operation {operation}: {errors:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Y of each rank and its lost cards. The card of rank 1 hangs at an operation, and rank 0 begins each product late.
fn products_with_a_watchdog(device: &str, late: Duration) -> Vec<(Vec<u64>, Vec<String>)> {
    let a = matrix(NEIGHBOURS);
    let work = |communicator: Arc<dyn Communicator>| {
        let rank = communicator.rank();
        let devices = if rank == 1 { format!("cpu,{device}") } else { "cpu".into() };
        let builder = Runtime::builder().devices(devices).threads(1).model("none").refine(false);
        let cluster = builder.over(communicator).unwrap();
        let options =
            ProductOptions { watchdog_timeout: Some(WATCHDOG_TIMEOUT), ..ProductOptions::default() };
        let mut product =
            cluster.product(block(&cluster, &a, 4)).columns(4).options(options).build().unwrap();
        let mut x = product.vectors().unwrap();
        x.keep_host_copy();
        let (x, mut y) = (filled(x), product.vectors().unwrap());
        for step in 0..8 {
            if rank == 0 && step == 1 {
                std::thread::sleep(late);
            }
            product.apply_into(&x, &mut y).unwrap();
        }
        (bits(&host(&y)), product.faults().into_iter().map(|fault| fault.device).collect())
    };
    std::thread::scope(|scope| {
        let ranks = thread_communicators_with_timeout(2, Duration::from_secs(600)).into_iter();
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(|| work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(1);

#[test]
fn a_card_that_hangs_is_noticed_by_the_watchdog_and_a_rank_that_is_late_is_not_taken_for_one() {
    let want = products_with_a_watchdog("emu:0", Duration::ZERO);
    assert!(want.iter().all(|(_, faults)| faults.is_empty()));
    // Rank 1 waits for messages for longer than its devices may be silent.
    assert_eq!(products_with_a_watchdog("emu:0", 2 * WATCHDOG_TIMEOUT), want);
    for operation in OPERATIONS_OF_A_PRODUCT.step_by(4) {
        let start = Instant::now();
        let found = products_with_a_watchdog(&format!("emu:0?hang_at_operation={operation}"), Duration::ZERO);
        assert!(start.elapsed() < Duration::from_secs(30), "{operation}: {:?}", start.elapsed());
        let y =
            |ranks: &[(Vec<u64>, Vec<String>)]| ranks.iter().flat_map(|(y, _)| y.clone()).collect::<Vec<_>>();
        assert_eq!(y(&found), y(&want), "hang at operation {operation}");
        assert_eq!(found[1].1, ["emu:0"], "hang at operation {operation}");
    }
}

/// X of a product, whose rows differ from those of every other product.
fn fill_for(x: &mut Vectors<f64>, step: usize) -> Result<()> {
    let (first, k) = (x.first_row() as usize, x.columns());
    let value = |row: usize, column: usize| (1000 * step + (first + row) % 89) as f64 + column as f64 / 7.0;
    x.copy_from(&MultiVector::from_fn(x.rows(), k, value)?)
}

/// The bits of the rows of Y and of the norms of X.
type ProductResult = Result<(Vec<u64>, Vec<u64>)>;

/// For each rank and product the bits of its rows of Y and of the norms of X, or the error. Rank 1 has the device; the others begin each
/// product `delay` later.
fn products_of_changing_x(device: &str, delay: Duration) -> Vec<Vec<ProductResult>> {
    let a = matrix(NEIGHBOURS);
    let work = |communicator: Arc<dyn Communicator>| -> Vec<ProductResult> {
        let rank = communicator.rank();
        let devices = if rank == 1 { format!("cpu,{device}") } else { "cpu".into() };
        let builder = Runtime::builder().devices(devices).threads(1).model("none").refine(false);
        let cluster = builder.over(communicator.clone()).unwrap();
        let mut product = cluster.product(block(&cluster, &a, 4)).columns(4).build().unwrap();
        let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
        let mut results = Vec::new();
        for step in 0..5 {
            // A failed launch may have had an effect on all vectors of the device, so these are made anew.
            if fill_for(&mut x, step).is_err() {
                (x, y) = (product.vectors().unwrap(), product.vectors().unwrap());
                fill_for(&mut x, step).unwrap();
            }
            if rank != 1 {
                std::thread::sleep(delay);
            }
            let computed = product.apply_into(&x, &mut y);
            let norms = x.norm();
            let mut rows = MultiVector::zeros(y.rows(), y.columns()).unwrap();
            let copied = y.copy_to(&mut rows);
            results.push(computed.and(copied).and_then(|()| Ok((bits(rows.data()), bits(&norms?)))));
        }
        // Others would name a rank that ended.
        std::thread::sleep(2 * SHORT_TIMEOUT);
        drop(communicator);
        results
    };
    std::thread::scope(|scope| {
        let ranks = thread_communicators_with_timeout(3, SHORT_TIMEOUT).into_iter();
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(|| work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// For ranks that wait for a message of a product that another rank gave up.
const SHORT_TIMEOUT: Duration = Duration::from_millis(500);

#[test]
fn a_product_after_one_that_failed_on_one_rank_never_gets_the_rows_of_the_failed_one() {
    let want = products_of_changing_x("emu:0", Duration::ZERO);
    assert!(want.iter().flatten().all(Result::is_ok), "{want:?}");
    let (mut failed, mut right_after_a_failure) = (0, 0);
    for launch in 2..14 {
        let found = products_of_changing_x(&format!("emu:0?fail_launch={launch}"), Duration::from_millis(20));
        for (rank, (found, want)) in found.iter().zip(&want).enumerate() {
            let mut has_failed = false;
            for (step, (found, want)) in found.iter().zip(want).enumerate() {
                match found {
                    Ok(found) => assert!(
                        found == want.as_ref().unwrap(),
                        "launch {launch} failed; rank {rank} has a wrong result of product {step}"
                    ),
                    Err(_) => failed += 1,
                }
                right_after_a_failure += usize::from(has_failed && found.is_ok());
                has_failed |= found.is_err();
            }
        }
    }
    assert!(
        failed > 0 && right_after_a_failure > 0,
        "{failed} failures, {right_after_a_failure} right products"
    );
}

#[test]
fn a_rank_that_ends_or_aborts_before_a_sum_is_named_by_the_others() {
    let a = matrix("stencil5,n=40");
    for is_abort in [false, true] {
        let ranks = thread_communicators_with_timeout(3, Duration::from_secs(20));
        let errors = run_ranks(ranks, "cpu", |cluster| {
            let mut product = cluster.product(block(cluster, &a, 2)).columns(2).build().unwrap();
            let x = filled(product.vectors().unwrap());
            x.norm().unwrap();
            if cluster.communicator().rank() == 2 {
                if is_abort {
                    cluster.communicator().abort(3, "it ended on purpose");
                }
                return None;
            }
            x.norm().err()
        });
        for error in &errors[..2] {
            let error = error.as_ref().unwrap();
            assert!(matches!(error, Error::Rank { rank: 2, .. }), "{error}");
            assert!(error.to_string().contains("ended"), "{error}");
        }
    }
}
