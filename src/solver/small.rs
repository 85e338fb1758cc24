//! Dense K × K matrices on the host: Cholesky factors and eigenvalues.

/// A square matrix, by rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Small {
    size: usize,
    values: Vec<f64>,
}

impl Small {
    /// The matrix of a function of row and column.
    pub fn new(size: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let values = (0..size * size).map(|place| value(place / size, place % size)).collect();
        Self { size, values }
    }

    /// The element in `row` and `column`.
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.size + column]
    }

    fn set(&mut self, row: usize, column: usize, value: f64) {
        self.values[row * self.size + column] = value;
    }

    /// Whether all elements are finite.
    pub fn is_finite(&self) -> bool {
        self.values.iter().all(|value| value.is_finite())
    }

    /// For a symmetric positive definite matrix G = Rᵀ R: the inverse of the upper triangular R. None where G is not numerically
    /// positive definite. G is scaled to a unit diagonal first, so the lengths of columns have no effect; `shift` is added to
    /// that diagonal. A pivot of at most `rounding` counts as zero.
    pub fn inverse_factor(&self, shift: f64, rounding: f64) -> Option<Self> {
        let size = self.size;
        let scale: Vec<f64> = (0..size).map(|index| 1.0 / self.at(index, index).sqrt()).collect();
        if !scale.iter().all(|scale| scale.is_finite() && *scale > 0.0) {
            return None;
        }
        let mut factor = Self::new(size, |_, _| 0.0);
        for row in 0..size {
            for column in row..size {
                let scaled = self.at(row, column) * scale[row] * scale[column];
                let shifted = if row == column { scaled + shift } else { scaled };
                let known: f64 = (0..row).map(|above| factor.at(above, row) * factor.at(above, column)).sum();
                let rest = shifted - known;
                match row == column {
                    true if rest.is_nan() || rest <= rounding => return None,
                    true => factor.set(row, row, rest.sqrt()),
                    false => factor.set(row, column, rest / factor.at(row, row)),
                }
            }
        }
        let mut inverse = Self::new(size, |_, _| 0.0);
        for column in 0..size {
            inverse.set(column, column, 1.0 / factor.at(column, column));
            for row in (0..column).rev() {
                let sum: f64 =
                    (row + 1..=column).map(|inner| factor.at(row, inner) * inverse.at(inner, column)).sum();
                inverse.set(row, column, -sum / factor.at(row, row));
            }
        }
        let unscaled = Self::new(size, |row, column| scale[row] * inverse.at(row, column));
        unscaled.is_finite().then_some(unscaled)
    }

    /// The eigenvalues of a symmetric matrix and its orthonormal eigenvectors as columns, by cyclic Jacobi rotations. Only the
    /// symmetric part of the matrix counts. The order is that of `before`, which compares eigenvalues.
    pub fn eigen(&self, before: impl Fn(f64, f64) -> std::cmp::Ordering) -> (Vec<f64>, Self) {
        /// Jacobi's method converges quadratically; ten sweeps are usual for the largest matrices.
        const MOST_SWEEPS: usize = 60;
        let size = self.size;
        let mut a = Self::new(size, |row, column| 0.5 * (self.at(row, column) + self.at(column, row)));
        let mut vectors = Self::new(size, |row, column| if row == column { 1.0 } else { 0.0 });
        let frobenius = a.values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let negligible = 0.1 * f64::EPSILON * frobenius / size.max(1) as f64;
        for _ in 0..MOST_SWEEPS {
            let mut rotated = false;
            for p in 0..size {
                for q in p + 1..size {
                    let apart = a.at(p, q);
                    if apart.abs() <= negligible {
                        continue;
                    }
                    rotated = true;
                    let theta = (a.at(q, q) - a.at(p, p)) / (2.0 * apart);
                    let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
                    let cosine = 1.0 / tangent.hypot(1.0);
                    let sine = tangent * cosine;
                    for index in 0..size {
                        let (left, right) = (a.at(index, p), a.at(index, q));
                        a.set(index, p, cosine * left - sine * right);
                        a.set(index, q, sine * left + cosine * right);
                    }
                    for index in 0..size {
                        let (upper, lower) = (a.at(p, index), a.at(q, index));
                        a.set(p, index, cosine * upper - sine * lower);
                        a.set(q, index, sine * upper + cosine * lower);
                        let (left, right) = (vectors.at(index, p), vectors.at(index, q));
                        vectors.set(index, p, cosine * left - sine * right);
                        vectors.set(index, q, sine * left + cosine * right);
                    }
                    a.set(p, q, 0.0);
                    a.set(q, p, 0.0);
                }
            }
            if !rotated {
                break;
            }
        }
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_by(|&one, &other| before(a.at(one, one), a.at(other, other)));
        let values = order.iter().map(|&index| a.at(index, index)).collect();
        (values, Self::new(size, |row, column| vectors.at(row, order[column])))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A symmetric matrix with elements from -1 to 1.
    fn symmetric() -> impl Strategy<Value = Small> {
        (1usize..12).prop_flat_map(|size| {
            proptest::collection::vec(-1.0..1.0f64, size * size).prop_map(move |values| {
                Small::new(size, |row, column| values[row.min(column) * size + row.max(column)])
            })
        })
    }

    fn product(a: &Small, b: &Small) -> Small {
        Small::new(a.size, |row, column| (0..a.size).map(|k| a.at(row, k) * b.at(k, column)).sum())
    }

    fn transposed(a: &Small) -> Small {
        Small::new(a.size, |row, column| a.at(column, row))
    }

    proptest! {
        #[test]
        fn eigenvectors_are_orthonormal_and_belong_to_their_eigenvalues(a in symmetric()) {
            let (values, vectors) = a.eigen(|one, other| one.total_cmp(&other));
            let images = product(&a, &vectors);
            let gram = product(&transposed(&vectors), &vectors);
            for row in 0..a.size {
                for (column, value) in values.iter().enumerate() {
                    let error = images.at(row, column) - value * vectors.at(row, column);
                    prop_assert!(error.abs() < 1e-13, "{error}");
                    let unit = f64::from(row == column);
                    prop_assert!((gram.at(row, column) - unit).abs() < 1e-13);
                }
            }
            prop_assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
        }

        #[test]
        fn the_inverse_factor_makes_a_positive_definite_matrix_the_identity(a in symmetric()) {
            let size = a.size;
            let square = product(&transposed(&a), &a);
            // Columns of very different lengths.
            let length = |index: usize| 10f64.powi(3 * index as i32 - 9);
            let spd = Small::new(size, |row, column| {
                let shifted = square.at(row, column) + if row == column { 1.0 } else { 0.0 };
                shifted * length(row) * length(column)
            });
            let inverse = spd.inverse_factor(0.0, 1e-14).unwrap();
            let unit = product(&transposed(&inverse), &product(&spd, &inverse));
            for row in 0..size {
                for column in 0..size {
                    prop_assert!((unit.at(row, column) - f64::from(row == column)).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn dependent_columns_have_no_factor_unless_shifted() {
        let dependent = Small::new(3, |row, column| ((row + 1) * (column + 1)) as f64);
        assert_eq!(dependent.inverse_factor(0.0, 1e-14), None);
        assert!(dependent.inverse_factor(1e-8, 1e-14).is_some());
        assert_eq!(Small::new(2, |_, _| f64::NAN).inverse_factor(1e-8, 1e-14), None);
    }
}
