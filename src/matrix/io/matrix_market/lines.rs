//! Divides text from any reader into blocks of whole lines, with bounded memory.
//!
//! Every block ends with a line feed (the last line gets one if it has none), and the number of lines is preserved. A
//! comment longer than a block is shortened. Any other line of that length is cut off; it is still longer than
//! [`LONGEST_LINE`], which its reader refuses.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use memchr::{memchr, memrchr};

/// Most bytes of an entry, banner or size line: enough for three numbers and blanks.
pub const LONGEST_LINE: usize = 4096;

const READ_BYTES: usize = 64 << 10;

/// Blanks that may stand between the words of a line. A carriage return is one only at a line's end.
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Whether the first word of a line starts a comment.
pub fn is_comment(line: &[u8]) -> bool {
    line.iter().find(|byte| !is_blank(**byte)) == Some(&b'%')
}

/// Blocks of whole lines of a reader.
pub struct LineBlocks<R> {
    reader: R,
    block_bytes: usize,
    /// The start of a line whose end is not read yet.
    carry: Vec<u8>,
    ended: bool,
}

impl<R: Read> LineBlocks<R> {
    /// Blocks of about `block_bytes` each.
    pub fn new(reader: R, block_bytes: usize) -> Self {
        Self { reader, block_bytes: block_bytes.max(1), carry: Vec::new(), ended: false }
    }

    /// Replaces `block` with the next lines; `false` when there are none left.
    pub fn next(&mut self, block: &mut Vec<u8>) -> io::Result<bool> {
        block.clear();
        block.append(&mut self.carry);
        loop {
            if block.len() >= self.block_bytes || self.ended {
                if let Some(last) = memrchr(b'\n', block) {
                    self.carry.extend_from_slice(&block[last + 1..]);
                    block.truncate(last + 1);
                    return Ok(true);
                }
                if self.ended {
                    if block.is_empty() {
                        return Ok(false);
                    }
                    block.push(b'\n');
                    return Ok(true);
                }
                if block.len() > LONGEST_LINE {
                    if !is_comment(block) {
                        block.push(b'\n');
                        return Ok(true);
                    }
                    self.skip_rest_of_comment(block)?;
                }
            }
            self.fill(block)?;
        }
    }

    fn fill(&mut self, block: &mut Vec<u8>) -> io::Result<()> {
        let old = block.len();
        let wanted = self.block_bytes.saturating_sub(old).clamp(1, READ_BYTES);
        block.resize(old + wanted, 0);
        let outcome = loop {
            match self.reader.read(&mut block[old..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => break outcome,
            }
        };
        block.truncate(old + outcome.as_ref().map_or(0, |count| *count));
        self.ended = outcome? == 0;
        Ok(())
    }

    /// Shortens a comment to its first character and its line feed; keeps the text after it.
    fn skip_rest_of_comment(&mut self, block: &mut Vec<u8>) -> io::Result<()> {
        while !self.ended {
            block.clear();
            self.fill(block)?;
            if let Some(end) = memchr(b'\n', block) {
                block.drain(..end);
                break;
            }
        }
        block.insert(0, b'%');
        Ok(())
    }
}

/// A range of a file, read at its own position, so that threads can share the file.
pub struct FileRange<'a> {
    /// The file.
    pub file: &'a File,
    /// Where the next read starts.
    pub position: u64,
    /// Where the range ends.
    pub end: u64,
}

impl Read for FileRange<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.end - self.position).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.file.read_at(&mut buffer[..wanted], self.position)?;
        if count == 0 {
            let reason = "the file became shorter while it was read; read it again when it is complete";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        self.position += count as u64;
        Ok(count)
    }
}

