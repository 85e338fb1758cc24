//! Arithmetic rates under the bounds that bandwidth and arithmetic set.

use super::data::{Axis, Roofline, RooflinePoint, Scale};
use super::picture::{Canvas, Frame, Look, Symbol, footnote, legend, no_data, px};
use super::text::number;
use super::ticks::{Ticks, lies_on, most_across, most_up};

/// Dashes that tell ceilings apart.
const CEILINGS: [&str; 4] = ["ceiling", "ceiling dash1", "ceiling dash2", "ceiling dash3"];

pub(super) fn draw(roofline: &Roofline, canvas: &mut Canvas, room: f64) -> f64 {
    let x_axis = axis("arithmetic intensity, flop/byte");
    let y_axis = axis("rate, GFLOP/s");
    let positive = |value: f64| lies_on(Scale::Log10, value);
    let shown = |point: &&RooflinePoint| positive(point.flops_per_byte) && positive(point.gflops);
    let points: Vec<&RooflinePoint> = roofline.points.iter().filter(shown).collect();
    let ceilings: Vec<_> = roofline.ceilings.iter().filter(|ceiling| positive(ceiling.gb_per_s)).collect();
    // Where bandwidth stops to be the bound: the picture shows a little of either side.
    let ridges =
        ceilings.iter().filter_map(|c| c.peak_gflops.map(|peak| peak / c.gb_per_s)).filter(|r| positive(*r));
    let intensities =
        points.iter().map(|point| point.flops_per_byte).chain(ridges.flat_map(|r| [r, r * 2.0]));
    let Some(x) = Ticks::around(&x_axis, intensities, most_across(Scale::Log10, room)) else {
        return no_data(canvas, room, 0.0);
    };
    let bound = |gb_per_s: f64, peak: Option<f64>, intensity: f64| {
        (gb_per_s * intensity).min(peak.filter(|peak| positive(*peak)).unwrap_or(f64::INFINITY))
    };
    let bounds = ceilings
        .iter()
        .flat_map(|c| [x.low(), x.high()].map(|intensity| bound(c.gb_per_s, c.peak_gflops, intensity)));
    let Some(y) =
        Ticks::around(&y_axis, points.iter().map(|point| point.gflops).chain(bounds), most_up(Scale::Log10))
    else {
        return no_data(canvas, room, 0.0);
    };

    let mut groups: Vec<&str> = Vec::new();
    for point in &points {
        if !groups.contains(&point.group.as_str()) {
            groups.push(&point.group);
        }
    }
    let mut entries: Vec<(Symbol, String)> = Vec::new();
    for (index, ceiling) in ceilings.iter().enumerate() {
        let peak = ceiling.peak_gflops.map_or(String::new(), |peak| format!(", {} GFLOP/s", number(peak)));
        let name = format!("{}: {} GB/s{peak}", ceiling.name, number(ceiling.gb_per_s));
        entries.push((Symbol::Plain(CEILINGS[index % CEILINGS.len()]), name));
    }
    for (index, group) in groups.iter().enumerate() {
        entries.push((Symbol::Marker(Look(index)), (*group).to_string()));
    }
    let top = legend(canvas, &entries, room, 0.0);
    let frame = Frame::vertical(canvas, room, top, &y_axis, &y);
    let mut bottom = frame.horizontal(canvas, &x_axis, &x);

    for (index, ceiling) in ceilings.iter().enumerate() {
        let class = CEILINGS[index % CEILINGS.len()];
        let ridge = ceiling.peak_gflops.map(|peak| peak / ceiling.gb_per_s).filter(|r| positive(*r));
        let ridge = ridge.filter(|ridge| (x.low()..x.high()).contains(ridge));
        canvas.put(format_args!(r#"<g class="series" data-series="{index}"><path class="{class}" d=""#));
        for (step, intensity) in [Some(x.low()), ridge, Some(x.high())].into_iter().flatten().enumerate() {
            let rate = bound(ceiling.gb_per_s, ceiling.peak_gflops, intensity);
            if let (Some(along), Some(up)) = (x.share(intensity), y.share(rate)) {
                let pen = if step == 0 { 'M' } else { 'L' };
                canvas.put(format_args!("{pen}{} {}", px(frame.x(along)), px(frame.y(up))));
            }
        }
        canvas.put(format_args!(r#""/></g>"#));
    }
    for (index, group) in groups.iter().enumerate() {
        let series = ceilings.len() + index;
        canvas.put(format_args!(r#"<g class="series" data-series="{series}">"#));
        for point in points.iter().filter(|point| point.group == *group) {
            if let (Some(along), Some(up)) = (x.share(point.flops_per_byte), y.share(point.gflops)) {
                let tip = format!(
                    "{}\n{}\n{} GFLOP/s\n{} flop/byte, so {} GB/s",
                    point.name,
                    point.group,
                    number(point.gflops),
                    number(point.flops_per_byte),
                    number(point.gflops / point.flops_per_byte)
                );
                canvas.marker(Look(index), false, (frame.x(along), frame.y(up)), &tip);
            }
        }
        canvas.put(format_args!("</g>"));
    }
    let left_out = roofline.points.len() - points.len() + roofline.ceilings.len() - ceilings.len();
    if left_out > 0 {
        let values = if left_out == 1 { "value has" } else { "values have" };
        bottom = footnote(canvas, &format!("{left_out} {values} no place on these axes."), room, bottom);
    }
    bottom
}

fn axis(label: &str) -> Axis {
    Axis { label: label.into(), scale: Scale::Log10, from_zero: false }
}
