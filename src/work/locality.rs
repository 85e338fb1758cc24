//! How the columns of neighbouring rows lie: how many of them neighbours share, how far apart they are, and whether the same
//! ones come again elsewhere. This decides how often a row of X is read and from where.
//!
//! A few panels of neighbouring rows are looked at, in places that are spread evenly over the nonzeros, so that long rows
//! count as much as the work they make. The sample grows with the matrix and stays a small share of it.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::column_marks::ColumnMarks;
use super::{ChunkRows, Work};

/// Rows of a panel.
const PANEL_ROWS: usize = 32;
/// Rows of a group within it.
const GROUP_ROWS: usize = 4;
/// Entries of a panel that are looked at.
const PANEL_ENTRIES: usize = 512;
/// Entries of a row that are looked at.
const ROW_ENTRIES: usize = PANEL_ENTRIES / GROUP_ROWS;
/// One entry out of so many is looked at, and at least and at most so many.
const SAMPLED_SHARE: u64 = 1024;
const LEAST_ENTRIES: u64 = 512;
const MOST_ENTRIES: u64 = 16 << 10;
/// Panels that are not worth sharing out.
const PANELS_A_THREAD: usize = 4;
/// Parts that columns are dealt to, to be counted apart.
const PARTS: usize = 8;
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
    group_columns: u64,
    panel_columns: u64,
    near: [u64; 3],
}

impl Sums {
    fn plus(&self, other: &Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            group_columns: self.group_columns + other.group_columns,
            panel_columns: self.panel_columns + other.panel_columns,
            near: std::array::from_fn(|index| self.near[index] + other.near[index]),
        }
    }
}

/// What has been seen of some panels.
struct Seen {
    sums: Sums,
    /// Columns of each panel, each once, dealt out by their numbers.
    columns: [Vec<u32>; PARTS],
    /// Entries of the panel looked at.
    panel: Vec<u32>,
    /// The group that a column was last seen in.
    groups: ColumnMarks,
    /// Number of the last group looked at.
    group: u32,
}

impl Locality {
    /// Of a chunk, in the rayon pool this is called in.
    pub fn of(work: &Work<'_>, chunk: &ChunkRows) -> Self {
        let nnz = work.piece_nnz(chunk);
        let sampled = (nnz / SAMPLED_SHARE).clamp(LEAST_ENTRIES, MOST_ENTRIES).min(nnz);
        let mean = nnz as f64 / (work.slice_rows(chunk) as f64).max(1.0);
        let panel = (mean * PANEL_ROWS as f64).clamp(1.0, PANEL_ENTRIES as f64);
        let panels = ((sampled as f64 / panel).ceil() as u64).max(1);
        let looked_at = (0..panels as usize).into_par_iter().with_min_len(PANELS_A_THREAD).fold(
            Seen::nothing,
            |mut seen, place| {
                let entry = ((2 * place + 1) as u128 * u128::from(nnz) / (2 * u128::from(panels))) as u64;
                seen.look_at(work, chunk, entry);
                seen
            },
        );
        let together = looked_at.map(|seen| (seen.sums, seen.columns)).reduce_with(
            |(sums, mut all), (more, columns)| {
                all.iter_mut().zip(columns).for_each(|(all, columns)| all.extend(columns));
                (sums.plus(&more), all)
            },
        );
        let Some((sums, columns)) = together.filter(|(sums, _)| sums.entries > 0) else {
            return Self::default();
        };
        let share = |part: u64, of: u64| if of == 0 { 1.0 } else { part as f64 / of as f64 };
        let again: u64 = columns.par_iter().map(|columns| named_again(columns)).sum();
        Self {
            group_columns: share(sums.group_columns, sums.entries),
            panel_columns: share(sums.panel_columns, sums.entries),
            near: sums.near.map(|near| share(near, sums.entries)),
            popular: share(again, sums.panel_columns),
        }
    }
}

impl Seen {
    fn nothing() -> Self {
        Self {
            sums: Sums::default(),
            columns: Default::default(),
            panel: Vec::with_capacity(2 * PANEL_ENTRIES),
            groups: ColumnMarks::with_room(2 * PANEL_ENTRIES),
            group: 0,
        }
    }

    /// Looks at the panel around an entry of the chunk; at nothing where columns are not known.
    fn look_at(&mut self, work: &Work<'_>, chunk: &ChunkRows, entry: u64) {
        self.panel.clear();
        let first_group = self.group + 1;
        match *chunk {
            ChunkRows::Segments { .. } => {
                let columns = work.piece_columns(chunk).unwrap_or(&[]);
                let columns = columns.get(entry as usize..).unwrap_or(&[]);
                self.group += 1;
                self.take(columns.get(..PANEL_ENTRIES).unwrap_or(columns), first_group);
            }
            ChunkRows::Rows { begin, end } if begin < end => {
                let first = work.row_of(work.entries_before(begin) + entry).clamp(begin, end - 1);
                let first = first - (first - begin) % GROUP_ROWS;
                for group in (first..end.min(first + PANEL_ROWS)).step_by(GROUP_ROWS) {
                    self.take_group(work, group..end.min(group + GROUP_ROWS), first_group);
                    if self.panel.len() >= PANEL_ENTRIES {
                        break;
                    }
                }
            }
            ChunkRows::Rows { .. } => {}
        }
        self.sums.entries += self.panel.len() as u64;
        let near = near_the_middle(&mut self.panel);
        self.sums.near.iter_mut().zip(near).for_each(|(sum, near)| *sum += near);
    }

