//! The rates of a real card: from its description where the card is known, else from the properties that it reports.

use super::presets::preset;
use super::profile::Profile;
use crate::error::{Error, Result};

/// Cards with a description. The first name contained in a card's own name is used.
const KNOWN: [&str; 3] = ["h200", "h100", "a100"];

/// The properties that a card reports.
#[derive(Debug, Clone, PartialEq)]
pub struct CardFacts {
    /// Its name.
    pub name: String,
    /// Usable memory.
    pub memory_bytes: u64,
    /// Nominal memory bandwidth.
    pub memory_gb_per_s: Option<f64>,
    /// Size of its last-level cache.
    pub cache_bytes: Option<u64>,
}

/// The rates of a card. Those of an unknown card are an A100's, scaled by the nominal memory bandwidth.
pub fn card_profile(card: &CardFacts) -> Result<Profile> {
    let name = card.name.to_lowercase();
    let known = KNOWN.into_iter().find(|known| name.contains(known));
    let profile = preset(known.unwrap_or("a100"))?.gpus.into_iter().next();
    let mut profile = profile.ok_or_else(|| Error::Internal("a described machine has no GPU".into()))?;
    profile.memory_bytes = card.memory_bytes;
    if known.is_none() {
        profile.name = "card".into();
        profile.cases = None;
        if let Some(rate) = card.memory_gb_per_s {
            // Copies reach about nine tenths of the nominal bandwidth.
            let factor = 0.9 * rate / profile.stream_gb_per_s.max(1.0);
            profile.stream_gb_per_s *= factor;
            profile.gather_gb_per_s *= factor;
            profile.far_gather_gb_per_s *= factor;
        }
        if let Some(bytes) = card.cache_bytes {
            profile.cache_bytes = bytes / 2;
        }
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(name: &str) -> CardFacts {
        let (memory_gb_per_s, cache_bytes) = (Some(1000.0), Some(4 << 20));
        CardFacts { name: name.into(), memory_bytes: 7 << 30, memory_gb_per_s, cache_bytes }
    }

    #[test]
    fn known_cards_have_their_own_rates_and_others_scaled_ones() {
        for (name, known) in
            [("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA A100-SXM4-40GB", "a100")]
        {
            let profile = card_profile(&facts(name)).unwrap();
            let preset = preset(known).unwrap().gpus.remove(0);
            assert_eq!(profile, Profile { memory_bytes: 7 << 30, ..preset });
        }
        let profile = card_profile(&facts("NVIDIA L4")).unwrap();
        assert!(
            (profile.stream_gb_per_s - 900.0).abs() < 1.0 && profile.cache_bytes == 2 << 20,
            "{profile:?}"
        );
    }
}
