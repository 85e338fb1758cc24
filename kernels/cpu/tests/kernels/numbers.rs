//! The arithmetic of the value types.

use rowloom_cpu::Number;

use crate::draw::draws;
use crate::real::Real;

fn check_arithmetic<T: Real + Number>(quotient: impl Fn(T, T) -> T) {
    assert_eq!(T::ZERO.bits(), T::of(0.0).bits());
    assert_eq!(T::MINUS_ZERO.bits(), T::of(-0.0).bits());
    draws(500, |draw| {
        let [a, b, c] = [(); 3].map(|()| T::of(draw.number()));
        assert_eq!(a.fused_multiply_add(b, c).bits(), a.fma(b, c).bits());
        assert_eq!(a.plus(b).bits(), a.sum(b).bits());
        assert_eq!(a.minus(b).bits(), a.difference(b).bits());
        assert_eq!(a.times(b).bits(), a.product(b).bits());
        assert_eq!(a.over(b).bits(), quotient(a, b).bits());
    });
}

#[test]
fn arithmetic_is_rounded_once() {
    check_arithmetic::<f64>(|a, b| a / b);
    check_arithmetic::<f32>(|a, b| a / b);
    // The product alone would be rounded to 1.
    let (above, below) = (1.0 + f64::EPSILON, 1.0 - f64::EPSILON);
    assert_eq!(above.fused_multiply_add(below, -1.0), -f64::EPSILON * f64::EPSILON);
    let (above, below) = (1.0 + f32::EPSILON, 1.0 - f32::EPSILON);
    assert_eq!(above.fused_multiply_add(below, -1.0), -f32::EPSILON * f32::EPSILON);
}
