//! How the columns of neighbouring rows lie: how many of them neighbours share, how far apart they are, and whether the same
//! ones come again elsewhere. This decides how often a row of X is read and from where.
//!
//! A few panels of neighbouring rows are looked at, in places that are spread evenly over the nonzeros, so that long rows
//! count as much as the work they make. The sample grows with the matrix and stays a small share of it.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{ChunkRows, Work};

/// Rows of a panel.
const PANEL_ROWS: usize = 32;
/// Rows of a group within it.
const GROUP_ROWS: usize = 4;
/// Entries of a panel that are looked at.
const PANEL_ENTRIES: usize = 512;
/// One entry out of so many is looked at, and at least and at most so many.
const SAMPLED_SHARE: u64 = 1024;
const LEAST_ENTRIES: u64 = 512;
const MOST_ENTRIES: u64 = 16 << 10;
/// Panels that are not worth sharing out.
const PANELS_A_THREAD: usize = 8;
/// Distances from a panel's middle column, as powers of two.
const NEAR: [u32; 3] = [12, 16, 20];

/// Shares that say how the columns of neighbouring rows lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Locality {
    /// Different columns in groups of four rows, for each nonzero.
    pub group_columns: f64,
    /// Different columns in panels of 32 rows, for each nonzero.
    pub panel_columns: f64,
    /// Share of the nonzeros no more than 2^12, 2^16 and 2^20 columns from the middle of their panel.
    pub near: [f64; 3],
    /// Share of the nonzeros whose column panels elsewhere name too.
    pub popular: f64,
}

impl Default for Locality {
    /// Nothing shared and nothing near: what is assumed where columns are not known.
    fn default() -> Self {
        Self { group_columns: 1.0, panel_columns: 1.0, near: [0.0; 3], popular: 0.0 }
    }
}

/// Sums over panels.
#[derive(Default)]
struct Sums {
    entries: u64,
    grouped: u64,
    group_columns: u64,
    panel_columns: u64,
    near: [u64; 3],
}

impl Sums {
    fn plus(&self, other: &Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            grouped: self.grouped + other.grouped,
            group_columns: self.group_columns + other.group_columns,
            panel_columns: self.panel_columns + other.panel_columns,
            near: std::array::from_fn(|index| self.near[index] + other.near[index]),
        }
    }
}

impl Locality {
    /// Of a chunk, in the rayon pool this is called in.
    pub fn of(work: &Work<'_>, chunk: &ChunkRows) -> Self {
        let nnz = work.piece_nnz(chunk);
        let sampled = (nnz / SAMPLED_SHARE).clamp(LEAST_ENTRIES, MOST_ENTRIES).min(nnz);
        let mean = nnz as f64 / (work.slice_rows(chunk) as f64).max(1.0);
        let panel = (mean * PANEL_ROWS as f64).clamp(1.0, PANEL_ENTRIES as f64);
        let panels = ((sampled as f64 / panel).ceil() as u64).max(1);
        let looked_at = (0..panels as usize).into_par_iter().with_min_len(PANELS_A_THREAD).try_fold(
            || (Sums::default(), Vec::new(), Vec::new()),
            |(mut sums, mut all, mut scratch), place| {
                let entry = ((2 * place + 1) as u128 * u128::from(nnz) / (2 * u128::from(panels))) as u64;
                all.extend_from_slice(look_at(work, chunk, entry, &mut scratch, &mut sums)?);
                Some((sums, all, scratch))
            },
        );
        let together =
            looked_at.try_reduce(Default::default, |(sums, mut all, scratch), (more, columns, _)| {
                all.extend(columns);
                Some((sums.plus(&more), all, scratch))
            });
        let Some((sums, mut all, _)) = together.filter(|(sums, ..)| sums.entries > 0) else {
            return Self::default();
        };
        let share = |part: u64, of: u64| if of == 0 { 1.0 } else { part as f64 / of as f64 };
        Self {
            group_columns: share(sums.group_columns, sums.grouped),
            panel_columns: share(sums.panel_columns, sums.entries),
            near: sums.near.map(|near| share(near, sums.entries)),
            popular: popular(&mut all),
        }
    }
}

