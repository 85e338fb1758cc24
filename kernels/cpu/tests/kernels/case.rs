//! A drawn product: rows of A in a layout, X, Y and the options of a job; it runs a body and compares all of Y.

use rowloom_cpu::{Block, Body, FIRST_OF_ROW, RowCopy, RowJob, Scaling};

use crate::draw::Draw;
use crate::guarded::{Guarded, Side};
use crate::real::{Real, assert_bits};
use crate::reference::{Entry, row_sum};
use crate::select::Slab;

/// What values and elements of X are like.
#[derive(Clone, Copy, PartialEq)]
enum Magnitudes {
    /// Of both signs; some values are zero.
    General,
    /// All products are negative and underflow, so that all sums are negative zero.
    Underflow,
}

/// Draws the entries of A.
pub struct Entries<T> {
    magnitudes: Magnitudes,
    /// The value of all entries.
    uniform: Option<T>,
    /// The first column that entries have.
    first_column: u32,
    /// Number of columns that entries have.
    columns: usize,
    /// The column of unused entries; its row of X is NaN.
    unused_column: u32,
}

impl<T: Real> Entries<T> {
    pub fn draw(draw: &Draw, slab: &Slab<T>) -> Self {
        let magnitudes = if draw.one_in(8) { Magnitudes::Underflow } else { Magnitudes::General };
        let columns = 1 + draw.below(20);
        let first_column = draw.below(2) as u32;
        let unused_column = if first_column == 1 { 0 } else { columns as u32 };
        let mut entries = Self { magnitudes, uniform: None, first_column, columns, unused_column };
        if slab.shape.uniform {
            entries.uniform = Some(entries.value(draw));
        }
        entries
    }

    fn value(&self, draw: &Draw) -> T {
        match (self.uniform, self.magnitudes) {
            (Some(value), _) => value,
            (None, Magnitudes::General) if draw.one_in(16) => T::of(draw.pick(&[0.0, -0.0])),
            (None, Magnitudes::General) => T::of(draw.number()),
            (None, Magnitudes::Underflow) => T::of(-T::TINY * draw.number().abs()),
        }
    }

    fn x_element(&self, draw: &Draw) -> T {
        match self.magnitudes {
            Magnitudes::General => T::of(draw.number()),
            Magnitudes::Underflow => T::of(T::TINY * draw.number().abs()),
        }
    }

    /// Rows with identical columns.
    pub fn identical_rows(&self, draw: &Draw, count: usize, length: usize) -> Vec<Vec<Entry<T>>> {
        let columns: Vec<u32> =
            (0..length).map(|_| self.first_column + draw.below(self.columns) as u32).collect();
        (0..count).map(|_| columns.iter().map(|&column| (column, self.value(draw))).collect()).collect()
    }

    /// Rows whose columns are those of the first row plus a constant per row.
    pub fn shifted_rows(&self, draw: &Draw, count: usize, length: usize) -> Vec<Vec<Entry<T>>> {
        let range = 1 + draw.below(self.columns);
        let columns: Vec<u32> = (0..length).map(|_| draw.below(range) as u32).collect();
        let shifted = || {
            let shift = self.first_column + draw.below(self.columns - range + 1) as u32;
            columns.iter().map(|&column| (column + shift, self.value(draw))).collect()
        };
        (0..count).map(|_| shifted()).collect()
    }

    pub fn row(&self, draw: &Draw, length: usize) -> Vec<Entry<T>> {
        self.identical_rows(draw, 1, length).remove(0)
    }
}

/// How the entries of rows are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// One row after the other.
    Contiguous,
    /// With unused entries between rows.
    Gaps,
    /// Entries of this many rows interleaved.
    Interleaved(usize),
}

