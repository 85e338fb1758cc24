//! Arguments as typed: the command line's grammar, its words, and notes on flags without effect.

mod command;
mod common;
mod dense;
mod execution;
pub mod help;
pub mod hints;
pub mod json_flag;
mod matrix_source;
mod measure;
mod names;
pub mod no_effect;
pub mod options;
mod parse;
mod report;
pub mod standard_stream;
mod tools;
mod work;

pub use command::{Arguments, Command};
pub use common::MatrixArguments;
pub use common::{ColorChoice, CommonArguments};
pub use dense::{ColmeanArguments, DenseArguments, GemmArguments};
pub use execution::{ExecutionArguments, RepeatArguments};
pub use matrix_source::MatrixSource;
pub use measure::{BenchArguments, CalibrateArguments, StudyArguments};
pub use names::{DENSE_GENERATORS, GENERATORS, PEERS};
pub use parse::TRANSFERS;
pub use report::ReportArguments;
pub use tools::{
    CollectionArguments, CompletionsArguments, ConvertArguments, DemoArguments, DevicesArguments,
    FetchArguments, GenerateArguments, InspectArguments, ManArguments, TraceArguments,
};
pub use work::{PlanArguments, PlanningArguments, RunArguments};
