//! Messages between ranks from and to device memory, as with a CUDA-aware MPI library: the same bits and bytes as through host memory, no
//! copies to the host, and faults at every operation. The ranks are threads, and the devices are emulated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rowloom::internal::device::cuda::Driver;
use rowloom::internal::device::network::{
    Communicator, thread_communicators, thread_communicators_with_device_memory,
};
use rowloom::internal::graph::{Graph, TaskId, TaskKind};
use rowloom::internal::matrix::{Csr, MultiVector};
use rowloom::internal::plan::Item;
use rowloom::internal::runtime::{Check, ProductOptions, RunReport};
use rowloom::{Error, Result, Runtime};

use crate::ranks::{MATRICES, bits, block, filled, host, matrix, multiplied, on_ranks, run_ranks, values};
use crate::skip::skip;

const TIMEOUT: Duration = Duration::from_secs(20);

fn direct_ranks(ranks: usize) -> Vec<Arc<dyn Communicator>> {
    thread_communicators_with_device_memory(ranks, TIMEOUT)
}

/// The kind of a task, if it belongs to a message between ranks.
fn message_kind(report: &RunReport, task: usize) -> Option<TaskKind> {
    let planned = &report.rounds[0].planned;
    let task = &planned.graph().tasks()[task];
    let is_message =
        matches!(planned.items()[task.item as usize], Item::ToRank { .. } | Item::FromRank { .. });
    is_message.then_some(task.kind)
}

/// Number of tasks of messages between ranks of each kind.
fn message_tasks(report: &RunReport, kind: TaskKind) -> usize {
    let tasks = report.rounds[0].planned.graph().tasks().len();
    (0..tasks).filter(|&task| message_kind(report, task) == Some(kind)).count()
}

#[test]
fn y_has_the_same_bits_as_through_host_memory() {
    let mut direct = 0;
    for spec in MATRICES {
        let a = matrix(spec);
        let is_square = a.rows() == a.cols();
        for k in [1, 8, 33] {
            let runtime =
                Runtime::builder().devices("cpu").threads(1).model("none").refine(false).open().unwrap();
            let mut product = runtime.product(&a).columns(k).reproducible(true).build().unwrap();
            let want = bits(product.apply(&values(0, a.cols(), k)).unwrap().data());
            for devices in ["emu:0", "cpu,emu:0", "emu:0,emu:1"] {
                for ranks in 1..=4 {
                    let run = |ranks: Vec<Arc<dyn Communicator>>| {
                        let parts = run_ranks(ranks, devices, |cluster| {
                            let mut product =
                                cluster.product(block(cluster, &a, k)).columns(k).build().unwrap();
                            let y = host(&multiplied(&mut product, is_square).unwrap());
                            cluster.communicator().barrier().unwrap();
                            let messages = product.messages_of_devices().unwrap();
                            (y, cluster.sent_bytes(), messages)
                        });
                        let y: Vec<f64> = parts.iter().flat_map(|(y, ..)| y.clone()).collect();
                        let sent: u64 = parts.iter().map(|(_, sent, _)| sent).sum();
                        let messages = parts.iter().fold((0, 0), |(all, direct), (.., messages)| {
                            (all + messages.all, direct + messages.direct)
                        });
                        (bits(&y), sent, messages)
                    };
                    let case = format!("{spec}, K = {k} on {ranks} ranks of {devices}");
                    let (y, sent, (all, of_all)) = run(direct_ranks(ranks));
                    assert_eq!(y, want, "{case}");
                    // One device alone sends all rows of its rank and needs all that arrive.
                    assert!(of_all == all || devices != "emu:0", "{case}: {of_all} of {all}");
                    direct += of_all;
                    if k == 8 {
                        let staged = run(thread_communicators(ranks));
                        assert_eq!(staged, (y, sent, (all, 0)), "{case}");
                    }
                }
            }
        }
    }
    assert!(direct > 0);
}

/// Whether `later` waits for `earlier`.
fn follows(graph: &Graph, later: TaskId, earlier: TaskId) -> bool {
    let before = graph.predecessors(later);
    before.iter().any(|&task| task == earlier || follows(graph, task, earlier))
}

