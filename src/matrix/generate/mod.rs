//! Generated matrices, given by a specification such as `stencil27,n=64`, `rmat,scale=17,degree=16` or `like,name=cant`.
//!
//! The same specification and seed give the same matrix for any number of threads. Columns ascend without duplicates. Sizes
//! are checked against overflow and the memory limit before memory is allocated.

mod build;
mod dense;
mod grid;
mod like;
mod mixed;
mod scattered;
mod simple;
mod spec;

pub use self::build::{Choose, Part, RowLengths};

use self::build::{Request, Shape, Values};
pub use self::dense::{DENSE_KINDS, generate_dense};
use self::spec::Spec;
pub use self::spec::{Key, Kind};
use super::info::{Field, Loaded, MatrixInfo, Symmetry};
use super::scalar::Scalar;
use crate::error::Result;

const fn required(name: &'static str) -> Key {
    Key { name, required: true }
}

const fn optional(name: &'static str) -> Key {
    Key { name, required: false }
}

const fn kind(name: &'static str, keys: &'static [Key], about: &'static str) -> Kind {
    Kind { name, keys, about }
}

/// All kinds of generated matrices.
pub const KINDS: &[Kind] = &[
    kind("stencil5", &[required("n")], "n x n grid, each point coupled to 4 neighbours"),
    kind("stencil7", &[required("n")], "n x n x n grid, each point coupled to 6 neighbours"),
    kind(
        "stencil27",
        &[required("n"), optional("depth")],
        "n x n x n grid (n x n x depth), each point coupled to 26 neighbours",
    ),
    kind("fem3", &[required("n")], "n x n x n nodes with 3 unknowns each: every 3 rows have equal columns"),
    kind("rmat", &[required("scale"), required("degree")], "power-law graph of 2^scale vertices (Graph500)"),
    kind("road", &[required("n")], "near-planar road network of n crossings, about 2.5 roads each"),
    kind(
        "uniform",
        &[required("rows"), required("degree"), optional("cols")],
        "degree random columns per row",
    ),
    kind("band", &[required("rows"), required("width")], "width diagonals around the main diagonal"),
    kind(
        "hub",
        &[required("rows"), required("degree"), required("hubs")],
        "hubs rows with half of all columns each; degree random columns in the other rows",
    ),
    kind(
        "mixed",
        &[required("n"), optional("degree"), optional("hubs")],
        "a 27-point stencil above as many rows of degree random columns, hubs of which have half of all columns",
    ),
    kind("arrow", &[required("rows")], "the diagonal, the first row and the first column"),
    kind("diagonal", &[required("rows")], "the diagonal"),
    kind("empty", &[required("rows"), optional("cols")], "no nonzeros"),
    kind(
        "holes",
        &[required("rows"), required("degree")],
        "every other row empty, degree random columns in the others",
    ),
    kind("like", &[required("name")], "synthetic stand-in for a matrix of the SuiteSparse collection"),
];

/// The matrix of the specification `spec`, with or without a leading `gen:`; an error if it needs more than
/// `memory_limit_bytes`.
pub fn generate<T: Scalar>(spec: &str, seed: u64, memory_limit_bytes: u64) -> Result<Loaded<T>> {
    generate_part(spec, seed, memory_limit_bytes, Part::All)
}

/// The rows of a matrix that `part` names, which are those that [`generate`] gives. Their columns are those of the whole matrix; an
/// error if they need more than `memory_limit_bytes`.
pub fn generate_part<T: Scalar>(
    spec: &str,
    seed: u64,
    memory_limit_bytes: u64,
    part: Part<'_>,
) -> Result<Loaded<T>> {
    generated(spec, Request { seed, memory_limit_bytes, part, has_values: true })
}

/// As [`generate`], without values: they are zeros whose memory is never touched and does not count. The pattern is the same.
pub fn generate_pattern<T: Scalar>(spec: &str, seed: u64, memory_limit_bytes: u64) -> Result<Loaded<T>> {
    generated(spec, Request { seed, memory_limit_bytes, part: Part::All, has_values: false })
}

fn generated<T: Scalar>(spec: &str, request: Request<'_>) -> Result<Loaded<T>> {
    let _span = tracing::info_span!("generate matrix").entered();
    let spec = Spec::parse(spec, KINDS)?;
    let square = |rows: u64| Shape { rows, cols: rows, nonzeros: 0, values: Values::Random, request };
    let checked_degree = |cols: u64| match spec.number("degree")? {
        degree if degree > cols => {
            Err(spec.usage_error(&format!("degree={degree} is more than the {cols} columns")))
        }
        degree => Ok(degree),
    };
    let mut notes = Vec::new();
    let matrix = match spec.kind.name {
        "stencil5" => grid::axis_stencil(spec.number("n")?, 2, request)?,
        "stencil7" => grid::axis_stencil(spec.number("n")?, 3, request)?,
        "stencil27" => {
            let n = spec.number("n")?;
            grid::box_stencil(n, spec.optional("depth")?.unwrap_or(n), 1, request)?
        }
        "fem3" => {
            let n = spec.number("n")?;
            grid::box_stencil(n, n, 3, request)?
        }
        "road" => grid::road(spec.number("n")?, request)?,
        "rmat" => {
            let scale = spec.number("scale")?;
            if scale > 31 {
                return Err(spec.usage_error(&format!("scale={scale} is more than 31")));
            }
            scattered::rmat(scale, spec.number("degree")?, square(1 << scale))?
        }
        "uniform" => {
            let rows = spec.number("rows")?;
            let cols = spec.optional("cols")?.unwrap_or(rows);
            scattered::uniform(checked_degree(cols)?, Shape { cols, ..square(rows) })?
        }
        "holes" => {
            let rows = spec.number("rows")?;
            scattered::holes(checked_degree(rows)?, square(rows))?
        }
        "hub" => {
            let (rows, hubs) = (spec.number("rows")?, spec.number("hubs")?);
            if hubs > rows {
                return Err(spec.usage_error(&format!("hubs={hubs} is more than the {rows} rows")));
            }
            scattered::hub(checked_degree(rows)?, hubs, square(rows))?
        }
        "mixed" => {
            let n = spec.number("n")?;
            let (degree, hubs) = (spec.optional("degree")?.unwrap_or(4), spec.optional("hubs")?.unwrap_or(4));
            mixed::mixed(n, degree, hubs, request)?
        }
        "band" => simple::band(spec.number("width")?, square(spec.number("rows")?))?,
        "arrow" => simple::arrow(square(spec.number("rows")?))?,
        "diagonal" => simple::diagonal(square(spec.number("rows")?))?,
        "empty" => {
            let rows = spec.number("rows")?;
            simple::empty(Shape { cols: spec.optional("cols")?.unwrap_or(rows), ..square(rows) })?
        }
        _ => {
            let entry = like::find(spec.text_of("name").unwrap_or_default())?;
            notes.push(entry.note());
            entry.stand_in(request)?
        }
    };
    let matrix = if request.has_values { matrix } else { matrix.with_unread_values() };
    let info = MatrixInfo {
        name: spec.text.to_string(),
        field: Field::Real,
        symmetry: Symmetry::General,
        stored_entries: matrix.nnz() as u64,
        synthetic: true,
        features: None,
    };
    Ok(Loaded { matrix, info, notes })
}

#[cfg(test)]
pub(crate) mod tests;
