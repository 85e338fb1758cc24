//! A spy plot of a matrix's nonzeros as SVG.
//!
//! The plot has at most 256 by 256 cells, each shaded by the logarithm of its number of nonzeros, so the size of the SVG is
//! bounded for any matrix.

use std::fmt::Write;

use rayon::prelude::*;

use super::csr::CsrView;
use super::scalar::Scalar;
use crate::files::MARK;

/// Maximal number of cells along an axis.
const MAX_CELLS: usize = 256;
/// Longer side of the plot, in pixels.
const LONGER_SIDE: f64 = 512.0;
/// Minimal length of the shorter side in pixels, for very wide or tall matrices.
const MIN_SHORTER_SIDE: f64 = 96.0;
/// Margins of the plot for title, axes and legend, in pixels.
const MARGIN: Margin = Margin { left: 84.0, top: 64.0, right: 130.0, bottom: 40.0 };
/// Steps of the colour scale.
const SHADES: usize = 6;
/// Lightest and darkest colour; the lightest is still visible on white.
const LIGHT: [f64; 3] = [166.0, 200.0, 232.0];
const DARK: [f64; 3] = [8.0, 36.0, 84.0];

struct Margin {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// The spy plot of `matrix` as SVG text. `title` must say that the matrix is synthetic if it is.
pub fn spy_svg<T: Scalar>(matrix: &CsrView<'_, T>, title: &str) -> String {
    let cells = Cells::count(matrix);
    let (width, height) = plot_size(matrix.rows(), matrix.cols());
    let (left, top) = (MARGIN.left, MARGIN.top);
    let (total_width, total_height) =
        (left + width.max(300.0) + MARGIN.right, top + height.max(140.0) + MARGIN.bottom);

    let mut svg = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{total_width:.0}" height="{total_height:.0}" viewBox="0 0 {total_width:.0} {total_height:.0}" font-family="sans-serif" font-size="12" fill="#222">
<!-- {MARK} -->
<rect width="100%" height="100%" fill="#fff"/>
<text x="16" y="24" font-size="16">{}</text>
<text x="16" y="42" fill="#555">{} rows, {} columns, {} nonzeros</text>"##,
        escaped(title),
        matrix.rows(),
        matrix.cols(),
        matrix.nnz()
    );
    // The inner SVG has cells as units; its view box clips the part of the last cells outside the matrix.
    let _ = writeln!(
        svg,
        r#"<svg x="{left}" y="{top}" width="{width:.1}" height="{height:.1}" viewBox="0 0 {:.6} {:.6}" preserveAspectRatio="none" shape-rendering="crispEdges">"#,
        matrix.cols().max(1) as f64 / cells.columns_each as f64,
        matrix.rows().max(1) as f64 / cells.rows_each as f64
    );
    cells.draw(&mut svg);
    svg += "</svg>\n";
    let _ = writeln!(
        svg,
        r##"<rect x="{left}" y="{top}" width="{width:.1}" height="{height:.1}" fill="none" stroke="#222"/>"##
    );
    draw_axes(&mut svg, matrix.rows(), matrix.cols(), width, height);
    cells.draw_legend(&mut svg, left + width.max(300.0) + 20.0, top);
    svg += "</svg>\n";
    svg
}

/// Width and height of the plot in the proportions of the matrix, except for the minimal shorter side.
fn plot_size(rows: usize, cols: usize) -> (f64, f64) {
    let longer = rows.max(cols).max(1) as f64;
    let side = |length: usize| (LONGER_SIDE * length as f64 / longer).max(MIN_SHORTER_SIDE);
    (side(cols), side(rows))
}

/// Nonzeros of each cell, by rows of cells. All cells cover the same number of rows and columns; the last ones may extend
/// beyond the matrix.
struct Cells {
    rows_each: usize,
    columns_each: usize,
    across: usize,
    counts: Vec<u64>,
    most: u64,
}

