//! Reads compressed coordinate files: one thread decompresses, the pool parses.
//!
//! The decompressor is a separate thread that waits only for a free place in a bounded channel, never for the pool. The
//! pool may therefore wait for it, even with one thread.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use crossbeam::channel::{Receiver, Sender, bounded};
use rayon::prelude::*;

use super::header::Header;
use super::lines::LineBlocks;
use super::{Assembly, Cuts};
use crate::error::{Error, Result};
use crate::matrix::info::Loaded;
use crate::matrix::io::gzip::{Members, most_text_bytes};
use crate::matrix::io::progress::Counted;
use crate::matrix::io::{Progress, ReadOptions, archive, name_of, read_error};
use crate::matrix::scalar::Scalar;
use crate::threads;

/// Bytes of text in a message; each block becomes one part.
const BLOCK_BYTES: usize = 4 << 20;
/// Most blocks in the channel, and most that are parsed together. Decompressing is slower than parsing on a few threads.
const MOST_BLOCKS: usize = 4;

/// A message of the decompressing thread.
enum Message {
    /// The first message: the source for errors, the matrix's name, and the header.
    Head(String, String, Box<Header>),
    /// Whole lines of the body.
    Block(Vec<u8>),
}

/// Reads a gzip-compressed coordinate file, or the matrix of a SuiteSparse archive.
pub(crate) fn read_gzip<T: Scalar>(file: &File, path: &Path, options: &ReadOptions) -> Result<Loaded<T>> {
    let cuts = Cuts { span_bytes: BLOCK_BYTES as u64, block_bytes: BLOCK_BYTES, bucket_entries: 1 << 16 };
    read_gzip_cut(file, path, options, cuts)
}

pub(super) fn read_gzip_cut<T: Scalar>(
    file: &File,
    path: &Path,
    options: &ReadOptions,
    cuts: Cuts,
) -> Result<Loaded<T>> {
    let file_bytes = file.metadata().map_err(|error| Error::read(path, error))?.len();
    std::thread::scope(|scope| {
        let (sender, receiver) = bounded(MOST_BLOCKS);
        let decompressor = std::thread::Builder::new()
            .name("rowloom-gunzip".into())
            .spawn_scoped(scope, move || {
                decompress(file, file_bytes, path, cuts.block_bytes, options.progress, &sender)
            })
            .map_err(threads::refused)?;
        // `parse` consumes the receiver, so a decompressor that still sends stops.
        let parsed = parse(receiver, most_text_bytes(file_bytes), options, cuts);
        let decompressed =
            decompressor.join().unwrap_or_else(|_| Err(Error::Internal("the decompressor panicked".into())));
        match (parsed, decompressed) {
            (Ok(Some(finish)), Ok(())) => finish(),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(None), Ok(())) => Err(Error::Internal("the decompressor sent nothing".into())),
        }
    })
}

type Finish<T> = Box<dyn FnOnce() -> Result<Loaded<T>>>;

/// Parses the blocks that arrive. The matrix is built later, once the decompressor has found no damage.
fn parse<T: Scalar>(
    receiver: Receiver<Message>,
    text_bytes: u64,
    options: &ReadOptions,
    cuts: Cuts,
) -> Result<Option<Finish<T>>> {
    let Ok(Message::Head(source, name, header)) = receiver.recv() else {
        return Ok(None);
    };
    let mut assembly = Assembly::<T>::begin(source, *header, text_bytes, options, cuts)?;
    let batch_blocks = rayon::current_num_threads().min(MOST_BLOCKS);
    loop {
        let mut batch: Vec<Vec<u8>> = Vec::new();
        while batch.len() < batch_blocks
            && let Ok(Message::Block(block)) = receiver.recv()
        {
            batch.push(block);
        }
        if batch.is_empty() {
            return Ok(Some(Box::new(move || assembly.finish(name))));
        }
        let parts: Vec<_> = batch
            .into_par_iter()
            .with_max_len(1)
            .map(|block| {
                let mut parser = assembly.parser();
                parser.parse(&block)?;
                parser.finish()
            })
            .collect();
        for part in parts {
            assembly.add(part)?;
        }
    }
}

fn decompress(
    file: &File,
    file_bytes: u64,
    path: &Path,
    block_bytes: usize,
    progress: Option<Progress<'_>>,
    sender: &Sender<Message>,
) -> Result<()> {
    let source = path.display().to_string();
    let counted = Counted { inner: file, progress };
    let mut members = Members::new(BufReader::with_capacity(256 << 10, counted), most_text_bytes(file_bytes));
    let mut first_bytes = Vec::new();
    (&mut members)
        .take(archive::MAGIC_END as u64)
        .read_to_end(&mut first_bytes)
        .map_err(|error| read_error(path, &source, error))?;
    let is_tar = archive::is_tar(&first_bytes);
    let text = Cursor::new(first_bytes).chain(members);
    if is_tar {
        archive::with_matrix(text, path, |inner, text| {
            send_text(text, path, format!("{source}/{inner}"), name_of(Path::new(inner)), block_bytes, sender)
        })
    } else {
        send_text(text, path, source, name_of(path), block_bytes, sender)
    }
}

/// Sends the header and the blocks. A closed channel is not an error here: the receiver reports its own.
fn send_text(
    text: impl Read,
    path: &Path,
    source: String,
    name: String,
    block_bytes: usize,
    sender: &Sender<Message>,
) -> Result<()> {
    let unreadable = |error| read_error(path, &source, error);
    let mut text = BufReader::with_capacity(64 << 10, text);
    let header = Header::read(&mut text).map_err(|fault| fault.named(&source, unreadable))?;
    if sender.send(Message::Head(source.clone(), name, Box::new(header))).is_err() {
        return Ok(());
    }
    let mut blocks = LineBlocks::new(text, block_bytes);
    loop {
        let mut block = Vec::new();
        if !blocks.next(&mut block).map_err(unreadable)? {
            return Ok(());
        }
        if sender.send(Message::Block(block)).is_err() {
            return Ok(());
        }
    }
}
