//! The scaling of sums where they are stored.

use rowloom_cpu::Scaling;

use crate::draw::draws_for_each_isa;
use crate::guarded::{Guarded, Side};
use crate::real::{Real, assert_bits};

fn check_scaled_store<T: Real>() {
    draws_for_each_isa(200, |isa, draw| {
        let count = draw.below(40);
        let alpha = T::of(draw.pick(&[0.0, 1.0, -1.0, draw.number()]));
        let beta = T::of(draw.pick(&[0.0, -0.0, 1.0, -1.0, draw.number()]));
        let scaling = Scaling { alpha, beta };
        let sums = Guarded::<T>::of(&draw.numbers::<T>(count), Side::End);
        let mut y = Guarded::<T>::new(count, Side::End);
        let reads_old = beta != T::of(0.0);
        assert_eq!(scaling.reads_old(), reads_old);
        if reads_old {
            y.copy_from_slice(&draw.numbers::<T>(count));
        }
        let expected: Vec<T> = y
            .iter()
            .zip(sums.iter())
            .map(|(&y, &sum)| if reads_old { beta.fma(y, alpha.product(sum)) } else { alpha.product(sum) })
            .collect();
        let applied: Vec<T> = y.iter().zip(sums.iter()).map(|(&y, &sum)| scaling.apply(sum, y)).collect();
        assert_bits(&applied, &expected, "applied");
        // SAFETY: the processor has the instruction set.
        unsafe { T::scaled_store(isa)(scaling, &sums, &mut y) };
        assert_bits(&y, &expected, "stored");
        assert!(y.is_intact());
    });
}

#[test]
fn scaled_stores_do_not_read_the_old_y_if_beta_is_zero() {
    check_scaled_store::<f64>();
    check_scaled_store::<f32>();
}