impl Cells {
    fn count<T: Scalar>(matrix: &CsrView<'_, T>) -> Self {
        let rows_each = matrix.rows().div_ceil(MAX_CELLS).max(1);
        let columns_each = matrix.cols().div_ceil(MAX_CELLS).max(1);
        let (down, across) = (matrix.rows().div_ceil(rows_each), matrix.cols().div_ceil(columns_each));
        let mut counts = vec![0u64; down * across];
        counts.par_chunks_mut(across.max(1)).enumerate().for_each(|(cell, counts)| {
            let first = cell * rows_each;
            for row in first..(first + rows_each).min(matrix.rows()) {
                for &column in matrix.row(row).0 {
                    counts[column as usize / columns_each] += 1;
                }
            }
        });
        let most = counts.iter().copied().max().unwrap_or(0);
        Self { rows_each, columns_each, across, counts, most }
    }

    /// Step of the colour scale for a cell with `count` nonzeros, at least 1; steps are equal on a logarithmic scale.
    fn shade(&self, count: u64) -> usize {
        if self.most <= 1 {
            return SHADES - 1;
        }
        let share = (count as f64).ln() / (self.most as f64).ln();
        ((share * SHADES as f64) as usize).min(SHADES - 1)
    }

    /// The steps of the colour scale that can occur, each with its smallest number of nonzeros.
    fn steps(&self) -> Vec<(usize, u64)> {
        let from = |shade: usize| (self.most as f64).powf(shade as f64 / SHADES as f64).ceil() as u64;
        let mut steps: Vec<(usize, u64)> = Vec::new();
        for count in (0..SHADES).map(from).filter(|&count| count > 0 && count <= self.most) {
            let shade = self.shade(count);
            if steps.last().is_none_or(|last| last.0 < shade) {
                steps.push((shade, count));
            }
        }
        steps
    }

    /// Draws one path per shade, with one rectangle for each horizontal run of cells of this shade.
    fn draw(&self, svg: &mut String) {
        let mut paths = vec![String::new(); SHADES];
        for (down, row) in self.counts.chunks(self.across.max(1)).enumerate() {
            let shades: Vec<Option<usize>> =
                row.iter().map(|&count| (count > 0).then(|| self.shade(count))).collect();
            let mut across = 0;
            for run in shades.chunk_by(|a, b| a == b) {
                if let Some(Some(shade)) = run.first() {
                    let _ = write!(paths[*shade], "M{across} {down}h{0}v1h-{0}z", run.len());
                }
                across += run.len();
            }
        }
        for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let _ = writeln!(svg, r#"<path fill="{}" d="{path}"/>"#, colour(shade));
        }
    }

