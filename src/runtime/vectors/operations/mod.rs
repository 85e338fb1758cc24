//! Row-wise operations, copies and sums on multivectors that stay on devices.

mod access;
mod copies;
mod device_sums;
mod row_wise;
mod sums;

pub(crate) use device_sums::{DeviceSums, SumOf, WeightedRange};
