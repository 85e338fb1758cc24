//! Tests of plans that use layouts of A which devices have already.

use super::tests::request;
use super::{Mode, Plan, PlanRequest, ResidentLayout, make};
use crate::kernel::Processor;
use crate::matrix::{Csr, generate};
use crate::work::Work;

/// The layouts of the GPUs of a plan, which other products use.
fn layouts(plan: &Plan) -> Vec<ResidentLayout> {
    let layout = |(index, device): (usize, &super::DevicePlan)| {
        let own = plan.chunks.iter().filter(|chunk| chunk.home as usize == index);
        ResidentLayout {
            device: device.name.clone(),
            bytes: device.slots.resident_bytes,
            chunks: own.map(|chunk| (chunk.rows, chunk.form(Processor::Gpu).stored())).collect(),
            x: device.x,
            is_in_use: true,
        }
    };
    plan.devices.iter().enumerate().skip(1).map(layout).collect()
}

/// The plan for K columns on devices with memory for 1.5 times these layouts, or with all of their memory if there are none.
fn plan(a: &Csr<f64>, words: &[&str], k: usize, resident: Vec<ResidentLayout>) -> Plan {
    let work = Work::spmm(&a.view(), k).unwrap();
    let mut request =
        PlanRequest { mode: Some(Mode::Resident), repeat: 100, resident, ..request(work.clone(), words) };
    for layout in &request.resident {
        for device in request.devices.iter_mut().filter(|device| device.name == layout.device) {
            device.profile.memory_bytes = layout.bytes * 3 / 2;
        }
    }
    let plan = make(&request).unwrap();
    plan.check_matrix(&work).unwrap();
    plan
}

#[test]
fn a_plan_for_another_k_uses_the_layouts_that_devices_have() {
    let a = generate::<f64>("uniform,rows=20000,degree=80", 1, 1 << 30).unwrap().matrix;
    for words in [&["h200"][..], &["cpu", "h200"], &["h200x4"]] {
        let stored = layouts(&plan(&a, words, 1, Vec::new()));
        assert!(!stored.is_empty());
        for k in [2, 5, 8] {
            let plan = plan(&a, words, k, stored.clone());
            assert_eq!(layouts(&plan), stored, "{words:?}, K = {k}: {:?}", plan.reasons);
            assert_eq!(plan.set_up.bring_a_s, 0.0);
            assert!(plan.reasons.iter().any(|reason| reason.starts_with("A: stored once")));
        }
    }
}

#[test]
fn layouts_without_all_rows_are_not_used() {
    let a = generate::<f64>("uniform,rows=20000,degree=80", 1, 1 << 30).unwrap().matrix;
    let mut stored = layouts(&plan(&a, &["h200"], 1, Vec::new()));
    stored[0].chunks.pop();
    // The layout of the other products is evicted.
    let plan = plan(&a, &["h200"], 2, stored.clone());
    assert_ne!(layouts(&plan)[0].chunks, stored[0].chunks);
    assert!(plan.reasons.iter().all(|reason| !reason.starts_with("A: stored once")));
}
