//! Colours and markers of series: the same for a name in every figure of a report, and never twice in one figure.

use super::data::{Figure, Plot, SeriesStyle};

/// Colours in the style sheet.
pub(super) const COLOURS: usize = 12;

/// Shapes of markers.
const MARKERS: [&str; 8] = [
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8L4.6 3.4H-4.6z",
    "M0-5L5 0L0 5L-5 0z",
    "M0 4.8L4.6-3.4H-4.6z",
    "M-1.6-4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
    "M0-4.8L4.6-1.5L2.8 3.9H-2.8L-4.6-1.5z",
    "M-2.3-4.6L0-2.3L2.3-4.6L4.6-2.3L2.3 0L4.6 2.3L2.3 4.6L0 2.3L-2.3 4.6L-4.6 2.3L-2.3 0L-4.6-2.3z",
];

/// Dash patterns in the style sheet, the solid line included.
const DASHES: usize = 4;

/// The colour, dash pattern and marker of a series, by its number. Numbers below [`COLOURS`] have a colour each; further ones
/// repeat the colours with another dash pattern and marker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Appearance(pub usize);

impl Appearance {
    /// The class of its colour.
    pub fn colour(self) -> String {
        format!("c{}", self.0 % COLOURS)
    }

    /// The class of its dash pattern, with a leading space; empty for a solid line.
    pub fn dash(self) -> String {
        match self.0 / COLOURS % DASHES {
            0 => String::new(),
            dash => format!(" dash{dash}"),
        }
    }

    /// The path of its marker.
    pub fn marker(self) -> &'static str {
        MARKERS[(self.0 + self.0 / COLOURS) % MARKERS.len()]
    }
}

/// Gives every series name one colour number for all figures; names that share a figure have different numbers.
pub fn share_colours(figures: &mut [Figure]) {
    let names: Vec<Vec<String>> = figures.iter().map(coloured_names).collect();
    let mut assigned: Vec<(String, usize)> = Vec::new();
    for name in names.iter().flatten() {
        if assigned.iter().any(|(known, _)| known == name) {
            continue;
        }
        let neighbours: Vec<&String> =
            names.iter().filter(|figure| figure.contains(name)).flatten().collect();
        let taken = |number: usize| {
            assigned.iter().any(|(known, used)| *used == number && neighbours.contains(&known))
        };
        let number = (0..).find(|number| !taken(*number)).unwrap_or(0);
        assigned.push((name.clone(), number));
    }
    for (figure, names) in figures.iter_mut().zip(names) {
        figure.colours = assigned.iter().filter(|(name, _)| names.contains(name)).cloned().collect();
    }
}

/// Names of the series of a figure that have a colour of their own, each once.
pub(super) fn coloured_names(figure: &Figure) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &String| {
        if !names.contains(name) {
            names.push(name.clone());
        }
    };
    for panel in &figure.panels {
        match &panel.plot {
            Plot::Lines(lines) => {
                let is_measured = |style| matches!(style, SeriesStyle::Measured | SeriesStyle::Curve);
                let measured = lines.series.iter().filter(|series| is_measured(series.style));
                measured.for_each(|series| add(&series.name));
            }
            Plot::Roofline(roofline) => roofline.points.iter().for_each(|point| add(&point.group)),
            Plot::Bars(bars) => bars.series.iter().for_each(|(name, _)| add(name)),
            Plot::HeatMap(_) => {}
        }
    }
    names
}

/// Colour numbers of the series of a figure: those that [`share_colours`] assigned, and the first free numbers for others.
pub(super) fn colours_of(figure: &Figure) -> Vec<(String, Appearance)> {
    let mut colours: Vec<(String, Appearance)> = Vec::new();
    for name in coloured_names(figure) {
        let assigned = figure.colours.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        let taken = |number: usize| {
            let used = figure.colours.iter().map(|(_, used)| *used);
            used.chain(colours.iter().map(|(_, used)| used.0)).any(|used| used == number)
        };
        let number = assigned.or_else(|| (0..).find(|number| !taken(*number))).unwrap_or(0);
        colours.push((name, Appearance(number)));
    }
    colours
}
