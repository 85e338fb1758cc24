//! Facts about cards, for planning before a device is opened.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::sys::CUdevice_attribute as attribute;

use super::context::Context;
use super::usable_bytes;
use crate::cost::CardFacts;
use crate::device::Fault;

/// The contexts of this process. The lock is held while one is created, which takes 0.1 s: another thread that needs the same
/// card waits and uses the new context.
static CONTEXTS: Mutex<Contexts> = Mutex::new(Contexts { unused: Vec::new(), in_use: Vec::new() });

/// Contexts with the numbers of their cards.
struct Contexts {
    /// Created to query cards; the next device on the card takes it.
    unused: Vec<(u32, Arc<Context>)>,
    /// Of devices.
    in_use: Vec<(u32, Weak<Context>)>,
}

/// The facts of a card that `devices` logical devices share. A device in the card's primary context queries it there: a context of its own
/// would take memory of the card and never be used.
pub fn card_facts(card: u32, devices: u64, primary: bool) -> Result<CardFacts, Fault> {
    let (context, free_bytes) = match primary {
        true => {
            let context = Context::primary(card)?;
            let (free_bytes, _) = context.memory()?;
            (context, free_bytes)
        }
        false => queried(card)?,
    };
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
    Ok(facts)
}

/// Any context on the card, with the bytes of memory that are free; a new one if there is none.
fn queried(card: u32) -> Result<(Arc<Context>, u64), Fault> {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let Contexts { unused, in_use } = &mut *contexts;
    in_use.retain(|(_, context)| context.strong_count() > 0);
    let in_use = in_use.iter().filter_map(|(of, context)| Some((*of, context.upgrade()?)));
    // A lost context answers no query.
    let found =
        unused.iter().cloned().chain(in_use).filter(|(of, _)| *of == card).find_map(|(_, context)| {
            let (free_bytes, _) = context.memory().ok()?;
            Some((context, free_bytes))
        });
    if let Some(found) = found {
        return Ok(found);
    }
    let context = Context::create(card)?;
    unused.push((card, context.clone()));
    let (free_bytes, _) = context.memory()?;
    Ok((context, free_bytes))
}

/// A context on the card for a device of its own: the primary one if it is asked for, else an unused one, else a new one.
pub fn context(card: u32, primary: bool) -> Result<Arc<Context>, Fault> {
    if primary {
        return Context::primary(card);
    }
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let context = match contexts.unused.iter().position(|(of, _)| *of == card) {
        Some(place) => contexts.unused.swap_remove(place).1,
        None => Context::create(card)?,
    };
    contexts.in_use.push((card, Arc::downgrade(&context)));
    Ok(context)
}
