//! The legend of a figure: one entry for each series of all panels, and the series that are missing.

use super::appearance::{Appearance, colours_of};
use super::canvas::{Anchor, Canvas, FONT, LINE, SMALL, px};
use super::data::{Ceiling, Figure, Missing, Plot, SeriesStyle};
use super::text::{escape, number, text_width, wrapped};

/// Dash patterns of ceilings.
const CEILINGS: [&str; 8] = [
    "ceiling",
    "ceiling dash1",
    "ceiling dash2",
    "ceiling dash3",
    "ceiling dash4",
    "ceiling dash5",
    "ceiling dash6",
    "ceiling dash7",
];

/// The symbol before a name.
#[derive(Clone)]
pub(super) enum Symbol {
    /// A line with the marker of its series; hollow for a prediction.
    Line(Appearance, SeriesStyle),
    /// A line without a marker, of this class.
    Plain(&'static str),
    /// A marker alone.
    Marker(Appearance),
    /// A filled square of this class.
    Square(String),
}

/// One series of a figure.
struct Entry {
    name: String,
    symbol: Symbol,
}

/// The series of a figure. The index of an entry is the `data-series` of its elements.
pub(super) struct Legend {
    entries: Vec<Entry>,
}

impl Legend {
    /// The series of all panels, in the order in which they appear.
    pub fn of(figure: &Figure) -> Self {
        let colours = colours_of(figure);
        let colour = |name: &str| {
            colours
                .iter()
                .find(|(known, _)| known == name)
                .map_or(Appearance(0), |(_, appearance)| *appearance)
        };
        let mut legend = Self { entries: Vec::new() };
        for panel in &figure.panels {
            match &panel.plot {
                Plot::Lines(lines) => {
                    let mut last_measured = None;
                    for series in &lines.series {
                        let symbol = match series.style {
                            SeriesStyle::Reference => Symbol::Plain("line reference"),
                            SeriesStyle::Measured | SeriesStyle::Curve => {
                                last_measured = Some(colour(&series.name));
                                Symbol::Line(colour(&series.name), series.style)
                            }
                            SeriesStyle::Predicted => {
                                Symbol::Line(last_measured.unwrap_or(Appearance(0)), series.style)
                            }
                        };
                        legend.add(&series.name, symbol);
                    }
                }
                Plot::Roofline(roofline) => {
                    for ceiling in &roofline.ceilings {
                        let ceilings =
                            legend.entries.iter().filter(|entry| matches!(entry.symbol, Symbol::Plain(_)));
                        let class = CEILINGS[ceilings.count() % CEILINGS.len()];
                        legend.add(&ceiling_name(ceiling), Symbol::Plain(class));
                    }
                    for point in &roofline.points {
                        legend.add(&point.group, Symbol::Marker(colour(&point.group)));
                    }
                }
                Plot::Bars(bars) => {
                    for (name, _) in &bars.series {
                        let appearance = colour(name);
                        let class = format!("bar {}{}", appearance.colour(), appearance.dash());
                        legend.add(name, Symbol::Square(class));
                    }
                }
                Plot::HeatMap(_) => {}
            }
        }
        legend
    }

    fn add(&mut self, name: &str, symbol: Symbol) {
        if self.entries.iter().all(|entry| entry.name != name) {
            self.entries.push(Entry { name: name.into(), symbol });
        }
    }

    /// The index and the symbol of the series of that name.
    pub fn find(&self, name: &str) -> Option<(usize, &Symbol)> {
        let index = self.entries.iter().position(|entry| entry.name == name)?;
        self.entries.get(index).map(|entry| (index, &entry.symbol))
    }

