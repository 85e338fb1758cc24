//! The bandwidth of the host's memory: read by all threads, and copied by as many threads as stage data for devices.

use std::time::Instant;

use rayon::prelude::*;

use super::form_timing::WARM_UP_SECONDS;
use rowloom::internal::cost::HostRates;
use rowloom::internal::device::COPY_LANES;
use rowloom::internal::error::Result;
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::AlignedBuffer;
use rowloom::internal::runtime::Pool;

/// Least bytes of an array; an array is also at least as large as the largest cache, so that it never fits with its copy.
const ARRAY_BYTES: usize = 96 << 20;
/// Most bytes of an array.
const MOST_ARRAY_BYTES: usize = 1 << 30;
/// Least repeats of a measurement; the fastest counts.
const LEAST_REPEATS: usize = 5;
/// Elements of one parallel task.
const PIECE: usize = 1 << 16;

/// Measures reading with all threads, as a product on the CPU does, and copying as chunks are staged: one thread for each
/// copy, and as many copies at a time as the host device has copy lanes.
pub fn measure_host(pool: &Pool, machine: &Machine) -> Result<HostRates> {
    let bytes = (machine.largest_cache_bytes() as usize).clamp(ARRAY_BYTES, MOST_ARRAY_BYTES);
    let count = bytes / size_of::<u64>();
    let mut from = AlignedBuffer::<u64>::zeroed(count)?;
    let mut to = AlignedBuffer::<u64>::zeroed(count)?;
    let copies = COPY_LANES.min(pool.threads());
    pool.install(|| {
        // The first touch places the pages and is not measured.
        from.par_chunks_mut(PIECE).for_each(|piece| piece.fill(1));
        to.par_chunks_mut(PIECE).for_each(|piece| piece.fill(2));
        let (mut copy_s, mut read_s) = (f64::INFINITY, f64::INFINITY);
        let began = Instant::now();
        let mut repeats = 0..;
        while repeats.next() < Some(LEAST_REPEATS) || began.elapsed().as_secs_f64() < WARM_UP_SECONDS {
            let start = Instant::now();
            let sum = |piece: &[u64]| piece.iter().fold(0u64, |sum, value| sum.wrapping_add(*value));
            let arrays = from.par_chunks(PIECE).chain(to.par_chunks(PIECE));
            std::hint::black_box(arrays.map(sum).reduce(|| 0, u64::wrapping_add));
            read_s = read_s.min(start.elapsed().as_secs_f64());
        }
        for _ in 0..LEAST_REPEATS {
            let start = Instant::now();
            let part = count.div_ceil(copies);
            let parts = to.par_chunks_mut(part).zip(from.par_chunks(part));
            parts.for_each(|(to, from)| to.copy_from_slice(from));
            copy_s = copy_s.min(start.elapsed().as_secs_f64());
        }
        let rate = |bytes: usize, seconds: f64| bytes as f64 / seconds.max(1e-9) * 1e-9;
        Ok(HostRates {
            cores: pool.threads() as u32,
            memory_gb_per_s: rate(2 * bytes, read_s),
            copy_gb_per_s: rate(bytes, copy_s),
        })
    })
}
