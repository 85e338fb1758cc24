//! Short tables, and the formats of numbers in them.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};

use rowloom::internal::error::Seconds;

/// The widest that facts and [`Table::wrapped`] tables are, also where the terminal is wider.
pub const WIDTH: u16 = 80;

/// The narrowest that they are, also where the terminal is narrower.
const LEAST_WIDTH: u16 = 40;

/// Blanks on both sides of a cell.
const PADDING: u16 = 2;

/// The width to wrap to: that of the environment variable `COLUMNS` or of the terminal, within limits.
fn width() -> u16 {
    prose_width().unwrap_or(WIDTH).min(WIDTH)
}

/// The width that sentences on standard output are wrapped to: `COLUMNS`, or that of the terminal; none in a pipe.
pub fn prose_width() -> Option<u16> {
    let typed = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    Some(typed.or_else(|| plain().width())?.max(LEAST_WIDTH))
}

/// The width of the terminal that standard error is; none elsewhere.
pub fn note_width() -> Option<u16> {
    Some(plain().use_stderr().width()?.max(LEAST_WIDTH))
}

/// A table: facts (a name and a value), or columns under headings.
#[derive(Debug)]
pub struct Table {
    inner: comfy_table::Table,
}

impl Table {
    /// A table of facts, one for each name; long values are wrapped.
    pub fn facts() -> Self {
        let mut inner = plain();
        inner.set_width(width());
        Self { inner }
    }

    /// A text that is wrapped to [`WIDTH`] or the terminal.
    pub fn paragraph(text: &str) -> Self {
        let mut inner = plain();
        inner.set_width(width()).add_row([printable(text)]);
        Self { inner }
    }

    /// A table with headings; the columns whose indices are in `numbers` are right-aligned.
    pub fn columns<const N: usize>(headings: [&str; N], numbers: &[usize]) -> Self {
        let mut inner = plain();
        inner.set_header(headings.map(|heading| Cell::new(heading).add_attribute(Attribute::Bold)));
        for &index in numbers {
            if let Some(column) = inner.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self { inner }
    }

    /// The same table, with long cells wrapped so that no line is longer than [`WIDTH`] or the terminal.
    pub fn wrapped(mut self) -> Self {
        self.inner.set_width(width());
        self
    }

    /// Adds a fact.
    pub fn fact(&mut self, name: &str, value: impl ToString) -> &mut Self {
        self.inner.add_row([
            Cell::new(name).add_attribute(Attribute::Bold),
            Cell::new(printable(&value.to_string())),
        ]);
        self
    }

    /// Adds a line under the headings.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) -> &mut Self {
        self.inner.add_row(cells.map(|cell| printable(&cell)));
        self
    }

    /// The table as text, without a final newline.
    pub fn render(&self, color: bool) -> String {
        let mut table = self.inner.clone();
        keep_words_whole(&mut table);
        if color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

/// Makes every column at least as wide as its longest word, as far as the table has room: lines break between words.
fn keep_words_whole(table: &mut comfy_table::Table) {
    let Some(width) = table.width() else { return };
    let longest = |parts: &mut dyn Iterator<Item = &str>| {
        let length = parts.map(|part| part.chars().count() as u16).max().unwrap_or(0);
        length.saturating_add(PADDING)
    };
    // Of each column the width of its longest word and of its longest line.
    let mut widths: Vec<(u16, u16)> = Vec::new();
    for row in table.header().into_iter().chain(table.row_iter()) {
        for (index, cell) in row.cell_iter().enumerate() {
            let content = cell.content();
            let own = (longest(&mut content.split_whitespace()), longest(&mut content.lines()));
            match widths.get_mut(index) {
                Some(known) => *known = (own.0.max(known.0), own.1.max(known.1)),
                None => widths.push(own),
            }
        }
    }
    if widths.iter().map(|(word, _)| u32::from(*word)).sum::<u32>() > u32::from(width) {
        return;
    }
    // A column with a lower bound above its equal share of the table gets no more than the bound: the widest gets what the others leave.
    let all: u32 = widths.iter().map(|(_, line)| u32::from(*line)).sum();
    if let Some((word, line)) = widths.iter_mut().max_by_key(|(_, line)| *line) {
        let others = all - u32::from(*line);
        let left = u32::from(width).saturating_sub(others).min(u32::from(*line)) as u16;
        *word = left.max(*word);
    }
    for (column, (least, _)) in table.column_iter_mut().zip(widths) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
    }
}

fn plain() -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// The text with its control characters escaped, except line ends: names of files and matrices must not control the terminal.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => shown.push('\n'),
            _ if letter.is_control() => shown.extend(letter.escape_default()),
            _ => shown.push(letter),
        }
    }
    shown
}

/// A whole number with separated thousands: `4,007,383`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 product`, `2,000 products`.
pub fn count_of(number: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", count(number), if number == 1 { singular } else { plural })
}

/// A share in percent: `12.5%`.
pub fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A time with three digits and its unit: `12.3 ms`.
pub fn seconds(value: f64) -> String {
    Seconds(value).to_string()
}

/// A whole number in at most four digits and a unit: `999`, `55.3k`, `1.77M`.
pub fn short(number: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")];
    let Some((scale, unit)) = UNITS.into_iter().find(|(scale, _)| number >= *scale) else {
        return number.to_string();
    };
    let scaled = number as f64 / scale as f64;
    let decimals = if scaled >= 99.95 {
        0
    } else if scaled >= 9.995 {
        1
    } else {
        2
    };
    format!("{scaled:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(4007383), "4,007,383");
    }

    #[test]
    fn short_numbers_have_a_unit() {
        let numbers = [0, 999, 1000, 55_296, 110_592, 1_769_472, 12_345_678_901];
        let texts = ["0", "999", "1.00k", "55.3k", "111k", "1.77M", "12.3G"];
        assert_eq!(numbers.map(short), texts);
    }

    #[test]
    fn a_long_word_leaves_facts_80_columns_wide() {
        let mut table = Table::facts();
        table.fact("library", format!("{} {}", "w".repeat(50), "short words ".repeat(20)));
        let widest = table.render(false).lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest > 70 && widest <= 80), "{widest:?}");
    }

    #[test]
    fn facts_fit_80_columns() {
        let mut table = Table::facts();
        table.fact("mode", "a long reason that goes on and on ".repeat(9));
        table.fact("", "ümläute_count_as_one_column_each ".repeat(5));
        assert!(table.render(false).lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(count_of(1, "product", "products"), "1 product");
        assert_eq!(count_of(1000, "product", "products"), "1,000 products");
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(seconds(1.2345), "1.23 s");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(0.000_456), "456 µs");
        assert_eq!(seconds(0.0), "0.00 µs");
    }

    #[test]
    fn colors_appear_only_when_asked_for() {
        let mut table = Table::facts();
        table.fact("rows", 3);
        assert!(table.render(true).contains('\x1b'));
        assert!(!table.render(false).contains('\x1b'));
    }
}
