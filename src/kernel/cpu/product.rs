//! A product prepared for the CPU: pieces of rows, the order they are taken in, and the kernels that compute them.
//!
//! Preparing decides and allocates; running does neither. Whatever was decided, the result is the canonical one.

use std::ops::Range;

use rayon::prelude::*;

use super::chains::{Block, RowJob};
use super::grouping::{Grouping, GroupingRules, Wave, segments_of};
use super::layout::RowLayout;
use super::select::{Bodies, Body, Kernels, SlabShape, most_columns};
use super::tuning::Tuning;
use crate::error::{Error, Result};
use crate::kernel::isa::Isa;
use crate::kernel::order::SEGMENT;
use crate::kernel::partition::{self, Schedule, Weights};
use crate::matrix::{AlignedBuffer, MultiVectorView, MultiVectorViewMut};

/// Columns of X and Y that are computed in one go.
struct Slab<T> {
    first_column: usize,
    bodies: Bodies<T>,
}

/// Consecutive rows that one thread computes at a time.
struct Piece {
    rows: Range<usize>,
    taken: Taken,
}

/// How the rows of a piece are taken.
enum Taken {
    /// As they come.
    Natural,
    /// In groups.
    Grouped(Grouping),
    /// As segments in the order of their columns.
    Wave(Wave),
}

/// Segments of the rows that are too long for one piece, computed apart and added in order afterwards.
struct Hubs<T> {
    rows: Vec<usize>,
    /// First segment of each hub row, and the number of all segments.
    first_segments: Vec<usize>,
    starts: Vec<u64>,
    lengths: Vec<u32>,
    pieces: Vec<Range<usize>>,
    partial_sums: AlignedBuffer<T>,
}

/// How a product on the CPU is to be carried out.
#[derive(Debug, Clone, Copy)]
pub struct CpuSettings {
    /// Columns of X.
    pub k: usize,
    /// Threads that pieces are made for.
    pub threads: usize,
    /// Instructions to use.
    pub isa: Isa,
    /// How rows are shared out.
    pub schedule: Schedule,
    /// What to prefer where both are right.
    pub tuning: Tuning,
}

/// Which rows, in which order, with which kernels; made once for a layout and a K.
pub struct RowsPlan<T> {
    settings: CpuSettings,
    uniform: bool,
    slabs: Vec<Slab<T>>,
    pieces: Vec<Piece>,
    hubs: Option<Hubs<T>>,
    longest_in_pieces: usize,
}

impl<T: Kernels> RowsPlan<T> {
    /// Decides everything for `layout`.
    pub fn new(layout: RowLayout<'_, T>, settings: CpuSettings) -> Result<Self> {
        let CpuSettings { k, threads, isa, schedule, tuning } = settings;
        let rows = layout.rows();
        let nnz: usize = (0..rows).map(|row| layout.length(row)).sum();
        let uniform = nnz > 0 && all_equal(layout);
        let slab_width = tuning.slab_width.clamp(1, most_columns::<T>(isa));
        let slabs = (0..k)
            .step_by(slab_width)
            .map(|first_column| Slab {
                first_column,
                bodies: T::select(
                    isa,
                    SlabShape { width: slab_width.min(k - first_column), packed: slab_width >= k, uniform },
                ),
            })
            .collect::<Vec<_>>();

        let work_bytes = nnz.saturating_mul(12 + k * size_of::<T>());
        let most_pieces = (work_bytes / SMALLEST_PIECE_BYTES).clamp(1, threads * tuning.pieces_per_thread);
        let (ranges, longest_in_pieces) = match schedule {
            Schedule::EqualRows => (partition::equal_rows(rows, threads), usize::MAX),
            Schedule::Balanced => {
                let weights =
                    Weights { per_nonzero: (12 + k * size_of::<T>()) as u64, per_row: (8 + 2 * k * size_of::<T>()) as u64 };
                let alignment = partition::row_alignment(k * size_of::<T>());
                let pointers = layout.row_pointers();
                let ranges = partition::balanced(&pointers, weights, most_pieces, alignment);
                // A row heavier than half a piece cannot be balanced whole.
                let longest = if threads == 1 { usize::MAX } else { (nnz / most_pieces / 2).max(16 * SEGMENT) };
                (ranges, longest)
            }
        };
        let hubs = Hubs::collect(layout, k, longest_in_pieces, most_pieces)?;
        let most_identical = slabs.iter().map(|slab| slab.bodies.most_identical_rows).min().unwrap_or(1);
        let rules = GroupingRules {
            // Equal values make identical rows equal: any number of them costs one.
            most_identical_rows: if uniform { UNIFORM_BLOCK_ROWS } else { most_identical },
            shifted: tuning.shifted,
            sort: tuning.sort,
            window: tuning.window,
        };
        let pieces = ranges
            .into_par_iter()
            .map(|rows| {
                let wave = tuning.wave.then(|| Wave::collect(layout, rows.clone(), longest_in_pieces)).flatten();
                let taken = match wave {
                    Some(wave) => Taken::Wave(wave),
                    None => Grouping::collect(layout, rows.clone(), rules).map_or(Taken::Natural, Taken::Grouped),
                };
                Piece { rows, taken }
            })
            .collect();
        Ok(Self { settings, uniform, slabs, pieces, hubs, longest_in_pieces })
    }

