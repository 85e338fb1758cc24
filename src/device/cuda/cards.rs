//! Facts about cards, for planning before a device is opened.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUdevice_attribute as attribute;

use super::context::Context;
use super::opening::take_contexts;
use super::usable_bytes;
use crate::cost::CardFacts;
use crate::device::Fault;

/// Contexts created in the background or to query cards. Creating one is slow, so the first device on the card reuses it.
static IDLE_CONTEXTS: Mutex<Vec<(u32, Arc<Context>)>> = Mutex::new(Vec::new());

/// The facts of a card that `devices` logical devices share.
pub fn card_facts(card: u32, devices: u64) -> Result<CardFacts, Fault> {
    let context = context(card)?;
    let (free_bytes, _) = context.memory()?;
    let memory_gb_per_s = || {
        let clock_khz = context.attribute(attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let bus_bits = context.attribute(attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        // Double data rate: two transfers per cycle.
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

/// An unused context on the card: an idle one, else a new one.
pub fn context(card: u32) -> Result<Arc<Context>, Fault> {
    let opened = take_contexts();
    let mut contexts = IDLE_CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    contexts.extend(opened);
    match contexts.iter().position(|(of, _)| *of == card) {
        Some(place) => Ok(contexts.swap_remove(place).1),
        None => Context::create(card),
    }
}
