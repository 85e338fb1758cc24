//! A product on multivectors that stay on its devices.

mod apply;
mod apply_checked;
mod binder;
mod check;
mod foreign;
mod losses;
mod vector_product;

pub(in crate::internal::runtime) use vector_product::VectorProduct;