/// Divides a range of a file into spans of about `span_bytes` that start at line starts; returns all starts, and the end.
///
/// A span may be longer if its lines are. Every byte belongs to exactly one span, and is read at most once here.
pub fn spans(file: &File, start: u64, end: u64, span_bytes: u64) -> io::Result<Vec<u64>> {
    let mut starts = vec![start];
    let mut buffer = vec![0; 4096];
    let mut boundary = start.saturating_add(span_bytes.max(1));
    while boundary < end {
        let next = boundary.saturating_add(span_bytes.max(1)).min(end);
        // A line starts at the boundary if the byte before it ends one.
        let mut range = FileRange { file, position: boundary - 1, end: next - 1 };
        loop {
            let position = range.position;
            let count = range.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            if let Some(found) = memchr(b'\n', &buffer[..count]) {
                starts.push(position + found as u64 + 1);
                break;
            }
        }
        boundary = next;
    }
    starts.push(end);
    Ok(starts)
}

/// The first start of a line at or after `at`; `end` if there is none before it. `at` must not be zero.
pub fn line_start(file: &File, at: u64, end: u64) -> io::Result<u64> {
    // A line starts at a byte if the byte before it ends one.
    let mut range = FileRange { file, position: at.saturating_sub(1).min(end), end };
    let mut buffer = vec![0; 4096];
    loop {
        let position = range.position;
        let count = range.read(&mut buffer)?;
        if count == 0 {
            return Ok(end);
        }
        if let Some(found) = memchr(b'\n', &buffer[..count]) {
            return Ok((position + found as u64 + 1).min(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all_blocks(text: &[u8], block_bytes: usize) -> Vec<u8> {
        let mut blocks = LineBlocks::new(text, block_bytes);
        let (mut block, mut all) = (Vec::new(), Vec::new());
        while blocks.next(&mut block).unwrap() {
            assert_eq!(block.last(), Some(&b'\n'));
            all.extend_from_slice(&block);
        }
        all
    }

    #[test]
    fn blocks_of_any_size_give_the_text_back() {
        let text = b"1 1 2.5\n\n% comment\n2 2 3\n3 3";
        for block_bytes in 1..40 {
            assert_eq!(all_blocks(text, block_bytes), [&text[..], b"\n"].concat());
        }
        assert_eq!(all_blocks(b"", 5), b"");
        assert_eq!(all_blocks(b"\n", 5), b"\n");
    }

    #[test]
    fn a_long_comment_is_shortened_to_one_line() {
        for tail in [&b""[..], b"\n", b"\n1 1 1\n", b"\n% a\n1 1 1"] {
            let text = [b"first\n %", &vec![b'x'; 5 << 20][..], tail].concat();
            let short = all_blocks(&text, 1 << 12);
            assert!(short.len() < 1 << 14);
            let lines =
                |text: &[u8]| text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
            assert_eq!(lines(&short), lines(&text));
            assert!(short.strip_suffix(b"\n").unwrap().ends_with(tail.strip_suffix(b"\n").unwrap_or(tail)));
        }
    }

    #[test]
    fn any_other_long_line_ends_up_over_the_limit() {
        let text = vec![b'1'; 1 << 20];
        let mut block = Vec::new();
        assert!(LineBlocks::new(&text[..], 100).next(&mut block).unwrap());
        assert!(block.len() > LONGEST_LINE && block.len() < 2 * LONGEST_LINE);
    }

    #[test]
    fn spans_start_at_lines_and_lose_no_byte() {
        let text = b"head\n1 1\n\n22 22 3.5\n% a longer line of comment\n5 5\nlast";
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        for span_bytes in 1..60 {
            let starts = spans(&file, 5, text.len() as u64, span_bytes).unwrap();
            assert_eq!((starts[0], *starts.last().unwrap()), (5, text.len() as u64));
            assert!(starts.is_sorted_by(|a, b| a < b), "{span_bytes}: {starts:?}");
            assert!(starts[1..starts.len() - 1].iter().all(|start| text[*start as usize - 1] == b'\n'));
            if span_bytes == 1 {
                assert_eq!(starts.len() - 1, text[5..].split(|byte| *byte == b'\n').count());
            }
        }
    }

    #[test]
    fn a_file_cut_while_it_is_read_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"1 1 1\n").unwrap();
        let mut text = Vec::new();
        let error = FileRange { file: &file, position: 0, end: 100 }.read_to_end(&mut text).unwrap_err();
        assert!(error.to_string().contains("shorter"));
    }
}
