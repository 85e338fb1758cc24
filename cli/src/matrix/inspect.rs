//! `rowloom inspect`: the shape, the row statistics and the memory of a matrix.

use crate::args::InspectArguments;
use crate::args::MatrixSource;
use crate::args::no_effect;
use crate::console::report::{MatrixReport, Report};
use crate::console::table::{Table, count, percent, seconds};
use crate::console::{Console, check_target, write_file};
use crate::operands::session::{Session, check_intact, describe_loaded};
use rowloom::internal::error::{Bytes, Result};
use rowloom::internal::matrix::spy::spy_svg;
use rowloom::internal::matrix::statistics::{Footprints, LONG_ROW, RowStatistics};
use rowloom::internal::matrix::{Dtype, Field, MatrixInfo, Scalar, Symmetry, complex};

/// Reads the matrix, computes its statistics and draws it if asked.
pub fn run(arguments: &InspectArguments, console: &Console) -> Result<()> {
    match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    }
}

fn run_typed<T: Scalar>(arguments: &InspectArguments, console: &Console) -> Result<()> {
    arguments.spy.as_deref().map(check_target).transpose()?;
    no_effect::of_inspect(arguments).iter().for_each(|note| console.note(note));
    let session = Session::open(&arguments.matrix_arguments)?;
    let source = MatrixSource::new(&arguments.matrix);
    let (loaded, load_s) = session.load_any::<T>(&source, arguments.finite, console)?;
    let positions = match loaded.info.field {
        Field::Complex => Some(session.pool.install(|| complex::positions(&loaded.matrix.view()))?),
        _ => None,
    };
    let matrix = positions.as_ref().unwrap_or(&loaded.matrix).view();
    let spinner = console.spinner("computing row statistics");
    let mut statistics = session.pool.install(|| RowStatistics::of(&matrix));
    if loaded.info.field == Field::Complex {
        // In memory A is a real matrix with twice the entries; X and Y have two numbers for each of theirs.
        let real = session.pool.install(|| RowStatistics::of(&loaded.matrix.view()));
        let y_bytes = |bytes: Footprints| bytes.y_per_column * complex::PARTS as u64;
        statistics.bytes_f64 = Footprints { y_per_column: y_bytes(real.bytes_f64), ..real.bytes_f64 };
        statistics.bytes_f32 = Footprints { y_per_column: y_bytes(real.bytes_f32), ..real.bytes_f32 };
    }
    let picture = arguments.spy.as_ref().map(|path| {
        let title =
            format!("{}{}", loaded.info.name, if loaded.info.synthetic { " (synthetic)" } else { "" });
        (path, session.pool.install(|| spy_svg(&matrix, &title)))
    });
    drop(spinner);
    check_intact(&loaded.matrix, &source)?;
    if let Some((path, picture)) = picture {
        write_file(path, picture.as_bytes())?;
    }

    let mut table = Table::facts();
    table.fact("matrix", describe_loaded(&loaded)).fact("stored as", stored_as(&loaded.info));
    add_rows(&mut table, &statistics);
    add_footprints(&mut table, &statistics, T::DTYPE);
    table.fact("loaded in", seconds(load_s));
    if let Some(path) = &arguments.spy {
        table.fact("picture", path.display());
    }
    console.table(&table)?;
    console.json(
        &Report::new("inspect")
            .with("matrix", MatrixReport::of(&loaded))
            .with("dtype", T::DTYPE)
            .with("statistics", &statistics)
            .with("load_s", load_s)
            .with("spy", arguments.spy.as_ref().map(|path| path.display().to_string()))
            .with("notes", &loaded.notes),
    )?;
    session.interrupt.check()
}

fn stored_as(info: &MatrixInfo) -> String {
    let symmetry = match info.symmetry {
        Symmetry::General => "general",
        Symmetry::Symmetric => "symmetric",
        Symmetry::SkewSymmetric => "skew-symmetric",
        Symmetry::Hermitian => "hermitian",
    };
    format!("{:?}, {symmetry}, {} entries", info.field, count(info.stored_entries)).to_lowercase()
}

fn add_rows(table: &mut Table, statistics: &RowStatistics) {
    let s = statistics;
    table.fact(
        "row lengths",
        format!(
            "mean {:.1}, median {}, 99% up to {}, longest {}",
            s.mean,
            count(s.median.round() as u64),
            count(s.p99.round() as u64),
            count(s.max)
        ),
    );
    table.fact(
        "row spread",
        format!(
            "standard deviation {:.1}, variation {:.2}",
            s.standard_deviation, s.coefficient_of_variation
        ),
    );
    table.fact("empty rows", count(s.empty_rows));
    if s.long_row_nonzero_share > 0.0 {
        let share = percent(s.long_row_nonzero_share);
        table.fact("long rows", format!("rows over {LONG_ROW} hold {share} of the nonzeros"));
    }
    table.fact(
        "bandwidth",
        format!("{} below the diagonal, {} above", count(s.lower_bandwidth), count(s.upper_bandwidth)),
    );
    table.fact(
        "repeated rows",
        format!("{} have the same columns as the row before", percent(s.repeated_row_share)),
    );
    let new = percent(s.distinct_column_share);
    table.fact("new columns", format!("{new} of the nonzeros of 256 consecutive rows"));
}

fn add_footprints(table: &mut Table, statistics: &RowStatistics, dtype: Dtype) {
    let bytes: Footprints = match dtype {
        Dtype::F64 => statistics.bytes_f64,
        Dtype::F32 => statistics.bytes_f32,
    };
    table
        .fact("as CSR", Bytes(bytes.csr))
        .fact(
            "as ELL (padded)",
            format!("{}, {} of it filled", Bytes(bytes.ell_padded), percent(statistics.ell_fill)),
        )
        .fact("as ELL without padding", Bytes(bytes.ell_unpadded))
        .fact(
            "as SELL",
            format!("{}, {} of it filled", Bytes(bytes.sell), percent(statistics.sell_sorted_fill)),
        )
        .fact(
            "X and Y",
            format!("{} and {} a column, {dtype}", Bytes(bytes.x_per_column), Bytes(bytes.y_per_column)),
        );
}
