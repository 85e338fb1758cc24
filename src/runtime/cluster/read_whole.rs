//! Formats that only one reader can read, from their beginning: rank 0 reads the whole matrix and sends the other ranks their rows.
//!
//! Rank 0 holds all of A until the rows are sent. A cache, of which each rank reads its own rows, needs less memory and time; a note
//! says so. A damaged file is the error of a single process on all ranks. Collective.

use std::ops::Range;

use super::agreement::{agree, share, share_numbers};
use super::division::Division;
use super::rank_matrix::{RankMatrix, own_rows};
use crate::device::network::Communicator;
use crate::error::{Error, Place, Result};
use crate::matrix::array::AlignedBuffer;
use crate::matrix::io::{Input, ReadOptions, read_input};
use crate::matrix::{Csr, CsrView, Loaded, MatrixInfo, Scalar};

/// Bytes of rows that rank 0 sends to a rank at once.
const ROUND_BYTES: usize = 16 << 20;

/// What all ranks know of the matrix before its rows arrive.
#[derive(serde::Serialize, serde::Deserialize)]
struct Description {
    cols: u64,
    info: MatrixInfo,
    notes: Vec<String>,
}

/// The rows of this rank of a file that rank 0 reads.
pub fn read_whole<T: Scalar>(
    ranks: &dyn Communicator,
    input: &Input,
    division: &Division,
    options: &ReadOptions,
) -> Result<RankMatrix<T>> {
    let read = if ranks.rank() == 0 { read_input::<T>(input, options).map(Some) } else { Ok(None) };
    let (whole, description) = match agree_on_file(ranks, read)? {
        Some(Loaded { matrix, info, mut notes }) => {
            notes.push(
                "rank 0 read the whole file; ranks read their own rows of a .rlm file, which is faster"
                    .into(),
            );
            let cols = matrix.cols() as u64;
            (Some(matrix), Some(Description { cols, info, notes }))
        }
        None => (None, None),
    };
    let missing = || Error::Internal("rank 0 described no matrix".into());
    let Description { cols, info, notes } =
        share(ranks, &description)?.into_iter().next().flatten().ok_or_else(missing)?;
    let view = whole.as_ref().map(Csr::view);
    let (boundaries, nonzeros) = boundaries(ranks, view, division)?;
    let rank = ranks.rank();
    let own = own_rows(&boundaries, rank);
    let count = |rank: usize| nonzeros.get(rank).copied().unwrap_or(0) as usize;
    let allocated = Rows::<T>::new((own.end - own.start) as usize, count(rank), input, options);
    let mut rows = agree(ranks, allocated)?;
    // As many rounds as the longest message takes.
    let lengths = (0..ranks.size()).map(|rank| {
        let rows = own_rows(&boundaries, rank);
        Rows::<T>::bytes((rows.end - rows.start) as usize, count(rank))
    });
    let longest = lengths.max().unwrap_or(0);
    for begin in (0..longest).step_by(ROUND_BYTES) {
        let message = |rank: usize| match view {
            Some(view) => part(&view, own_rows(&boundaries, rank), begin..begin + ROUND_BYTES),
            None => Vec::new(),
        };
        let arrived = ranks.all_to_all((0..ranks.size()).map(message).collect())?;
        rows.fill(begin, arrived.first().map_or(&[][..], Vec::as_slice));
    }
    drop(whole);
    let matrix = agree(ranks, rows.build(cols as usize))?;
    let nnz = nonzeros.iter().sum();
    Ok(RankMatrix { matrix, boundaries, nnz, info, notes, cache: None })
}

/// `read`, if rank 0 could read the file. A damaged file is the same error on all ranks, which names no rank.
fn agree_on_file<R>(ranks: &dyn Communicator, read: Result<R>) -> Result<R> {
    let damage = match &read {
        Err(Error::Input { place, reason }) => {
            Some((place.source.clone(), place.line, place.column, reason.clone()))
        }
        _ => None,
    };
    match share(ranks, &damage)?.into_iter().next().flatten() {
        Some((source, line, column, reason)) => Err(Error::input(Place { source, line, column }, reason)),
        None => agree(ranks, read),
    }
}

