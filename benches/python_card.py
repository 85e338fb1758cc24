"""Products on a card against CuPy: X and Y as NumPy arrays, and as vectors that stay on the card.

    python benches/python_card.py [host] [card] [torch]

Needs the package (a wheel of `maturin build --release` in python/), CuPy and, for the last part, PyTorch. Prints Markdown tables.
A is on the card in all cases.
"""

import statistics
import sys
import time

import cupy
import cupyx.scipy.sparse
import numpy as np
import rowloom

MATRICES = [
    "gen:stencil27,n=96",
    "gen:stencil7,n=160",
    "gen:fem3,n=48",
    "gen:rmat,scale=19,degree=16",
    "gen:uniform,rows=1000000,degree=16",
    "gen:road,n=4000000",
]
CALLS = 30


def median_seconds(call):
    for _ in range(5):
        call()
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def geomean(values):
    return float(np.exp(np.mean(np.log(values))))


def row(name, k, ours, theirs):
    print(f"| {name} | {k} | {ours * 1e3:.3f} ms | {theirs * 1e3:.3f} ms | {theirs / ours:.2f}× |", flush=True)
    return theirs / ours


def host():
    """NumPy in, NumPy out."""
    print("\n| matrix | K | Rowloom | CuPy, with both copies | faster |\n|---|---|---|---|---|")
    ratios = []
    for name in MATRICES:
        a = rowloom.csr(name, devices="cuda:0", uses=1000)
        theirs = cupyx.scipy.sparse.csr_matrix(a.to_scipy())
        k = 32
        x = np.random.default_rng(0).random((a.shape[1], k))
        np.testing.assert_allclose(a @ x, cupy.asnumpy(theirs @ cupy.asarray(x)), rtol=1e-10, atol=1e-10)
        out = np.empty((a.shape[0], k))
        ratios.append(
            row(name, k, median_seconds(lambda: a.dot(x, out=out)), median_seconds(lambda: cupy.asnumpy(theirs @ cupy.asarray(x))))
        )
    print(f"\nGeometric mean: {geomean(ratios):.2f}× faster than CuPy.")


def card():
    """Vectors on the card against CuPy's arrays."""
    print("\n| matrix | K | Rowloom, vectors | CuPy, arrays | faster |\n|---|---|---|---|---|")
    ratios = []
    for name in MATRICES:
        a = rowloom.csr(name, devices="cuda:0", uses=1000)
        theirs = cupyx.scipy.sparse.csr_matrix(a.to_scipy())
        for k in (8, 32, 128):
            host_x = np.random.default_rng(0).random((a.shape[1], k))
            x, y = a.x_vectors(k), a.vectors(k)
            x.copy_from(host_x)
            cupy_x = cupy.asarray(host_x)

            def ours():
                a.matmul(x, out=y)
                y.synchronize()

            def cupys():
                theirs @ cupy_x
                cupy.cuda.get_current_stream().synchronize()

            ours()
            np.testing.assert_allclose(y.to_numpy(), cupy.asnumpy(theirs @ cupy_x), rtol=1e-10, atol=1e-10)
            ratios.append(row(name, k, median_seconds(ours), median_seconds(cupys)))
            del x, y
            a.clear()
    print(f"\nGeometric mean: {geomean(ratios):.2f}× faster than CuPy.")


def torch_tensors():
    """Arrays of other libraries on the card are refused with a message, not a crash."""
    import torch

    a = rowloom.csr("gen:stencil5,n=100", devices="cuda:0")
    for x in (torch.ones(10_000, dtype=torch.float64, device="cuda"), cupy.ones(10_000)):
        try:
            a @ x
        except TypeError as error:
            print(f"\n{type(x).__module__}: {error}")


ALL = {"host": host, "card": card, "torch": torch_tensors}

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        ALL[name]()
