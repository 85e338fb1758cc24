//! Chunks of decreasing size for GPUs whose kernels lose time with every chunk: each result is copied while the next chunk is computed, so
//! that only the copy of the last and smallest one is left at the end.

use super::data::{Mode, Registered};
use super::draft::{Division, Draft};
use super::request::DeviceSpec;
use crate::error::Result;
use crate::work::{ChunkRows, PositionRange};

/// If copies take a larger part of the time of the kernels, chunks would be many: they are of equal size.
const MOST_COPIED: f64 = 0.8;

impl Draft<'_> {
    /// For each device its pieces of decreasing size; `None` for devices with pieces of equal size. A lives on the device, and results are
    /// copied to registered memory: otherwise the first uploads and the host's copies would have to overlap too.
    pub fn decreasing(
        &self,
        division: &Division<'_>,
        registered: &[Registered],
        for_blocks: bool,
    ) -> Result<Vec<Option<Vec<ChunkRows>>>> {
        let Division { devices, spans, .. } = *division;
        let wave_rows = self.request.work.wave_rows();
        let is_requested = self.request.chunks.is_some() || self.request.chunk_bytes.is_some();
        if self.mode != Mode::Resident || is_requested || for_blocks {
            return Ok(vec![None; devices.len()]);
        }
        let of_device = |((device, registered), span): (
            (&Option<DeviceSpec>, &Registered),
            &PositionRange,
        )| match (device, wave_rows) {
            (Some(device), Some(rows)) if device.profile.link.is_some() && registered.y => {
                self.decreasing_pieces(device, *span, rows)
            }
            _ => Ok(None),
        };
        devices.iter().zip(registered).zip(spans).map(of_device).collect()
    }

    fn decreasing_pieces(
        &self,
        device: &DeviceSpec,
        span: PositionRange,
        wave_rows: usize,
    ) -> Result<Option<Vec<ChunkRows>>> {
        let (work, rows) = (&self.request.work, span.begin.row..span.end.row);
        let whole = ChunkRows::Rows { begin: rows.start, end: rows.end };
        let facts = work.facts(&[whole]);
        let Some(facts) = facts.first().filter(|_| !rows.is_empty()) else { return Ok(None) };
        let kernel_s = self.choice(&device.profile, &whole, facts)?.predicted_s;
        let copied = device.profile.download_s(work.slice_bytes(&whole)) / kernel_s.max(1e-12);
        Ok((copied <= MOST_COPIED).then(|| pieces(rows, wave_rows, copied)))
    }
}

/// Divides rows into pieces whose copies take the part `copied` of the time of their kernels: each copy ends before the kernel of the next
/// piece. All but the last one have a multiple of `wave_rows` rows.
fn pieces(rows: std::ops::Range<usize>, wave_rows: usize, copied: f64) -> Vec<ChunkRows> {
    let (mut begin, wave_rows) = (rows.start, wave_rows.max(1));
    let mut pieces = Vec::new();
    while begin < rows.end {
        let left = rows.end - begin;
        let waves = (left as f64 * (1.0 - copied) / wave_rows as f64).round().max(1.0) as usize;
        let taken = waves.saturating_mul(wave_rows).min(left);
        pieces.push(ChunkRows::Rows { begin, end: begin + taken });
        begin += taken;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lengths(rows: usize, wave_rows: usize, copied: f64) -> Vec<usize> {
        pieces(0..rows, wave_rows, copied).iter().map(ChunkRows::slice_rows).collect()
    }

    #[test]
    fn pieces_are_few_if_copies_are_short() {
        assert_eq!(lengths(10_000, 640, 0.41), [5760, 2560, 1280, 400]);
        assert_eq!(lengths(10_000, 640, 0.18), [8320, 1280, 400]);
        assert_eq!(lengths(4096, 512, 0.44), [2048, 1024, 512, 512]);
        assert_eq!(lengths(100, 512, 0.1), [100]);
        assert!(lengths(0, 512, 0.1).is_empty());
    }

    proptest! {
        #[test]
        fn each_copy_ends_about_when_the_next_kernel_does(
            rows in 1usize..20_000, wave_rows in 1usize..1000, copied in 0.01f64..MOST_COPIED,
        ) {
            let lengths = lengths(rows, wave_rows, copied);
            prop_assert_eq!(lengths.iter().sum::<usize>(), rows);
            let kernel_s = |length: usize| length as f64;
            let (mut computed_s, mut copied_s) = (0.0, 0.0f64);
            for &length in &lengths {
                computed_s += kernel_s(length);
                copied_s = copied_s.max(computed_s) + copied * kernel_s(length);
            }
            let last_s = copied * kernel_s(wave_rows.min(rows));
            // Waves are whole: at most half a wave more than the time of all kernels and of the last copy, for each of two pieces.
            prop_assert!(copied_s <= computed_s + last_s + kernel_s(wave_rows), "{:?}", lengths);
        }
    }
}
