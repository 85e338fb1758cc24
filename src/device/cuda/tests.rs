//! Tests on a real card. Without one they are skipped.

use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};

use super::super::conformance::{Supports, conforms};
use super::super::dense_conformance::{dense_kernels_conform, library_products_conform, with_entry_points};
use super::super::vector_conformance::{Subject, values, vectors_conform};
use super::actions::Action;
use super::*;
use crate::device::{Completion, EntryLaunch, MemoryRange, PeerCopy, PinnedRange, VectorLaunch};
use crate::graph::DeviceId;
use crate::kernel::colmean::block_rows;
use crate::kernel::{KernelId, KindOfWork};

/// Whether a card is available; without one the test is skipped.
fn card() -> bool {
    match Driver::get() {
        Ok(_) => true,
        Err(missing) => {
            crate::skip::skip("gpu", missing);
            false
        }
    }
}

fn open(name: &str, options: CudaOptions) -> (CudaDevice, Receiver<Completion>) {
    let (sender, receiver) = unbounded();
    let reports = Reports::new(DeviceId(1), sender);
    (CudaDevice::open(name, options, Clock::start(), reports).unwrap(), receiver)
}

fn next(completions: &Receiver<Completion>) -> Completion {
    completions.recv_timeout(Duration::from_secs(20)).expect("no completion within 20 s")
}

#[test]
fn cuda_devices_conform() {
    if card() {
        conforms(Supports::Copies, |reports| {
            Box::new(CudaDevice::open("cuda:0", CudaOptions::default(), Clock::start(), reports).unwrap())
        });
    }
}

#[test]
fn kernels_on_multivectors_equal_the_cpu_on_a_card() {
    if card() {
        vectors_conform(|reports| {
            Box::new(CudaDevice::open("cuda:0", CudaOptions::default(), Clock::start(), reports).unwrap())
        });
    }
}

#[test]
fn dense_kernels_equal_the_references_on_a_card() {
    if card() {
        dense_kernels_conform(|reports| {
            Box::new(CudaDevice::open("cuda:0", CudaOptions::default(), Clock::start(), reports).unwrap())
        });
    }
}

#[test]
fn products_of_cublas_are_within_the_rounding_bound_on_a_card() {
    if !cublas_is_installed() {
        crate::skip::skip("cublas", "cuBLAS is not installed");
    } else if card() {
        library_products_conform(|reports| {
            Box::new(CudaDevice::open("cuda:0", CudaOptions::default(), Clock::start(), reports).unwrap())
        });
    }
}

/// The shortest of several launches, in seconds.
fn shortest(subject: &mut Subject<'_>, launch: &EntryLaunch) -> f64 {
    let mut timed = |_| subject.timed(LaneKind::Compute, Operation::launch(launch.clone())).unwrap();
    (0..5).map(&mut timed).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "measures an H200; run it with --release --ignored --nocapture"]
fn dense_kernels_on_an_h200() {
    if !card() {
        return;
    }
    let mut subject = Subject::new(|reports| {
        Box::new(CudaDevice::open("cuda:0", CudaOptions::default(), Clock::start(), reports).unwrap())
    });
    measure_products::<f64>(&mut subject, 12e12);
    measure_products::<f32>(&mut subject, 25e12);
    // 1 GiB, read once.
    let x = subject.rows(&values::<f64>(25_576, 5248, 0, 1));
    let block_rows = block_rows(x.rows, x.columns);
    let bytes = x.rows.div_ceil(block_rows) * x.columns * 8;
    let (sums, deviations) = (subject.memory(bytes as usize), subject.memory(bytes as usize));
    for info in with_entry_points(KindOfWork::Colmean) {
        for wanted in [None, Some(deviations)] {
            let launch = EntryLaunch::column_sums(info.id, x, block_rows, sums, wanted).unwrap();
            let seconds = shortest(&mut subject, &launch);
            let rate = x.memory.bytes() as f64 / seconds;
            eprintln!("{:28} {:8.1} µs, {:6.0} GB/s", launch.kernel.name, seconds * 1e6, rate * 1e-9);
            assert!(info.id != KernelId::ColmeanReduce || rate > 3.5e12);
        }
    }
}