#[test]
fn rows_are_packed_sent_received_and_stored_without_copies_to_the_host() {
    let a = matrix("stencil27,n=9");
    let run = |ranks: Vec<Arc<dyn Communicator>>| {
        run_ranks(ranks, "emu:0", |cluster| {
            let mut product = cluster.product(block(cluster, &a, 5)).columns(5).build().unwrap();
            multiplied(&mut product, true).unwrap();
            product.last_report().unwrap().clone()
        })
    };
    for (staged, direct) in run(thread_communicators(2)).iter().zip(run(direct_ranks(2))) {
        let kinds = |report: &RunReport| {
            [TaskKind::Send, TaskKind::Receive, TaskKind::Kernel, TaskKind::Download, TaskKind::Upload]
                .map(|kind| message_tasks(report, kind))
        };
        assert_eq!(kinds(staged), [1, 1, 1, 1, 1], "a gather kernel");
        assert_eq!(kinds(&direct), [1, 1, 2, 0, 0], "a gather kernel and one that stores rows");
        assert_eq!(direct.link_bytes(), (0, 0));
        assert!(staged.link_bytes().0 > 0);
        let graph = direct.rounds[0].planned.graph();
        let find = |kind: TaskKind, item: &dyn Fn(&Item) -> bool| {
            let planned = &direct.rounds[0].planned;
            let is_found = |task: &rowloom::internal::graph::Task| {
                task.kind == kind && item(&planned.items()[task.item as usize])
            };
            TaskId(planned.graph().tasks().iter().position(is_found).unwrap() as u32)
        };
        let to = |item: &Item| matches!(item, Item::ToRank { .. });
        let from = |item: &Item| matches!(item, Item::FromRank { .. });
        let is_chunk = |item: &Item| matches!(item, Item::Chunk(_));
        let (gather, send) = (find(TaskKind::Kernel, &to), find(TaskKind::Send, &to));
        let (receive, store) = (find(TaskKind::Receive, &from), find(TaskKind::Kernel, &from));
        assert!(follows(graph, send, gather) && follows(graph, store, receive));
        assert!(!follows(graph, find(TaskKind::Kernel, &is_chunk), receive), "interior rows do not wait");
        // The message began after its rows were packed, and they were stored after it had ended.
        let records = &direct.rounds[0].outcome.records;
        let span = |task: TaskId| {
            let record = records.iter().find(|record| record.task == task).unwrap();
            (record.start_ns, record.end_ns)
        };
        assert!(span(gather).1 <= span(send).0 && span(receive).1 <= span(store).0);
    }
}