    /// Draws the entries and the missing series; returns the lower end.
    pub fn draw(&self, canvas: &mut Canvas, missing: &[Missing], width: f64) -> f64 {
        // A single kind of bars needs no legend: the axis names it.
        let is_needed = !matches!(&self.entries[..], [Entry { symbol: Symbol::Square(_), .. }]);
        let entries: Vec<(Symbol, String)> = match is_needed {
            true => self.entries.iter().map(|entry| (entry.symbol.clone(), entry.name.clone())).collect(),
            false => Vec::new(),
        };
        let mut bottom = draw(canvas, &entries, width, 0.0);
        for (verb, measured) in [("not measured", false), ("not shown", true)] {
            for (reason, names) in by_reason(missing, measured) {
                let text = format!("{verb}: {} ({reason})", names.join(", "));
                for line in wrapped(&text, SMALL, width) {
                    canvas.text("missing", 0.0, bottom + 10.0, Anchor::Start, &line);
                    bottom += LINE - 2.0;
                }
            }
        }
        if missing.is_empty() { bottom } else { bottom + 6.0 }
    }
}

/// The name of a ceiling with its bounds.
pub(super) fn ceiling_name(ceiling: &Ceiling) -> String {
    let peak = ceiling.peak_gflops.map_or(String::new(), |peak| format!(", {} GFLOP/s", number(peak)));
    format!("{}: {} GB/s{peak}", ceiling.name, number(ceiling.gb_per_s))
}

/// Reasons, each with the names of the series that are missing because of it.
fn by_reason(missing: &[Missing], measured: bool) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in missing.iter().filter(|one| one.measured == measured) {
        match reasons.iter_mut().find(|(reason, _)| *reason == one.reason) {
            Some((_, names)) => names.push(&one.name),
            None => reasons.push((&one.reason, vec![&one.name])),
        }
    }
    reasons
}

/// Draws entries in rows, as many in each as fit, from `top` down; returns the lower end. Names that are too wide wrap.
pub(super) fn draw(canvas: &mut Canvas, entries: &[(Symbol, String)], width: f64, top: f64) -> f64 {
    if entries.is_empty() {
        return top;
    }
    let (mut x, mut y) = (0.0, top);
    let mut row_height = LINE + 2.0;
    for (index, (symbol, name)) in entries.iter().enumerate() {
        let indent = match symbol {
            Symbol::Line(..) | Symbol::Plain(_) => 32.0,
            Symbol::Marker(_) | Symbol::Square(_) => 18.0,
        };
        let lines = wrapped(name, FONT, width - indent);
        let widest = lines.iter().map(|line| text_width(line, FONT)).fold(0.0, f64::max);
        let full = indent + widest;
        if x > 0.0 && x + full > width {
            (x, y) = (0.0, y + row_height);
            row_height = LINE + 2.0;
        }
        let high = LINE * lines.len().max(1) as f64;
        row_height = row_height.max(high + 2.0);
        let (left, upper, title) = (px(x), px(y), escape(name));
        let (hit_width, hit_height) = (px(full + 4.0), px(high + 1.0));
        canvas.put(format_args!(
            r#"<g class="legend" data-series="{index}" transform="translate({left} {upper})"><title>{title}</title><rect class="hit" x="-2" y="0" width="{hit_width}" height="{hit_height}" rx="3"/>"#
        ));
        draw_symbol(canvas, symbol);
        for (row, line) in lines.iter().enumerate() {
            canvas.text("", indent, 13.0 + LINE * row as f64, Anchor::Start, line);
        }
        canvas.put(format_args!("</g>"));
        x += full + 18.0;
    }
    y + row_height + 7.0
}

fn draw_symbol(canvas: &mut Canvas, symbol: &Symbol) {
    match symbol {
        Symbol::Line(appearance, style) => {
            let (colour, shape, class) =
                (appearance.colour(), appearance.marker(), line_class(*appearance, *style));
            let hollow = if *style == SeriesStyle::Predicted { " hollow" } else { "" };
            let marker = match style {
                SeriesStyle::Curve => String::new(),
                _ => format!(r#"<path class="marker{hollow}" transform="translate(14 9)" d="{shape}"/>"#),
            };
            canvas
                .put(format_args!(r#"<g class="{colour}"><path class="{class}" d="M1 9H27"/>{marker}</g>"#));
        }
        Symbol::Plain(class) => canvas.put(format_args!(r#"<path class="{class}" d="M1 9H27"/>"#)),
        Symbol::Marker(appearance) => {
            let (colour, shape) = (appearance.colour(), appearance.marker());
            canvas.put(format_args!(
                r#"<g class="{colour}"><path class="marker" transform="translate(7 9)" d="{shape}"/></g>"#
            ));
        }
        Symbol::Square(class) => {
            canvas.put(format_args!(r#"<rect class="{class}" x="1" y="3" width="12" height="12" rx="2"/>"#));
        }
    }
}

/// The classes of a line.
pub(super) fn line_class(appearance: Appearance, style: SeriesStyle) -> String {
    match style {
        SeriesStyle::Measured | SeriesStyle::Curve => format!("line{}", appearance.dash()),
        SeriesStyle::Reference => "line reference".into(),
        SeriesStyle::Predicted => "line predicted".into(),
    }
}
