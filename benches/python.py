"""The measurements of the Python package: overhead of a call, against SciPy and sparse_dot_mkl, making operators, lobpcg.

    python benches/python.py [overhead] [products] [making] [lobpcg] [import]

Without an argument all are measured. Needs the package (`pip install ./python`), SciPy and, for the comparison with MKL,
sparse_dot_mkl. Prints Markdown tables. Every time is a median; competitors alternate, so that both see the same machine.
After the timed calls the result of each competitor is compared with another library's; a wrong one ends the script with exit code 1.
"""

import statistics
import subprocess
import sys
import time

import numpy as np
import rowloom
from scipy.sparse.linalg import LinearOperator, lobpcg

from support.verified import refuse, require_product

MATRICES = [
    "gen:stencil5,n=30",
    "gen:stencil5,n=700",
    "gen:stencil7,n=70",
    "gen:stencil27,n=40",
    "gen:fem3,n=20",
    "gen:rmat,scale=16,degree=16",
    "gen:rmat,scale=18,degree=8",
    "gen:uniform,rows=100000,degree=16",
    "gen:uniform,rows=400000,degree=4",
    "gen:road,n=500000",
]
COLUMNS = [1, 8, 32]
#: Seconds that each competitor may take per case, and the most and fewest calls.
TIME_CAP_SECONDS, MAX_CALLS, MIN_CALLS = 1.0, 200, 7
#: Relative difference of eigenvalues that lobpcg may find with two right operators.
LOBPCG_TOLERANCE = 1e-4


def seconds_of(calls):
    """The median seconds of each function, called in turn."""
    times = [[] for _ in calls]
    for call in calls:
        call()
        call()
    begin = time.perf_counter()
    while len(times[0]) < MIN_CALLS or (
        len(times[0]) < MAX_CALLS and time.perf_counter() - begin < TIME_CAP_SECONDS * len(calls)
    ):
        for call, of_call in zip(calls, times):
            start = time.perf_counter()
            call()
            of_call.append(time.perf_counter() - start)
    return [statistics.median(of_call) for of_call in times]


def microseconds(seconds):
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def overhead():
    """The time of `A @ X` that is not in the product itself, which reports its own duration."""
    print("\n| rows | dtype | `A @ x` | product in Rust | overhead |\n|---|---|---|---|---|")
    for dtype in (np.float64, np.float32):
        a = rowloom.csr("gen:stencil5,n=32", dtype=dtype, uses=100_000)
        x = np.ones(a.shape[1], dtype)
        calls, products = [], []
        for _ in range(5000):
            start = time.perf_counter()
            a @ x
            calls.append(time.perf_counter() - start)
            products.append(a.last_report.seconds)
        require_product(f"overhead, {a.dtype}", a @ x, a.to_scipy(), x)
        call, product = statistics.median(calls), statistics.median(products)
        print(
            f"| {a.shape[0]} | {a.dtype} | {microseconds(call)} | {microseconds(product)} | {microseconds(call - product)} |"
        )


def mkl_product(matrix, x):
    """A function that computes the product with MKL, or None."""
    try:
        from sparse_dot_mkl import dot_product_mkl
    except (ImportError, OSError):
        return None
    return lambda: dot_product_mkl(matrix, x)


