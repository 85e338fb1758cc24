// Y = A X with lanes over the columns of X for an A whose values are all equal: row pointers, columns and one value, with a list of
// the segments of long rows, in canonical order for rows of any length. The method is in cuts.cuh.

// fast: no spills
// exact: EXACT_K=1 ENTRY=form SCALAR=double BYTES=8 LANES=1 VECTORS=1
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1
// exact: EXACT_K=32 ENTRY=form SCALAR=double BYTES=16 LANES=16 VECTORS=1
// exact: EXACT_K=32 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=2
// exact: EXACT_K=64 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=4

// Compilers of forms for a K define it, too.
#ifndef UNIFORM
#define UNIFORM
#endif
#include "scaling.cuh"
#include "packs.cuh"
#include "lanes.cuh"
#include "cuts.cuh"

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(MOST_THREADS) ENTRY(PARAMETERS(SCALAR))
{
    csr_cuts<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS>(ARGUMENTS);
}
#else
#define PATTERN(type, T, B, L, V)                                                                                      \
    extern "C" __global__ void __launch_bounds__(MOST_THREADS) csr_pattern_##type##_b##B##l##L##v##V(PARAMETERS(T))    \
    {                                                                                                                  \
        csr_cuts<T, B / sizeof(T), L, V>(ARGUMENTS);                                                                   \
    }
PATTERN(f64, double, 8, 1, 1) LADDER(PATTERN, f64, double)
PATTERN(f32, float, 4, 1, 1) PATTERN(f32, float, 8, 1, 1) LADDER(PATTERN, f32, float)
#endif
