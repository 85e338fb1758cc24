//! Axes: their ticks, the labels of the ticks in one notation, and the position of a value.

use super::data::{Axis, Scale};
use super::text;

/// Upper limit of ticks on an axis.
pub(super) const MOST: usize = 9;

/// An axis with its ends and ticks; the first and last tick are its ends.
#[derive(Debug)]
pub(super) struct Ticks {
    scale: Scale,
    /// Values of the ticks, ascending.
    pub values: Vec<f64>,
    /// Labels of the ticks.
    pub labels: Vec<String>,
}

impl Ticks {
    /// Ticks that enclose every value of `values` that `axis` can show, at most `most` of them; `None` without a value.
    pub fn around(axis: &Axis, values: impl Iterator<Item = f64>, most: usize) -> Option<Self> {
        let mut ends: Option<(f64, f64)> = None;
        let mut whole = true;
        for value in values.filter(|value| can_show(axis.scale, *value)) {
            let (low, high) = ends.unwrap_or((value, value));
            ends = Some((low.min(value), high.max(value)));
            whole &= value.fract() == 0.0;
        }
        let (low, high) = ends?;
        let most = most.clamp(3, MOST);
        Some(match axis.scale {
            Scale::Linear if axis.from_zero => linear(low.min(0.0), high.max(0.0), whole, most),
            Scale::Linear => linear(low, high, whole, most),
            Scale::Log2 => log2(low, high, most),
            Scale::Log10 => log10(low, high, most),
        })
    }

    /// The position of a value: 0 at the start of the axis, 1 at its end; `None` if the axis cannot show it.
    pub fn share(&self, value: f64) -> Option<f64> {
        let position = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log2 | Scale::Log10 => value.log2(),
        };
        if !can_show(self.scale, value) {
            return None;
        }
        let (low, high) = (position(self.low()), position(self.high()));
        Some((position(value) - low) / (high - low))
    }

    /// The start of the axis.
    pub fn low(&self) -> f64 {
        self.values.first().copied().unwrap_or(0.0)
    }

    /// The end of the axis.
    pub fn high(&self) -> f64 {
        self.values.last().copied().unwrap_or(1.0)
    }
}

/// Whether an axis of this scale can show `value`.
pub(super) fn can_show(scale: Scale, value: f64) -> bool {
    text::drawable(value) && (scale == Scale::Linear || value > 1e-100)
}

/// Upper limit of ticks of a horizontal axis in a plot of `width`. A logarithmic axis may skip labels, so that it can end at the
/// next power.
pub(super) fn most_across(scale: Scale, width: f64) -> usize {
    if scale == Scale::Linear { (width / 58.0) as usize } else { MOST }
}

/// Upper limit of ticks of a vertical axis.
pub(super) fn most_up(scale: Scale) -> usize {
    if scale == Scale::Linear { 7 } else { MOST }
}

/// Steps of 1, 2, 2.5 or 5 times a power of ten: those with the least empty axis, and of these the finest. Ticks of integers are
/// integers.
fn linear(mut low: f64, mut high: f64, whole: bool, most: usize) -> Ticks {
    let size = low.abs().max(high.abs());
    if high - low <= size * 1e-9 {
        // A single value: the axis reaches from zero to it.
        (low, high) = if size == 0.0 { (0.0, 1.0) } else { (low.min(0.0), high.max(0.0)) };
    }
    let magnitude = ((high - low) / most as f64).log10().floor() as i32;
    let multiples = |step: f64| ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
    let emptiness = |step: f64| {
        let (first, last) = multiples(step);
        (last - first) * step / (high - low) - 0.01 * (last - first)
    };
    let steps = (magnitude..=magnitude + 2).flat_map(|power| [1.0, 2.0, 2.5, 5.0].map(|m| product(m, power)));
    let step = steps
        .filter(|step| !whole || step.fract() == 0.0)
        .filter(|step| multiples(*step).1 - multiples(*step).0 < most as f64)
        .min_by(|a, b| emptiness(*a).total_cmp(&emptiness(*b)))
        .unwrap_or(1.0);
    let (first, last) = multiples(step);
    // A quotient by a power of ten is the nearest number to what its label says; a product by a fraction need not be.
    let exact = |index: usize| {
        let multiple = first + index as f64;
        if step < 1.0 { multiple / (1.0 / step) } else { multiple * step }
    };
    let values: Vec<f64> = (0..=(last - first) as usize).map(exact).collect();
    let labels = if size >= 1e7 || step < 1e-6 {
        // One exponent for the whole axis: 0, 0.5×10⁷, 1.0×10⁷.
        let exponent = size.log10().floor() as i32;
        let digits = digits_of(product(step, -exponent));
        let label = |value: &f64| match *value == 0.0 {
            true => "0".to_string(),
            false => {
                let mantissa = text::fixed(product(*value, -exponent), digits, false);
                format!("{mantissa}×{}", text::power(10, exponent))
            }
        };
        values.iter().map(label).collect()
    } else {
        values.iter().map(|value| text::fixed(*value, digits_of(step), false)).collect()
    };
    Ticks { scale: Scale::Linear, labels, values }
}

