//! Counts of repairs and oddities of a file, reported once.

use std::ops::AddAssign;

use crate::matrix::io::counted;

/// The counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Files that start with a UTF-8 byte order mark.
    pub byte_order_marks: u64,
    /// Banners with one percent sign.
    pub short_banners: u64,
    /// Lines that start with blanks.
    pub indented_lines: u64,
    /// Comments among the entries.
    pub body_comments: u64,
    /// NaN and infinities.
    pub non_finite: u64,
    /// Nonzero values that became zero.
    pub underflowed: u64,
    /// Whole numbers beyond 2^53 that were rounded.
    pub inexact: u64,
    /// Entries strictly below the diagonal of a file that stores one triangle.
    pub lower: u64,
    /// Entries strictly above it.
    pub upper: u64,
    /// Entries added to an earlier one at the same position.
    pub duplicates: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.byte_order_marks += other.byte_order_marks;
        self.short_banners += other.short_banners;
        self.indented_lines += other.indented_lines;
        self.body_comments += other.body_comments;
        self.non_finite += other.non_finite;
        self.underflowed += other.underflowed;
        self.inexact += other.inexact;
        self.lower += other.lower;
        self.upper += other.upper;
        self.duplicates += other.duplicates;
    }
}

impl Tally {
    /// A sentence for each count that is not zero.
    pub fn notes(&self) -> Vec<String> {
        let counted = |count: u64, one: &str, many: &str| (count > 0).then(|| counted(count, one, many));
        [
            (self.byte_order_marks > 0).then(|| "the file starts with a UTF-8 byte order mark".to_owned()),
            (self.short_banners > 0).then(|| "the banner has one % instead of two".to_owned()),
            counted(self.indented_lines, "line starts with blanks", "lines start with blanks"),
            counted(self.body_comments, "comment is among the entries", "comments are among the entries"),
            counted(self.non_finite, "value is not finite", "values are not finite"),
            counted(
                self.underflowed,
                "value below the smallest number became zero",
                "values below the smallest number became zero",
            ),
            counted(self.inexact, "integer beyond 2^53 was rounded", "integers beyond 2^53 were rounded"),
            counted(
                self.upper,
                "entry lies above the diagonal of a file that stores one triangle; it was mirrored down",
                "entries lie above the diagonal of a file that stores one triangle; they were mirrored down",
            ),
            counted(
                self.duplicates,
                "duplicate entry was added to the earlier one",
                "duplicate entries were added to the earlier ones",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_gives_one_note() {
        assert!(Tally::default().notes().is_empty());
        let mut tally = Tally { duplicates: 1, upper: 2, ..Tally::default() };
        tally += Tally { duplicates: 2, ..Tally::default() };
        let notes = tally.notes();
        assert_eq!(notes.len(), 2);
        assert!(notes[0].starts_with("2 entries lie above"));
        assert!(notes[1].starts_with("3 duplicate entries"));
    }
}
