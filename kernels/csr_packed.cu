// Y = A X with lanes over the columns of X for an A that crosses the link packed: columns of 16, 20, 24 or 32 bits from a base that 16
// rows have in common, values in one or two bytes where few differ, with a list of the segments of long rows, in canonical order for
// rows of any length. The method is in packed.cuh.

// fast: no spills
// exact: EXACT_K=1 ENTRY=form SCALAR=double BYTES=8 LANES=1 VECTORS=1
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1
// exact: EXACT_K=32 ENTRY=form SCALAR=double BYTES=16 LANES=16 VECTORS=1
// exact: EXACT_K=32 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=2
// exact: EXACT_K=64 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=4

#include "scaling.cuh"
#include "packs.cuh"
#include "lanes.cuh"
#include "packed.cuh"

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(MOST_THREADS) ENTRY(PARAMETERS(SCALAR))
{
    csr_packed<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS>(ARGUMENTS);
}
#else
#define PACKED(type, T, B, L, V)                                                                                       \
    extern "C" __global__ void __launch_bounds__(MOST_THREADS) csr_packed_##type##_b##B##l##L##v##V(PARAMETERS(T))    \
    {                                                                                                                  \
        csr_packed<T, B / sizeof(T), L, V>(ARGUMENTS);                                                                 \
    }
PACKED(f64, double, 8, 1, 1) LADDER(PACKED, f64, double)
PACKED(f32, float, 4, 1, 1) PACKED(f32, float, 8, 1, 1) LADDER(PACKED, f32, float)
#endif
