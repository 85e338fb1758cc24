//! Column locality of a chunk: how many columns neighbouring rows have in common, how far apart they are, and how many recur in
//! distant rows. It determines how often a row of X is loaded, and from which level of the memory hierarchy.
//!
//! The estimate comes from panels of consecutive rows, evenly spaced over the nonzeros, so that rows count in proportion to
//! their work. The sample grows with the matrix and stays a small share of it.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::column_marks::ColumnMarks;
use super::{ChunkRows, Spmm};

/// Rows of a panel.
const PANEL_ROWS: usize = 32;
/// Rows of a group; a panel is divided into groups.
const GROUP_ROWS: usize = 4;
/// Entries of a panel after which no further group is added.
const PANEL_ENTRIES: usize = 512;
/// Sampled entries of a row that belongs to a group with more entries than this.
const ROW_ENTRIES: usize = PANEL_ENTRIES / GROUP_ROWS;
/// Entries of a chunk per sampled entry; the limits below apply.
const ENTRIES_PER_SAMPLE: u64 = 1024;
const MIN_SAMPLED_ENTRIES: u64 = 512;
const MAX_SAMPLED_ENTRIES: u64 = 16 << 10;
/// Minimal number of panels per parallel task.
const MIN_PANELS_PER_TASK: usize = 4;
/// Number of buckets, by column modulo this number, whose columns are counted in parallel.
const BUCKETS: usize = 8;
/// Distances from a panel's median column, as powers of two.
const NEAR_BITS: [u32; 3] = [12, 16, 20];

/// Measures of the column locality of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Locality {
    /// Distinct columns per nonzero in groups of 4 rows.
    pub group_columns: f64,
    /// Distinct columns per nonzero in panels of 32 rows.
    pub panel_columns: f64,
    /// Share of the nonzeros less than 2^12, 2^16 and 2^20 columns from the median column of their panel.
    pub near: [f64; 3],
    /// Share of the panels' distinct columns that occur in more than one panel.
    pub popular: f64,
}

impl Default for Locality {
    /// No common and no near columns: the assumption if columns are not known.
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

/// The accumulated sample of some panels.
struct PanelSample {
    sums: Sums,
    /// Whether the columns of panels are kept.
    keeps_columns: bool,
    /// Distinct columns of each panel, in buckets.
    columns: [Vec<u32>; BUCKETS],
    /// Columns of the current panel's entries.
    panel: Vec<u32>,
    /// The last group in which each column occurred.
    groups: ColumnMarks,
    /// Number of the current group.
    group: u32,
}

impl Locality {
    /// The locality of a chunk, computed in the rayon pool of the caller.
    pub fn of(work: &Spmm<'_>, chunk: &ChunkRows) -> Self {
        let nnz = work.piece_nnz(chunk);
        let sampled = (nnz / ENTRIES_PER_SAMPLE).clamp(MIN_SAMPLED_ENTRIES, MAX_SAMPLED_ENTRIES).min(nnz);
        let mean = nnz as f64 / (chunk.slice_rows() as f64).max(1.0);
        let panel = (mean * PANEL_ROWS as f64).clamp(1.0, PANEL_ENTRIES as f64);
        let panels = ((sampled as f64 / panel).ceil() as u64).max(1);
        let with_panel = |mut sample: PanelSample, panel: usize| {
            let entry = ((2 * panel + 1) as u128 * u128::from(nnz) / (2 * u128::from(panels))) as u64;
            sample.add_panel(work, chunk, entry);
            sample
        };
        let new = || PanelSample::new(panels > 1);
        let merged = if panels as usize <= MIN_PANELS_PER_TASK {
            let PanelSample { sums, columns, .. } = (0..panels as usize).fold(new(), with_panel);
            Some((sums, columns))
        } else {
            let samples = (0..panels as usize).into_par_iter().with_min_len(MIN_PANELS_PER_TASK);
            let samples = samples.fold(new, with_panel).map(|sample| (sample.sums, sample.columns));
            samples.reduce_with(|(sums, mut all), (more, columns)| {
                all.iter_mut().zip(columns).for_each(|(all, columns)| all.extend(columns));
                (sums.plus(&more), all)
            })
        };
        let Some((sums, columns)) = merged.filter(|(sums, _)| sums.entries > 0) else {
            return Self::default();
        };
        let share = |part: u64, of: u64| if of == 0 { 1.0 } else { part as f64 / of as f64 };
        let counted = || columns.par_iter().map(|columns| count_repeated(columns)).sum();
        // The columns of one panel are distinct.
        let repeated: u64 = if panels > 1 { counted() } else { 0 };
        Self {
            group_columns: share(sums.group_columns, sums.entries),
            panel_columns: share(sums.panel_columns, sums.entries),
            near: sums.near.map(|near| share(near, sums.entries)),
            popular: share(repeated, sums.panel_columns),
        }
    }
}

impl PanelSample {
    fn new(keeps_columns: bool) -> Self {
        Self {
            sums: Sums::default(),
            keeps_columns,
            columns: Default::default(),
            panel: Vec::with_capacity(2 * PANEL_ENTRIES),
            groups: ColumnMarks::with_capacity(2 * PANEL_ENTRIES),
            group: 0,
        }
    }

