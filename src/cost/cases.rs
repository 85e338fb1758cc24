//! Cases that were measured on a card, for what weights alone do not tell: predictions are drawn towards the cases that look
//! like the one at hand. A matrix that was measured is remembered, one that looks like none is left to the weights.
//!
//! This is a Gaussian process on what the weights left over. The files are made by `benches/fit`; their lines are
//! `shapes,NAME,...` once, `matrix,LOOKS,...,NAME` for each matrix, and `case,K,TYPE,COMMON,SHAPE,...` for each of its
//! cases, with the process' coefficients in hundredths: one that all shapes share, and one for each shape, empty where it
//! was not measured.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::looks::{OF_ROWS, OF_X, looks_of_rows, looks_of_x};
use crate::matrix::Dtype;
use crate::work::Features;

/// Cases further apart than this, squared, are not asked: together they would change a time by less than 1 %.
const FAR: f32 = 25.0;
/// Matrices that are closer than this are said to look alike.
const ALIKE: f32 = 0.5;

static H200: LazyLock<Option<Cases>> =
    LazyLock::new(|| Cases::parse(include_str!("../../configs/kernels/h200-cases.csv")));

/// What was measured on one kind of card.
#[derive(Debug)]
pub(super) struct Cases {
    /// Column of each shape's coefficients.
    columns: BTreeMap<String, usize>,
    matrices: Vec<Matrix>,
    /// What X looked like.
    cases: Vec<[f32; OF_X]>,
    /// Of each case, the common coefficient and one for each shape.
    coefficients: Vec<f32>,
}

#[derive(Debug)]
struct Matrix {
    name: String,
    looks: [f32; OF_ROWS],
    cases: Range<usize>,
}

/// What the cases say of one that is at hand.
#[derive(Debug)]
pub(super) struct Nearby {
    cases: &'static Cases,
    /// What is to be added to logarithms of predicted times: the common part, then the shapes' own.
    sums: Vec<f32>,
    /// The matrix that looks most like it, and how much, from 0 to 1.
    nearest: Option<(&'static str, f32)>,
}

/// How much cases tell of each other that are so far apart, squared.
fn closeness(apart: f32) -> f32 {
    let scaled = (3.0 * apart).sqrt();
    (1.0 + scaled) * (-scaled).exp()
}

fn apart<const N: usize>(one: &[f32; N], other: &[f32; N]) -> f32 {
    one.iter().zip(other).map(|(one, other)| (one - other) * (one - other)).sum()
}

impl Cases {
    /// Those of the card of that name; none where there are none, or they are damaged.
    pub fn of_card(name: &str) -> Option<&'static Self> {
        match name {
            "h200" => H200.as_ref(),
            _ => None,
        }
    }

    /// Reads a file; none where it is damaged.
    fn parse(text: &str) -> Option<Self> {
        let mut read =
            Self { columns: BTreeMap::new(), matrices: vec![], cases: vec![], coefficients: vec![] };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (kind, rest) = line.split_once(',')?;
            match kind {
                "shapes" if read.columns.is_empty() => {
                    read.columns = rest.split(',').zip(1..).map(|(name, at)| (name.into(), at)).collect();
                }
                "matrix" => {
                    let mut words = rest.splitn(OF_ROWS + 1, ',');
                    let looks: Vec<f32> = words.by_ref().take(OF_ROWS).map_while(number).collect();
                    let (looks, name) = (looks.try_into().ok()?, words.next()?.into());
                    read.matrices.push(Matrix { name, looks, cases: read.cases.len()..read.cases.len() });
                }
                "case" => read.take_case(rest)?,
                _ => return None,
            }
        }
        (!read.cases.is_empty()).then_some(read)
    }

    fn take_case(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(',');
        let k = words.next()?.parse().ok()?;
        let dtype = match words.next()? {
            "f64" => Dtype::F64,
            "f32" => Dtype::F32,
            _ => return None,
        };
        let before = self.coefficients.len();
        for word in words {
            self.coefficients.push(if word.is_empty() { 0.0 } else { number(word)? / 100.0 });
        }
        self.cases.push(looks_of_x(k, dtype));
        self.matrices.last_mut()?.cases.end = self.cases.len();
        (self.coefficients.len() - before == self.columns.len() + 1).then_some(())
    }

    /// What they say of rows that look like this.
    pub fn nearby(&'static self, features: &Features, k: u64, dtype: Dtype) -> Nearby {
        let (rows, x) = (looks_of_rows(features), looks_of_x(k, dtype));
        let width = self.columns.len() + 1;
        let mut sums = vec![0.0; width];
        let mut nearest: Option<(&'static str, f32)> = None;
        for matrix in &self.matrices {
            let rows_apart = apart(&rows, &matrix.looks);
            if nearest.is_none_or(|(_, least)| rows_apart < least) {
                nearest = Some((&matrix.name, rows_apart));
            }
            if rows_apart >= FAR {
                continue;
            }
            let Range { start, end } = matrix.cases;
            let cases = self.cases.get(start..end).unwrap_or_default();
            let coefficients = self.coefficients.get(start * width..end * width).unwrap_or_default();
            for (case, coefficients) in cases.iter().zip(coefficients.chunks_exact(width)) {
                let apart = rows_apart + apart(&x, case);
                if apart < FAR {
                    let close = closeness(apart);
                    sums.iter_mut().zip(coefficients).for_each(|(sum, own)| *sum += close * own);
                }
            }
        }
        let nearest = nearest.map(|(name, apart)| (name, closeness(apart)));
        Nearby { cases: self, sums, nearest }
    }
}

