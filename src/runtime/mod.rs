//! Runs products on the devices of a plan: plan and open, prepare once, run repeatedly, report.
//!
//! [`open`] makes a plan and opens its devices; [`Prepared`] runs its products; [`Simulated`] runs them in virtual time on
//! simulated devices. [`Timeline`] writes runs into a trace.

mod open_devices;
mod planned;
mod pool;
mod recovery;
mod report;
mod simulate;
mod spmm;
mod timeline;

pub use open_devices::{AnyDevice, open_device};
pub use planned::Planned;
pub use pool::Pool;
pub use report::{Computed, FaultReport, Round, RunReport};
pub use simulate::Simulated;
pub use spmm::{Job, Opened, Prepared, Settings, open, open_planned};
pub use timeline::Timeline;
