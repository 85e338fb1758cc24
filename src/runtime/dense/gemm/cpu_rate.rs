//! The rate of dense products on this CPU.

use std::time::Instant;

use crate::error::Result;
use crate::kernel::gemm::{PackedProduct, multiply_packed};
use crate::kernel::scaling::scaling;
use crate::matrix::MultiVector;
use crate::runtime::devices::Pool;

/// Rows and columns of the measured product, which takes about a millisecond on all cores of a server.
const SIZE: usize = 512;
/// Measured products; the first one warms up.
const PRODUCTS: usize = 3;

/// The rate of products of square matrices on all threads of the pool, in GFLOP/s.
pub(super) fn measured_gflop_per_s<T: PackedProduct>(pool: &Pool) -> Result<f64> {
    let (a, b) = (MultiVector::<T>::random(SIZE, SIZE, 1)?, MultiVector::<T>::random(SIZE, SIZE, 2)?);
    let mut c = MultiVector::<T>::zeros(SIZE, SIZE)?;
    let mut shortest_s = f64::INFINITY;
    for _ in 0..PRODUCTS {
        let start = Instant::now();
        pool.install(|| multiply_packed(scaling(1.0, 0.0), a.view(), b.view(), c.view_mut()))?;
        shortest_s = shortest_s.min(start.elapsed().as_secs_f64());
    }
    Ok(2.0 * (SIZE as f64).powi(3) / shortest_s.max(1e-9) * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::VALID_RATES;
    use crate::machine::Machine;

    #[test]
    fn a_measured_rate_is_a_valid_one() {
        let pool = Pool::new(&Machine::detect(), Some(2)).unwrap();
        for rate in [measured_gflop_per_s::<f64>(&pool).unwrap(), measured_gflop_per_s::<f32>(&pool).unwrap()]
        {
            assert!(VALID_RATES.contains(&rate) && rate > 0.1, "{rate}");
        }
    }
}
