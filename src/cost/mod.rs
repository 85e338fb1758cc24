//! The cost model: predicted times of kernels on chunks and of copies over links, from a few rates of each device.
//!
//! Rates are plain data. `configs/machines/` has those of known machines, with the source of every figure; they are compiled in,
//! and [`preset`] finds them by name.

mod cards;
mod cases;
mod choose;
mod fit;
mod form;
mod kernels;
mod model;
mod presets;
mod profile;
mod reference;
mod refined;
mod regressors;
mod shape;
mod similarity;

pub use cards::{CardFacts, card_profile};
pub use choose::{Candidate, Choice, FREE_GAIN, choose, choose_candidate};
pub use fit::{Sample, fit, fit_factors};
pub use form::{Form, eligible};
pub use model::{DeviceModel, Model};
pub use presets::{Preset, cpu_profile, emulated_profile, host_rates, preset, preset_names};
pub use profile::{Correction, HostRates, Link, Load, Profile, VALID_RATES};
pub use reference::Reference;
pub use refined::Refined;
pub use regressors::{REGRESSORS, names as regressor_names};
pub use shape::SHAPES;
