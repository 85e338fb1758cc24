//! Generated dense matrices: `dense,rows=1000,cols=500` and `recording,rows=358`.

use rayon::prelude::*;

use super::spec::{Kind, Spec};
use super::{kind, optional, required};
use crate::error::{Error, Result};
use crate::matrix::random::mix;
use crate::matrix::{MultiVector, Scalar};

/// All kinds of generated dense matrices.
pub const DENSE_KINDS: &[Kind] = &[
    kind("dense", &[required("rows"), required("cols")], "uniform random numbers from -1 to 1"),
    kind(
        "recording",
        &[required("rows"), optional("channels"), optional("samples")],
        "rows of 64 channels with 82 samples each: two waves, which differ by channel, and noise",
    ),
];

/// Channels and samples of a recording where they are not given.
const CHANNELS: u64 = 64;
const SAMPLES: u64 = 82;

/// The dense matrix of the specification `spec`, with or without a leading `gen:`; an error if it needs more than `memory_limit_bytes`.
pub fn generate_dense<T: Scalar>(spec: &str, seed: u64, memory_limit_bytes: u64) -> Result<MultiVector<T>> {
    let _span = tracing::info_span!("generate dense").entered();
    let spec = Spec::parse(spec, DENSE_KINDS)?;
    let rows = spec.number("rows")?;
    let samples = spec.optional("samples")?.unwrap_or(SAMPLES);
    let cols = match spec.kind.name {
        "dense" => spec.number("cols")?,
        _ => spec.optional("channels")?.unwrap_or(CHANNELS).saturating_mul(samples),
    };
    let needed_bytes = rows.saturating_mul(cols).saturating_mul(size_of::<T>() as u64);
    if needed_bytes > memory_limit_bytes {
        return Err(Error::DoesNotFit {
            what: format!("gen:{}, {rows} x {cols},", spec.text),
            needed_bytes,
            limit_bytes: memory_limit_bytes,
            advice: "generate a smaller matrix or raise the limit".into(),
        });
    }
    let size = |length: u64| {
        usize::try_from(length).map_err(|_| spec.usage_error(&format!("{length} is too large a size")))
    };
    let (rows, cols, samples) = (size(rows)?, size(cols)?, size(samples)?);
    let mut matrix: MultiVector<T> = MultiVector::random(rows, cols, mix(seed))?;
    if spec.kind.name == "recording" && cols > 0 {
        let curve: Vec<f64> =
            (0..cols).map(|column| wave(column / samples, column % samples, samples)).collect();
        matrix.data_mut().par_chunks_mut(cols).for_each(|row| {
            for (value, wave) in row.iter_mut().zip(&curve) {
                *value = T::from_f64(4.0 * value.to_f64() + wave);
            }
        });
    }
    Ok(matrix)
}

/// The curve that all rows of a recording share: a negative and a positive wave, of polynomials so that every machine computes the same.
fn wave(channel: usize, sample: usize, samples: usize) -> f64 {
    let time = sample as f64 / samples as f64;
    let bump = |peak: f64, width: f64| {
        let from_peak = (time - peak) / width;
        let height = 1.0 - from_peak * from_peak;
        if height > 0.0 { height * height } else { 0.0 }
    };
    let strength = 0.5 + (channel % 8) as f64 / 8.0;
    strength * (5.0 * bump(0.55, 0.3) - 3.0 * bump(0.25, 0.12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_the_limit_are_refused_before_anything_is_allocated() {
        let refused = |spec: &str| generate_dense::<f64>(spec, 1, 1 << 30).unwrap_err();
        assert_eq!(refused("gen:dense,rows=18446744073709551615,cols=18446744073709551615").exit_code(), 3);
        assert_eq!(refused("dense,rows=1000000,cols=1000000").exit_code(), 3);
        assert_eq!(refused("recording,rows=1,channels=18446744073709551615").exit_code(), 3);
        assert_eq!(refused("dense,rows=3").exit_code(), 2);
        assert!(refused("dence,rows=3,cols=2").to_string().contains("did you mean 'dense'?"));
        assert!(generate_dense::<f64>("dense,rows=4,cols=8", 1, 4 * 8 * 8).is_ok());
        assert!(generate_dense::<f64>("dense,rows=4,cols=8", 1, 4 * 8 * 8 - 1).is_err());
    }

    #[test]
    fn a_matrix_may_have_no_rows_or_no_columns() {
        for (spec, rows, cols) in [
            ("dense,rows=0,cols=5", 0, 5),
            ("dense,rows=5,cols=0", 5, 0),
            ("recording,rows=2,samples=0", 2, 0),
        ] {
            let matrix = generate_dense::<f32>(spec, 1, 0).unwrap();
            assert_eq!((matrix.rows(), matrix.k()), (rows, cols), "{spec}");
        }
    }

    #[test]
    fn rows_of_a_recording_share_the_waves_of_their_channel() {
        let recording =
            generate_dense::<f64>("recording,rows=400,channels=4,samples=20", 7, 1 << 20).unwrap();
        assert_eq!((recording.rows(), recording.k()), (400, 80));
        for column in 0..80 {
            let mean = (0..400).map(|row| recording.row(row)[column]).sum::<f64>() / 400.0;
            assert!((mean - wave(column / 20, column % 20, 20)).abs() < 0.6, "column {column}: {mean}");
        }
        assert!(wave(0, 11, 20) > 2.0 && wave(0, 5, 20) < -1.0 && wave(0, 19, 20) == 0.0);
    }
}