/// The rows that a job computes.
#[derive(Debug)]
pub enum Work<'a> {
    /// All rows, or those of the order.
    Rows(Option<&'a [u32]>),
    /// All rows, added to their targets.
    Segments(&'a [u32]),
    /// The rows of blocks.
    Blocks(&'a [Block]),
}

/// The options of a job.
pub struct Options<T> {
    /// Rows of the layout before those of the job.
    pub first_row: usize,
    pub scaling: Option<Scaling<T>>,
    pub stream: bool,
    pub prefetch: usize,
    pub longest: usize,
    /// Whether rows are stored to a copy too, which segments of rows do not have.
    pub copies: bool,
}

impl<T: Real> Options<T> {
    pub fn draw(draw: &Draw) -> Self {
        let alpha = draw.pick(&[1.0, -1.0, 0.0, draw.number()]);
        let beta = draw.pick(&[0.0, 1.0, -0.0, draw.number()]);
        Self {
            first_row: draw.below(3),
            scaling: draw.one_in(2).then_some(Scaling { alpha: T::of(alpha), beta: T::of(beta) }),
            stream: draw.one_in(3),
            prefetch: draw.pick(&[0, 1, 8, 5000]),
            longest: draw.pick(&[usize::MAX, usize::MAX, 256, 300, 1024]),
            copies: draw.one_in(3),
        }
    }
}

/// The arrays of A.
struct Storage<T> {
    starts: Guarded<u64>,
    lengths: Option<Guarded<u32>>,
    columns: Guarded<u32>,
    values: Guarded<T>,
    stride: usize,
}

/// Stores rows; rows of `joined` follow the row before them without a gap.
fn store<T: Real>(
    draw: &Draw,
    slab: &Slab<T>,
    entries: &Entries<T>,
    rows: &[Vec<Entry<T>>],
    joined: &[usize],
    layout: Layout,
) -> Storage<T> {
    let unused = (entries.unused_column, T::of(f64::NAN));
    let mut stored = vec![unused; draw.below(3)];
    let mut starts = Vec::new();
    let stride = if let Layout::Interleaved(stride) = layout { stride } else { 1 };
    for (slice, group) in rows.chunks(stride).enumerate() {
        if layout == Layout::Gaps && !joined.contains(&slice) {
            stored.resize(stored.len() + draw.below(3), unused);
        }
        let start = stored.len();
        let longest = group.iter().map(Vec::len).max().unwrap_or(0);
        stored.resize(start + longest * stride, unused);
        for (lane, row) in group.iter().enumerate() {
            starts.push((start + lane) as u64);
            row.iter()
                .enumerate()
                .for_each(|(offset, &entry)| stored[start + lane + offset * stride] = entry);
        }
    }
    let lengths =
        (layout != Layout::Contiguous).then(|| rows.iter().map(|row| row.len() as u32).collect::<Vec<_>>());
    if lengths.is_none() {
        starts.push(stored.len() as u64);
    }
    let columns: Vec<u32> = stored.iter().map(|entry| entry.0).collect();
    let mut values: Vec<T> = stored.iter().map(|entry| entry.1).collect();
    if slab.reads_one_value() {
        values.fill(T::of(f64::NAN));
        values.resize(values.len().max(1), T::of(f64::NAN));
        values[0] = entries.uniform.unwrap_or(unused.1);
    }
    let side = draw.pick(&[Side::Start, Side::End]);
    Storage {
        starts: Guarded::of(&starts, side),
        lengths: lengths.map(|lengths| Guarded::of(&lengths, side)),
        columns: Guarded::of(&columns, side),
        values: Guarded::of(&values, side),
        stride,
    }
}

/// Runs `body` on drawn X and Y and compares all of Y with the reference. `rows` are all rows of the layout, of which the job has
/// those from `options.first_row` on.
#[allow(clippy::too_many_arguments)] // the parts of a case, which tests draw one by one
pub fn check<T: Real>(
    draw: &Draw,
    slab: &Slab<T>,
    entries: &Entries<T>,
    rows: &[Vec<Entry<T>>],
    (layout, joined): (Layout, &[usize]),
    options: &Options<T>,
    body: Body<T>,
    work: Work<'_>,
) {
    let width = slab.shape.width;
    let storage = store(draw, slab, entries, rows, joined, layout);
    let ldx = if slab.shape.packed { width } else { width + draw.pick(&[0, 1, 1 + draw.below(20)]) };
    let mut x = Guarded::new(entries.columns * ldx + width, draw.pick(&[Side::Start, Side::End]));
    for column in 0..=entries.columns {
        if column as u32 != entries.unused_column {
            let row = &mut x[column * ldx..][..width];
            row.iter_mut().for_each(|element| *element = entries.x_element(draw));
        }
    }

    let count = rows.len() - options.first_row;
    let y_rows = match work {
        Work::Segments(targets) => {
            targets.iter().map(|target| (target & !FIRST_OF_ROW) as usize + 1).max().unwrap_or(0)
        }
        _ => count,
    };
    let line = 64 / size_of::<T>();
    let ldy = if options.stream {
        width.next_multiple_of(line)
    } else {
        width + draw.pick(&[0, 1, 1 + draw.below(20)])
    };
    let side = draw.pick(&[Side::Start, Side::End]);
    let y_count = match (y_rows, side) {
        (0, _) => 0,
        // So that the rows are aligned.
        (_, Side::End) if options.stream => y_rows * ldy,
        _ => (y_rows - 1) * ldy + width,
    };
    let mut y = Guarded::new(y_count, side);
    let reads_old = options.scaling.is_some_and(|scaling| scaling.beta != T::of(0.0));
    if reads_old && !matches!(work, Work::Segments(_)) {
        y.chunks_mut(ldy).for_each(|row| row[..width].iter_mut().for_each(|y| *y = T::of(draw.number())));
    }

    // The copy has rows before those of the job.
    let copy_first = draw.below(options.first_row + 1);
    let copy_distance = width + draw.below(20);
    let mut copy = Guarded::<T>::new((options.first_row - copy_first + count) * copy_distance, Side::End);
    let copies = options.copies && !matches!(work, Work::Segments(_));
    let mut expected_copy = copy.to_vec();

    let mut expected = y.to_vec();
    let sums =
        |row: usize| row_sum(&rows[options.first_row + row], width, |column, k| x[column as usize * ldx + k]);
    let mut finish = |row: usize| {
        for (y, sum) in expected[row * ldy..][..width].iter_mut().zip(sums(row)) {
            *y = match options.scaling {
                None => sum,
                Some(Scaling { alpha, beta }) if beta == T::of(0.0) => alpha.product(sum),
                Some(Scaling { alpha, beta }) => beta.fma(*y, alpha.product(sum)),
            };
        }
        if copies {
            let at = (options.first_row - copy_first + row) * copy_distance;
            expected_copy[at..][..width].copy_from_slice(&expected[row * ldy..][..width]);
        }
    };
    let is_computed = |row: &usize| rows[options.first_row + row].len() <= options.longest;
    match &work {
        Work::Rows(None) => (0..count).filter(is_computed).for_each(finish),
        Work::Rows(Some(order)) => order.iter().map(|&row| row as usize).filter(is_computed).for_each(finish),
        Work::Blocks(blocks) => {
            let rows =
                blocks.iter().flat_map(|block| (0..block.count).map(|row| (block.leader + row) as usize));
            rows.for_each(&mut finish);
        }
        Work::Segments(targets) => {
            for row in 0..count {
                let target = targets[options.first_row + row];
                let y = &mut expected[(target & !FIRST_OF_ROW) as usize * ldy..][..width];
                for (y, sum) in y.iter_mut().zip(sums(row)) {
                    *y = if target & FIRST_OF_ROW != 0 { sum } else { y.sum(sum) };
                }
            }
        }
    }

    let (order, targets, blocks) = match work {
        Work::Rows(order) => (order, None, &[][..]),
        Work::Segments(targets) => (None, Some(targets), &[][..]),
        Work::Blocks(blocks) => (None, None, blocks),
    };
    let job = RowJob {
        starts: &storage.starts,
        lengths: storage.lengths.as_deref(),
        columns: &storage.columns,
        values: &storage.values,
        stride: storage.stride,
        x: x.as_ptr(),
        x_leading_dimension: ldx,
        y: y.as_mut_ptr(),
        y_leading_dimension: ldy,
        first_row: options.first_row,
        count: order.map_or(count, <[u32]>::len),
        order,
        blocks,
        longest: options.longest,
        tail_lanes: slab.bodies.tail_lanes,
        scaling: options.scaling,
        stream: options.stream,
        prefetch: options.prefetch,
        targets,
        copy: copies.then_some(RowCopy {
            to: copy.as_mut_ptr(),
            first_row: copy_first,
            leading_dimension: copy_distance,
        }),
    };
    // SAFETY: entries, X, Y and the copy are as the contract of the job says; `instruction_sets` are those of the processor.
    unsafe { body(&job) };
    rowloom_cpu::fence_streams();
    let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
    let what = format!(
        "{:?}, {layout:?}, rows of {lengths:?} from {} on, leading dimensions {ldx} and {ldy}, {:?}, stream {}, {work_name}",
        slab.shape,
        options.first_row,
        options.scaling,
        options.stream,
        work_name = if blocks.is_empty() { "rows" } else { "blocks" },
    );
    assert_bits(&y, &expected, &what);
    assert!(y.is_intact(), "{what}: a write outside Y");
    assert_bits(
        &copy,
        &expected_copy,
        &format!("copy from row {copy_first} on, {copy_distance} apart: {what}"),
    );
    assert!(copy.is_intact(), "{what}: a write outside the copy");
}