/// Digits after the decimal point that multiples of `step` need.
fn digits_of(step: f64) -> usize {
    let digits = usize::try_from(-(step.log10() + 1e-9).floor() as i64).unwrap_or(0);
    if is_quarter(step) && step < 10.0 { digits + 1 } else { digits }
}

fn is_quarter(step: f64) -> bool {
    let mantissa = step / 10f64.powi((step.log10() + 1e-9).floor() as i32);
    (mantissa - 2.5).abs() < 1e-6
}

fn log2(low: f64, high: f64, most: usize) -> Ticks {
    let exponents = exponents(low.log2(), high.log2(), most);
    // One notation for the whole axis.
    let plain = exponents.iter().all(|exponent| (-6..=16).contains(exponent));
    let label = |exponent: &i32| match plain {
        true => text::fixed(2f64.powi(*exponent), usize::try_from(-exponent).unwrap_or(0), true),
        false => text::power(2, *exponent),
    };
    Ticks {
        scale: Scale::Log2,
        values: exponents.iter().map(|exponent| 2f64.powi(*exponent)).collect(),
        labels: exponents.iter().map(label).collect(),
    }
}

/// The finest of three ladders that is short enough: 1, 2, 5, 10; 1, 3, 10; powers of ten.
fn log10(low: f64, high: f64, most: usize) -> Ticks {
    let ladders: [&[f64]; 2] = [&[1.0, 2.0, 5.0], &[1.0, 3.0]];
    let fine =
        ladders.into_iter().map(|mantissas| ladder(mantissas, low, high)).find(|values| values.len() <= most);
    let values =
        fine.unwrap_or_else(|| exponents(low.log10(), high.log10(), most).into_iter().map(ten).collect());
    // One notation for the whole axis.
    let plain = values.iter().all(|value| (1e-4..1e5).contains(value));
    let label = |value: &f64| match plain {
        true => text::number(*value),
        false => text::scientific(*value),
    };
    Ticks { scale: Scale::Log10, labels: values.iter().map(label).collect(), values }
}

/// Whole exponents around `low..=high`, evenly apart, at least two.
fn exponents(low: f64, high: f64, most: usize) -> Vec<i32> {
    // Logarithms of exact powers may be off by a rounding.
    let first = (low + 1e-9).floor() as i32;
    let last = ((high - 1e-9).ceil() as i32).max(first + 1);
    let step = (1..).find(|step| (last - first + step - 1) / step < most as i32).unwrap_or(1);
    let count = (last - first + step - 1) / step;
    (0..=count).map(|index| first + index * step).collect()
}

/// `mantissas` times powers of ten, from the last that is not above `low` to the first that is not below `high`.
fn ladder(mantissas: &[f64], low: f64, high: f64) -> Vec<f64> {
    let first = (low.log10() + 1e-9).floor() as i32;
    let last = (high.log10() - 1e-9).ceil() as i32 + 1;
    let mut values: Vec<f64> = Vec::new();
    for value in (first..=last).flat_map(|exponent| mantissas.iter().map(move |m| product(*m, exponent))) {
        if value <= low * (1.0 + 1e-9) {
            values.clear();
        }
        values.push(value);
        if value >= high * (1.0 - 1e-9) && values.len() > 1 {
            break;
        }
    }
    values
}

fn ten(exponent: i32) -> f64 {
    product(1.0, exponent)
}

/// `mantissa` times a power of ten, correctly rounded for negative exponents too.
fn product(mantissa: f64, exponent: i32) -> f64 {
    if exponent < 0 { mantissa / 10f64.powi(-exponent) } else { mantissa * 10f64.powi(exponent) }
}