/// Products of square matrices; `least` is the expected rate of `gemm_blocked`, in floating-point operations per second.
fn measure_products<T: crate::matrix::Scalar>(subject: &mut Subject<'_>, least: f64) {
    for n in [1000, 4096, 10_000] {
        let host = values::<T>(n, n, 0, 1);
        let (a, b, c) = (subject.rows(&host), subject.rows(&host), subject.rows(&host));
        for info in with_entry_points(KindOfWork::Gemm) {
            let launch = EntryLaunch::gemm(info.id, (1.0, 1.0), a, b, c).unwrap();
            let seconds = shortest(subject, &launch);
            let rate = 2.0 * (n as f64).powi(3) / seconds;
            eprintln!(
                "{:14} {} n = {n:5}: {:9.3} ms, {:6.2} TFLOP/s",
                info.name,
                T::DTYPE,
                seconds * 1e3,
                rate * 1e-12
            );
            assert!(info.id != KernelId::GemmBlocked || n < 4096 || rate > least);
        }
        for memory in [a, b, c] {
            subject.device.free(memory.memory.memory);
        }
    }
}

#[test]
#[ignore = "measures an H200; run it with --release --ignored --nocapture"]
fn kernels_on_multivectors_reach_half_of_the_memory_bandwidth_of_an_h200() {
    if !card() {
        return;
    }
    let mut subject = Subject::new(|reports| {
        Box::new(CudaDevice::open("cuda:0", CudaOptions::default(), Clock::start(), reports).unwrap())
    });
    let rows = 96 * 96 * 96;
    for k in [1, 8, 32] {
        let host = values::<f64>(rows, k, 0, 1);
        let (x, y) = (subject.rows(&host), subject.rows(&host));
        let small = subject.rows(&values::<f64>(k, k, 0, 2));
        let partials = subject.memory(16 << 20);
        let (alpha, beta) = (0.5.into(), 0.25.into());
        let totals = (subject.upload(&[0u32]), subject.memory(8 * k));
        let list = subject.upload(&(0..rows as u32).collect::<Vec<_>>());
        for launch in [
            VectorLaunch::fill(1.0, y),
            VectorLaunch::copy(x, y),
            VectorLaunch::gather_rows(list, x, y),
            VectorLaunch::scale(alpha, y),
            VectorLaunch::axpby(alpha, x, beta, y),
            VectorLaunch::dot(x, y, partials),
            VectorLaunch::dot_total(x, y, partials, totals, false),
            VectorLaunch::gram(x, y, partials),
            VectorLaunch::times(x, small, 0.0, y),
        ] {
            let launch = launch.unwrap();
            let bytes = launch.kernel.moved_bytes(launch.dtype, launch.shape) as f64;
            let name = launch.kernel.info().name;
            let mut timed =
                |_| subject.timed(LaneKind::Compute, Operation::VectorLaunch(launch.clone())).unwrap();
            let seconds = (0..8).map(&mut timed).fold(f64::INFINITY, f64::min);
            eprintln!("{name:20} k = {k:2}: {:7.1} µs, {:5.0} GB/s", seconds * 1e6, bytes / seconds * 1e-9);
            assert!(k < 32 || bytes / seconds > 2e12, "{name}");
        }
    }
}

#[test]
fn a_device_copies_from_another_device_of_its_card_also_if_that_memory_is_freed_meanwhile() {
    if !card() {
        return;
    }
    let ((mut from, from_ends), (mut to, to_ends)) =
        (open("cuda:0", CudaOptions::default()), open("cuda:0#2", CudaOptions::default()));
    let (from, to): (&mut dyn Device<'_>, &mut dyn Device<'_>) = (&mut from, &mut to);
    const SIZE: u64 = 8 << 20;
    const SKIPPED: u64 = 4096;
    let (pinned, back) = (from.allocate_pinned(SIZE).unwrap(), to.allocate_pinned(SIZE - SKIPPED).unwrap());
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    pinned.write().unwrap().copy_from_slice(&bytes);
    let source = MemoryRange { memory: from.allocate(SIZE).unwrap(), begin: 0, end: SIZE };
    let target = MemoryRange { memory: to.allocate(SIZE).unwrap(), begin: SKIPPED, end: SIZE };
    let host = |pinned: &Pinned| PinnedRange { end: pinned.bytes() as u64, pinned: pinned.clone(), begin: 0 };
    from.submit(0, Operation::upload(host(&pinned), source), Demand::default(), &[]).unwrap();
    assert_eq!(next(&from_ends).result, Ok(()));
    let peer = from.peer_memory(source.memory).unwrap();
    assert!(to.can_copy_from(&peer), "two devices of one card");
    let outside = PeerCopy { from: peer.clone(), begin: SKIPPED + 1, to: target };
    let fault = to.submit(0, Operation::PeerCopy(outside), Demand::default(), &[]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Misuse);
    let copy = PeerCopy { from: peer, begin: SKIPPED, to: target };
    let copied = to.submit(0, Operation::PeerCopy(copy), Demand::default(), &[]).unwrap();
    from.free(source.memory);
    to.submit(2, Operation::download(target, host(&back)), Demand::default(), &[copied]).unwrap();
    assert_eq!((next(&to_ends).result, next(&to_ends).result), (Ok(()), Ok(())));
    assert!(back.read().unwrap()[..] == bytes[SKIPPED as usize..]);
}

