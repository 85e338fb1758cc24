#![allow(unsafe_code)] // runs kernels directly, as the device's compute lane does
//! Kernels with known faults, each detected and reported correctly; and CUDA built-ins with their specified results.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::entries::test_entry;
use super::launch::{Bound, BoundLaunch, BoundRange, Use};
use super::memory::Allocation;
use super::processor::Processor;
use crate::device::{Fault, FaultKind};
use crate::kernel::cuda::LaunchShape;

fn memory_of<T: bytemuck::Pod>(values: &[T]) -> Arc<Allocation> {
    let memory = Allocation::new(size_of_val(values)).unwrap();
    // SAFETY: as long as the values, and not shared yet.
    unsafe { memory.write(0, bytemuck::cast_slice(values)) };
    Arc::new(memory)
}

fn values_of<T: bytemuck::Pod>(memory: &Allocation) -> Vec<T> {
    assert_eq!(memory.first_unwritten(0..memory.bytes()), None);
    let mut bytes = vec![0; memory.bytes()];
    // SAFETY: no write is in progress.
    unsafe { memory.read(0, &mut bytes) };
    bytemuck::pod_collect_to_vec(&bytes)
}

fn unwritten(bytes: usize) -> Arc<Allocation> {
    Arc::new(Allocation::new(bytes).unwrap())
}

fn range(name: &'static str, memory: &Arc<Allocation>, range: std::ops::Range<usize>, using: Use) -> Bound {
    Bound::Range(BoundRange { name, memory: memory.clone(), range, lead_bytes: 0, using })
}

fn reads(memory: &Arc<Allocation>) -> Bound {
    range("from", memory, 0..memory.bytes(), Use::Read)
}

fn writes(memory: &Arc<Allocation>) -> Bound {
    range("to", memory, 0..memory.bytes(), Use::Write)
}

fn launch_shaped(
    processor: &mut Processor,
    name: &'static str,
    shape: LaunchShape,
    arguments: Vec<Bound>,
) -> Result<(), Fault> {
    let entry = test_entry(name).unwrap();
    let launch = BoundLaunch { name: name.into(), entry, shape, arguments };
    // SAFETY: the ranges are inside, only this thread uses them, and they match the entries' parameters.
    unsafe { launch.run(processor, &AtomicBool::new(false)) }
}

/// Launches one block of 64 threads.
fn launch(name: &'static str, arguments: Vec<Bound>) -> Result<(), Fault> {
    let shape = LaunchShape { grid: [1, 1, 1], block: [64, 1, 1], dynamic_shared_bytes: 64 * 4 };
    launch_shaped(&mut Processor::new().unwrap(), name, shape, arguments)
}

#[track_caller]
fn assert_reported(result: Result<(), Fault>, parts: &[&str]) {
    let fault = result.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Misuse);
    for part in parts {
        assert!(fault.message.contains(part), "{part:?} is not in: {}", fault.message);
    }
}

#[test]
fn reads_beyond_an_argument_are_reported_with_their_location() {
    let (from, to) = (memory_of(&[1.0f64; 100]), unwritten(64 * 8));
    assert!(launch("reads_beyond", vec![Bound::Number(36), reads(&from), writes(&to)]).is_ok());
    let result = launch("reads_beyond", vec![Bound::Number(60), reads(&from), writes(&to)]);
    assert_reported(
        result,
        &["reads_beyond, block 0, thread 40: reads 8 bytes at byte 800 of from, which has 800 bytes"],
    );
}

#[test]
fn accesses_before_an_argument_are_reported_too() {
    let (from, to) = (memory_of(&[1.0f64; 100]), unwritten(64 * 8));
    let result = launch("reads_beyond", vec![Bound::Number(u64::MAX), reads(&from), writes(&to)]);
    assert_reported(result, &["thread 0: reads 8 bytes at byte -8 of from"]);
}

#[test]
fn writes_beyond_an_argument_are_reported_and_not_executed() {
    let (from, to) = (memory_of(&[1.0f64; 1]), unwritten(64 * 8));
    let within = range("to", &to, 0..63 * 8, Use::Write);
    let result = launch("writes_beyond", vec![Bound::Number(0), reads(&from), within]);
    assert_reported(result, &["thread 63: writes 8 bytes at byte 504 of to, which has 504 bytes"]);
    assert_eq!(to.first_unwritten(0..64 * 8), Some(63 * 8));
}

#[test]
fn an_overrun_into_the_adjacent_argument_is_reported() {
    let slab = memory_of(&[1.0f64; 12]);
    let arguments = |gap: usize| {
        vec![range("left", &slab, 0..32, Use::Read), range("right", &slab, 32 + gap..40 + gap, Use::Write)]
    };
    for gap in [0, 8, 56] {
        let result = launch("reads_adjacent", arguments(gap));
        assert_reported(result, &["reads 8 bytes at byte 32 of left, which has 32 bytes"]);
    }
    let overlapping = vec![range("left", &slab, 0..48, Use::Read), range("right", &slab, 40..48, Use::Write)];
    assert_reported(launch("reads_adjacent", overlapping), &["its output right overlaps its argument left"]);
}