def geomean(values):
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def products():
    print("\n| matrix | dtype | K | Rowloom | SciPy | faster than SciPy | MKL | faster than MKL |\n|---|---|---|---|---|---|---|---|")
    against_scipy, against_mkl, slower = [], [], []
    for name in MATRICES:
        for dtype in (np.float64, np.float32):
            a = rowloom.csr(name, dtype=dtype, uses=1000)
            matrix = a.to_scipy()
            matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
            for k in COLUMNS:
                x = np.random.default_rng(0).random((a.shape[1], k)).astype(dtype)
                x = x[:, 0].copy() if k == 1 else x
                calls = [lambda: a @ x, lambda: matrix @ x]
                mkl = mkl_product(matrix, x)
                calls += [mkl] if mkl else []
                ours, scipys, *mkls = seconds_of(calls)
                case = f"{name}, {np.dtype(dtype)}, K = {k}"
                for who, call in zip(("Rowloom", "SciPy", "MKL"), calls):
                    require_product(f"{who}, {case}", call(), matrix, x)
                against_scipy.append(scipys / ours)
                if scipys > 100e-6 and scipys < ours:
                    slower.append(f"{name}, {np.dtype(dtype)}, K = {k}")
                against_mkl += [mkls[0] / ours] if mkls else []
                of_mkl = f"{microseconds(mkls[0])} | {mkls[0] / ours:.2f}×" if mkls else "- | -"
                print(
                    f"| {name} | {np.dtype(dtype)} | {k} | {microseconds(ours)} | {microseconds(scipys)} |"
                    f" {scipys / ours:.2f}× | {of_mkl} |",
                    flush=True,
                )
    print(f"\nGeometric mean: {geomean(against_scipy):.2f}× faster than SciPy, {geomean(against_mkl):.2f}× faster than MKL.")
    print(f"Slower than SciPy, of products over 100 µs: {', '.join(slower) or 'none'}.")


def making():
    """Making an operator of a CSR matrix of 100 MB against reading its bytes once (a sum of all words, on one thread)."""
    matrix = rowloom.csr("gen:stencil27,n=67").to_scipy()
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    arrays = (matrix.data, matrix.indices, matrix.indptr)
    megabytes = sum(array.nbytes for array in arrays) / 1e6
    words = [array.view(np.uint8)[: array.nbytes // 8 * 8].view(np.uint64) for array in arrays]
    made, read = seconds_of([lambda: rowloom.csr(matrix), lambda: [word.max() for word in words]])
    x = np.random.default_rng(0).random((matrix.shape[1], 3))
    require_product("making", rowloom.csr(matrix) @ x, matrix, x)
    print("\n| bytes | operator | reading once | ratio |\n|---|---|---|---|")
    print(f"| {megabytes:.0f} MB | {microseconds(made)} | {microseconds(read)} | {made / read:.2f} |")


class Timed(LinearOperator):
    """Adds up the seconds of products."""

    def __init__(self, matrix):
        super().__init__(matrix.dtype, matrix.shape)
        self.matrix, self.seconds, self.products = matrix, 0.0, 0

    def _matmat(self, x):
        begin = time.perf_counter()
        y = self.matrix @ x
        self.seconds += time.perf_counter() - begin
        self.products += 1
        return y

    def _matvec(self, x):
        return self._matmat(x)


def eigenvalues():
    a = rowloom.csr("gen:stencil27,n=64")
    x = np.random.default_rng(0).standard_normal((a.shape[0], 16))
    print("\n| operator | products | seconds in products | largest eigenvalue |\n|---|---|---|---|")
    results = []
    for name, matrix in [("Rowloom", a), ("SciPy", a.to_scipy())]:
        operator = Timed(matrix)
        values, _ = lobpcg(operator, x.copy(), largest=True, tol=1e-5, maxiter=40)
        results.append((operator.seconds, values))
        print(f"| {name} | {operator.products} | {operator.seconds:.3f} | {values[0]:.9f} |", flush=True)
    (ours, our_values), (scipys, scipy_values) = results
    difference = float(np.max(np.abs(our_values - scipy_values) / np.abs(scipy_values)))
    require_product("lobpcg", a @ x, a.to_scipy(), x)
    # A NaN is not at most the tolerance either.
    if not difference <= LOBPCG_TOLERANCE:
        refuse(f"lobpcg: the eigenvalues differ by {difference:.1e}")
    print(f"\nProducts take {scipys / ours:.2f}× less time; the eigenvalues differ by {difference:.1e} at most.")


def importing():
    script = "import time; b = time.perf_counter(); import rowloom; print(time.perf_counter() - b)"
    times = [float(subprocess.run([sys.executable, "-c", script], capture_output=True).stdout) for _ in range(11)]
    print(f"\n`import rowloom` takes {statistics.median(times) * 1e3:.1f} ms.")


ALL = {"overhead": overhead, "products": products, "making": making, "lobpcg": eigenvalues, "import": importing}

if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in ALL]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(ALL)}")
    for name in sys.argv[1:] or ALL:
        ALL[name]()