    /// Adds the panel that starts at the group of the given entry; adds nothing if columns are not known.
    fn add_panel(&mut self, work: &Spmm<'_>, chunk: &ChunkRows, entry: u64) {
        self.panel.clear();
        let first_group = self.group + 1;
        match *chunk {
            ChunkRows::Segments { .. } => {
                let columns = work.piece_columns(chunk).unwrap_or(&[]);
                let columns = columns.get(entry as usize..).unwrap_or(&[]);
                self.group += 1;
                self.add_columns(columns.get(..PANEL_ENTRIES).unwrap_or(columns), first_group);
            }
            ChunkRows::Rows { begin, end } if begin < end => {
                let first = work.row_of(begin..end, work.entries_before(begin) + entry);
                let first = first - (first - begin) % GROUP_ROWS;
                for group in (first..end.min(first + PANEL_ROWS)).step_by(GROUP_ROWS) {
                    self.add_group(work, group..end.min(group + GROUP_ROWS), first_group);
                    if self.panel.len() >= PANEL_ENTRIES {
                        break;
                    }
                }
            }
            ChunkRows::Rows { .. } => {}
        }
        self.sums.entries += self.panel.len() as u64;
        let near = count_near_median(&mut self.panel);
        self.sums.near.iter_mut().zip(near).for_each(|(sum, near)| *sum += near);
    }

    /// Adds a group of rows to the panel that began with `first_group`; of long rows only the beginnings, which represent the
    /// whole rows.
    fn add_group(&mut self, work: &Spmm<'_>, rows: Range<usize>, first_group: u32) {
        let columns = |begin, end| work.piece_columns(&ChunkRows::Rows { begin, end }).unwrap_or(&[]);
        self.group += 1;
        let all = columns(rows.start, rows.end);
        if all.len() <= ROW_ENTRIES {
            return self.add_columns(all, first_group);
        }
        for row in rows {
            let columns = columns(row, row + 1);
            self.add_columns(columns.get(..ROW_ENTRIES).unwrap_or(columns), first_group);
        }
    }

