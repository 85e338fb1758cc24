//! The request that tests of this module plan: a product on a simulated H200 and its host.

use crate::cost::preset;
use crate::matrix::CsrView;
use crate::plan::{DeviceSpec, PlanRequest};
use crate::work::Work;

/// One product with 8 columns on `cpu` and `sim:h200/0`, which both must get a share.
pub(super) fn cpu_and_h200<'a>(matrix: &CsrView<'a, f64>) -> PlanRequest<'a> {
    let machine = preset("h200").unwrap();
    let devices = vec![
        DeviceSpec::new("cpu", machine.cpu.clone()),
        DeviceSpec::new("sim:h200/0", machine.gpus[0].clone()),
    ];
    PlanRequest::new(Work::spmm(matrix, 8).unwrap(), devices, machine.host)
}
