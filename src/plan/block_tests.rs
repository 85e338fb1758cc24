//! Claims about plans that copy X in blocks of rows.

use super::tests::{devices, matrix, request};
use super::*;
use crate::cost::preset;
use crate::graph::TaskKind;
use crate::matrix::Csr;
use crate::work::Work;

/// The plan for one H200 with the rates of its machine.
fn h200(matrix: &Csr<f64>, k: usize, mode: Mode) -> Plan {
    let machine = preset("h200").unwrap();
    let work = Work::spmm(&matrix.view(), k).unwrap();
    let mut request = PlanRequest { host: machine.host, mode: Some(mode), ..request(work, &["h200"]) };
    request.always_register = true;
    request.repeat = 10;
    make(&request).unwrap()
}

#[test]
fn columns_everywhere_leave_x_in_one_piece() {
    let plan = h200(&matrix("rmat,scale=17,degree=8"), 32, Mode::Resident);
    assert!(plan.devices[1].x_blocks.is_empty() && plan.chunks.iter().all(|chunk| chunk.x_rows.is_none()));
    assert!(plan.reasons.iter().any(|reason| reason.starts_with("X: in one piece")), "{:?}", plan.reasons);
}

#[test]
fn x_in_one_piece_is_copied_before_the_chunks_of_a() {
    // X is shorter than a chunk of A.
    let plan = h200(&matrix("rmat,scale=17,degree=8"), 1, Mode::Oneshot);
    assert!(plan.devices[1].x_blocks.is_empty() && plan.chunks.len() > 4);
    let planned = plan.graph(&Remaining::all(&plan)).unwrap();
    let turns = |is_x: bool| -> Vec<u32> {
        let uploads = planned.graph.tasks().iter().filter(|task| task.kind == TaskKind::Upload);
        let own = uploads.filter(|task| matches!(planned.items[task.item as usize], Item::X { .. }) == is_x);
        own.map(|task| task.turn).collect()
    };
    let (x, a) = (turns(true), turns(false));
    assert_eq!((x.len(), a.len()), (1, plan.chunks.len()));
    assert!(a.iter().all(|turn| *turn > x[0]), "{x:?} {a:?}");
}

#[test]
fn a_staged_x_that_every_chunk_needs_is_staged_while_it_is_copied() {
    let machine = preset("h200").unwrap();
    let matrix = matrix("rmat,scale=19,degree=2");
    let work = Work::spmm(&matrix.view(), 32).unwrap();
    let mut request =
        PlanRequest { host: machine.host, mode: Some(Mode::Resident), ..request(work, &["h200"]) };
    request.vectors_change = true;
    let plan = make(&request).unwrap();
    let blocks = &plan.devices[1].x_blocks;
    assert!(blocks.len() > 1, "{:?}", plan.reasons);
    assert!(plan.chunks.iter().all(|chunk| chunk.x_rows.is_none()));
    let mut one_piece = plan.clone();
    one_piece.devices[1].x_blocks.clear();
    assert!(plan.finish_s(1, 0..plan.chunks.len()) < one_piece.finish_s(1, 0..plan.chunks.len()));
    plan.check().unwrap();
    let planned = plan.graph(&Remaining::all(&plan)).unwrap();
    planned.graph.validate().unwrap();
    for edge in 0..planned.graph.edges().count() {
        assert!(super::tests::without_edge(&planned.graph, edge).validate().is_err(), "edge {edge}");
    }
}

#[test]
fn blocks_move_the_same_bytes_as_one_piece() {
    let matrix = matrix("stencil27,n=40");
    let plan = h200(&matrix, 32, Mode::Resident);
    let mut one_piece = plan.clone();
    one_piece.devices[1].x_blocks.clear();
    let bytes = |plan: &Plan| {
        let graph = plan.graph(&Remaining::all(plan)).unwrap().graph;
        graph.tasks().iter().map(|task| task.demand.link_bytes).sum::<u64>()
    };
    assert!(plan.devices[1].x_blocks.len() > 1, "{:?}", plan.reasons);
    assert_eq!(bytes(&plan), bytes(&one_piece));
}

#[test]
fn every_edge_between_blocks_and_kernels_is_needed() {
    let matrix = matrix("stencil7,n=44");
    let plan = h200(&matrix, 32, Mode::Oneshot);
    assert!(plan.devices[1].x_blocks.len() > 1, "{:?}", plan.reasons);
    let planned = plan.graph(&Remaining::all(&plan)).unwrap();
    planned.graph.validate().unwrap();
    for edge in 0..planned.graph.edges().count() {
        assert!(super::tests::without_edge(&planned.graph, edge).validate().is_err(), "edge {edge}");
    }
}

