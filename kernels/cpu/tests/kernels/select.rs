//! Which bodies exist, and into which slabs columns are divided.

use rowloom_cpu::{
    Bodies, FIRST_OF_ROW, Isa, LONGEST_TOGETHER, SEGMENT, SPAN, SlabShape, slab_widths, takes_uniform,
};

use crate::draw::{Draw, instruction_sets};
use crate::real::Real;

/// Lanes of the widest register.
pub fn lanes<T>(isa: Isa) -> usize {
    match isa {
        Isa::Portable => 1,
        Isa::Avx2 => 32 / size_of::<T>(),
        Isa::Avx512 => 64 / size_of::<T>(),
    }
}

/// The numbers of registers that have bodies.
fn units(isa: Isa) -> &'static [usize] {
    const FEW: bool = cfg!(feature = "few-instances");
    match isa {
        Isa::Portable => &[1, 2, 3, 4, 5, 6, 7, 8],
        Isa::Avx2 if FEW => &[1, 2, 3, 8, 12],
        Isa::Avx2 => &[1, 2, 3, 4, 5, 6, 7, 8, 12],
        Isa::Avx512 if FEW => &[1, 2, 3, 8, 12, 16],
        Isa::Avx512 => &[1, 2, 3, 4, 5, 6, 7, 8, 12, 16],
    }
}

/// A slab and its bodies.
#[derive(Clone, Copy)]
pub struct Slab<T> {
    pub isa: Isa,
    pub shape: SlabShape,
    pub bodies: Bodies<T>,
}

impl<T: Real> Slab<T> {
    pub fn new(isa: Isa, shape: SlabShape) -> Option<Self> {
        T::select(isa, shape).map(|bodies| Self { isa, shape, bodies })
    }

    /// A slab with bodies; its width is often a multiple of the lanes, or one off.
    pub fn draw(draw: &Draw, isa: Isa) -> Self {
        let lanes = lanes::<T>(isa);
        let width = match draw.below(4) {
            0 => 1 + draw.below(if isa == Isa::Portable { 8 } else { 2 * lanes }),
            _ => {
                let tail = draw.pick(&[lanes, lanes, 1, (lanes - 1).max(1), 1 + draw.below(lanes)]);
                (draw.pick(units(isa)) - 1) * lanes + tail
            }
        };
        let shape = SlabShape { width, packed: draw.one_in(2), uniform: draw.one_in(3) };
        Self::new(isa, shape).unwrap_or_else(|| panic!("{} has no body for {shape:?}", isa.name()))
    }

    /// Whether the bodies read the first value only.
    pub fn reads_one_value(&self) -> bool {
        self.shape.uniform && self.isa == Isa::Avx512
    }
}

/// Lanes of the register that a slab uses: narrow slabs use smaller ones.
fn register_lanes<T>(isa: Isa, width: usize) -> usize {
    match isa {
        Isa::Portable => 1,
        _ => width.next_power_of_two().min(lanes::<T>(isa)),
    }
}

fn check_bodies<T: Real>() {
    for isa in instruction_sets() {
        for width in 0..=20 * lanes::<T>(isa) {
            for (packed, uniform) in [(false, false), (false, true), (true, false), (true, true)] {
                let what = format!("{} columns, {} bytes, {}, {uniform}", width, size_of::<T>(), isa.name());
                let registers = width.div_ceil(lanes::<T>(isa));
                let bodies = T::select(isa, SlabShape { width, packed, uniform });
                assert_eq!(bodies.is_some(), units(isa).contains(&registers), "{what}");
                let Some(bodies) = bodies else { continue };
                let filled = (registers - 1) * register_lanes::<T>(isa, width);
                assert_eq!(bodies.tail_lanes, width - filled, "{what}");
                assert_eq!(
                    bodies.shifted.is_some(),
                    registers == 1 || registers == 2 && isa != Isa::Portable,
                    "{what}"
                );
                let most_identical = match registers {
                    _ if uniform && isa == Isa::Avx512 => Some(64),
                    1..=6 => Some(4),
                    7 | 8 => Some(3),
                    _ => None,
                };
                assert_eq!(bodies.identical.map(|identical| identical.most_rows), most_identical, "{what}");
            }
        }
    }
}

