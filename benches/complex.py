"""Products of complex matrices against SciPy, in one run.

    python benches/complex.py ../shared/matrices/{young1c,dwg961b,mhd1280b}.mtx.gz

Needs the package (`pip install ./python`) and SciPy. Prints a Markdown table. Every time is a median, and both libraries are called in turn. After the timed
calls both results are compared with the product of the real and imaginary parts; a wrong one ends the script with exit code 1.
"""

import statistics
import sys
import time

import numpy as np
import rowloom
from scipy.io import mmread
from scipy.sparse import csr_array

COLUMNS = [1, 8]
CALLS = 2000
#: The largest difference of an element, relative to the largest element.
TOLERANCE = {np.dtype(np.complex128): 1e-13, np.dtype(np.complex64): 1e-4}


def seconds_of(calls):
    """The median seconds of each function, called in turn."""
    times = [[] for _ in calls]
    for _ in range(CALLS):
        for call, of_call in zip(calls, times):
            start = time.perf_counter()
            call()
            of_call.append(time.perf_counter() - start)
    return [statistics.median(of_call) for of_call in times]


def require_product(who, y, matrix, x):
    a, b = matrix.astype(np.complex128), x.astype(np.complex128)
    expected = (a.real @ b.real - a.imag @ b.imag) + 1j * (a.real @ b.imag + a.imag @ b.real)
    # A NaN is not at most the tolerance either.
    if not np.max(np.abs(y - expected)) <= TOLERANCE[y.dtype] * np.max(np.abs(expected)):
        sys.exit(f"{who}: the product is wrong")


def main():
    print("| matrix | dtype | K | Rowloom | of it the product in Rust | SciPy | faster than SciPy |\n|---|---|---|---|---|---|---|")
    ratios = []
    for path in sys.argv[1:]:
        for dtype in TOLERANCE:
            matrix = csr_array(mmread(path)).astype(dtype)
            a = rowloom.csr(matrix, uses=CALLS)
            for k in COLUMNS:
                random = np.random.default_rng(0)
                shape = (matrix.shape[1], k) if k > 1 else (matrix.shape[1],)
                x = (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
                ours, scipys = seconds_of([lambda: a @ x, lambda: matrix @ x])
                product = a.last_report.seconds
                require_product(f"Rowloom, {path}, K = {k}", a @ x, matrix, x)
                require_product(f"SciPy, {path}, K = {k}", matrix @ x, matrix, x)
                ratios.append(scipys / ours)
                name = path.rsplit("/", 1)[-1].split(".")[0]
                times = " | ".join(f"{seconds * 1e6:.1f} µs" for seconds in (ours, product, scipys))
                print(f"| {name} | {dtype} | {k} | {times} | {scipys / ours:.2f}× |", flush=True)
    print(f"\nGeometric mean: {float(np.exp(np.mean(np.log(ratios)))):.2f}× faster than SciPy; least {min(ratios):.2f}×.")


if __name__ == "__main__":
    main()
