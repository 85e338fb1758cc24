//! Matrices of meshes: points of a grid coupled to their neighbours.

use super::build::{Shape, Values, build};
use super::random::{of_pair, unit};
use crate::error::{Error, Result};
use crate::matrix::csr::Csr;
use crate::matrix::scalar::Scalar;

/// Of a road grid's possible edges, the share that is there: four neighbours times this is a degree of 2.5.
const ROAD_EDGE_SHARE: f64 = 0.625;

/// A grid of points numbered with x running fastest.
#[derive(Clone, Copy)]
struct Grid {
    n: u64,
    depth: u64,
}

impl Grid {
    /// A square (`dimensions` 2) or a cube (3) with `n` points a side.
    fn new(n: u64, dimensions: u32) -> Result<Self> {
        n.checked_pow(dimensions).ok_or_else(|| {
            Error::Usage(format!("a grid with n={n} has more points than 2^64; take a smaller n"))
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

/// First and last of a coordinate and its neighbours on a line of `n` points.
fn around(at: u64, n: u64) -> (u64, u64) {
    (at.saturating_sub(1), (at + 1).min(n - 1))
}

fn count((first, last): (u64, u64)) -> u64 {
    last - first + 1
}

/// Each point coupled to its nearest neighbours along the axes: 5 points in two dimensions, 7 in three.
pub fn cross<T: Scalar>(n: u64, dimensions: u32, seed: u64, memory_limit_bytes: u64) -> Result<Csr<T>> {
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
        seed,
        memory_limit_bytes,
    };
    build(
        shape,
        |row| neighbours(row as u64).iter().filter(|(there, _)| *there).count(),
        |row, columns| {
            let there = neighbours(row as u64).into_iter().filter(|(there, _)| *there);
            columns.iter_mut().zip(there).for_each(|(column, (_, point))| *column = point as u32);
        },
    )
}

/// Each node of a cube coupled to the 27 around it, with `unknowns` rows and columns a node.
pub fn cube<T: Scalar>(n: u64, unknowns: u64, seed: u64, memory_limit_bytes: u64) -> Result<Csr<T>> {
    let grid = Grid::new(n, 3)?;
    let rows = grid.points().saturating_mul(unknowns);
    let along_a_line = n.saturating_mul(3).saturating_sub(2);
    let shape = Shape {
        rows,
        cols: rows,
        nonzeros: along_a_line.saturating_pow(3).saturating_mul(unknowns * unknowns),
        values: Values::DiagonallyDominant,
        seed,
        memory_limit_bytes,
    };
    let ranges = |row: usize| {
        let (x, y, z) = grid.coordinates(row as u64 / unknowns);
        (around(x, n), around(y, n), around(z, n))
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

/// A near-planar network of `n` crossings on a grid, some streets left out at random; about 2.5 streets a crossing.
pub fn road<T: Scalar>(n: u64, seed: u64, memory_limit_bytes: u64) -> Result<Csr<T>> {
    let side = n.isqrt() + u64::from(n.isqrt() * n.isqrt() < n);
    let neighbours = |point: u64| {
        let candidates = [
            (point >= side, point.wrapping_sub(side)),
            (!point.is_multiple_of(side), point.wrapping_sub(1)),
            (point % side + 1 < side && point + 1 < n, point + 1),
            (point + side < n, point + side),
        ];
        // Values are drawn from `seed` too; streets must not depend on the same numbers.
        let exists = move |other| unit(of_pair(!seed, point, other)) < ROAD_EDGE_SHARE;
        candidates.into_iter().filter(move |&(inside, other)| inside && exists(other)).map(|(_, other)| other)
    };
    let shape = Shape {
        rows: n,
        cols: n,
        nonzeros: n.saturating_mul(2),
        values: Values::Random,
        seed,
        memory_limit_bytes,
    };
    build(
        shape,
        |row| neighbours(row as u64).count(),
        |row, columns| {
            columns.iter_mut().zip(neighbours(row as u64)).for_each(|(column, other)| *column = other as u32)
        },
    )
}
