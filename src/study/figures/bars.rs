//! Figures with words on the horizontal axis.

use super::super::record::Record;
use super::Swept;
use super::series::{MOST_SERIES, groups};
use crate::report::{Axis, Bars, Figure, Plot, Scale};

/// GFLOP/s of each choice.
pub fn choices(swept: &Swept<'_>, name: &str, of: impl Fn(&Record) -> String) -> Option<Figure> {
    let mut categories: Vec<String> = Vec::new();
    for record in &swept.records {
        if !categories.contains(&of(record)) {
            categories.push(of(record));
        }
    }
    let mut series: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for (label, members) in groups(&swept.records, &[name]) {
        let value = |category: &String| members.iter().find(|record| of(record) == *category)?.gflops();
        series.push((label, categories.iter().map(value).collect()));
    }
    series.truncate(MOST_SERIES);
    Some(Figure {
        id: swept.id(&format!("rate by {name}")),
        title: format!("Which {name} is fastest? ({})", swept.sweep.name),
        caption: "GFLOP/s of a product, at the median time.".into(),
        plot: Plot::Bars(Bars { y: axis("GFLOP/s"), categories, series }),
    })
}

/// Times of conversions, serial beside parallel, with the most threads that were tried.
pub fn conversions(swept: &Swept<'_>) -> Option<Figure> {
    let most = swept.records.iter().map(|record| record.threads).max()?;
    let several = swept.values(|record| record.matrix.name.clone()) > 1;
    let mut categories: Vec<String> = Vec::new();
    let (mut serial, mut parallel): (Vec<Option<f64>>, Vec<Option<f64>>) = (Vec::new(), Vec::new());
    for record in &swept.records {
        let Some((conversion, way)) = record.kernel.rsplit_once(", ") else { continue };
        let category =
            if several { format!("{}: {conversion}", record.matrix.name) } else { conversion.to_string() };
        let place = categories.iter().position(|known| *known == category).unwrap_or_else(|| {
            categories.push(category);
            serial.push(None);
            parallel.push(None);
            categories.len() - 1
        });
        let milliseconds = record.times.median.map(|median| 1e3 * median);
        match way {
            "serial" => serial[place] = milliseconds,
            _ if record.threads == most => parallel[place] = milliseconds,
            _ => {}
        }
    }
    let series = vec![("serial".into(), serial), (format!("parallel, {most} threads"), parallel)];
    Some(Figure {
        id: swept.id("conversions"),
        title: format!("How long do conversions take? ({})", swept.sweep.name),
        caption: "Median time; entries come column by column, as most files list them.".into(),
        plot: Plot::Bars(Bars { y: axis("time (ms)"), categories, series }),
    })
}

fn axis(label: &str) -> Axis {
    Axis { label: label.into(), scale: Scale::Linear, from_zero: true }
}