    /// Adds columns of the current group to the panel that began with `first_group`.
    fn add_columns(&mut self, columns: &[u32], first_group: u32) {
        self.panel.extend_from_slice(columns);
        let (mut of_panel, mut of_group) = (0, 0);
        for &column in columns {
            let last_group = self.groups.get_mut(column, first_group);
            if *last_group == 0 {
                of_panel += 1;
            }
            if *last_group == 0 && self.keeps_columns {
                self.columns[column as usize % BUCKETS].push(column);
            }
            of_group += u64::from(*last_group != self.group);
            *last_group = self.group;
        }
        self.sums.panel_columns += of_panel;
        self.sums.group_columns += of_group;
    }
}

/// The number of a panel's entries within each distance of its median column.
fn count_near_median(panel: &mut [u32]) -> [u64; 3] {
    let (low, high) =
        panel.iter().fold((u32::MAX, 0), |(low, high), &column| (low.min(column), high.max(column)));
    let half = panel.len() / 2;
    if panel.is_empty() || high - low < 1 << NEAR_BITS[0] {
        // All are within the smallest distance of any median.
        return [panel.len() as u64; 3];
    }
    let median = *panel.select_nth_unstable(half).1;
    NEAR_BITS.map(|bits| panel.iter().filter(|&&column| column.abs_diff(median) >> bits == 0).count() as u64)
}

/// The number of elements whose value occurs more than once in `columns`.
fn count_repeated(columns: &[u32]) -> u64 {
    let mut occurrences = ColumnMarks::with_capacity(columns.len());
    let mut repeated = 0;
    for &column in columns {
        let occurrences = occurrences.get_mut(column, 1);
        // At the second occurrence the first one counts too.
        repeated += match *occurrences {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        *occurrences += 1;
    }
    repeated
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::matrix::{Csr, generate};

    fn of(spec: &str) -> Locality {
        let matrix: Csr<f64> = generate(spec, 3, 1 << 30).unwrap().matrix;
        let work = Spmm::new(&matrix.view(), 4).unwrap();
        Locality::of(&work, &ChunkRows::Rows { begin: 0, end: matrix.rows() })
    }

    #[test]
    fn neighbouring_rows_have_common_columns_in_meshes_and_not_in_scattered_matrices() {
        let (mesh, scattered) = (of("fem3,n=12"), of("uniform,rows=100000,degree=16"));
        assert!(mesh.group_columns < 0.45 && mesh.panel_columns < 0.25, "{mesh:?}");
        assert!(scattered.group_columns > 0.99 && scattered.panel_columns > 0.99, "{scattered:?}");
        assert!(scattered.near[0] < 0.3 && mesh.near[1] > 0.99, "{scattered:?} {mesh:?}");
        assert!(scattered.popular < 0.2, "{scattered:?}");
    }

    #[test]
    fn a_power_law_graph_has_more_popular_columns_than_a_road_network() {
        let (graph, road) = (of("rmat,scale=16,degree=16"), of("road,n=60000"));
        assert!(graph.popular > road.popular + 0.1, "{graph:?} {road:?}");
    }

    #[test]
    fn a_group_of_equal_rows_has_each_column_once() {
        // Groups of four rows with the same eight columns.
        let columns: Vec<u32> =
            (0..400u32).flat_map(|row| (0..8).map(move |entry| row / 4 * 8 + entry)).collect();
        let pointers: Vec<u64> = (0..=400).map(|row| row * 8).collect();
        let work = Spmm::of_pattern(&pointers, Some(&columns), 800, 4, crate::matrix::Dtype::F64).unwrap();
        let found = Locality::of(&work, &ChunkRows::Rows { begin: 0, end: 400 });
        assert_eq!((found.group_columns, found.panel_columns), (0.25, 0.25));
        let unknown = Spmm::of_pattern(&pointers, None, 800, 4, crate::matrix::Dtype::F64).unwrap();
        assert_eq!(Locality::of(&unknown, &ChunkRows::Rows { begin: 0, end: 400 }), Locality::default());
    }

    /// The locality from the same panels, computed with sets.
    fn locality_with_sets(matrix: &Csr<f64>) -> Locality {
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
    fn column_marks_give_the_same_locality_as_sets() {
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
            assert_eq!(of(spec), locality_with_sets(&matrix), "{spec}");
        }
    }

    #[test]
    fn a_chunk_without_rows_has_the_default_locality() {
        let work = Spmm::of_pattern(&[0, 2, 3], Some(&[0, 1, 1]), 2, 4, crate::matrix::Dtype::F64).unwrap();
        assert_eq!(Locality::of(&work, &ChunkRows::Rows { begin: 2, end: 2 }), Locality::default());
    }
}
