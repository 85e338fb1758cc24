//! One run of a planned graph: on the open devices of a plan or in virtual time, its report, and its spans in a trace.

mod plan_devices;
mod planned;
mod recovery;
mod report;
mod simulate;
mod timeline;

pub use plan_devices::{LockedDevices, PlanDevices};
pub use planned::Planned;
pub use recovery::Recovery;
pub use report::{Computed, FaultReport, Round, RunReport};
pub use simulate::Simulated;
pub(in crate::internal::runtime) use simulate::{TimeOnly, simulation, specs};
pub use timeline::Timeline;
pub(crate) use timeline::add_records;
