//! Distributed output: all ranks write their rows of Y to one temporary file, which is renamed once; and the hash of all rows.
//!
//! All functions are collective. No rank holds the rows of others, beyond one bounded piece at a time for the hash.

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use super::agreement::{agree, share, share_numbers};
use crate::device::network::Communicator;
use crate::error::{Error, Result};
use crate::files::MARK;
use crate::files::shared::SharedFile;
use crate::matrix::io::npy;
use crate::matrix::{MultiVectorView, Scalar};

/// Bytes that are written, or sent to be hashed, at once.
const PIECE_BYTES: usize = 4 << 20;
/// Lines that are formatted at once.
const BLOCK_LINES: usize = 1 << 16;

/// The format of a file of Y.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsFormat {
    /// NumPy's `.npy`, with one dimension where that is asked for and Y has one column.
    Npy {
        /// Whether one dimension is asked for.
        one_dimensional: bool,
    },
    /// A Matrix Market array.
    MatrixMarket,
}

/// Writes the rows of all ranks, in the order of ranks, to `path`. `rows` are those of this rank.
pub fn write_rows<T: Scalar>(
    ranks: &dyn Communicator,
    path: &Path,
    rows: MultiVectorView<'_, T>,
    format: RowsFormat,
) -> Result<()> {
    let counts = share_numbers(ranks, &[rows.rows() as u64])?;
    let first: u64 = counts.iter().take(ranks.rank()).flatten().sum();
    let all: u64 = counts.iter().flatten().sum();
    let created = if ranks.rank() == 0 { SharedFile::create(path).map(Some) } else { Ok(None) };
    let created = agree(ranks, created)?;
    let name = created.as_ref().map(|file| file.temporary().to_path_buf());
    let temporary: Option<PathBuf> = share(ranks, &name)?.swap_remove(0);
    let joined = match (created, temporary) {
        (Some(file), _) => Ok(file),
        (None, Some(temporary)) => SharedFile::join(path, &temporary),
        (None, None) => Err(Error::Internal("rank 0 created no file".into())),
    };
    let file = agree(ranks, joined)?;
    let written = match format {
        RowsFormat::Npy { one_dimensional } => {
            let head = npy::array_header::<T>(all, rows.k() as u64, one_dimensional);
            write_values(&file, &head, first, rows, ranks.rank() == 0)
        }
        RowsFormat::MatrixMarket => {
            let head = format!("%%MatrixMarket matrix array real general\n% {MARK}\n{all} {}\n", rows.k());
            write_lines(ranks, &file, &head, rows)?
        }
    };
    // Only now is every byte on the disk.
    agree(ranks, written.and_then(|()| file.sync()))?;
    agree(ranks, file.commit())
}

fn write_values<T: Scalar>(
    file: &SharedFile,
    head: &[u8],
    first: u64,
    rows: MultiVectorView<'_, T>,
    writes_head: bool,
) -> Result<()> {
    if writes_head {
        file.write_at(0, head)?;
    }
    let row_bytes = (rows.k() * size_of::<T>()) as u64;
    let per_piece = (PIECE_BYTES as u64 / row_bytes.max(1)).max(1) as usize;
    let starts: Vec<usize> = (0..rows.rows()).step_by(per_piece).collect();
    starts.into_par_iter().try_for_each(|start| {
        let end = rows.rows().min(start + per_piece);
        let piece: Vec<u8> =
            (start..end).flat_map(|row| bytemuck::cast_slice::<T, u8>(rows.row(row))).copied().collect();
        file.write_at(head.len() as u64 + (first + start as u64) * row_bytes, &piece)
    })
}

/// The text of some rows of a column.
fn lines<T: Scalar>(rows: MultiVectorView<'_, T>, column: usize, range: Range<usize>) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    for row in range {
        writeln!(text, "{:?}", rows.row(row)[column]).map_err(|error| Error::Internal(error.to_string()))?;
    }
    Ok(text)
}

