//! Matrices of regular grids, whose points are coupled to their neighbours.

use super::build::{Request, Shape, Values, build};
use crate::error::{Error, Result};
use crate::matrix::csr::Csr;
use crate::matrix::random::{pair_bits, unit};
use crate::matrix::scalar::Scalar;

/// Probability of an edge between neighbours in a road grid: 4 neighbours times this is a degree of 2.5.
const ROAD_EDGE_SHARE: f64 = 0.625;

/// A grid of points, numbered with x as the fastest index.
#[derive(Clone, Copy)]
struct Grid {
    n: u64,
    depth: u64,
}

impl Grid {
    /// A square (`dimensions` 2) or a cube (3) with `n` points per side.
    fn new(n: u64, dimensions: u32) -> Result<Self> {
        n.checked_pow(dimensions).ok_or_else(|| {
            Error::usage(format!("a grid with n={n} has more than 2^64 points; choose a smaller n"))
        })?;
        Ok(Self { n, depth: if dimensions == 3 { n } else { 1 } })
    }

    fn points(self) -> u64 {
        self.n * self.n * self.depth
    }

    fn coordinates(self, point: u64) -> (u64, u64, u64) {
        (point % self.n, point / self.n % self.n, point / self.n / self.n)
    }
}

/// First and last coordinate of a point and its neighbours on a line of `n` points.
fn neighbour_range(at: u64, n: u64) -> (u64, u64) {
    (at.saturating_sub(1), (at + 1).min(n - 1))
}

fn count((first, last): (u64, u64)) -> u64 {
    last - first + 1
}

/// The 5-point stencil in two dimensions, the 7-point stencil in three: each point is coupled to its neighbours along the axes.
pub fn axis_stencil<T: Scalar>(n: u64, dimensions: u32, request: Request<'_>) -> Result<Csr<T>> {
    let grid = Grid::new(n, dimensions)?;
    let neighbours = |point: u64| {
        let (x, y, z) = grid.coordinates(point);
        let plane = grid.n * grid.n;
        [
            (z > 0, point.wrapping_sub(plane)),
            (y > 0, point.wrapping_sub(grid.n)),
            (x > 0, point.wrapping_sub(1)),
            (true, point),
            (x + 1 < grid.n, point + 1),
            (y + 1 < grid.n, point + grid.n),
            (z + 1 < grid.depth, point + plane),
        ]
    };
    let per_point = 2 * u64::from(dimensions) + 1;
    let missing = 2 * u64::from(dimensions) * grid.points().checked_div(n).unwrap_or(0);
    let shape = Shape {
        rows: grid.points(),
        cols: grid.points(),
        nonzeros: grid.points().saturating_mul(per_point).saturating_sub(missing),
        values: Values::DiagonallyDominant,
        request,
    };
    build(
        shape,
        |row| neighbours(row as u64).iter().filter(|(exists, _)| *exists).count(),
        |row, columns| {
            let existing = neighbours(row as u64).into_iter().filter(|(exists, _)| *exists);
            columns.iter_mut().zip(existing).for_each(|(column, (_, point))| *column = point as u32);
        },
    )
}

/// The 27-point stencil: each node of a grid of n x n x `depth` nodes is coupled to itself and its 26 neighbours, with `unknowns` rows
/// and columns per node.
pub fn box_stencil<T: Scalar>(n: u64, depth: u64, unknowns: u64, request: Request<'_>) -> Result<Csr<T>> {
    let points = n.checked_mul(n).and_then(|plane| plane.checked_mul(depth));
    points.ok_or_else(|| {
        Error::usage(format!(
            "a grid with n={n} and depth={depth} has more than 2^64 points; choose a smaller one"
        ))
    })?;
    let grid = Grid { n, depth };
    let rows = grid.points().saturating_mul(unknowns);
    let line_nonzeros = |points: u64| points.saturating_mul(3).saturating_sub(2);
    let nodes = line_nonzeros(n).saturating_pow(2).saturating_mul(line_nonzeros(depth));
    let shape = Shape {
        rows,
        cols: rows,
        nonzeros: nodes.saturating_mul(unknowns * unknowns),
        values: Values::DiagonallyDominant,
        request,
    };
    let ranges = |row: usize| {
        let (x, y, z) = grid.coordinates(row as u64 / unknowns);
        (neighbour_range(x, n), neighbour_range(y, n), neighbour_range(z, depth))
    };
    build(
        shape,
        |row| {
            let (x, y, z) = ranges(row);
            (count(x) * count(y) * count(z) * unknowns) as usize
        },
        |row, columns| {
            let (x, y, z) = ranges(row);
            let run = (count(x) * unknowns) as usize;
            let lines = (z.0..=z.1).flat_map(|z| (y.0..=y.1).map(move |y| (z * n + y) * n));
            for (columns, line) in columns.chunks_exact_mut(run).zip(lines) {
                let first = (line + x.0) * unknowns;
                columns.iter_mut().zip(first..).for_each(|(column, at)| *column = at as u32);
            }
        },
    )
}

/// A near-planar road network: a grid of `n` crossings with random roads omitted, about 2.5 roads per crossing.
pub fn road<T: Scalar>(n: u64, request: Request<'_>) -> Result<Csr<T>> {
    let seed = request.seed;
    let side = n.isqrt() + u64::from(n.isqrt() * n.isqrt() < n);
    let neighbours = |point: u64| {
        let candidates = [
            (point >= side, point.wrapping_sub(side)),
            (!point.is_multiple_of(side), point.wrapping_sub(1)),
            (point % side + 1 < side && point + 1 < n, point + 1),
            (point + side < n, point + side),
        ];
        // Values are drawn from `seed`; roads use another seed, so that the two are independent.
        let exists = move |other| unit(pair_bits(!seed, point, other)) < ROAD_EDGE_SHARE;
        candidates.into_iter().filter(move |&(inside, other)| inside && exists(other)).map(|(_, other)| other)
    };
    let shape = Shape { rows: n, cols: n, nonzeros: n.saturating_mul(2), values: Values::Random, request };
    build(
        shape,
        |row| neighbours(row as u64).count(),
        |row, columns| {
            columns.iter_mut().zip(neighbours(row as u64)).for_each(|(column, other)| *column = other as u32)
        },
    )
}
