//! Arithmetic rates under the bounds that bandwidth and arithmetic set.

use super::canvas::{Canvas, Frame, footnote, no_data, px};
use super::data::{Axis, Roofline, RooflinePoint, Scale};
use super::legend::{Legend, Symbol, ceiling_name};
use super::text::number;
use super::ticks::{Ticks, can_show, most_across, most_up};

/// Draws the plot; returns its height.
pub(super) fn draw(roofline: &Roofline, legend: &Legend, canvas: &mut Canvas, width: f64) -> f64 {
    let x_axis = axis("arithmetic intensity (flop/byte)");
    let y_axis = axis("rate (GFLOP/s)");
    let positive = |value: f64| can_show(Scale::Log10, value);
    let shown = |point: &&RooflinePoint| positive(point.flops_per_byte) && positive(point.gflops);
    let points: Vec<&RooflinePoint> = roofline.points.iter().filter(shown).collect();
    let ceilings: Vec<_> = roofline.ceilings.iter().filter(|ceiling| positive(ceiling.gb_per_s)).collect();
    // The ridge is where the bound changes from bandwidth to arithmetic; the axis includes both sides of it.
    let ridges =
        ceilings.iter().filter_map(|c| c.peak_gflops.map(|peak| peak / c.gb_per_s)).filter(|r| positive(*r));
    let intensities =
        points.iter().map(|point| point.flops_per_byte).chain(ridges.flat_map(|r| [r, r * 2.0]));
    let Some(x) = Ticks::around(&x_axis, intensities, most_across(Scale::Log10, width)) else {
        return no_data(canvas, width);
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
        return no_data(canvas, width);
    };

    let frame = Frame::vertical(canvas, width, &y_axis, &y);
    let mut bottom = frame.horizontal(canvas, &x_axis, &x);

    for ceiling in &ceilings {
        let Some((index, Symbol::Plain(class))) = legend.find(&ceiling_name(ceiling)) else { continue };
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
    let mut groups: Vec<&str> = Vec::new();
    for point in &points {
        if !groups.contains(&point.group.as_str()) {
            groups.push(&point.group);
        }
    }
    for group in groups {
        let Some((index, Symbol::Marker(appearance))) = legend.find(group) else { continue };
        canvas.put(format_args!(r#"<g class="series" data-series="{index}">"#));
        for point in points.iter().filter(|point| point.group == *group) {
            if let (Some(along), Some(up)) = (x.share(point.flops_per_byte), y.share(point.gflops)) {
                let tip = format!(
                    "{}\n{}\n{} GFLOP/s\n{} flop/byte: {} GB/s",
                    point.name,
                    point.group,
                    number(point.gflops),
                    number(point.flops_per_byte),
                    number(point.gflops / point.flops_per_byte)
                );
                canvas.marker(*appearance, false, (frame.x(along), frame.y(up)), &tip);
            }
        }
        canvas.put(format_args!("</g>"));
    }
    let left_out = roofline.points.len() - points.len() + roofline.ceilings.len() - ceilings.len();
    if left_out > 0 {
        let values = if left_out == 1 { "value" } else { "values" };
        let text = format!("{left_out} {values} cannot be shown on these axes.");
        bottom = footnote(canvas, &text, width, bottom);
    }
    bottom
}

fn axis(label: &str) -> Axis {
    Axis { label: label.into(), scale: Scale::Log10, from_zero: false }
}