    fn draw_legend(&self, svg: &mut String, x: f64, y: f64) {
        let _ = writeln!(svg, r#"<text x="{x}" y="{:.0}">nonzeros per cell</text>"#, y + 10.0);
        let steps = self.steps();
        if steps.is_empty() {
            let _ = writeln!(svg, r#"<text x="{x}" y="{:.0}">none</text>"#, y + 30.0);
        }
        for (line, &(shade, from)) in steps.iter().enumerate() {
            let top = y + 20.0 + 18.0 * line as f64;
            let last = steps.get(line + 1).map_or(self.most, |next| next.1 - 1);
            let range = if from >= last { from.to_string() } else { format!("{from} to {last}") };
            let _ = writeln!(
                svg,
                r#"<rect x="{x}" y="{top:.0}" width="14" height="14" fill="{}"/><text x="{:.0}" y="{:.0}">{range}</text>"#,
                colour(shade),
                x + 20.0,
                top + 11.0
            );
        }
    }
}

/// Draws the axes, with ticks at the first, middle and last row and column, numbered from 1 as in Matrix Market.
fn draw_axes(svg: &mut String, rows: usize, cols: usize, width: f64, height: f64) {
    let (left, top) = (MARGIN.left, MARGIN.top);
    for (at, number) in ticks(rows, 3) {
        let y = top + at * height;
        let _ = writeln!(
            svg,
            r##"<path d="M{} {y:.1}h-5" stroke="#222"/><text x="{}" y="{:.1}" text-anchor="end">{number}</text>"##,
            left,
            left - 8.0,
            y + 4.0
        );
    }
    for (at, number) in ticks(cols, if width < 2.0 * MIN_SHORTER_SIDE { 2 } else { 3 }) {
        let x = left + at * width;
        // The last label ends at its tick, to keep clear of the legend.
        let anchor = if at < 1.0 { "middle" } else { "end" };
        let _ = writeln!(
            svg,
            r##"<path d="M{x:.1} {:.1}v5" stroke="#222"/><text x="{x:.1}" y="{:.1}" text-anchor="{anchor}">{number}</text>"##,
            top + height,
            top + height + 18.0
        );
    }
    let _ = writeln!(
        svg,
        r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#555">column</text>
<text transform="translate(14 {:.1}) rotate(-90)" text-anchor="middle" fill="#555">row</text>"##,
        left + width / 2.0,
        top + height + 33.0,
        top + height / 2.0
    );
}

/// The ticks of an axis of `length` rows or columns: position as a share of the axis, and label.
fn ticks(length: usize, most: usize) -> Vec<(f64, usize)> {
    match length {
        0 => Vec::new(),
        1 => vec![(0.5, 1)],
        _ if most < 3 || length < 3 => vec![(0.0, 1), (1.0, length)],
        _ => vec![(0.0, 1), (0.5, length.div_ceil(2)), (1.0, length)],
    }
}

fn colour(shade: usize) -> String {
    let share = shade as f64 / (SHADES - 1) as f64;
    let [red, green, blue] =
        [0, 1, 2].map(|part| (LIGHT[part] + share * (DARK[part] - LIGHT[part])).round() as u8);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// `text` escaped for XML and truncated to 120 characters.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for letter in text.chars().take(120) {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            // XML does not allow control characters, not even escaped.
            letter if letter.is_control() || ['\u{fffe}', '\u{ffff}'].contains(&letter) => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::csr::Csr;
    use crate::matrix::generate;

    fn matrix(spec: &str) -> Csr<f64> {
        generate(spec, 1, 1 << 30).unwrap().matrix
    }

    #[test]
    fn every_nonzero_is_counted_in_its_cell() {
        for spec in
            ["rmat,scale=11,degree=5", "uniform,rows=700,degree=9,cols=3001", "uniform,rows=9,degree=2"]
        {
            let matrix = matrix(spec);
            let cells = Cells::count(&matrix.view());
            assert!(cells.across <= MAX_CELLS && cells.counts.len() <= MAX_CELLS * MAX_CELLS);
            let mut expected = vec![0u64; cells.counts.len()];
            for row in 0..matrix.rows() {
                for &column in matrix.view().row(row).0 {
                    let down = row / matrix.rows().div_ceil(MAX_CELLS);
                    expected[down * cells.across + column as usize / matrix.cols().div_ceil(MAX_CELLS)] += 1;
                }
            }
            assert_eq!(cells.counts, expected, "{spec}");
        }
    }

    #[test]
    fn the_legend_covers_all_counts_and_matches_the_shades() {
        for most in [1, 2, 3, 5, 6, 7, 40, 1000, 123_456] {
            let cells = Cells { rows_each: 1, columns_each: 1, across: 1, counts: vec![most], most };
            let steps = cells.steps();
            assert_eq!(steps[0].1, 1);
            for count in 1..=most.min(2000) {
                let step = steps.iter().rev().find(|step| step.1 <= count).unwrap();
                assert_eq!(step.0, cells.shade(count), "{count} of {most}");
            }
        }
    }

    #[test]
    fn the_plot_of_a_matrix_of_any_shape_has_a_bounded_size() {
        for spec in [
            "empty,rows=0",
            "empty,rows=5,cols=0",
            "empty,rows=3,cols=4",
            "diagonal,rows=1",
            "uniform,rows=231,degree=700,cols=319770",
            "uniform,rows=3000,degree=1,cols=2",
        ] {
            let svg = spy_svg(&matrix(spec).view(), spec);
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{spec}");
            assert!(svg.len() < 1_500_000, "{spec}: {}", svg.len());
        }
    }

    #[test]
    fn a_title_is_escaped() {
        let svg = spy_svg(&Csr::<f64>::empty().view(), "</text><script>&\u{0}");
        assert!(svg.contains("&lt;/text&gt;&lt;script&gt;&amp; "));
        assert!(!svg.contains("<script>"));
    }
}
