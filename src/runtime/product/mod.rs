//! A product with a sparse A, as programs use it: its options, its plans, and when it changes them.

mod adaptation;
mod builder;
#[allow(clippy::module_inception)]
mod product;
#[cfg(all(test, feature = "emulator"))]
mod registration_tests;

pub use builder::ProductBuilder;
pub use product::{Bound, Product};
