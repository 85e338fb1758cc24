//! How fast the host's memory is with all threads of a pool.

use std::time::Instant;

use rayon::prelude::*;

use crate::cost::HostRates;
use crate::error::Result;
use crate::matrix::AlignedBuffer;
use crate::runtime::Pool;

/// Bytes of an array: more than caches hold.
const ARRAY_BYTES: usize = 96 << 20;
/// Each measurement is the best of so many.
const REPEATS: usize = 5;
/// Elements that a thread takes at a time.
const PIECE: usize = 1 << 16;

/// Measures copying, and reading and writing together as STREAM's triad does.
pub fn measure_host(pool: &Pool) -> Result<HostRates> {
    let count = ARRAY_BYTES / size_of::<f64>();
    let mut a = AlignedBuffer::<f64>::zeroed(count)?;
    let mut b = AlignedBuffer::<f64>::zeroed(count)?;
    let mut c = AlignedBuffer::<f64>::zeroed(count)?;
    pool.install(|| {
        // The first touch places pages; what is measured comes after it.
        b.par_chunks_mut(PIECE).for_each(|piece| piece.fill(1.0));
        c.par_chunks_mut(PIECE).for_each(|piece| piece.fill(2.0));
        let (mut copy_s, mut triad_s) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..REPEATS {
            let start = Instant::now();
            a.par_chunks_mut(PIECE).zip(b.par_chunks(PIECE)).for_each(|(to, from)| to.copy_from_slice(from));
            copy_s = copy_s.min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            let pieces = a.par_chunks_mut(PIECE).zip(b.par_chunks(PIECE)).zip(c.par_chunks(PIECE));
            pieces.for_each(|((to, b), c)| {
                to.iter_mut().zip(b.iter().zip(c)).for_each(|(to, (b, c))| *to = b + 3.0 * c);
            });
            triad_s = triad_s.min(start.elapsed().as_secs_f64());
        }
        let rate = |bytes: usize, seconds: f64| bytes as f64 / seconds.max(1e-9) * 1e-9;
        Ok(HostRates {
            cores: pool.threads() as u32,
            memory_gb_per_s: rate(3 * ARRAY_BYTES, triad_s),
            copy_gb_per_s: rate(ARRAY_BYTES, copy_s),
        })
    })
}
