//! The canonical order as obvious loops: a segment of 128 nonzeros is a chain of fused multiply-adds that starts at +0, a span of
//! 1024 the sum of its segments, a row the sum of its spans.

use crate::real::Real;

const SEGMENT: usize = 128;
const SPAN: usize = 1024;

/// A nonzero.
pub type Entry<T> = (u32, T);

/// The sum of a row for each of `width` columns; `x(column, k)` is an element of X.
pub fn row_sum<T: Real>(entries: &[Entry<T>], width: usize, x: impl Fn(u32, usize) -> T) -> Vec<T> {
    let chain = |segment: &[Entry<T>], k: usize| {
        segment.iter().fold(T::of(0.0), |sum, &(column, value)| value.fma(x(column, k), sum))
    };
    let span_sum = |span: &[Entry<T>], k: usize| {
        span.chunks(SEGMENT).map(|segment| chain(segment, k)).reduce(|sum, part| sum.sum(part))
    };
    let element =
        |k| entries.chunks(SPAN).filter_map(|span| span_sum(span, k)).reduce(|sum, part| sum.sum(part));
    (0..width).map(|k| element(k).unwrap_or(T::of(0.0))).collect()
}