#[test]
fn a_damaged_block_or_range_of_rows_is_refused() {
    let matrix = matrix("stencil27,n=40");
    let work = Work::spmm(&matrix.view(), 32).unwrap();
    let plan = h200(&matrix, 32, Mode::Resident);
    plan.check().unwrap();
    plan.check_matrix(&work).unwrap();
    type Damage = (&'static str, fn(&mut Plan));
    let damages: [Damage; 6] = [
        ("a block is missing", |plan| assert!(plan.devices[1].x_blocks.pop().is_some())),
        ("blocks out of order", |plan| plan.devices[1].x_blocks.swap(0, 1)),
        ("an empty block", |plan| plan.devices[1].x_blocks[0] = 0),
        ("blocks of the host", |plan| plan.devices[0].x_blocks = vec![64000]),
        ("rows that do not exist", |plan| plan.chunks[3].x_rows = Some(XRows { first: 0, end: 64001 })),
        ("rows in the wrong order", |plan| plan.chunks[3].x_rows = Some(XRows { first: 9, end: 8 })),
    ];
    for (what, damage) in damages {
        let mut damaged = plan.clone();
        damage(&mut damaged);
        assert!(damaged.check().is_err(), "{what}");
    }
    // Ranges that the samples do not contradict: only the matrix tells.
    for index in 0..plan.chunks.len() {
        let mut damaged = plan.clone();
        let rows = plan.chunks[index].x_rows.unwrap();
        damaged.chunks[index].x_rows = Some(XRows { end: rows.end - 1, ..rows });
        assert_eq!(damaged.check_matrix(&work).unwrap_err().exit_code(), 3);
        damaged.chunks[index].x_rows = Some(XRows { first: rows.first + 1, ..rows });
        assert_eq!(damaged.check_matrix(&work).unwrap_err().exit_code(), 3);
    }
}

#[test]
fn chunks_with_narrow_columns_run_before_an_arrows_head() {
    let rows = 400_000usize;
    // The first row uses all columns, every other row its own.
    let mut columns: Vec<u32> = (0..rows as u32).step_by(1000).collect();
    let mut pointers = vec![0, columns.len() as u64];
    for row in 1..rows {
        columns.push(row as u32);
        pointers.push(columns.len() as u64);
    }
    let values = vec![1.0; columns.len()];
    let arrow = Csr::try_new(rows, rows, pointers, columns, values).unwrap();
    let plan = h200(&arrow, 32, Mode::Resident);
    assert!(plan.devices[1].x_blocks.len() > 4, "{:?}", plan.reasons);
    let turns = plan.turns();
    assert!(turns[1..turns.len() - 1].iter().all(|&turn| turn < turns[0]), "{turns:?}");
}

#[test]
fn several_devices_receive_blocks_of_their_parts() {
    let matrix = matrix("stencil27,n=64");
    let machine = preset("h200x2").unwrap();
    let work = Work::spmm(&matrix.view(), 32).unwrap();
    let mut request = PlanRequest { host: machine.host, mode: Some(Mode::Resident), ..request(work, &[]) };
    request.devices = devices(&["h200x2"]);
    let plan = make(&PlanRequest { repeat: 10, ..request }).unwrap();
    for device in &plan.devices[1..] {
        assert!(device.x_blocks.len() > 1, "{:?}", plan.reasons);
        assert!((device.size.entries as f64 / plan.matrix.entries as f64 - 0.5).abs() < 0.02);
    }
    plan.check().unwrap();
    plan.graph(&Remaining::all(&plan)).unwrap().graph.validate().unwrap();
}

#[test]
fn the_number_of_blocks_is_that_of_every_device() {
    let mut plan = h200(&matrix("stencil27,n=64"), 32, Mode::Oneshot);
    plan.devices.push(plan.devices[1].clone());
    (plan.devices[1].x_blocks, plan.devices[2].x_blocks) = (vec![1, 2, 3], vec![1, 2, 3]);
    assert_eq!(plan.blocks_in_words("blocks"), "3 blocks");
    plan.devices[2].x_blocks = vec![1, 2, 3, 4, 5];
    assert_eq!(plan.blocks_in_words("blocks"), "3 to 5 blocks per device");
    // A device that receives X in one piece has no block.
    plan.devices[2].x_blocks.clear();
    assert_eq!(plan.blocks_in_words("blocks"), "3 blocks");
}
