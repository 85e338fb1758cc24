//! Stands in for the CUDA back end in a build without the feature `cuda`: there are no cards, and every request says why.

use super::{Fault, FaultKind};
use crate::cost::CardFacts;

pub use super::cuda_options::{CudaOptions, card_number, device_name, share_cards};

/// Why there is no card.
pub const ABSENT: &str = "this build has no CUDA";

/// The driver, which this build never has.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// Number of cards.
    pub cards: u32,
}

impl Driver {
    /// Why there is no driver.
    pub fn get() -> Result<Self, String> {
        Err(ABSENT.into())
    }
}

/// Why there are no facts.
pub fn card_facts(_: u32, _: u64, _: bool) -> Result<CardFacts, Fault> {
    Err(Fault::new(FaultKind::Misuse, ABSENT))
}

/// NVIDIA's compiler at run time is of no use.
pub fn nvrtc_is_installed() -> bool {
    false
}

/// NVIDIA's dense products are of no use.
pub fn cublas_is_installed() -> bool {
    false
}
