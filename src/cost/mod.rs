//! Rates of devices, links and hosts, and the times that follow from them. What a kernel costs on given rows is a matter of its kind
//! of work: `work`.
//!
//! Rates are plain data. `configs/machines/` has those of known machines, with the source of every figure; they are compiled in,
//! and [`preset`] finds them by name.

mod cards;
mod form;
mod learned_factors;
mod model;
mod network;
mod presets;
mod profile;
mod shapes;

pub use cards::{CardFacts, card_profile};
pub use form::{Candidate, Choice, Form, StoredForm};
pub use learned_factors::LearnedFactors;
pub use model::{DeviceModel, Model};
pub use network::{Network, SimulatedCluster};
pub use presets::{
    Preset, cpu_profile, emulated_profile, host_rates, preset, preset_names, preset_on, rank_count,
    ranks_of_host,
};
pub use profile::{Correction, HostRates, Link, Load, Profile, VALID_RATES};
pub use shapes::{SHAPES, WEIGHTS_PER_SHAPE};
