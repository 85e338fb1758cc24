//! Commands on matrix files: `inspect`, `convert`, `generate`, `fetch`.

pub mod convert;
pub mod convert_check;
pub mod fetch;
pub mod generate;
pub mod inspect;
