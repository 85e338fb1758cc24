//! Drafts for tests of single steps of the planner.

use std::sync::OnceLock;

use super::data::Mode;
use super::draft::Draft;
use super::request::PlanRequest;
use crate::cost::cpu_profile;
use crate::work::Layouts;

/// Calls `test` with the draft for all devices of the request in a mode, with A in the host's layout.
pub(super) fn with_draft<T>(request: &PlanRequest<'_>, mode: Mode, test: impl FnOnce(&Draft<'_>) -> T) -> T {
    let host_profile = cpu_profile(2, u64::MAX).unwrap();
    let fingerprint = request.work.fingerprint();
    let forms = request.work.forms(&request.kernels(mode), Layouts::Unchanged).unwrap();
    test(&Draft {
        request,
        fingerprint: &fingerprint,
        forms,
        host_profile: &host_profile,
        devices: &request.devices,
        mode,
        samples: &OnceLock::new(),
        adopted: None,
    })
}
