//! Statistics of measured times: sampling, medians, intervals, noise, ratios, warnings.

mod interval;
mod noise;
mod sampling;
mod summary;
mod times;
mod warnings;
mod welford;

pub use interval::{MedianInterval, TimeRatio};
pub use noise::{Difference, difference, noise_interval};
pub use sampling::{BenchSettings, Sampler, TIME_CAP_S};
pub use summary::Summary;
pub use times::Times;
pub use warnings::doubts;
pub use welford::Welford;
