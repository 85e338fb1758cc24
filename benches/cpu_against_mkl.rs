#[path = "support/mkl.rs"]
mod mkl;
fn main() { let _ = mkl::Mkl::load; }
