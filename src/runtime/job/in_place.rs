//! X and Y that the caller keeps in page-locked memory: devices copy them without staging, although the plan stages them.

use std::sync::Arc;

use crate::plan::Plan;
use crate::runtime::run::Planned;

/// The operands of a run that are in page-locked memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InPlace {
    /// X is.
    pub x: bool,
    /// Y is.
    pub y: bool,
}

impl InPlace {
    /// The plan that copies these operands in place wherever their rows have the same pitch on the device; `None` if that changes nothing.
    pub fn plan(self, plan: &Plan) -> Option<Plan> {
        if !can_copy_in_place(plan) {
            return None;
        }
        let mut changed = plan.clone();
        for device in changed.devices.iter_mut().filter(|device| device.profile.link.is_some()) {
            device.registered.x |= self.x && plan.held_rows(device.x).is_some();
            device.registered.y |= self.y && !plan.output.is_staged();
            if device.registered.y {
                device.slots.pinned_out_slots = 0;
            }
        }
        (changed.devices != plan.devices).then_some(changed)
    }
}

/// Whether the rows of X and Y have the same pitch on the host and on devices.
pub fn can_copy_in_place(plan: &Plan) -> bool {
    plan.row_bytes() == plan.pitch_bytes()
}

/// The plan of a job for operands in page-locked memory, and its graph on the devices that are alive.
pub struct InPlacePlan {
    /// The operands.
    pub in_place: InPlace,
    /// The plan.
    pub plan: Plan,
    /// Its graph.
    pub whole: Arc<Planned>,
}
