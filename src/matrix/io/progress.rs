//! Progress of reading and writing, reported through a callback.

use std::fmt;
use std::io::{self, Read};

/// A callback that is given the amount of each finished part, from any thread. An error ends the reading or writing.
#[derive(Clone, Copy)]
pub struct Progress<'a>(pub &'a (dyn Fn(u64) -> io::Result<()> + Sync));

impl Progress<'_> {
    /// Reports a finished part; an error if the caller wants no more.
    pub fn advance(self, amount: u64) -> io::Result<()> {
        (self.0)(amount)
    }
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Progress")
    }
}

/// A reader that reports the bytes read through it.
pub(super) struct Counted<'a, R> {
    /// The reader.
    pub inner: R,
    /// The callback.
    pub progress: Option<Progress<'a>>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        if let Some(progress) = self.progress {
            progress.advance(bytes as u64)?;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::matrix::Csr;
    use crate::matrix::generate::generate;
    use crate::matrix::io::write::write_matrix_market;
    use crate::matrix::io::{ReadOptions, read};

    #[test]
    fn progress_counts_every_byte_of_plain_and_compressed_text() {
        let folder = tempfile::tempdir().unwrap();
        let made = generate::<f64>("stencil5,n=40", 1, 1 << 30).unwrap();
        for name in ["a.mtx", "a.mtx.gz"] {
            let path = folder.path().join(name);
            let reported = AtomicU64::new(0);
            let report = |amount| {
                reported.fetch_add(amount, Ordering::Relaxed);
                Ok(())
            };
            let progress = Some(Progress(&report));
            write_matrix_market(&path, &made.matrix.view(), &made.info, progress).unwrap();
            assert_eq!(reported.swap(0, Ordering::Relaxed), made.matrix.nnz() as u64, "lines of {name}");
            let options = ReadOptions { progress, ..ReadOptions::default() };
            let read: Csr<f64> = read(&path, &options).unwrap().matrix;
            assert_eq!(read.nnz(), made.matrix.nnz());
            let (reported, bytes) = (reported.into_inner(), path.metadata().unwrap().len());
            // The head of a text is read before its entries.
            assert!(reported <= bytes && reported + 200 > bytes, "{reported} of {bytes} bytes of {name}");
        }
    }
}