/// Writes an array column by column. Each rank formats its rows twice: the first time for the lengths, from which all offsets follow.
fn write_lines<T: Scalar>(
    ranks: &dyn Communicator,
    file: &SharedFile,
    head: &str,
    rows: MultiVectorView<'_, T>,
) -> Result<Result<()>> {
    let blocks = |column: usize| {
        (0..rows.rows())
            .step_by(BLOCK_LINES)
            .map(move |start| (column, start..rows.rows().min(start + BLOCK_LINES)))
    };
    let blocks: Vec<(usize, Range<usize>)> = (0..rows.k()).flat_map(blocks).collect();
    let lengths: Vec<Result<u64>> = blocks
        .par_iter()
        .map(|(column, range)| lines(rows, *column, range.clone()).map(|text| text.len() as u64))
        .collect();
    let lengths = agree(ranks, lengths.into_iter().collect::<Result<Vec<u64>>>())?;
    let mut by_column = vec![0; rows.k()];
    blocks.iter().zip(&lengths).for_each(|((column, _), length)| by_column[*column] += length);
    let all = share_numbers(ranks, &by_column)?;
    let length = |rank: usize, column: usize| all[rank].get(column).copied().unwrap_or(0);
    let mut offset = head.len() as u64;
    let mut starts = Vec::with_capacity(rows.k());
    for column in 0..rows.k() {
        starts.push(offset + (0..ranks.rank()).map(|rank| length(rank, column)).sum::<u64>());
        offset += (0..ranks.size()).map(|rank| length(rank, column)).sum::<u64>();
    }
    let placed: Vec<(u64, &(usize, Range<usize>))> = blocks
        .iter()
        .zip(&lengths)
        .map(|(block, length)| {
            let start = &mut starts[block.0];
            *start += length;
            (*start - length, block)
        })
        .collect();
    let head_written = if ranks.rank() == 0 { file.write_at(0, head.as_bytes()) } else { Ok(()) };
    Ok(head_written.and_then(|()| {
        placed
            .into_par_iter()
            .try_for_each(|(at, (column, range))| file.write_at(at, &lines(rows, *column, range.clone())?))
    }))
}

/// The xxh3 hash of the rows of all ranks, in the order of ranks: on rank 0 the hash, elsewhere nothing. Rows go to rank 0 in pieces and
/// are not kept there.
pub fn hash_rows<T: Scalar>(ranks: &dyn Communicator, rows: MultiVectorView<'_, T>) -> Result<Option<u64>> {
    let row_bytes = rows.k() * size_of::<T>();
    let per_piece = (PIECE_BYTES / row_bytes.max(1)).max(1);
    let counts = share_numbers(ranks, &[rows.rows() as u64])?;
    let mut hash = Xxh3::new();
    if ranks.rank() == 0 {
        (0..rows.rows()).for_each(|row| hash.update(bytemuck::cast_slice(rows.row(row))));
    }
    for rank in 1..ranks.size() {
        let count = counts[rank].first().copied().unwrap_or(0) as usize;
        for start in (0..count).step_by(per_piece) {
            let mut messages = vec![Vec::new(); ranks.size()];
            if ranks.rank() == rank {
                let piece = start..count.min(start + per_piece);
                messages[0] =
                    piece.flat_map(|row| bytemuck::cast_slice::<T, u8>(rows.row(row))).copied().collect();
            }
            let arrived = ranks.all_to_all(messages)?;
            if ranks.rank() == 0 {
                hash.update(&arrived[rank]);
            }
        }
    }
    Ok((ranks.rank() == 0).then(|| hash.digest()))
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::device::network::on_thread_ranks;
    use crate::matrix::MultiVector;
    use crate::matrix::io::write::write_array;

    #[test]
    fn ranks_write_the_bytes_and_have_the_hash_of_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let (rows, k) = (301, 3);
        let y = MultiVector::<f64>::random(rows, k, 5).unwrap();
        let (npy_path, mtx_path) = (folder.path().join("one.npy"), folder.path().join("one.mtx"));
        npy::write_npy(&npy_path, &y, false).unwrap();
        write_array(&mtx_path, &y).unwrap();
        let expected_hash = xxhash_rust::xxh3::xxh3_64(bytemuck::cast_slice(y.data()));
        for size in 1..=5 {
            let own = |rank: usize| {
                let edge =
                    |rank: usize| if size == 4 { [0, 0, 200, 200, rows][rank] } else { rows * rank / size };
                y.view().rows_in(edge(rank)..edge(rank + 1))
            };
            for (name, format, expected) in [
                ("y.npy", RowsFormat::Npy { one_dimensional: false }, &npy_path),
                ("y.mtx", RowsFormat::MatrixMarket, &mtx_path),
            ] {
                let path = folder.path().join(name);
                for written in
                    on_thread_ranks(size, |ranks| write_rows(ranks, &path, own(ranks.rank()), format))
                {
                    written.unwrap();
                }
                assert!(
                    std::fs::read(&path).unwrap() == std::fs::read(expected).unwrap(),
                    "{name} of {size} ranks"
                );
            }
            let hashes = on_thread_ranks(size, |ranks| hash_rows(ranks, own(ranks.rank())).unwrap());
            assert_eq!(hashes[0], Some(expected_hash));
            assert!(hashes[1..].iter().all(Option::is_none));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_folder_that_accepts_no_file_is_one_error_on_all_ranks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/y.npy");
        let y = MultiVector::<f64>::zeros(2, 1).unwrap();
        let format = RowsFormat::Npy { one_dimensional: true };
        for outcome in on_thread_ranks(3, |ranks| write_rows(ranks, &path, y.view(), format)) {
            let error = outcome.unwrap_err();
            assert_eq!(error.exit_code(), 1);
            assert!(error.to_string().contains("y.npy"), "{error}");
        }
    }
}