#[test]
fn without_a_driver_opening_says_what_is_missing() {
    let (sender, _receiver) = unbounded();
    let reports = Reports::new(DeviceId(1), sender);
    let opened = CudaDevice::open("cuda:99", CudaOptions::default(), Clock::start(), reports);
    let fault = opened.err().expect("card 99 was opened");
    assert_eq!(fault.kind, FaultKind::Lost);
    assert!(fault.message.contains("driver") || fault.message.contains("card 99"), "{}", fault.message);
}

#[test]
fn device_names_map_to_card_numbers_and_back() {
    for (card, again, name) in [(0, 0, "cuda:0"), (0, 1, "cuda:0#2"), (12, 2, "cuda:12#3")] {
        assert_eq!(device_name(card, again), name);
        assert_eq!(card_number(name), Some(card));
    }
    for name in ["cuda", "cuda:", "cuda:x", "emu:0", "cuda:0x"] {
        assert_eq!(card_number(name), None, "{name}");
    }
}

#[test]
fn some_memory_is_left_to_the_driver() {
    for free in [0, 1 << 20, 1 << 30, 140 << 30] {
        assert!(usable_bytes(free) <= free && usable_bytes(free) >= free / 2);
    }
    assert!((140_u64 << 30) - usable_bytes(140 << 30) >= 1 << 30);
}

/// Reported times are in lane order and between submission and completion.
#[test]
fn reported_times_are_in_lane_order_and_between_submission_and_completion() {
    if !card() {
        return;
    }
    let (mut device, completions) = open("cuda:0", CudaOptions::default());
    let device: &mut dyn Device<'_> = &mut device;
    const SIZE: u64 = 8 << 20;
    let memory = device.allocate(SIZE).unwrap();
    let pinned = device.allocate_pinned(SIZE).unwrap();
    let back = device.allocate_pinned(SIZE).unwrap();
    pinned.write().unwrap().fill(9);
    let began = std::time::Instant::now();
    let (mut last_ns, mut spans_ns) = ([0; 3], Vec::new());
    // Longer than the time between two anchors.
    while began.elapsed() < Duration::from_millis(2300) {
        let submitted_ns = device.now_ns();
        let on_card = MemoryRange { memory, begin: 0, end: SIZE };
        let range = |pinned: &Pinned| PinnedRange { pinned: pinned.clone(), begin: 0, end: SIZE };
        let upload = Operation::upload(range(&pinned), on_card);
        let first = device.submit(0, upload, Demand::default(), &[]).unwrap();
        let download = Operation::download(on_card, range(&back));
        let second = device.submit(2, download, Demand::default(), &[first]).unwrap();
        let mut ends = [next(&completions), next(&completions)];
        ends.sort_by_key(|end| end.fence);
        let received_ns = device.now_ns();
        assert_eq!((ends[0].fence, ends[1].fence), (first, second));
        for (end, lane) in ends.iter().zip([0, 2]) {
            assert_eq!(end.result, Ok(()));
            assert!(submitted_ns <= end.start_ns && end.end_ns <= received_ns, "{end:?}");
            assert!(last_ns[lane] <= end.start_ns, "a span overlaps its predecessor");
            last_ns[lane] = end.end_ns;
            spans_ns.push(end.end_ns - end.start_ns);
        }
        assert!(ends[0].end_ns <= ends[1].start_ns, "{ends:?}");
        assert!(back.read().unwrap().iter().all(|byte| *byte == 9));
    }
    // Other processes on the card delay some copies, and their corrections of the clock shorten others, down to nothing.
    spans_ns.sort_unstable();
    let gb_per_s = SIZE as f64 / spans_ns[spans_ns.len() / 2] as f64;
    let error_ns = device.clock_error_ns().unwrap();
    let longest_ns = spans_ns[spans_ns.len() - 1];
    assert!((0.5..500.0).contains(&gb_per_s), "{gb_per_s} GB/s, {longest_ns} ns, error {error_ns} ns");
    assert!(error_ns < 1_000_000, "{error_ns}");
}

