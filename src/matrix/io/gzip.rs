//! Reads the text of a gzip file. Several members read as one; any damage is an error.
//!
//! Truncated data, a wrong checksum, bytes after the last member and excessive expansion each give an `InvalidData` error
//! with its own message.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// Largest accepted ratio of text to compressed bytes. Real matrices reach 3 to 20; deflate reaches 1000 only for data made
/// to exhaust memory.
pub(super) const MOST_EXPANSION: u64 = 256;
/// Text that is accepted at any ratio.
const ALWAYS_ALLOWED_BYTES: u64 = 64 << 20;

/// Most bytes of text that are accepted from a gzip file of this size.
pub fn most_text_bytes(file_bytes: u64) -> u64 {
    file_bytes.saturating_mul(MOST_EXPANSION).max(ALWAYS_ALLOWED_BYTES)
}

/// Reads the members of a gzip file one after the other.
pub struct Members<R> {
    decoder: Option<GzDecoder<R>>,
    allowed_bytes: u64,
}

impl<R: BufRead> Members<R> {
    /// The text of `reader`, of which at most `allowed_bytes` are accepted.
    pub fn new(reader: R, allowed_bytes: u64) -> Self {
        Self { decoder: Some(GzDecoder::new(reader)), allowed_bytes }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let count = decoder.read(buffer).map_err(as_damage)?;
            if count > 0 || buffer.is_empty() {
                self.allowed_bytes = self.allowed_bytes.checked_sub(count as u64).ok_or_else(|| {
                    damage(format!(
                        "the gzip data expands more than {MOST_EXPANSION} times; if you trust it, decompress it \
                         and read the plain file"
                    ))
                })?;
                return Ok(count);
            }
            // The member has ended and its checksum agrees; only another member may follow.
            if let Some(mut reader) = self.decoder.take().map(GzDecoder::into_inner) {
                match reader.fill_buf()?.first() {
                    None => {}
                    Some(0x1f) => self.decoder = Some(GzDecoder::new(reader)),
                    Some(_) => {
                        return Err(damage(
                            "other data follows the gzip data (trailing junk); fetch the file again",
                        ));
                    }
                }
            }
        }
        Ok(0)
    }
}

fn damage(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

fn as_damage(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damage("the gzip data is cut off; fetch the file again"),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            damage(format!("the gzip data is damaged ({error}); fetch the file again"))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(bytes: &[u8], allowed_bytes: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        Members::new(bytes, allowed_bytes).read_to_end(&mut text)?;
        Ok(text)
    }

    fn refusal(bytes: &[u8]) -> String {
        let error = unpacked(bytes, 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        error.to_string()
    }

    #[test]
    fn members_are_read_as_one_text() {
        let both = [packed(b"one "), packed(b""), packed(b"two")].concat();
        assert_eq!(unpacked(&both, 100).unwrap(), b"one two");
    }

    #[test]
    fn every_truncation_is_refused() {
        let whole = packed(b"some text that is long enough to be compressed, compressed, compressed");
        for length in 1..whole.len() {
            assert!(refusal(&whole[..length]).contains("cut off"), "{length}");
        }
    }

    #[test]
    fn a_wrong_checksum_is_refused() {
        let mut bytes = packed(b"some text");
        let checksum = bytes.len() - 8;
        bytes[checksum] ^= 1;
        assert!(refusal(&bytes).contains("damaged"));
    }

    #[test]
    fn bytes_after_the_last_member_are_refused() {
        for junk in [&b"x"[..], b"\0\0\0\0", b"more than a gzip header is long"] {
            assert!(refusal(&[&packed(b"text")[..], junk].concat()).contains("trailing junk"));
        }
    }

    #[test]
    fn text_beyond_the_allowance_is_refused() {
        let bytes = packed(&[b'x'; 1000]);
        assert_eq!(unpacked(&bytes, 1000).unwrap().len(), 1000);
        assert!(unpacked(&bytes, 999).unwrap_err().to_string().contains("expands more than 256 times"));
    }
}
