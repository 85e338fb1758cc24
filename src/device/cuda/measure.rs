//! Measures the bandwidths of a card and its link.

#![allow(unsafe_code)] // passes addresses to the CUDA driver

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::result::DriverError;
use cudarc::driver::{result, sys};
use serde::Serialize;

use super::context::{Context, DeviceMemory, Event, EventWait, Stream};
use super::driver::fault;
use super::host_memory::{self, Registered};
use super::{cards, usable_bytes};
use crate::device::{Fault, FaultKind};
use crate::matrix::AlignedBuffer;

/// Bytes of a copy across the link.
const COPY_BYTES: u64 = 256 << 20;

/// Bytes of a copy within the card's memory; far more than its caches hold.
const MEMORY_BYTES: u64 = 2 << 30;

/// Repetitions of each measurement; the best counts.
const REPEATS: usize = 4;

/// Measured bandwidths of a card, in GB/s (bytes per nanosecond).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CardRates {
    /// From page-locked host memory to the card.
    pub to_device_gb_per_s: f64,
    /// From the card to page-locked host memory.
    pub from_device_gb_per_s: f64,
    /// Sum of both directions at the same time.
    pub both_gb_per_s: f64,
    /// From pageable host memory to the card.
    pub pageable_to_device_gb_per_s: f64,
    /// From the card to pageable host memory.
    pub pageable_from_device_gb_per_s: f64,
    /// Within the card's memory, counting bytes read and bytes written.
    pub memory_gb_per_s: f64,
    /// Registering (page-locking in place) host memory, in seconds per GB.
    pub register_s_per_gb: f64,
}

/// Measures a card, which must be idle otherwise.
pub fn measure_card(card: u32) -> Result<CardRates, Fault> {
    let context = cards::context(card, false)?;
    let streams = StreamPair::new(&context)?;
    let measured = |error| fault(FaultKind::Copy, "the card cannot be measured", error);
    let (free_bytes, _) = context.memory()?;
    let bytes = COPY_BYTES.min(usable_bytes(free_bytes) / 4);
    let size = bytes as usize;
    let on_card = [DeviceMemory::allocate(&context, bytes)?, DeviceMemory::allocate(&context, bytes)?];
    let pinned = [host_memory::allocate(&context, bytes)?, host_memory::allocate(&context, bytes)?];
    let pageable = AlignedBuffer::<u8>::zeroed(size);
    let mut pageable = pageable.map_err(|error| Fault::new(FaultKind::OutOfMemory, error.message()))?;
    pageable.fill(1);

    let (from, mut to) = (pinned[0].read()?, pinned[1].write()?);
    let up = |stream: &Stream| {
        // SAFETY: both have `size` bytes and live until `best` has waited for the copy.
        unsafe { sys::cuMemcpyHtoDAsync_v2(on_card[0].address(), from.as_ptr().cast(), size, stream.raw()) }
            .result()
    };
    let back = to.as_mut_ptr();
    let down = |stream: &Stream| {
        // SAFETY: both have `size` bytes and live until `best` has waited for the copy.
        unsafe { sys::cuMemcpyDtoHAsync_v2(back.cast(), on_card[1].address(), size, stream.raw()) }.result()
    };
    let rate = |moved: u64, ns: f64| moved as f64 / ns.max(1.0);
    let to_device = streams.best(|first, _| up(first)).map_err(measured)?;
    let from_device = streams.best(|first, _| down(first)).map_err(measured)?;
    let both = streams.best(|first, second| up(first).and_then(|()| down(second))).map_err(measured)?;

    let pageable_address = pageable.as_mut_ptr();
    let pageable_up = streams.best(|first, _| {
        // SAFETY: both have `size` bytes and live until `best` has waited for the copy.
        unsafe { sys::cuMemcpyHtoDAsync_v2(on_card[0].address(), pageable_address.cast(), size, first.raw()) }
            .result()
    });
    let pageable_down = streams.best(|first, _| {
        // SAFETY: the same.
        unsafe { sys::cuMemcpyDtoHAsync_v2(pageable_address.cast(), on_card[0].address(), size, first.raw()) }
            .result()
    });
    let (pageable_up, pageable_down) = (pageable_up.map_err(measured)?, pageable_down.map_err(measured)?);
    let started = Instant::now();
    // SAFETY: the buffer lives to the end of this function.
    let registered = unsafe { Registered::lock(&context, NonNull::from(&mut *pageable).cast(), size) }?;
    let register_s = started.elapsed().as_secs_f64();
    drop((registered, on_card));

    let (free_bytes, _) = context.memory()?;
    let bytes_within = MEMORY_BYTES.min(usable_bytes(free_bytes) / 4);
    let [source, target] =
        [DeviceMemory::allocate(&context, bytes_within)?, DeviceMemory::allocate(&context, bytes_within)?];
    let within = streams.best(|first, _| {
        // SAFETY: both have that many bytes and live until `best` has waited for the copy.
        unsafe {
            result::memcpy_dtod_async(target.address(), source.address(), bytes_within as usize, first.raw())
        }
    });
    Ok(CardRates {
        to_device_gb_per_s: rate(bytes, to_device),
        from_device_gb_per_s: rate(bytes, from_device),
        both_gb_per_s: rate(2 * bytes, both),
        pageable_to_device_gb_per_s: rate(bytes, pageable_up),
        pageable_from_device_gb_per_s: rate(bytes, pageable_down),
        memory_gb_per_s: rate(2 * bytes_within, within.map_err(measured)?),
        register_s_per_gb: register_s / (bytes as f64 / 1e9),
    })
}

/// Two streams, with events around the work submitted to them.
struct StreamPair<'a> {
    context: &'a Context,
    streams: [Stream; 2],
    start: Event,
    second_end: Event,
    end: Event,
}

impl<'a> StreamPair<'a> {
    fn new(context: &'a Arc<Context>) -> Result<Self, Fault> {
        let event = || Event::create(context, EventWait::Spinning);
        Ok(Self {
            context,
            streams: [Stream::create(context)?, Stream::create(context)?],
            start: event()?,
            second_end: event()?,
            end: event()?,
        })
    }

    /// The shortest time, in nanoseconds, from the start to the end of the work that `work` submits to the streams.
    fn best(&self, work: impl Fn(&Stream, &Stream) -> Result<(), DriverError>) -> Result<f64, DriverError> {
        let Ok(_entered) = self.context.enter() else {
            return Err(DriverError(sys::cudaError_enum::CUDA_ERROR_INVALID_CONTEXT));
        };
        let [first, second] = &self.streams;
        let mut best = f64::INFINITY;
        for _ in 0..REPEATS {
            self.start.record(first)?;
            second.wait(&self.start)?;
            let given = work(first, second);
            self.second_end.record(second)?;
            first.wait(&self.second_end)?;
            self.end.record(first)?;
            self.end.wait()?;
            given?;
            best = best.min(self.end.ns_since(&self.start)?);
        }
        Ok(best)
    }
}
