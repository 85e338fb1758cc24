//! `rowloom generate`: generates a matrix and writes it.

use crate::args::GenerateArguments;
use crate::args::MatrixSource;
use crate::console::Console;
use crate::console::report::{MatrixReport, Report};
use crate::console::table::{Table, seconds};
use crate::operands::output::{MatrixFile, written};
use crate::operands::session::{Session, describe_loaded};
use rowloom::internal::error::Result;
use rowloom::internal::matrix::{Dtype, Scalar};

/// Generates and writes.
pub fn run(arguments: &GenerateArguments, console: &Console) -> Result<()> {
    match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    }
}

fn run_typed<T: Scalar>(arguments: &GenerateArguments, console: &Console) -> Result<()> {
    let file = MatrixFile::new(&arguments.output)?;
    let session = Session::open(&arguments.matrix_arguments)?;
    let spec = arguments.spec.strip_prefix("gen:").unwrap_or(&arguments.spec);
    let source = MatrixSource::Generated(spec.to_owned());
    let (loaded, generate_s) = session.load::<T>(&source, false, console)?;
    let write_s = file.write(&loaded, &session, console)?;

    let mut table = Table::facts();
    table
        .fact("matrix", describe_loaded(&loaded))
        .fact("generated in", seconds(generate_s))
        .fact("written", written(file.path(), write_s));
    console.table(&table)?;
    console.json(
        &Report::new("generate")
            .with("matrix", MatrixReport::of(&loaded))
            .with("dtype", T::DTYPE)
            .with("seed", session.seed)
            .with("output", file.path().display().to_string())
            .with("generate_s", generate_s)
            .with("write_s", write_s)
            .with("notes", &loaded.notes),
    )?;
    session.interrupt.check()
}
