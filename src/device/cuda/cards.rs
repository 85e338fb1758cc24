//! What a card is, for those who plan before they open a device on it.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUdevice_attribute as attribute;

use super::context::Context;
use super::usable_bytes;
use crate::cost::CardFacts;
use crate::device::Fault;

/// Contexts that were made to look at cards. Making one takes long, so the first device on the card gets it.
static IDLE_CONTEXTS: Mutex<Vec<(u32, Arc<Context>)>> = Mutex::new(Vec::new());

/// Looks at a card that `devices` devices are to share.
pub fn card_facts(card: u32, devices: u64) -> Result<CardFacts, Fault> {
    let context = context(card)?;
    let (free_bytes, _) = context.memory()?;
    let memory_gb_per_s = || {
        let clock_khz = context.attribute(attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let bus_bits = context.attribute(attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        // Two transfers in a cycle.
        Some(2.0 * clock_khz as f64 * 1e3 * bus_bits as f64 / 8.0 / 1e9)
    };
    let facts = CardFacts {
        name: context.card_name().unwrap_or_default(),
        memory_bytes: usable_bytes(free_bytes / devices.max(1)),
        memory_gb_per_s: memory_gb_per_s().filter(|rate| *rate > 0.0),
        cache_bytes: context.attribute(attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
    };
    IDLE_CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner).push((card, context));
    Ok(facts)
}

/// A context on a card that nobody else has.
pub fn context(card: u32) -> Result<Arc<Context>, Fault> {
    let mut contexts = IDLE_CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    match contexts.iter().position(|(of, _)| *of == card) {
        Some(place) => Ok(contexts.swap_remove(place).1),
        None => Context::create(card),
    }
}