#[test]
fn adjacent_arguments_keep_their_contents_when_copied_apart() {
    let slab = memory_of(&[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let arguments = vec![range("left", &slab, 0..40, Use::Read), range("right", &slab, 40..48, Use::Write)];
    launch("reads_adjacent", arguments).unwrap();
    assert_eq!(values_of::<f64>(&slab), [1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 7.0]);
}

#[test]
fn reads_of_unwritten_memory_are_reported() {
    let (from, to) = (unwritten(64 * 4), unwritten(64 * 4));
    // SAFETY: inside, and only this thread uses it.
    unsafe { from.write(0, &[0; 17 * 4]) };
    let result = launch("reads_unwritten", vec![reads(&from), writes(&to)]);
    assert_reported(result, &["thread 17: reads 4 bytes at byte 68 of from, which are unwritten"]);
}

#[test]
fn reads_of_unwritten_shared_memory_are_reported_in_every_block() {
    let (from, to) = (memory_of(&[1.0f64]), unwritten(64 * 8));
    let mut processor = Processor::new().unwrap();
    for _ in 0..2 {
        let shape = LaunchShape { grid: [3, 1, 1], block: [64, 1, 1], dynamic_shared_bytes: 0 };
        let arguments = vec![reads(&from), writes(&to)];
        let result = launch_shaped(&mut processor, "reads_unwritten_shared", shape, arguments);
        assert_reported(
            result,
            &["block 0, thread 32: reads 8 bytes at byte 256 of sums, which are unwritten"],
        );
    }
}

#[test]
fn shared_memory_is_unwritten_at_the_start_of_every_block_and_launch() {
    let to = unwritten(64 * 8);
    let mut processor = Processor::new().unwrap();
    let mut launch = |blocks, writers| {
        let shape = LaunchShape { grid: [blocks, 1, 1], block: [64, 1, 1], dynamic_shared_bytes: 0 };
        let arguments = vec![Bound::Number(writers), writes(&to)];
        launch_shaped(&mut processor, "reads_the_last_blocks_shared", shape, arguments)
    };
    assert_reported(
        launch(2, 1),
        &["block 1, thread 0: reads 8 bytes at byte 0 of sums, which are unwritten"],
    );
    assert!(launch(2, 2).is_ok());
    assert_reported(
        launch(1, 0),
        &["block 0, thread 0: reads 8 bytes at byte 0 of sums, which are unwritten"],
    );
}

#[test]
fn an_overrun_of_a_shared_variable_is_reported() {
    let (from, to) = (memory_of(&[1.0f64]), unwritten(64 * 8));
    let result = launch("runs_over_shared", vec![reads(&from), writes(&to)]);
    assert_reported(result, &["thread 32: writes 8 bytes at byte 256 of sums, which has 256 bytes"]);
    let result = launch("runs_over_dynamic_shared", vec![writes(&to)]);
    assert_reported(result, &["thread 32", "byte 256 of the dynamic shared memory, which has 256 bytes"]);
}

#[test]
fn a_barrier_that_some_threads_never_reach_is_reported_with_the_waiting_and_returned_threads() {
    let to = unwritten(64 * 8);
    let result = launch("leaves_before_a_barrier", vec![writes(&to)]);
    assert_reported(
        result,
        &["63 threads wait at the barrier in line ", "thread 50 never reaches: it has returned"],
    );
}

#[test]
fn a_barrier_in_two_branches_is_reported() {
    let to = unwritten(64 * 8);
    let result = launch("diverges_at_a_barrier", vec![writes(&to)]);
    assert_reported(
        result,
        &["40 threads wait at the barrier in line ", "thread 40 never reaches: it waits at"],
    );
}

#[test]
fn shuffles_with_absent_lanes_are_reported() {
    let to = unwritten(64 * 8);
    let result = launch("shuffles_without_a_lane", vec![writes(&to)]);
    assert_reported(
        result,
        &["__shfl_down_sync in line ", "has lanes in its mask that never arrive: 0x00000200"],
    );
    let result = launch("shuffles_from_an_absent_lane", vec![writes(&to)]);
    assert_reported(result, &["__shfl_sync in line ", "reads from lane 20, which does not take part"]);
}

#[test]
fn misaligned_vectors_and_writes_to_inputs_are_reported() {
    let (from, to) = (memory_of(&[1.0f64; 64]), unwritten(64 * 8));
    let result = launch("reads_misaligned", vec![reads(&from), writes(&to)]);
    assert_reported(result, &["accesses byte 8 of from in line ", "which is not aligned to 16 bytes"]);
    let result = launch("writes_read_only", vec![reads(&from)]);
    assert_reported(result, &["thread 0: writes 8 bytes at byte 0 of from, which is read-only"]);
    assert_eq!(values_of::<f64>(&from), [1.0; 64]);
}

#[test]
fn a_wrong_number_of_arguments_is_refused() {
    assert_reported(launch("reads_unwritten", vec![Bound::Number(1)]), &["got 1 arguments; it takes 2"]);
}

#[test]
fn blocks_reduce_through_barriers_and_through_shuffles() {
    let numbers: Vec<f64> = (0..500).map(f64::from).collect();
    let from = memory_of(&numbers);
    let mut processor = Processor::new().unwrap();
    for name in ["block_sum_f64", "warp_sum_f64"] {
        let to = unwritten(3 * 8);
        let shape = LaunchShape { grid: [3, 1, 1], block: [512, 1, 1], dynamic_shared_bytes: 512 * 8 };
        let arguments = vec![Bound::Number(500), reads(&from), writes(&to)];
        launch_shaped(&mut processor, name, shape, arguments).unwrap();
        assert_eq!(values_of::<f64>(&to), [124_750.0; 3], "{name}");
    }
}

#[test]
fn votes_shuffles_atomics_and_vector_loads_follow_cuda() {
    let pairs: Vec<f64> = (0..128).map(f64::from).collect();
    let (from, out, counts) = (memory_of(&pairs), unwritten(64 * 8), unwritten(64 * 8 * 4));
    let shape = LaunchShape { grid: [1, 1, 1], block: [16, 4, 1], dynamic_shared_bytes: 0 };
    let arguments = vec![reads(&from), writes(&out), writes(&counts)];
    launch_shaped(&mut Processor::new().unwrap(), "cuda_builtins", shape, arguments).unwrap();
    let (out, counts) = (values_of::<f64>(&out), values_of::<u32>(&counts));
    for thread in 0..64u32 {
        let pair = f64::from(2 * thread);
        assert_eq!(out[thread as usize], pair * (pair + 1.0) + 1.0);
        let warp = thread / 32 * 32;
        let before = if thread == warp { thread } else { thread - 1 };
        let exchanged = if thread == 0 { 64 } else { 7 };
        let expected = [64, 32, 63 * 63, 0xaaaa_aaaa, 1, thread ^ 1, before, exchanged + warp + 4];
        assert_eq!(counts[thread as usize * 8..][..8], expected, "thread {thread}");
    }
}

#[test]
fn the_last_block_sums_the_partial_results_and_resets_the_counter() {
    let slab = memory_of(&[0u32; 64]);
    let mut processor = Processor::new().unwrap();
    for blocks in [1u32, 7, 7, 40] {
        let (scratch, to) = (unwritten(blocks as usize * 8), unwritten(8));
        let shape = LaunchShape { grid: [blocks, 1, 1], block: [64, 1, 1], dynamic_shared_bytes: 0 };
        let counter = range("counter", &slab, 4..8, Use::Update);
        let arguments =
            vec![counter, range("scratch", &scratch, 0..blocks as usize * 8, Use::Write), writes(&to)];
        launch_shaped(&mut processor, "last_block_adds", shape, arguments).unwrap();
        assert_eq!(values_of::<f64>(&to), [f64::from(blocks * (blocks + 1) / 2)]);
        assert_eq!(values_of::<u32>(&slab), [0; 64]);
    }
    let (counter, scratch, to) = (unwritten(4), unwritten(8), unwritten(8));
    let arguments = vec![range("counter", &counter, 0..4, Use::Update), writes(&scratch), writes(&to)];
    assert_reported(
        launch("last_block_adds", arguments),
        &["reads 4 bytes at byte 0 of counter, which are unwritten"],
    );
}

#[test]
fn vectors_bit_operations_and_partial_warps_follow_cuda() {
    let doubles: Vec<f64> = (0..64).map(f64::from).collect();
    let floats: Vec<f32> = (0..128u8).map(f32::from).collect();
    let words: Vec<u32> = (0..128).collect();
    let (doubles, floats, words) = (memory_of(&doubles), memory_of(&floats), memory_of(&words));
    let (out, bits) = (unwritten(32 * 32), unwritten(32 * 16));
    let shape = LaunchShape { grid: [1, 1, 1], block: [32, 1, 1], dynamic_shared_bytes: 0 };
    let arguments = vec![reads(&doubles), reads(&floats), reads(&words), writes(&out), writes(&bits)];
    launch_shaped(&mut Processor::new().unwrap(), "vectors_and_bits", shape, arguments).unwrap();
    let (out, bits) = (values_of::<f64>(&out), values_of::<u32>(&bits));
    for lane in 0..32u32 {
        // The four lanes of a group hold eight consecutive numbers.
        let group = lane / 4 * 8;
        let sum: u32 = (group..group + 8).sum();
        let first = lane / 16 * 16 * 4;
        let next = if lane % 8 == 7 { lane } else { lane + 1 } * 4 + 3;
        let expected = [sum, 4 * first + 6, next, 4 * lane + 1].map(f64::from);
        assert_eq!(out[lane as usize * 4..][..4], expected, "lane {lane}");
        let set = (4 * lane) << 3;
        let first_set = if set == 0 { 0 } else { set.trailing_zeros() + 1 };
        let expected = [8, first_set, (4 * lane + 1).min(9) + (2 * lane).max(4), 1];
        assert_eq!(bits[lane as usize * 4..][..4], expected, "lane {lane}");
    }
}
