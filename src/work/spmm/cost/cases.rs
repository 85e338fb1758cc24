//! Cases measured on a card, which correct the predictions of the weights: a Gaussian process on the residuals of the regression.
//! A prediction moves towards the measured cases in proportion to their similarity; a case similar to none keeps the
//! prediction of the weights.
//!
//! `benches/fit` writes the files. Their lines are `shapes,NAME,...` once, `matrix,DESCRIPTOR,...,NAME` for each matrix, and
//! `case,K,TYPE,COMMON,SHAPE,...` for each of its cases, with the coefficients of the process in hundredths: one that all
//! shapes share and one for each shape, empty where that shape was not measured.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::similarity::{ROW_DESCRIPTORS, X_DESCRIPTORS, row_descriptors, x_descriptors};
use crate::matrix::Dtype;
use crate::work::spmm::Features;

/// Squared distance beyond which a case is skipped: all such cases together would change a time by less than 1 %.
const MAX_SQUARED_DISTANCE: f32 = 25.0;
/// Similarity above which a reason names the measured matrix.
const NAMED_SIMILARITY: f32 = 0.5;

static H200: LazyLock<Option<Cases>> =
    LazyLock::new(|| Cases::parse(include_str!("../../../../configs/kernels/h200-cases.csv")));

/// The measured cases of one kind of card.
#[derive(Debug)]
pub(super) struct Cases {
    /// The column of each shape's coefficients.
    columns: BTreeMap<String, usize>,
    matrices: Vec<Matrix>,
    /// The descriptors of X in each case.
    cases: Vec<[f32; X_DESCRIPTORS]>,
    /// For each case the common coefficient, then one for each shape.
    coefficients: Vec<f32>,
}

#[derive(Debug)]
struct Matrix {
    name: String,
    descriptors: [f32; ROW_DESCRIPTORS],
    cases: Range<usize>,
}

/// The correction that the measured cases give for one case.
#[derive(Debug)]
pub(super) struct Nearby {
    cases: &'static Cases,
    /// Terms to add to the logarithm of a predicted time: the common one, then one for each shape.
    sums: Vec<f32>,
    /// The most similar matrix and its similarity, from 0 to 1.
    nearest: Option<(&'static str, f32)>,
}

/// The similarity of two cases at a squared distance: a Matérn kernel with parameter 3/2.
fn similarity(squared_distance: f32) -> f32 {
    let scaled = (3.0 * squared_distance).sqrt();
    (1.0 + scaled) * (-scaled).exp()
}

fn squared_distance<const N: usize>(one: &[f32; N], other: &[f32; N]) -> f32 {
    one.iter().zip(other).map(|(one, other)| (one - other) * (one - other)).sum()
}

impl Cases {
    /// The cases of the card of that name; `None` where there are none or the file is damaged.
    pub fn of_card(name: &str) -> Option<&'static Self> {
        match name {
            "h200" => H200.as_ref(),
            _ => None,
        }
    }

    /// Parses a file; `None` where it is damaged.
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
                    let mut words = rest.splitn(ROW_DESCRIPTORS + 1, ',');
                    let found: Vec<f32> = words.by_ref().take(ROW_DESCRIPTORS).map_while(number).collect();
                    let (descriptors, name) = (found.try_into().ok()?, words.next()?.into());
                    let cases = read.cases.len()..read.cases.len();
                    read.matrices.push(Matrix { name, descriptors, cases });
                }
                "case" => read.add_case(rest)?,
                _ => return None,
            }
        }
        (!read.cases.is_empty()).then_some(read)
    }

    fn add_case(&mut self, line: &str) -> Option<()> {
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
        self.cases.push(x_descriptors(k, dtype));
        self.matrices.last_mut()?.cases.end = self.cases.len();
        (self.coefficients.len() - before == self.columns.len() + 1).then_some(())
    }

    /// The correction for rows with these features.
    pub fn nearby(&'static self, features: &Features, k: u64, dtype: Dtype) -> Nearby {
        let (rows, x) = (row_descriptors(features), x_descriptors(k, dtype));
        let width = self.columns.len() + 1;
        let mut sums = vec![0.0; width];
        let mut nearest: Option<(&'static str, f32)> = None;
        for matrix in &self.matrices {
            let of_rows = squared_distance(&rows, &matrix.descriptors);
            if nearest.is_none_or(|(_, least)| of_rows < least) {
                nearest = Some((&matrix.name, of_rows));
            }
            if of_rows >= MAX_SQUARED_DISTANCE {
                continue;
            }
            let Range { start, end } = matrix.cases;
            let cases = self.cases.get(start..end).unwrap_or_default();
            let coefficients = self.coefficients.get(start * width..end * width).unwrap_or_default();
            for (case, coefficients) in cases.iter().zip(coefficients.chunks_exact(width)) {
                let distance = of_rows + squared_distance(&x, case);
                if distance < MAX_SQUARED_DISTANCE {
                    let similarity = similarity(distance);
                    sums.iter_mut().zip(coefficients).for_each(|(sum, own)| *sum += similarity * own);
                }
            }
        }
        let nearest = nearest.map(|(name, distance)| (name, similarity(distance)));
        Nearby { cases: self, sums, nearest }
    }
}

fn number(word: &str) -> Option<f32> {
    word.parse().ok().filter(|number: &f32| number.is_finite())
}

impl Nearby {
    /// The term to add to the logarithm of a shape's predicted time.
    pub fn correction(&self, shape: &str) -> f64 {
        let sum = |at: usize| self.sums.get(at).copied().map_or(0.0, f64::from);
        sum(0) + self.cases.columns.get(shape).map_or(0.0, |&at| sum(at))
    }

    /// The most similar measured matrix and its similarity, where that is high enough to be named.
    pub fn most_similar(&self) -> Option<(&'static str, f32)> {
        self.nearest.filter(|&(_, similarity)| similarity > NAMED_SIMILARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::SHAPES;

    const TEXT: &str = "# two matrices\nshapes,csr_runs_16,sell\nmatrix,5,3,0,3,2.5,2,2,4,0,0,band,width=8\n\
        case,8,f64,10,100,-50\ncase,8,f32,10,,-50\nmatrix,9,3,0,3,4.5,2,2,4,0,0,other\ncase,8,f64,0,7,7\n";

    /// The features of the first of these matrices.
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
    fn cases_count_by_their_similarity() {
        let nearby = cases(TEXT).unwrap().nearby(&features(), 8, Dtype::F64);
        assert_eq!(nearby.most_similar(), Some(("band,width=8", 1.0)));
        // In single precision a row of X has half the bytes.
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
    fn a_case_similar_to_none_is_not_corrected() {
        let remote = Features { rows: 1 << 40, max: 1 << 30, ..features() };
        let nearby = cases(TEXT).unwrap().nearby(&remote, 8, Dtype::F64);
        assert_eq!((nearby.correction("sell"), nearby.most_similar()), (0.0, None));
    }

    #[test]
    fn a_damaged_file_gives_no_cases() {
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
        assert!(Cases::of_card("an unmeasured card").is_none());
    }

    #[test]
    fn the_compiled_in_cases_parse_and_name_known_shapes() {
        let cases = Cases::of_card("h200").unwrap();
        assert!(cases.matrices.len() > 50 && cases.cases.len() > 500);
        assert!(cases.columns.keys().all(|shape| SHAPES.contains(&shape.as_str())), "{:?}", cases.columns);
    }
}
