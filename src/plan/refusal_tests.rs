//! Claims about requests and loaded plans that are refused: the exit code, and the words that say what is wrong.

use super::tests::{matrix, request};
use super::*;
use crate::cost::{Network, SimulatedCluster, host_rates};
use crate::kernel::{Format, KernelId};
use crate::work::Work;

const NETWORK: Network =
    Network { latency_us: 2.0, message_gb_per_s: 10.0, injection_gb_per_s: 10.0, gpu_direct: false };

fn refusal(result: crate::error::Result<Plan>, code: u8, words: &str) {
    let error = result.map(|_| ()).unwrap_err();
    assert!(error.exit_code() == code && error.to_string().contains(words), "{words}: {error}");
}

#[test]
fn a_request_that_contradicts_itself_names_the_option_to_change() {
    let matrix = matrix("stencil5,n=20");
    let work = Work::spmm(&matrix.view(), 4).unwrap();
    let of = |words: &[&str]| request(work.clone(), words);
    refusal(make(&PlanRequest { cpu_share: Some(1.5), ..of(&["cpu", "emu"]) }), 2, "must be from 0 to 1");
    refusal(
        make(&PlanRequest { cpu_share: Some(0.5), ..of(&["emu", "emu"]) }),
        2,
        "leave out `.cpu_share(…)`",
    );
    let format = |format| PlanRequest { format: Some(format), ..of(&["cpu"]) };
    refusal(make(&format(Format::RowGroups)), 2, "only GPU kernels read");
    refusal(make(&format(Format::Hybrid)), 2, "only GPU kernels read");
    refusal(make(&format(Format::Dense)), 2, "is not dense");
    let kernel = |kernel| PlanRequest { kernel: Some(kernel), reproducible: true, ..of(&["cpu", "emu"]) };
    refusal(make(&kernel(KernelId::CsrVector)), 2, "is not canonical");
}

#[test]
fn a_plan_has_at_most_a_million_chunks() {
    let matrix = matrix("uniform,rows=300000,degree=4");
    let work = Work::spmm(&matrix.view(), 1).unwrap();
    let request = PlanRequest { chunk_bytes: Some(1), ..request(work, &["cpu", "emu"]) };
    refusal(make(&request), 2, "use a plan with larger chunks");
}

#[test]
fn a_format_of_the_cpu_alone_has_its_own_kernel() {
    let matrix = matrix("stencil5,n=20");
    let work = Work::spmm(&matrix.view(), 4).unwrap();
    let of = |format, kernel| {
        let plan = make(&PlanRequest { format, kernel, ..request(work.clone(), &["cpu"]) }).unwrap();
        plan.chunks[0].cpu_kernel
    };
    assert_eq!(of(Some(Format::EllUnpadded), None), KernelId::CpuEllUnpadded);
    assert_eq!(of(None, Some(KernelId::CpuSell)), KernelId::CpuSell);
}

#[test]
fn a_plan_that_contradicts_itself_says_what_is_wrong() {
    let matrix = matrix("arrow,rows=9000");
    let work = Work::spmm(&matrix.view(), 7).unwrap();
    let plan = make(&PlanRequest { chunks: Some(20), ..request(work, &["cpu", "emu"]) }).unwrap();
    plan.check().unwrap();
    fn cluster(plan: &mut Plan, nodes: u32, network: Network) {
        plan.cluster =
            Some(SimulatedCluster { nodes, gpus_per_node: 1, host: host_rates(2).unwrap(), network });
    }
    type Damage = (&'static str, fn(&mut Plan));
    let damages: [Damage; 5] = [
        ("neither the host nor a device with a link", |plan| plan.devices[1].profile.link = None),
        ("rows 0..9001 of X, which do not exist", |plan| {
            plan.devices[1].x = XPlan::Columns { first: 0, end: 9001 };
        }),
        ("the rates of the cluster", |plan| {
            cluster(plan, 1, Network { message_gb_per_s: 0.0, ..NETWORK });
        }),
        ("differ from the GPUs of all nodes", |plan| cluster(plan, 7, NETWORK)),
        ("the split rows do not match their chunks", |plan| {
            let mut unused = plan.split_rows[0].clone();
            unused.row = plan.matrix.rows;
            plan.split_rows.push(unused);
        }),
    ];
    for (what, damage) in damages {
        let mut damaged = plan.clone();
        damage(&mut damaged);
        let said = damaged.check().unwrap_err();
        assert!(said.contains(what), "{what}: {said}");
    }
}

#[test]
fn a_resident_chunk_of_a_sparse_matrix_is_staged_at_once() {
    let matrix = matrix("stencil5,n=60");
    let work = Work::spmm(&matrix.view(), 8).unwrap();
    let resident = PlanRequest { mode: Some(Mode::Resident), ..request(work.clone(), &["emu"]) };
    let mut plan = make(&resident).unwrap();
    let slots = &plan.devices[1].slots;
    assert!(slots.a_slots == 0 && slots.pinned_in_slots > 0, "{slots:?}");
    plan.check_matrix(&work).unwrap();
    plan.devices[1].slots.pinned_in_slot_bytes -= 1;
    let error = plan.check_matrix(&work).unwrap_err();
    assert!(error.to_string().contains("the slots of emu:0/0 do not fit the matrix"), "{error}");
}

#[test]
fn a_plan_that_contradicts_its_matrix_says_what_is_wrong() {
    let matrix = matrix("stencil5,n=60");
    let work = Work::spmm(&matrix.view(), 8).unwrap();
    let plan = make(&PlanRequest { chunks: Some(8), ..request(work.clone(), &["emu"]) }).unwrap();
    plan.check_matrix(&work).unwrap();
    type Damage = (&'static str, fn(&mut Plan));
    let damages: [Damage; 3] = [
        ("the gathered rows of X", |plan| plan.devices[1].x = XPlan::Gather { columns: 1 }),
        ("the bytes of X", |plan| plan.devices[1].slots.x_bytes += 256),
        ("cannot be copied from registered arrays", |plan| {
            plan.devices[1].registered.a = true;
            plan.devices[1].x = XPlan::Columns { first: 0, end: plan.matrix.cols };
        }),
    ];
    for (what, damage) in damages {
        let mut damaged = plan.clone();
        damage(&mut damaged);
        let error = damaged.check_matrix(&work).unwrap_err();
        assert!(error.exit_code() == 3 && error.to_string().contains(what), "{what}: {error}");
    }
}