/// Events are reused while other lanes still query the end times of earlier operations.
#[test]
fn many_short_dependent_copies_succeed_in_order() {
    if !card() {
        return;
    }
    const SIZE: u64 = 4 << 10;
    const PAIRS: usize = 32;
    let (mut device, completions) = open("cuda:0", CudaOptions::default());
    let device: &mut dyn Device<'_> = &mut device;
    let memory = device.allocate(SIZE).unwrap();
    let on_card = MemoryRange { memory, begin: 0, end: SIZE };
    let there = device.allocate_pinned(SIZE).unwrap();
    there.write().unwrap().fill(5);
    let back: Vec<Pinned> = (0..PAIRS).map(|_| device.allocate_pinned(SIZE).unwrap()).collect();
    let range = |pinned: &Pinned| PinnedRange { pinned: pinned.clone(), begin: 0, end: SIZE };
    for _ in 0..60 {
        let mut pairs = Vec::new();
        for back in &back {
            let upload = Operation::upload(range(&there), on_card);
            let first = device.submit(0, upload, Demand::default(), &[]).unwrap();
            let download = Operation::download(on_card, range(back));
            pairs.push((first, device.submit(2, download, Demand::default(), &[first]).unwrap()));
        }
        let ends: HashMap<Fence, Completion> = (0..2 * PAIRS)
            .map(|_| next(&completions))
            .inspect(|end| assert_eq!(end.result, Ok(()), "{end:?}"))
            .map(|end| (end.fence, end))
            .collect();
        for (first, second) in pairs {
            assert!(ends[&first].end_ns <= ends[&second].start_ns, "{ends:?}");
        }
    }
    assert!(back.iter().all(|back| back.read().unwrap().iter().all(|byte| *byte == 5)));
}

/// Runs in a separate process, because a fault may destroy more than its own context.
#[test]
fn a_kernel_fault_loses_its_device_and_is_reported() {
    if card() {
        let name = "internal::device::cuda::tests::a_kernel_faults_in_this_process";
        let arguments = ["--exact", name, "--ignored", "--nocapture"];
        let child =
            std::process::Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
        let output =
            String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
        eprintln!("{output}");
        assert!(child.status.success() && output.contains("1 passed"), "{output}");
    }
}

#[test]
#[ignore = "a child process of the test above"]
fn a_kernel_faults_in_this_process() {
    let (mut lost, completions) =
        open("cuda:0", CudaOptions { illegal_address_at_launch: Some(1), ..CudaOptions::default() });
    let (mut other, other_completions) = open("cuda:0#2", CudaOptions::default());
    let fence = lost.next_fence;
    let command = Command {
        fence: Fence(fence),
        lane: 1,
        waits: Vec::new(),
        waiting: EventWait::Spinning,
        predicted_ns: 0,
        action: Action::Fault(super::fault_kernels::FaultKernel::IllegalAddress),
        what: "a kernel",
        held: Vec::new(),
    };
    lost.next_fence += 1;
    lost.threads.as_ref().unwrap().orders.send(Request::Issue(Box::new(command))).unwrap();
    let end = next(&completions);
    let fault = end.result.expect_err("an illegal address was not reported");
    assert_eq!(fault.kind, FaultKind::Lost);
    assert!(fault.message.contains("illegal") && fault.message.contains("a kernel"), "{}", fault.message);
    let lost: &mut dyn Device<'_> = &mut lost;
    assert_eq!(lost.allocate(16).unwrap_err().kind, FaultKind::Lost);
    let refused = lost.submit(0, Operation::Pass, Demand::default(), &[]);
    assert_eq!(refused.unwrap_err().kind, FaultKind::Lost);
    lost.close();
    let other: &mut dyn Device<'_> = &mut other;
    other.submit(0, Operation::Pass, Demand::default(), &[]).unwrap();
    let end = next(&other_completions);
    eprintln!("the other device on the card after the fault: {:?}", end.result);
}
