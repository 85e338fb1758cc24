"""Products on a card against CuPy: X and Y as NumPy arrays, as CuPy's arrays, and as vectors that stay on the card.

    python benches/python_card.py [overhead] [host] [cupy] [vectors] [torch]

Needs the package (a wheel of `maturin build --release` in python/), CuPy and, for the last part, PyTorch. Prints Markdown tables.
A is on the card in all cases. After the timed calls every Y is compared with the other library's; a wrong one ends the script with exit
code 1 and without a ratio.
"""

import statistics
import sys
import time

import cupy
import cupyx.scipy.sparse
import numpy as np
import rowloom

from support.verified import require_near

MATRICES = [
    "gen:stencil27,n=96",
    "gen:stencil7,n=160",
    "gen:fem3,n=48",
    "gen:rmat,scale=19,degree=16",
    "gen:uniform,rows=1000000,degree=16",
    "gen:road,n=4000000",
]
#: Its kernel takes a few microseconds.
SMALL = "gen:stencil5,n=100"
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


def overhead():
    """The time of a call on CuPy's arrays over the time of its kernel, which events around it on the card measure."""
    print("\n| matrix | K | kernel | call | call, then wait | over the kernel | 200 calls, each | CuPy: call | CuPy: call, then wait |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in [SMALL, *MATRICES]:
        a = rowloom.csr(name, uses=1000)
        theirs = cupyx.scipy.sparse.csr_matrix(a.to_scipy())
        for k in (8, 32, 128):
            if a.shape[1] * k * 8 > 4 << 30:
                continue
            x = cupy.asarray(np.random.default_rng(0).random((a.shape[1], k)))
            out = cupy.full((a.shape[0], k), cupy.nan)
            wait = cupy.cuda.get_current_stream().synchronize
            # The kernel for exactly K columns is compiled in the background; until then another one runs.
            until = time.perf_counter() + 3.0
            while time.perf_counter() < until:
                a.dot(x, out=out)
                wait()
            call_s, waited_s, kernel_s, cupys_call_s, cupys_waited_s = [], [], [], [], []
            for _ in range(200):
                begin = time.perf_counter()
                a.dot(x, out=out)
                called = time.perf_counter()
                wait()
                waited_s.append(time.perf_counter() - begin)
                call_s.append(called - begin)
                kernel_s.append(a.last_report.seconds)
            for _ in range(50):
                begin = time.perf_counter()
                theirs @ x
                called = time.perf_counter()
                wait()
                cupys_waited_s.append(time.perf_counter() - begin)
                cupys_call_s.append(called - begin)
            begin = time.perf_counter()
            for _ in range(200):
                a.dot(x, out=out)
            wait()
            many_s = (time.perf_counter() - begin) / 200
            require_near(f"{name}, K = {k}", out, theirs @ x)
            call, waited, kernel, cupys_call, cupys_waited = (
                1e6 * statistics.median(times) for times in (call_s, waited_s, kernel_s, cupys_call_s, cupys_waited_s)
            )
            print(
                f"| {name} | {k} | {kernel:.1f} µs | {call:.1f} µs | {waited:.1f} µs | {waited - kernel:.1f} µs"
                f" | {many_s * 1e6:.1f} µs | {cupys_call:.1f} µs | {cupys_waited:.1f} µs |",
                flush=True,
            )
        a.clear()


def host():
    """NumPy in, NumPy out."""
    print("\n| matrix | K | Rowloom | CuPy, with both copies | faster |\n|---|---|---|---|---|")
    ratios = []
    for name in MATRICES:
        a = rowloom.csr(name, devices="cuda:0", uses=1000)
        theirs = cupyx.scipy.sparse.csr_matrix(a.to_scipy())
        k = 32
        x = np.random.default_rng(0).random((a.shape[1], k))
        theirs_s = median_seconds(lambda: cupy.asnumpy(theirs @ cupy.asarray(x)))
        ours_s = median_seconds(lambda: a @ x)
        expected = cupy.asnumpy(theirs @ cupy.asarray(x))
        require_near(name, a @ x, expected)
        ratios.append(row(name, k, ours_s, theirs_s))
        # Y in ordinary memory, and both in page-locked memory.
        out = np.full((a.shape[0], k), np.nan)
        ours_s = median_seconds(lambda: a.dot(x, out=out))
        require_near(f"{name}, out=", out, expected)
        row(f"{name}, out=", k, ours_s, theirs_s)
        if a.shape[0] == a.shape[1]:
            # As large as X, so that the tolerance fits.
            result = a @ x
            result /= np.abs(result).max()
            ours_s = median_seconds(lambda: a @ result)
            require_near(f"{name}, X a result", a @ result, cupy.asnumpy(theirs @ cupy.asarray(result)))
            row(f"{name}, X a result", k, ours_s, theirs_s)
    print(f"\nGeometric mean: {geomean(ratios):.2f}× faster than CuPy.")


def cupy_arrays():
    """CuPy in, CuPy out."""
    print("\n| matrix | K | Rowloom | CuPy | faster |\n|---|---|---|---|---|")
    ratios = []
    for name in MATRICES:
        a = rowloom.csr(name, uses=1000)
        theirs = cupyx.scipy.sparse.csr_matrix(a.to_scipy())
        # 5 columns are copied to padded rows.
        for k in (8, 32, 128, 5):
            x = cupy.asarray(np.random.default_rng(0).random((a.shape[1], k)))
            y = a @ x
            assert isinstance(y, cupy.ndarray) and y.shape == (a.shape[0], k)
            require_near(f"{name}, K = {k}", y, theirs @ x)
            # On a stream of its own, X is written just before the product.
            with cupy.cuda.Stream(non_blocking=True) as stream:
                late = cupy.zeros_like(x)
                for _ in range(20):
                    late += x
                result = a @ late
                stream.synchronize()
            require_near(f"{name}, K = {k}, another stream", result / 20.0, y)

            def cupys():
                theirs @ x
                cupy.cuda.get_current_stream().synchronize()

            out = cupy.full_like(y, cupy.nan)

            def ours():
                a.dot(x, out=out)
                cupy.cuda.get_current_stream().synchronize()

            ours_s, cupys_s = median_seconds(ours), median_seconds(cupys)
            require_near(f"{name}, K = {k}", out, theirs @ x)
            ratio = row(name, k, ours_s, cupys_s)
            ratios += [ratio] if k != 5 else []
        a.clear()
    print(f"\nGeometric mean, K = 8, 32, 128: {geomean(ratios):.2f}× faster than CuPy.")


def vectors():
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

            ours_s, cupys_s = median_seconds(ours), median_seconds(cupys)
            require_near(f"{name}, K = {k}, vectors", y.to_numpy(), cupy.asnumpy(theirs @ cupy_x))
            ratios.append(row(name, k, ours_s, cupys_s))
            del x, y
            a.clear()
    print(f"\nGeometric mean: {geomean(ratios):.2f}× faster than CuPy.")


def torch_tensors():
    """PyTorch in, PyTorch out."""
    import torch

    a = rowloom.csr("gen:stencil5,n=100")
    for shape in [(10_000,), (10_000, 1), (10_000, 3), (10_000, 8)]:
        x = torch.rand(shape, dtype=torch.float64, device="cuda")
        y = a @ x
        assert isinstance(y, torch.Tensor) and y.is_cuda and y.shape == x.shape
        np.testing.assert_allclose(y.cpu().numpy(), a @ x.cpu().numpy(), rtol=1e-10, atol=1e-10)
    print("\nProducts with PyTorch's tensors are right.")


ALL = {"overhead": overhead, "host": host, "cupy": cupy_arrays, "vectors": vectors, "torch": torch_tensors}

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        ALL[name]()