fn number(word: &str) -> Option<f32> {
    word.parse().ok().filter(|number: &f32| number.is_finite())
}

impl Nearby {
    /// What is to be added to the logarithm of a shape's predicted time.
    pub fn correction(&self, shape: &str) -> f64 {
        let sum = |at: usize| self.sums.get(at).copied().map_or(0.0, f64::from);
        sum(0) + self.cases.columns.get(shape).map_or(0.0, |&at| sum(at))
    }

    /// The measured matrix that looks much like it.
    pub fn alike(&self) -> Option<&'static str> {
        self.nearest.filter(|&(_, close)| close > ALIKE).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::SHAPES;

    const TEXT: &str = "# two matrices\nshapes,csr_runs_16,sell\nmatrix,5,3,0,3,2.5,2,2,4,0,0,band,width=8\n\
        case,8,f64,10,100,-50\ncase,8,f32,10,,-50\nmatrix,9,3,0,3,4.5,2,2,4,0,0,other\ncase,8,f64,0,7,7\n";

    /// Looks like the first of these.
    fn features() -> Features {
        let mut features = Features {
            rows: 1024,
            nnz: 8192,
            max: 8,
            end_column: 1024,
            slice_fill: 1.0,
            ..Features::default()
        };
        (features.locality.group_columns, features.locality.panel_columns) = (0.5, 0.5);
        features
    }

    fn cases(text: &str) -> Option<&'static Cases> {
        Cases::parse(text).map(|cases| &*Box::leak(Box::new(cases)))
    }

    #[test]
    fn the_case_at_hand_counts_whole_and_others_by_how_close_they_are() {
        let nearby = cases(TEXT).unwrap().nearby(&features(), 8, Dtype::F64);
        assert_eq!(nearby.alike(), Some("band,width=8"));
        // In single precision rows of X are one doubling narrower.
        let single = (3.0f64 * (1.0 + 1.0 / 2.25)).sqrt();
        let single = (1.0 + single) * (-single).exp();
        let far = (3.0f64 * 20.0).sqrt();
        let far = (1.0 + far) * (-far).exp();
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-5, "{one} {other}");
        close(nearby.correction("csr_runs_16"), 1.1 + 0.1 * single + 0.07 * far);
        close(nearby.correction("sell"), -0.4 - 0.4 * single + 0.07 * far);
        close(nearby.correction("hybrid"), 0.1 + 0.1 * single);
    }

    #[test]
    fn what_looks_like_nothing_is_left_alone() {
        let strange = Features { rows: 1 << 40, max: 1 << 30, ..features() };
        let nearby = cases(TEXT).unwrap().nearby(&strange, 8, Dtype::F64);
        assert_eq!((nearby.correction("sell"), nearby.alike()), (0.0, None));
    }

    #[test]
    fn damaged_files_are_as_if_they_were_not_there() {
        for (sound, damaged) in [
            ("shapes", "shape"),
            ("matrix,5,3", "matrix,5,x"),
            ("matrix,5,3", "matrix,3"),
            ("f32", "f16"),
            ("10,100,-50", "10,100"),
            ("10,100,-50", "10,100,-50,3"),
            ("10,100,-50", "10,NaN,-50"),
            ("case,8,f64", "case,-8,f64"),
            ("# two matrices", "case,8,f64,1,2,3"),
            ("# two matrices", "no comma"),
        ] {
            assert!(TEXT.contains(sound) && cases(&TEXT.replacen(sound, damaged, 1)).is_none(), "{damaged}");
        }
        assert!(cases("").is_none());
        assert!(Cases::of_card("a card that nobody measured").is_none());
    }

    #[test]
    fn what_is_built_in_can_be_read_and_speaks_of_shapes_that_there_are() {
        let cases = Cases::of_card("h200").unwrap();
        assert!(cases.matrices.len() > 50 && cases.cases.len() > 500);
        assert!(cases.columns.keys().all(|shape| SHAPES.contains(&shape.as_str())), "{:?}", cases.columns);
    }
}
