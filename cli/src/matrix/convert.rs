//! `rowloom convert`: writes a matrix in another format, or checks the conversions.

use super::convert_check;
use crate::args::ConvertArguments;
use crate::args::MatrixSource;
use crate::args::no_effect;
use crate::console::Console;
use crate::console::report::{MatrixReport, Report};
use crate::console::table::{Table, seconds};
use crate::operands::output::{MatrixFile, written};
use crate::operands::session::{Session, describe_loaded, if_intact};
use rowloom::internal::error::Result;
use rowloom::internal::matrix::{Dtype, Scalar};

/// Reads, writes and checks.
pub fn run(arguments: &ConvertArguments, console: &Console) -> Result<()> {
    match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    }
}

fn run_typed<T: Scalar>(arguments: &ConvertArguments, console: &Console) -> Result<()> {
    let file = arguments.output.as_deref().map(MatrixFile::new).transpose()?;
    no_effect::of_convert(arguments).iter().for_each(|note| console.note(note));
    let session = Session::open(&arguments.matrix_arguments)?;
    let source = MatrixSource::new(&arguments.input);
    let (loaded, load_s) = session.load_any::<T>(&source, arguments.finite, console)?;
    let matrix = loaded.matrix.view();
    let checks = arguments.check.then(|| convert_check::check(&matrix, &session, console)).transpose();
    let checks = if_intact(&loaded.matrix, &source, checks)?;
    let write_s = file.as_ref().map(|file| file.write(&loaded, &session, console)).transpose();
    let write_s = if_intact(&loaded.matrix, &source, write_s)?;

    let mut table = Table::facts();
    table.fact("matrix", describe_loaded(&loaded)).fact("loaded in", seconds(load_s));
    if let (Some(file), Some(write_s)) = (&file, write_s) {
        table.fact("written", written(file.path(), write_s));
    }
    console.table(&table)?;
    if let Some(checks) = &checks {
        console.text("\n")?;
        console.table(&convert_check::table(checks))?;
        for refusal in convert_check::refusals(checks) {
            console.note(&refusal);
        }
    }
    console.json(
        &Report::new("convert")
            .with("input", source.name())
            .with("output", file.as_ref().map(|file| file.path().display().to_string()))
            .with("matrix", MatrixReport::of(&loaded))
            .with("dtype", T::DTYPE)
            .with("load_s", load_s)
            .with("write_s", write_s)
            .with("checks", &checks)
            .with("notes", &loaded.notes),
    )?;
    convert_check::verdict(checks.as_deref().unwrap_or_default())?;
    session.interrupt.check()
}