#[test]
fn ranks_with_and_without_device_memory_exchange_messages() {
    // The ends of a message are independent: rank 1 has no card.
    let a = matrix("rmat,scale=9,degree=6");
    let k = 8;
    let run = |communicator: Arc<dyn Communicator>| {
        let devices = if communicator.rank() == 1 { "cpu" } else { "emu:0" };
        let builder = Runtime::builder().devices(devices).threads(1).model("none").refine(false);
        let cluster = builder.over(communicator).unwrap();
        let mut product = cluster.product(block(&cluster, &a, k)).columns(k).build().unwrap();
        let y = host(&multiplied(&mut product, true).unwrap());
        (y, product.messages_of_devices().unwrap())
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = direct_ranks(3).into_iter().map(|rank| scope.spawn(|| run(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let want = on_ranks(1, "cpu", |cluster| {
        let mut product = cluster.product(block(cluster, &a, k)).columns(k).build().unwrap();
        host(&multiplied(&mut product, true).unwrap())
    });
    let y: Vec<f64> = parts.iter().flat_map(|(y, _)| y.clone()).collect();
    assert_eq!(bits(&y), bits(&want[0]));
    for (rank, (_, messages)) in parts.iter().enumerate() {
        assert_eq!((messages.all, messages.direct), if rank == 1 { (0, 0) } else { (4, 4) }, "rank {rank}");
    }
}

#[test]
fn random_delays_of_devices_do_not_change_the_bits() {
    let a = matrix("road,n=700");
    let run = |devices: &str| {
        let parts = run_ranks(direct_ranks(3), devices, |cluster| {
            let mut product = cluster.product(block(cluster, &a, 4)).columns(4).build().unwrap();
            let (mut x, mut y) = (filled(product.vectors().unwrap()), product.vectors().unwrap());
            for _ in 0..4 {
                product.apply_into(&x, &mut y).unwrap();
                product.apply_into(&y, &mut x).unwrap();
                x.scale(0.01).unwrap();
            }
            host(&x)
        });
        bits(&parts.concat())
    };
    let want = run("cpu");
    for seed in 1..6 {
        assert_eq!(run(&format!("emu:0?delay_seed={seed},emu:1?delay_seed={}", seed + 9)), want, "{seed}");
    }
}

#[test]
fn messages_in_the_memory_of_a_card_have_the_same_bits() {
    if let Err(missing) = Driver::get() {
        skip("gpu", missing);
        return;
    }
    for (spec, k) in [("stencil27,n=16", 8), ("rmat,scale=10,degree=6", 33), ("road,n=3000", 1)] {
        let a = matrix(spec);
        let run = |ranks: Vec<Arc<dyn Communicator>>, devices: &str| {
            let parts = run_ranks(ranks, devices, |cluster| {
                let mut product = cluster.product(block(cluster, &a, k)).columns(k).build().unwrap();
                let (mut x, mut y) = (filled(product.vectors().unwrap()), product.vectors().unwrap());
                for _ in 0..10 {
                    product.apply_into(&x, &mut y).unwrap();
                    product.apply_into(&y, &mut x).unwrap();
                    x.scale(0.01).unwrap();
                }
                let messages = product.messages_of_devices().unwrap();
                assert!(messages.direct == messages.all);
                host(&x)
            });
            bits(&parts.concat())
        };
        let want = run(direct_ranks(1), "cpu");
        for ranks in [2, 3] {
            assert_eq!(run(direct_ranks(ranks), "cuda:0"), want, "{spec}, K = {k} on {ranks} ranks");
        }
    }
}

#[test]
fn a_trace_names_the_messages_in_device_memory() {
    let a = matrix("stencil5,n=40");
    let text = |ranks: Vec<Arc<dyn Communicator>>| {
        let texts = run_ranks(ranks, "emu:0", |cluster| {
            cluster.runtime().start_recording();
            let mut product = cluster.product(block(cluster, &a, 2)).columns(2).build().unwrap();
            multiplied(&mut product, true).unwrap();
            let mut trace = rowloom::internal::trace::Trace::default();
            cluster.runtime().add_operations(&mut trace);
            String::from_utf8(trace.to_bytes().unwrap()).unwrap()
        });
        texts[0].clone()
    };
    let (direct, staged) = (text(direct_ranks(2)), text(thread_communicators(2)));
    let names = ["send rows to rank 1 from device memory", "receive rows from rank 1 in device memory"];
    assert!(names.iter().all(|name| direct.contains(name) && !staged.contains(name)));
    let copies = ["download rows for rank 1", "upload rows of rank 1"];
    assert!(copies.iter().all(|name| staged.contains(name) && !direct.contains(name)));
    assert!(direct.contains("gather rows for rank 1") && direct.contains("store rows of rank 1"));
}

/// The outcome of a rank: Y and the number of faults from which it recovered, or the error that ended it.
type RankOutcome = Result<(Vec<u64>, usize)>;

/// Three products of three ranks, of which rank 1 has a device with a fault.
fn with_fault(a: &Csr<f64>, fault: &str, timeout: Duration) -> Vec<RankOutcome> {
    let work = |communicator: Arc<dyn Communicator>| -> RankOutcome {
        let devices = match communicator.rank() {
            1 => format!("emu:0?{fault}"),
            _ => "emu:0".into(),
        };
        let builder = Runtime::builder().devices(devices).threads(1).model("none").refine(false);
        let cluster = builder.over(communicator)?;
        // Faults are at numbers of operations: without those of a check.
        let options = ProductOptions { check: Check::Never, ..ProductOptions::default() };
        let builder = cluster.product(block(&cluster, a, 4)).columns(4).options(options);
        let mut product = builder.build()?;
        let mut x = product.vectors()?;
        x.keep_host_copy();
        let own = values(x.first_row(), x.rows(), 4);
        x.copy_from(&own)?;
        let (mut y, mut host) = (product.vectors()?, MultiVector::zeros(own.rows(), 4)?);
        for _ in 0..3 {
            product.apply_into(&x, &mut y)?;
        }
        y.copy_to(&mut host)?;
        cluster.communicator().barrier()?;
        Ok((bits(host.data()), product.faults().len()))
    };
    let ranks = thread_communicators_with_device_memory(3, timeout);
    std::thread::scope(|scope| {
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(|| work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Asserts that rank 1 ended with an error of its device, which is returned, and others, if they did, with one of a rank.
fn assert_named(outcomes: &[RankOutcome], case: &str) -> String {
    let error = outcomes[1].as_ref().unwrap_err();
    assert!(matches!(error, Error::Device { device, .. } if device == "emu:0"), "{case}: {error}");
    for outcome in [&outcomes[0], &outcomes[2]] {
        assert!(matches!(outcome, Ok(_) | Err(Error::Rank { .. })), "{case}: {outcome:?}");
    }
    error.to_string()
}

/// Products do not report the loss of a device between them. After so many runs without a report there are no more operations.
const QUIET_RUNS: usize = 10;

/// With a fault at every operation in turn: the places at which products recovered, and the errors of the others.
fn sweep(a: &Csr<f64>, fault: &str) -> (Vec<usize>, Vec<String>) {
    let good = with_fault(a, "", TIMEOUT);
    let want: Vec<&Vec<u64>> = good.iter().flatten().map(|(y, _)| y).collect();
    assert_eq!(want.len(), 3);
    let (mut recovered, mut errors, mut last) = (Vec::new(), Vec::new(), 0);
    for place in 1.. {
        if place > last + QUIET_RUNS {
            break;
        }
        let case = format!("{fault}={place}");
        let outcomes = with_fault(a, &case, TIMEOUT);
        if outcomes.iter().any(Result::is_err) {
            errors.push(assert_named(&outcomes, &case));
            last = place;
            continue;
        }
        for ((y, _), want) in outcomes.iter().flatten().zip(&want) {
            assert_eq!(y, *want, "{case}");
        }
        if outcomes.iter().flatten().any(|(_, faults)| *faults > 0) {
            recovered.push(place);
            last = place;
        }
    }
    println!("{fault}: {} recovered, {} ended with an error", recovered.len(), errors.len());
    (recovered, errors)
}

#[test]
fn a_fault_at_any_operation_gives_the_right_y_or_an_error_that_names_the_device() {
    let a = matrix("stencil5,n=24");
    for fault in ["lost_at_operation", "fail_launch", "fail_copy", "panic_at_operation"] {
        let (recovered, errors) = sweep(&a, fault);
        assert!(recovered.len() + errors.len() > 3, "{fault}: {recovered:?}, {errors:?}");
        // Rows that other ranks send to the memory of the device are lost with it, and the error says so.
        let is_named = |error: &String| {
            error.contains("other ranks send rows") && error.contains("ROWLOOM_CUDA_AWARE_MPI=0")
        };
        let is_lost = ["lost_at_operation", "panic_at_operation"].contains(&fault);
        assert_eq!(errors.iter().any(is_named), is_lost, "{fault}: {errors:?}");
    }
}

/// Operations of the first product: rows are packed and stored, and a chunk is computed.
const HANGS: [usize; 3] = [11, 14, 16];

#[test]
fn a_device_that_hangs_during_direct_messages_is_named_in_bounded_time() {
    let a = matrix("stencil5,n=24");
    let start = Instant::now();
    for place in HANGS {
        let case = format!("hang_at_operation={place}");
        assert_named(&with_fault(&a, &case, Duration::from_secs(1)), &case);
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn rows_of_a_lost_device_that_only_sends_are_sent_from_host_memory() {
    // All rows need some of the rows in the middle, which rank 1 owns, and no others.
    let n = 300u32;
    let columns: Vec<u32> = (0..n).map(|row| n / 2 - 40 + row % 80).collect();
    let a = Csr::try_new(
        n as usize,
        n as usize,
        (0..=u64::from(n)).collect::<Vec<u64>>(),
        columns,
        vec![2.0; n as usize],
    );
    let a = a.unwrap();
    let (recovered, errors) = sweep(&a, "lost_at_operation");
    assert!(recovered.len() > 5, "{recovered:?}, {errors:?}");
    assert!(!errors.iter().any(|error| error.contains("other ranks send rows")), "{errors:?}");
}
