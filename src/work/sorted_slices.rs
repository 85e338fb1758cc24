//! How well rows fill slices of 32 that are sorted by length within windows, from a few windows.

/// Rows of a slice, as many as a warp has lanes.
const SLICE: usize = 32;
/// Rows that are sorted among themselves.
const WINDOW: usize = 1024;
/// Windows looked at.
const MOST_WINDOWS: usize = 8;

/// Takes the lengths of a chunk's rows one by one.
pub(super) struct SortedSlices {
    row: usize,
    /// A window out of so many is looked at.
    step: usize,
    lengths: Vec<u64>,
    nonzeros: u64,
    slots: u64,
}

impl SortedSlices {
    /// For a chunk of so many rows.
    pub fn new(rows: usize) -> Self {
        let step = rows.div_ceil(WINDOW).div_ceil(MOST_WINDOWS).max(1);
        Self { row: 0, step, lengths: Vec::with_capacity(WINDOW.min(rows)), nonzeros: 0, slots: 0 }
    }

    /// The next row's length.
    #[inline]
    pub fn add(&mut self, length: u64) {
        if (self.row / WINDOW).is_multiple_of(self.step) {
            self.lengths.push(length);
            if self.lengths.len() == WINDOW {
                self.close();
            }
        }
        self.row += 1;
    }

    fn close(&mut self) {
        self.lengths.sort_unstable_by(|a, b| b.cmp(a));
        self.nonzeros += self.lengths.iter().sum::<u64>();
        self.slots += self.lengths.iter().step_by(SLICE).sum::<u64>() * SLICE as u64;
        self.lengths.clear();
    }

    /// Share of the places that hold a nonzero.
    pub fn fill(mut self) -> f64 {
        self.close();
        if self.slots == 0 { 1.0 } else { self.nonzeros as f64 / self.slots as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(lengths: impl ExactSizeIterator<Item = u64>) -> f64 {
        let mut slices = SortedSlices::new(lengths.len());
        lengths.for_each(|length| slices.add(length));
        slices.fill()
    }

    #[test]
    fn rows_of_one_length_fill_their_slices_and_one_long_row_does_not() {
        assert_eq!(fill(std::iter::repeat_n(7, 64)), 1.0);
        assert_eq!(fill(std::iter::repeat_n(7, 100_000)), 1.0);
        assert_eq!(fill([].into_iter()), 1.0);
        let lengths: Vec<u64> = (0..64).map(|row| if row == 5 { 32 } else { 1 }).collect();
        assert_eq!(fill(lengths.into_iter()), 95.0 / (32.0 * 33.0));
    }

    #[test]
    fn sorting_puts_like_lengths_together() {
        let lengths: Vec<u64> = (0..1024).map(|row| if row % 2 == 0 { 2 } else { 10 }).collect();
        assert_eq!(fill(lengths.into_iter()), 1.0);
    }
}
