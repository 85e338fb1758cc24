//! Rows and segments of rows.

use rowloom_cpu::{FIRST_OF_ROW, Isa};

use crate::case::{Entries, Layout, Options, Work, check};
use crate::draw::{Draw, draws_for_each_isa};
use crate::real::Real;
use crate::select::Slab;

/// The length of a row: mostly short, often at the edge of a segment or of the rows that are computed together, sometimes of a span.
fn length(draw: &Draw) -> usize {
    match draw.below(16) {
        0..=6 => draw.below(6),
        7..=9 => draw.below(100),
        10..=12 => draw.pick(&[127, 128, 129]),
        13..=14 => draw.pick(&[255, 256, 257, 384, 385, 513]),
        _ => draw.pick(&[1023, 1024, 1025, 1152, 2047, 2048, 2049, 4096, 4097]),
    }
}

/// As [`length`], but shorter for wide slabs, so that the reference takes little time.
fn length_for<T>(draw: &Draw, slab: &Slab<T>) -> usize {
    let length = length(draw);
    if length > 600 && slab.shape.width > 64 { length % 300 } else { length }
}

fn check_rows<T: Real>(isa: Isa, draw: &Draw, strided: bool) {
    let mut slab = Slab::<T>::draw(draw, isa);
    // Bodies for strides read all values.
    slab.shape.uniform &= !strided;
    let layout = match strided {
        true => Layout::Interleaved(1 + draw.below(5)),
        false => draw.pick(&[Layout::Contiguous, Layout::Gaps]),
    };
    let entries = Entries::draw(draw, &slab);
    let options = Options::draw(draw);
    let count = draw.below(8);
    let rows: Vec<_> = (0..options.first_row + count)
        .map(|_| {
            let length = length_for(draw, &slab);
            entries.row(draw, length)
        })
        .collect();
    let mut order: Vec<u32> = (0..count as u32).collect();
    draw.shuffle(&mut order);
    order.truncate(draw.below(count + 1));
    let work = Work::Rows(draw.one_in(2).then_some(&order));
    let body = if strided { slab.bodies.strided } else { slab.bodies.rows };
    check(draw, &slab, &entries, &rows, (layout, &[]), &options, body, work);
}

/// Segments of several rows: each row's are in order, and all but the last are full.
fn check_segments<T: Real>(isa: Isa, draw: &Draw) {
    let strided = draw.one_in(2);
    let mut slab = Slab::<T>::draw(draw, isa);
    slab.shape.uniform &= !strided;
    let entries = Entries::draw(draw, &slab);
    let options = Options { stream: false, ..Options::draw(draw) };
    let mut segments = Vec::new();
    for target in 0..1 + draw.below(4) as u32 {
        let count = 1 + draw.below(4);
        for segment in 0..count {
            let length =
                if segment + 1 < count { 128 } else { draw.pick(&[0, 1, 127, 128, draw.below(128)]) };
            let flag = if segment == 0 { FIRST_OF_ROW } else { 0 };
            segments.push((segment, length, target | flag));
        }
    }
    if draw.one_in(2) {
        segments.sort_by_key(|&(segment, ..)| segment);
    }
    let mut rows: Vec<_> = (0..options.first_row).map(|_| Vec::new()).collect();
    rows.extend(segments.iter().map(|&(_, length, _)| entries.row(draw, length)));
    let mut targets = vec![0; options.first_row];
    targets.extend(segments.iter().map(|&(.., target)| target));
    let layout = if strided { Layout::Interleaved(1 + draw.below(5)) } else { Layout::Gaps };
    let body = if strided { slab.bodies.strided } else { slab.bodies.rows };
    check(draw, &slab, &entries, &rows, (layout, &[]), &options, body, Work::Segments(&targets));
}

#[test]
fn rows_of_f64_are_the_reference() {
    draws_for_each_isa(250, |isa, draw| check_rows::<f64>(isa, draw, false));
}

#[test]
fn rows_of_f32_are_the_reference() {
    draws_for_each_isa(250, |isa, draw| check_rows::<f32>(isa, draw, false));
}

#[test]
fn rows_with_a_stride_are_the_reference() {
    draws_for_each_isa(100, |isa, draw| check_rows::<f64>(isa, draw, true));
    draws_for_each_isa(100, |isa, draw| check_rows::<f32>(isa, draw, true));
}

#[test]
fn segments_are_stored_first_and_then_added_in_order() {
    draws_for_each_isa(100, check_segments::<f64>);
    draws_for_each_isa(100, check_segments::<f32>);
}