    /// Takes a group of rows into the panel that began with `first_group`; of long rows the beginnings, which share as
    /// the whole rows do.
    fn take_group(&mut self, work: &Work<'_>, rows: Range<usize>, first_group: u32) {
        let columns = |begin, end| work.piece_columns(&ChunkRows::Rows { begin, end }).unwrap_or(&[]);
        self.group += 1;
        let all = columns(rows.start, rows.end);
        if all.len() <= ROW_ENTRIES {
            return self.take(all, first_group);
        }
        for row in rows {
            let columns = columns(row, row + 1);
            self.take(columns.get(..ROW_ENTRIES).unwrap_or(columns), first_group);
        }
    }

    fn take(&mut self, columns: &[u32], first_group: u32) {
        self.panel.extend_from_slice(columns);
        let (mut of_panel, mut of_group) = (0, 0);
        for &column in columns {
            let last_seen = self.groups.of(column, first_group);
            if *last_seen == 0 {
                of_panel += 1;
                self.columns[column as usize % PARTS].push(column);
            }
            of_group += u64::from(*last_seen != self.group);
            *last_seen = self.group;
        }
        self.sums.panel_columns += of_panel;
        self.sums.group_columns += of_group;
    }
}

/// How many columns of a panel are near its middle one.
fn near_the_middle(panel: &mut [u32]) -> [u64; 3] {
    let (low, high) =
        panel.iter().fold((u32::MAX, 0), |(low, high), &column| (low.min(column), high.max(column)));
    let half = panel.len() / 2;
    if panel.is_empty() || high - low < 1 << NEAR[0] {
        // All are, whichever is the middle one.
        return [panel.len() as u64; 3];
    }
    let middle = *panel.select_nth_unstable(half).1;
    NEAR.map(|bits| panel.iter().filter(|&&column| column.abs_diff(middle) >> bits == 0).count() as u64)
}

/// How many of these columns are there more than once, each time counted.
fn named_again(columns: &[u32]) -> u64 {
    let mut times = ColumnMarks::with_room(columns.len());
    let mut again = 0;
    for &column in columns {
        let times = times.of(column, 1);
        // The second time tells that the first one counts too.
        again += match *times {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        *times += 1;
    }
    again
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

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

    /// The same with sets, from the same panels.
    fn plainly(matrix: &Csr<f64>) -> Locality {
        let view = matrix.view();
        let (rows, nnz) = (matrix.rows(), matrix.nnz() as u64);
        let sampled = (nnz / 1024).clamp(512, 16384).min(nnz) as f64;
        let panels = (sampled / (nnz as f64 / rows as f64 * 32.0).clamp(1.0, 512.0)).ceil() as u64;
        let (mut entries, mut of_groups, mut of_panels, mut near) = (0, 0, 0, [0; 3]);
        let mut panels_of_column = BTreeMap::new();
        for panel in 0..panels {
            let entry = (2 * panel + 1) * nnz / (2 * panels);
            let first = (0..rows).rfind(|&row| view.row_pointers()[row] <= entry).unwrap() / 4 * 4;
            let mut columns: Vec<u32> = vec![];
            for group in (first..rows.min(first + 32)).step_by(4) {
                let own =
                    (group..rows.min(group + 4)).flat_map(|row| view.row(row).0.iter().take(128).copied());
                let own: Vec<u32> = own.collect();
                columns.extend(&own);
                of_groups += own.into_iter().collect::<BTreeSet<u32>>().len();
                if columns.len() >= 512 {
                    break;
                }
            }
            columns.sort();
            let middle = columns[columns.len() / 2];
            entries += columns.len();
            for (near, most) in near.iter_mut().zip([1 << 12, 1 << 16, 1 << 20]) {
                *near += columns.iter().filter(|column| column.abs_diff(middle) < most).count();
            }
            columns.dedup();
            of_panels += columns.len();
            columns.into_iter().for_each(|column| *panels_of_column.entry(column).or_insert(0) += 1);
        }
        let popular: usize = panels_of_column.into_values().filter(|&panels| panels > 1).sum();
        let share = |part: usize| part as f64 / entries as f64;
        Locality {
            group_columns: share(of_groups),
            panel_columns: share(of_panels),
            near: near.map(share),
            popular: popular as f64 / of_panels as f64,
        }
    }

    #[test]
    fn marks_count_what_sets_count() {
        for spec in [
            "rmat,scale=15,degree=16",
            "fem3,n=14",
            "uniform,rows=60000,degree=16",
            "road,n=60000",
            "arrow,rows=30000",
            "holes,rows=4000,degree=3",
            "band,rows=50,width=3",
        ] {
            let matrix: Csr<f64> = generate(spec, 3, 1 << 30).unwrap().matrix;
            assert_eq!(of(spec), plainly(&matrix), "{spec}");
        }
    }

    #[test]
    fn a_chunk_without_rows_is_as_if_nothing_were_known() {
        let work = Work::spmm_pattern(&[0, 2, 3], Some(&[0, 1, 1]), 2, 4, crate::matrix::Dtype::F64).unwrap();
        assert_eq!(Locality::of(&work, &ChunkRows::Rows { begin: 2, end: 2 }), Locality::default());
    }
}
