//! The fuzz targets. A test of the library (`cli/tests/fuzz_corpus.rs`) compiles this module too and replays the corpus.

mod input;
mod product;
mod readers;

/// A target: it takes any bytes and panics where a promise is broken.
pub type Target = fn(&[u8]);

/// All targets with their names, which are those of the folders in `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 10] = [
    ("matrix", readers::matrix),
    ("gzip", readers::gzip),
    ("archive", readers::archive),
    ("dense", readers::dense),
    ("plan", readers::plan),
    ("model", readers::model),
    ("study", readers::study),
    ("trace", readers::trace),
    ("words", readers::words),
    ("product", product::product),
];
