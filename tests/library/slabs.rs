//! The columns of X are cut into slabs, and every slab has a compiled kernel.

use rowloom_cpu::{Isa, slab_widths};

#[test]
fn slab_widths_cover_all_columns_and_have_bodies() {
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        for most_units in [8, 16] {
            for k in 0..400 {
                let widths = slab_widths::<f64>(isa, k, most_units);
                assert_eq!(widths.iter().sum::<usize>(), k);
                let lanes = match isa {
                    Isa::Portable => 1,
                    Isa::Avx2 => 4,
                    Isa::Avx512 => 8,
                };
                for width in widths {
                    assert!(matches!(width.div_ceil(lanes), 1..=8 | 12 | 16), "{isa:?} {k} {width}");
                }
            }
        }
    }
}