    /// Whether all values are equal and only one is read.
    pub fn reads_no_values(&self) -> bool {
        self.uniform
    }

    /// The row ranges that threads take, and the number of rows cut into segments among them.
    pub fn pieces(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.pieces.iter().map(|piece| piece.rows.clone())
    }

    /// Rows whose segments are shared out among threads.
    pub fn hub_rows(&self) -> &[usize] {
        self.hubs.as_ref().map_or(&[], |hubs| &hubs.rows)
    }

    /// Computes `y = layout * x` on the rayon pool this is called in. `layout` is the one this was made for.
    pub fn run(
        &mut self,
        layout: RowLayout<'_, T>,
        x: MultiVectorView<'_, T>,
        mut y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        let rows = layout.rows();
        let k = self.settings.k;
        if x.rows() != layout.cols || y.rows() != rows || x.k() != k || y.k() != k {
            return Err(Error::Usage(format!(
                "a {rows} x {} matrix prepared for k = {k} was given X of {} x {} and Y of {} x {}",
                layout.cols,
                x.rows(),
                x.k(),
                y.rows(),
                y.k()
            )));
        }
        if k == 0 || rows == 0 {
            return Ok(());
        }
        let stream = self.settings.tuning.stream
            && y.leading_dimension() * size_of::<T>() % 64 == 0
            && y.data_mut().as_ptr() as usize % 64 == 0
            && self.slabs.iter().all(|slab| slab.first_column * size_of::<T>() % 64 == 0);
        // Rows of X that do not follow each other rule out the bodies compiled for packed ones.
        if x.leading_dimension() != k {
            return Err(Error::Usage(format!("X has rows {} apart where k = {k} was prepared", x.leading_dimension())));
        }
        let share = Share {
            layout,
            x,
            slabs: &self.slabs,
            longest: self.longest_in_pieces,
            stream,
            prefetch: self.settings.tuning.prefetch,
            fetch_a: self.settings.tuning.fetch_a,
        };
        match &mut self.hubs {
            None => share.pieces(&self.pieces, y),
            Some(hubs) => {
                let Hubs { rows, first_segments, starts, lengths, pieces, partial_sums } = hubs;
                let segments_layout = RowLayout { starts, lengths: Some(lengths), ..layout };
                let count = lengths.len();
                let partial = MultiVectorViewMut::try_new(partial_sums, count, k, k)?;
                let segment_share = Share { layout: segments_layout, longest: usize::MAX, stream: false, ..share };
                let whole_pieces = &self.pieces;
                let (top, _) = y.reborrow().split_at_row(layout.rows());
                rayon::join(
                    || segment_share.ranges(pieces, 0, partial),
                    || share.pieces(whole_pieces, top),
                );
                for (hub, &row) in rows.iter().enumerate() {
                    add_segments(&partial_sums[first_segments[hub] * k..first_segments[hub + 1] * k], y.row_mut(row));
                }
            }
        }
        Ok(())
    }
}

/// Rows of a block whose rows are all equal.
const UNIFORM_BLOCK_ROWS: usize = 64;

/// Work below this is not worth waking another thread for.
const SMALLEST_PIECE_BYTES: usize = 1 << 16;

/// What all pieces of one run share.
#[derive(Clone, Copy)]
struct Share<'a, T: Kernels> {
    layout: RowLayout<'a, T>,
    x: MultiVectorView<'a, T>,
    slabs: &'a [Slab<T>],
    longest: usize,
    stream: bool,
    prefetch: usize,
    fetch_a: bool,
}