#[test]
fn bodies_exist_for_the_listed_numbers_of_registers_and_no_others() {
    check_bodies::<f64>();
    check_bodies::<f32>();
}

#[test]
fn slabs_are_as_wide_as_there_are_bodies_for() {
    let cases: [(Isa, usize, usize, &[usize]); 31] = [
        (Isa::Portable, 0, 16, &[]),
        (Isa::Portable, 1, 16, &[1]),
        (Isa::Portable, 8, 16, &[8]),
        (Isa::Portable, 9, 16, &[5, 4]),
        (Isa::Portable, 10, 16, &[5, 5]),
        (Isa::Portable, 11, 16, &[6, 5]),
        (Isa::Portable, 12, 16, &[8, 4]),
        (Isa::Portable, 16, 16, &[8, 8]),
        (Isa::Portable, 17, 16, &[8, 5, 4]),
        (Isa::Avx2, 1, 16, &[1]),
        (Isa::Avx2, 31, 16, &[31]),
        (Isa::Avx2, 32, 16, &[32]),
        (Isa::Avx2, 33, 16, &[20, 13]),
        (Isa::Avx2, 41, 16, &[24, 17]),
        (Isa::Avx2, 44, 16, &[24, 20]),
        (Isa::Avx2, 45, 16, &[48 - 3]),
        (Isa::Avx2, 48, 16, &[48]),
        (Isa::Avx2, 49, 16, &[48, 1]),
        (Isa::Avx2, 64, 16, &[48, 16]),
        (Isa::Avx2, 48, 8, &[32, 16]),
        (Isa::Avx2, 45, 11, &[32, 13]),
        (Isa::Avx2, 48, 12, &[48]),
        (Isa::Avx512, 64, 16, &[64]),
        (Isa::Avx512, 65, 16, &[40, 25]),
        (Isa::Avx512, 88, 16, &[48, 40]),
        (Isa::Avx512, 89, 16, &[89]),
        (Isa::Avx512, 120, 16, &[96, 24]),
        (Isa::Avx512, 121, 16, &[121]),
        (Isa::Avx512, 129, 16, &[128, 1]),
        (Isa::Avx512, 128, 15, &[96, 32]),
        (Isa::Avx512, 128, 8, &[64, 64]),
    ];
    for (isa, k, most_units, expected) in cases {
        assert_eq!(slab_widths::<f64>(isa, k, most_units), expected, "{} {k} {most_units}", isa.name());
        let lanes = if isa == Isa::Portable { 1 } else { 2 };
        let doubled: Vec<_> = expected.iter().map(|width| width * lanes).collect();
        assert_eq!(
            slab_widths::<f32>(isa, k * lanes, most_units),
            doubled,
            "{} {k} {most_units}",
            isa.name()
        );
    }
}

#[test]
fn slabs_cover_all_columns() {
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        for k in 0..700 {
            for most_units in [8, 16] {
                assert_eq!(slab_widths::<f64>(isa, k, most_units).iter().sum::<usize>(), k);
                assert_eq!(slab_widths::<f32>(isa, k, most_units).iter().sum::<usize>(), k);
            }
        }
    }
}

#[test]
fn only_the_widest_instruction_set_has_bodies_for_equal_values() {
    assert!(takes_uniform(Isa::Avx512));
    assert!(!takes_uniform(Isa::Avx2));
    assert!(!takes_uniform(Isa::Portable));
}

/// Stored formats and the kernels of other devices have the same constants.
#[test]
fn constants_of_the_canonical_order_do_not_change() {
    assert_eq!((SEGMENT, SPAN, LONGEST_TOGETHER, FIRST_OF_ROW), (128, 1024, 256, 0x8000_0000));
}