/// The first row of each rank and the number of rows, and the nonzeros of each rank, as rank 0 says.
fn boundaries<T: Scalar>(
    ranks: &dyn Communicator,
    whole: Option<CsrView<'_, T>>,
    division: &Division,
) -> Result<(Vec<u64>, Vec<u64>)> {
    let (mut boundaries, mut nonzeros) = (Vec::new(), Vec::new());
    if let Some(view) = whole {
        let before = |row: u64| view.row_pointers().get(row as usize).copied().unwrap_or(0);
        boundaries = division.boundaries(view.rows() as u64, |row| row, before);
        nonzeros = boundaries.windows(2).map(|ends| before(ends[1]) - before(ends[0])).collect();
    }
    let boundaries = share_numbers(ranks, &boundaries)?.swap_remove(0);
    Ok((boundaries, share_numbers(ranks, &nonzeros)?.swap_remove(0)))
}

/// The bytes `wanted` of the message with rows of a matrix: their row pointers, columns and values.
fn part<T: Scalar>(view: &CsrView<'_, T>, rows: Range<u64>, wanted: Range<usize>) -> Vec<u8> {
    let pointers = &view.row_pointers()[rows.start as usize..=rows.end as usize];
    let entries = pointers[0] as usize..pointers[pointers.len() - 1] as usize;
    let sections: [&[u8]; 3] = [
        bytemuck::cast_slice(pointers),
        bytemuck::cast_slice(&view.columns()[entries.clone()]),
        bytemuck::cast_slice(&view.values()[entries]),
    ];
    let (mut message, mut first) = (Vec::new(), 0);
    for section in sections {
        let clipped = |at: usize| at.clamp(first, first + section.len()) - first;
        message.extend_from_slice(&section[clipped(wanted.start)..clipped(wanted.end)]);
        first += section.len();
    }
    message
}

/// The arrays of the rows of a rank, which arrive in parts.
struct Rows<T: Scalar> {
    pointers: AlignedBuffer<u64>,
    columns: AlignedBuffer<u32>,
    values: AlignedBuffer<T>,
}

impl<T: Scalar> Rows<T> {
    fn bytes(rows: usize, nonzeros: usize) -> usize {
        8 * (rows + 1) + (4 + size_of::<T>()) * nonzeros
    }

    fn new(rows: usize, nonzeros: usize, input: &Input, options: &ReadOptions) -> Result<Self> {
        let needed_bytes = Self::bytes(rows, nonzeros) as u64;
        if needed_bytes > options.memory_limit_bytes {
            return Err(Error::DoesNotFit {
                what: format!("{}: {rows} rows of a rank", input.path.display()),
                needed_bytes,
                limit_bytes: options.memory_limit_bytes,
                advice: "use more ranks or a smaller matrix".into(),
            });
        }
        Ok(Self {
            pointers: AlignedBuffer::zeroed(rows + 1)?,
            columns: AlignedBuffer::zeroed(nonzeros)?,
            values: AlignedBuffer::zeroed(nonzeros)?,
        })
    }

    /// Stores the bytes of the message from `begin` on.
    fn fill(&mut self, begin: usize, bytes: &[u8]) {
        let sections: [&mut [u8]; 3] = [
            bytemuck::cast_slice_mut(&mut self.pointers),
            bytemuck::cast_slice_mut(&mut self.columns),
            bytemuck::cast_slice_mut(&mut self.values),
        ];
        let end = begin + bytes.len();
        let mut first = 0;
        for section in sections {
            let clipped = |at: usize| at.clamp(first, first + section.len());
            let (from, to) = (clipped(begin), clipped(end));
            if from < to {
                section[from - first..to - first].copy_from_slice(&bytes[from - begin..to - begin]);
            }
            first += section.len();
        }
    }

    /// The matrix of the rows.
    fn build(mut self, cols: usize) -> Result<Csr<T>> {
        let first = self.pointers.first().copied().unwrap_or(0);
        self.pointers.iter_mut().for_each(|pointer| *pointer = pointer.saturating_sub(first));
        Csr::try_new(self.pointers.len() - 1, cols, self.pointers, self.columns, self.values)
    }
}
