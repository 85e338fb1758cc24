//! The cost model: how long a kernel takes on a chunk and a copy on a link, from a few rates of each device.
//!
//! Rates are plain data. Those of known machines lie in `configs/machines/` with the source of every figure and are
//! built in; [`preset`] finds them by name.

mod cards;
mod cases;
mod choose;
mod fit;
mod form;
mod kernels;
mod looks;
mod model;
mod presets;
mod profile;
mod reference;
mod refined;
mod regressors;
mod shape;

pub use cards::{CardFacts, card_profile};
pub use choose::{Choice, FREE_GAIN, choose};
pub use fit::{Sample, fit, fit_factors};
pub use form::{Form, eligible};
pub use model::{DeviceModel, Model};
pub use presets::{Preset, cpu_profile, emulated_profile, host_rates, preset, preset_names};
pub use profile::{Correction, HostRates, Link, Load, Profile};
pub use reference::Reference;
pub use refined::Refined;
pub use regressors::{REGRESSORS, names as regressor_names};
pub use shape::SHAPES;