/// Looks at the panel around an entry of the chunk; its columns, each once, or nothing where columns are not known.
fn look_at<'a>(
    work: &Work<'_>,
    chunk: &ChunkRows,
    entry: u64,
    scratch: &'a mut Vec<u32>,
    sums: &mut Sums,
) -> Option<&'a [u32]> {
    scratch.clear();
    match *chunk {
        ChunkRows::Segments { .. } => {
            let columns = work.piece_columns(chunk)?;
            let begin = (entry as usize).min(columns.len());
            scratch.extend(columns[begin..].iter().take(PANEL_ENTRIES));
            sums.group_columns += scratch.len() as u64;
            sums.grouped += scratch.len() as u64;
        }
        ChunkRows::Rows { begin, end } => {
            let first = work.row_of(work.entries_before(begin) + entry).clamp(begin, end.saturating_sub(1));
            let first = first - (first - begin) % GROUP_ROWS;
            for group in (first..end.min(first + PANEL_ROWS)).step_by(GROUP_ROWS) {
                let at = scratch.len();
                for row in group..end.min(group + GROUP_ROWS) {
                    let columns = work.piece_columns(&ChunkRows::Rows { begin: row, end: row + 1 })?;
                    // A group that is cut short shares as its beginnings do.
                    scratch.extend(columns.iter().take(PANEL_ENTRIES / GROUP_ROWS));
                }
                let group = scratch.get_mut(at..)?;
                group.sort_unstable();
                sums.grouped += group.len() as u64;
                sums.group_columns += different(group);
                if scratch.len() >= PANEL_ENTRIES {
                    break;
                }
            }
        }
    }
    scratch.sort_unstable();
    let middle = scratch.get(scratch.len() / 2).copied().unwrap_or(0);
    sums.entries += scratch.len() as u64;
    sums.panel_columns += different(scratch);
    for (near, bits) in sums.near.iter_mut().zip(NEAR) {
        *near += scratch.iter().filter(|&&column| column.abs_diff(middle) >> bits == 0).count() as u64;
    }
    scratch.dedup();
    Some(scratch)
}

/// Different numbers in a sorted list.
fn different(sorted: &[u32]) -> u64 {
    u64::from(!sorted.is_empty()) + sorted.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
}

/// Share of the numbers that are there more than once; each panel has put each of its columns there once.
fn popular(columns: &mut [u32]) -> f64 {
    columns.par_sort_unstable();
    let again =
        columns.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(<[u32]>::len).sum::<usize>();
    again as f64 / (columns.len() as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Csr, generate};

    fn of(spec: &str) -> Locality {
        let matrix: Csr<f64> = generate(spec, 3, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&matrix.view(), 4).unwrap();
        Locality::of(&work, &ChunkRows::Rows { begin: 0, end: matrix.rows() })
    }

    #[test]
    fn meshes_share_columns_and_scattered_rows_do_not() {
        let (mesh, scattered) = (of("fem3,n=12"), of("uniform,rows=100000,degree=16"));
        assert!(mesh.group_columns < 0.45 && mesh.panel_columns < 0.25, "{mesh:?}");
        assert!(scattered.group_columns > 0.99 && scattered.panel_columns > 0.99, "{scattered:?}");
        assert!(scattered.near[0] < 0.3 && mesh.near[1] > 0.99, "{scattered:?} {mesh:?}");
        assert!(scattered.popular < 0.2, "{scattered:?}");
    }

    #[test]
    fn columns_that_many_rows_name_are_popular() {
        let (graph, road) = (of("rmat,scale=16,degree=16"), of("road,n=60000"));
        assert!(graph.popular > road.popular + 0.1, "{graph:?} {road:?}");
    }

    #[test]
    fn a_group_of_equal_rows_has_each_column_once() {
        // Four rows of the same eight columns, again and again.
        let columns: Vec<u32> =
            (0..400u32).flat_map(|row| (0..8).map(move |entry| row / 4 * 8 + entry)).collect();
        let pointers: Vec<u64> = (0..=400).map(|row| row * 8).collect();
        let work = Work::spmm_pattern(&pointers, Some(&columns), 800, 4, crate::matrix::Dtype::F64).unwrap();
        let found = Locality::of(&work, &ChunkRows::Rows { begin: 0, end: 400 });
        assert_eq!((found.group_columns, found.panel_columns), (0.25, 0.25));
        let unknown = Work::spmm_pattern(&pointers, None, 800, 4, crate::matrix::Dtype::F64).unwrap();
        assert_eq!(Locality::of(&unknown, &ChunkRows::Rows { begin: 0, end: 400 }), Locality::default());
    }
}