impl<T: Kernels> Share<'_, T> {
    /// All pieces, halves of them in parallel; `y` holds their rows and no others.
    fn pieces(&self, pieces: &[Piece], y: MultiVectorViewMut<'_, T>) {
        match pieces {
            [] => {}
            [piece] => self.piece(piece, y),
            _ => {
                let (left, right) = pieces.split_at(pieces.len() / 2);
                let (top, bottom) = y.split_at_row(right[0].rows.start - left[0].rows.start);
                rayon::join(|| self.pieces(left, top), || self.pieces(right, bottom));
            }
        }
    }

    fn piece(&self, piece: &Piece, mut y: MultiVectorViewMut<'_, T>) {
        for slab in self.slabs {
            let rows = || Group::Rows { order: None, targets: None };
            match &piece.taken {
                Taken::Natural => self.compute(slab, piece.rows.clone(), rows(), &mut y),
                Taken::Wave(wave) => {
                    let layout = RowLayout { starts: &wave.starts, lengths: Some(&wave.lengths), ..self.layout };
                    let share = Share { layout, stream: false, ..*self };
                    let group = Group::Rows { order: None, targets: Some(&wave.targets) };
                    share.compute(slab, 0..wave.lengths.len(), group, &mut y);
                }
                Taken::Grouped(grouping) => {
                    let mut begin = [0; 3];
                    for &end in &grouping.window_ends {
                        let identical = &grouping.identical[begin[0]..end[0]];
                        let shifted = &grouping.shifted[begin[1]..end[1]];
                        let singles = &grouping.singles[begin[2]..end[2]];
                        let singles = Group::Rows { order: Some(singles), targets: None };
                        self.compute(slab, piece.rows.clone(), Group::Identical(identical), &mut y);
                        self.compute(slab, piece.rows.clone(), Group::Shifted(shifted), &mut y);
                        self.compute(slab, piece.rows.clone(), singles, &mut y);
                        begin = end;
                    }
                }
            }
        }
    }

    /// Row ranges without an order of their own, halves of them in parallel; `y` starts at row `first`.
    fn ranges(&self, ranges: &[Range<usize>], first: usize, y: MultiVectorViewMut<'_, T>) {
        match ranges {
            [] => {}
            [range] => {
                let mut y = y;
                for slab in self.slabs {
                    let group = Group::Rows { order: None, targets: None };
                    self.compute(slab, range.clone(), group, &mut y);
                }
            }
            _ => {
                let (left, right) = ranges.split_at(ranges.len() / 2);
                let (top, bottom) = y.split_at_row(right[0].start - first);
                rayon::join(|| self.ranges(left, first, top), || self.ranges(right, right[0].start, bottom));
            }
        }
    }

    /// One group of a piece's rows, one slab of their columns; `y` starts at the first row.
    fn compute(&self, slab: &Slab<T>, rows: Range<usize>, group: Group<'_>, y: &mut MultiVectorViewMut<'_, T>) {
        let (body, blocks, order, targets): (Body<T>, &[Block], _, _) = match group {
            Group::Identical(blocks) => (slab.bodies.identical, blocks, None, None),
            Group::Shifted(blocks) => (slab.bodies.shifted, blocks, None, None),
            Group::Rows { order, targets } => (slab.bodies.rows, &[], order, targets),
        };
        let job = RowJob {
            starts: self.layout.starts,
            lengths: self.layout.lengths,
            columns: self.layout.columns,
            values: self.layout.values,
            x: self.x.data()[slab.first_column.min(self.x.data().len())..].as_ptr(),
            x_leading_dimension: self.x.leading_dimension(),
            y_leading_dimension: y.leading_dimension(),
            y: y.data_mut()[slab.first_column..].as_mut_ptr(),
            first_row: rows.start,
            count: order.map_or(rows.len(), <[u32]>::len),
            order,
            blocks,
            longest: self.longest,
            tail_lanes: slab.bodies.tail_lanes,
            stream: self.stream,
            prefetch: self.prefetch,
            fetch_a: self.fetch_a,
            targets,
        };
        // SAFETY: formats are sound by construction (entries inside their arrays, columns inside the matrix), `run`
        // checked that X has a row for every column and both have `k` columns, which the slabs divide; `y` is
        // borrowed for these rows alone. The instructions were detected before they were selected.
        unsafe { body(&job) }
    }
}

/// Rows that one body takes.
enum Group<'a> {
    Rows { order: Option<&'a [u32]>, targets: Option<&'a [u32]> },
    Identical(&'a [Block]),
    Shifted(&'a [Block]),
}

/// The ordered sum of a row's segments, each `row.len()` partial sums.
fn add_segments<T: Kernels>(partial_sums: &[T], row: &mut [T]) {
    let mut parts = partial_sums.chunks_exact(row.len());
    if let Some(first) = parts.next() {
        row.copy_from_slice(first);
    }
    for part in parts {
        for (sum, &value) in row.iter_mut().zip(part) {
            *sum = sum.plus(value);
        }
    }
}

/// Whether every entry of the layout has the same value, bit for bit; -0 is not 0.
fn all_equal<T: Kernels>(layout: RowLayout<'_, T>) -> bool {
    let Some(first) = layout.values.first() else { return false };
    // Padded layouts hold zeros between rows, so they only count as uniform if those are equal too.
    layout.values.par_chunks(1 << 16).all(|part| {
        part.iter().all(|value| bytemuck::bytes_of(value) == bytemuck::bytes_of(first))
    })
}

impl<T: Kernels> Hubs<T> {
    fn collect(layout: RowLayout<'_, T>, k: usize, longest: usize, pieces: usize) -> Result<Option<Self>> {
        let rows: Vec<usize> = (0..layout.rows()).filter(|&row| layout.length(row) > longest).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let mut first_segments = vec![0];
        let mut starts = Vec::new();
        let mut lengths = Vec::new();
        for &row in &rows {
            for (start, length) in segments_of(layout, row) {
                starts.push(start);
                lengths.push(length);
            }
            first_segments.push(starts.len());
        }
        let count = lengths.len();
        let step = count.div_ceil(pieces);
        let pieces = (0..count).step_by(step).map(|begin| begin..(begin + step).min(count)).collect();
        let partial_sums = AlignedBuffer::zeroed(count * k)?;
        Ok(Some(Self { rows, first_segments, starts, lengths, pieces, partial_sums }))
    }
}

