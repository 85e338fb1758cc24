#!/usr/bin/env python3
"""Times Chebyshev-filtered subspace iteration and conjugate gradients in CuPy and in Rowloom, on the same card in the same run.

    cargo build --release --bin rowloom --example subspace_iteration --example conjugate_gradients
    python benches/solver_against_cupy.py [--example target/release/examples/subspace_iteration] [--rowloom target/release/rowloom]

Needs CuPy. The matrix is written by Rowloom, so both programs have the same values. Both compute the same algorithm: the same
iterations and products, Gershgorin's bound, random start vectors, Cholesky-QR twice, Rayleigh-Ritz; K x K matrices are factored on the
host. Both times are of the whole solve, after a warm-up solve, without the start of the process and without copying A and the start
vectors to the card. The times are medians of three solves in CuPy, and of three processes of Rowloom.

CuPy's X is column-major, as its sparse products need it. It multiplies in two ways, and the faster one is compared: `A @ X`,
then one fused kernel for the recurrence; or `cusparse.spmm` with alpha and beta, then a fused kernel for the shift.

Conjugate gradients: CuPy's `cg` and the example `conjugate_gradients`, K = 1, the same matrix, 1,000 iterations, without a test of convergence that
ends them. The matrices have the pattern of generated stencils and the values of a Laplacian. Both residuals are those of the solution,
computed by each program; both must be small. `--only cg` or `--only subspace` measures one of the two.

Times of single operations in a chain: those of CuPy are printed first. With `--chains target/release/deps/vector_chains-HASH`, the
executable that `cargo bench --bench vector_chains --no-run` builds, those of Rowloom follow.

The eigenvalues of all solves must agree within their residuals; otherwise there is no table and no ratio, and the exit code is 1.
"""

import argparse
import inspect
import os
import statistics
import subprocess
import tempfile
import time

import cupy as cp
import cupyx.scipy.sparse
import cupyx.scipy.sparse.linalg
import numpy as np

from support.verified import refuse

try:
    from cupyx import cusparse
except ImportError:
    from cupy import cusparse

# The lines of Rowloom's output that have numbers.
KEYS = ["seconds", "eigenvalues", "residuals"]

combine = cp.ElementwiseKernel(
    "float64 w, float64 y, float64 alpha, float64 shift, float64 beta",
    "float64 x",
    "x = alpha * (w - shift * y) + beta * x",
    "combine",
)
add_multiple = cp.ElementwiseKernel("float64 y, float64 alpha", "float64 x", "x += alpha * y", "add_multiple")


def step_with_matmul(a, y, alpha, shift, beta, x):
    """X = alpha (A - shift) Y + beta X."""
    combine(a @ y, y, alpha, shift, beta, x)


def step_with_spmm(a, y, alpha, shift, beta, x):
    """X = alpha (A - shift) Y + beta X."""
    cusparse.spmm(a, y, x, alpha=alpha, beta=beta)
    add_multiple(y, -alpha * shift, x)


def times(x, small):
    """X S, column-major."""
    return (cp.asarray(small.T) @ x.T).T


def orthonormalise(x):
    for _ in range(2):
        gram = cp.asnumpy(x.T @ x)
        x = times(x, np.linalg.inv(np.linalg.cholesky(gram)).T)
    return x


def rayleigh_ritz(x, y, wanted):
    gram = cp.asnumpy(x.T @ y)
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    values, vectors = values[::-1], np.ascontiguousarray(vectors[:, ::-1])
    x, y = times(x, vectors), times(y, vectors)
    residuals = cp.asnumpy(cp.linalg.norm(y - x * cp.asarray(values), axis=0))
    return x, y, values, residuals[:wanted]


def lower_bound(a):
    """Gershgorin's lower bound of the spectrum."""
    diagonal = a.diagonal()
    radius = abs(a).sum(axis=1).ravel() - cp.abs(diagonal)
    return float((diagonal - radius).min())


def filtered(a, x, y, degree, interval, at, step):
    """p(A) X, where Y = A X is given and p is at most 1 on the interval and 1 at another point."""
    centre, half_width = 0.5 * (interval[0] + interval[1]), 0.5 * (interval[1] - interval[0])
    ratio = half_width / (at - centre)
    combine(y, x, ratio / half_width, centre, 0.0, y)
    sigma = ratio
    for _ in range(1, degree):
        following = 1.0 / (2.0 / ratio - sigma)
        step(a, y, 2.0 * following / half_width, centre, -sigma * following, x)
        x, y = y, x
        sigma = following
    return y


def solve(a, x, degree, iterations, wanted, step):
    low = lower_bound(a)
    x = orthonormalise(x)
    x, y, values, residuals = rayleigh_ritz(x, a @ x, wanted)
    for _ in range(iterations):
        x = orthonormalise(filtered(a, x, y, degree, (low, values[-1]), values[0], step))
        x, y, values, residuals = rayleigh_ritz(x, a @ x, wanted)
    return values[:wanted], residuals


def time_cupy(a, k, degree, iterations, step):
    """Seconds, eigenvalues and residuals."""
    cp.random.seed(1)
    numbers = cp.random.uniform(-1.0, 1.0, (k, a.shape[0]))
    seconds = []
    for _ in range(4):
        x = numbers.copy().T
        cp.cuda.Device().synchronize()
        begin = time.perf_counter()
        values, residuals = solve(a, x, degree, iterations, (k + 1) // 2, step)
        cp.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - begin)
    # The first solve is the warm-up.
    return statistics.median(seconds[1:]), values, residuals


def time_product(a, k, count=20):
    """Seconds of a chained product A @ X."""
    x = cp.random.uniform(-1.0, 1.0, (k, a.shape[0])).T
    for _ in ["warm-up", "timed"]:
        y = x
        cp.cuda.Device().synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            y = a @ y
        cp.cuda.Device().synchronize()
        seconds = (time.perf_counter() - begin) / count
    return seconds


def time_rowloom(example, devices, matrix, k, degree, iterations):
    """Seconds, eigenvalues and residuals."""
    runs = []
    for _ in range(3):
        words = [example, devices, matrix, str(k), str(degree), str(iterations)]
        output = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        lines = (line.partition(": ") for line in output.splitlines())
        runs.append({name: [float(word) for word in rest.split()] for name, _, rest in lines if name in KEYS})
        print(f"Rowloom: {output.splitlines()[1]}")
    seconds = statistics.median(run["seconds"][0] for run in runs)
    first = np.array(runs[0]["eigenvalues"]), np.array(runs[0]["residuals"])
    for run in runs[1:]:
        agree("Rowloom, another process", np.array(run["eigenvalues"]), np.array(run["residuals"]), *first)
    return seconds, *first


def agree(name, values, residuals, other_values, other_residuals):
    """Ends the script unless the eigenvalues agree. A Ritz value differs from an eigenvalue by at most its residual."""
    if not len(values) == len(residuals) == len(other_values) == len(other_residuals) > 0:
        refuse(f"{name}: the numbers of eigenvalues and residuals differ")
    difference, allowed = np.abs(values - other_values), residuals + other_residuals + 1e-10 * np.abs(values)
    if not (difference <= allowed).all():
        refuse(f"{name}: eigenvalues differ by up to {difference.max():.1e}; residuals allow {allowed.max():.1e}")
    return f"{name}: eigenvalues differ by at most {difference.max():.1e}; residuals allow {allowed.max():.1e}"


def laplacian(rowloom, spec, path):
    """Writes the pattern of a generated stencil with the values of a Laplacian, and returns it as CuPy has it."""
    subprocess.run([rowloom, "convert", spec, path], check=True, stdout=subprocess.DEVNULL)
    with np.load(path) as arrays:
        parts = {name: arrays[name] for name in arrays.files}
    counts = np.diff(parts["indptr"])
    on_diagonal = parts["indices"] == np.repeat(np.arange(len(counts)), counts)
    parts["data"] = np.where(on_diagonal, float(counts.max() - 1), -1.0)
    np.savez(path, **parts)
    arrays = parts["data"], parts["indices"].astype(np.int32), parts["indptr"].astype(np.int32)
    return cupyx.scipy.sparse.csr_matrix(tuple(map(cp.asarray, arrays)), shape=tuple(parts["shape"].tolist()))


def cupy_cg(a, iterations):
    """Seconds of a solve, and the residual of the solution relative to the right-hand side."""
    cp.random.seed(1)
    b = cp.random.uniform(-1.0, 1.0, a.shape[0])
    seconds = []
    cg = cupyx.scipy.sparse.linalg.cg
    # No residual is below zero, so all iterations are computed. The name of the relative tolerance depends on the version.
    tolerance = {"rtol" if "rtol" in inspect.signature(cg).parameters else "tol": 0.0, "atol": 0.0}
    for _ in range(4):
        cp.cuda.Device().synchronize()
        begin = time.perf_counter()
        x, _ = cg(a, b, maxiter=iterations, **tolerance)
        cp.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:]), float(cp.linalg.norm(b - a @ x) / cp.linalg.norm(b))


def rowloom_cg(example, devices, path, iterations):
    """The same in three processes."""
    runs = []
    for _ in range(3):
        words = [example, devices, path, "1", str(iterations)]
        output = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        lines = dict(line.partition(": ")[::2] for line in output.splitlines())
        runs.append((float(lines["seconds"]), float(lines["residual"])))
    return statistics.median(seconds for seconds, _ in runs), max(residual for _, residual in runs)


def cupy_chains(a, spec, count=200):
    """Prints the times of single operations in a chain."""
    for k in (1, 8, 32):
        x, y = (cp.random.uniform(-1.0, 1.0, (k, a.shape[0])).T for _ in range(2))
        small, factors = cp.eye(k), cp.ones(k)
        # One column is a vector, as CuPy's solvers have it.
        x, y = (x[:, 0], y[:, 0]) if k == 1 else (x, y)

        def axpby(x=x, y=y):
            y[...] = 0.5 * x + 0.5 * y

        operations = {
            "product": lambda x=x: a @ x,
            "axpby": axpby,
            "scale": lambda y=y, factors=factors: cp.multiply(y, factors, out=y),
            "fill": lambda y=y: y.fill(1.0),
            "times": lambda x=x, k=k, small=small: times(x.reshape(-1, k), small),
            "dot": lambda x=x, y=y: (x * y).sum(axis=0).get(),
            "norm": lambda x=x: cp.linalg.norm(x, axis=0).get(),
        }
        found = []
        for name, operation in operations.items():
            for _ in ["warm-up", "timed"]:
                cp.cuda.Device().synchronize()
                begin = time.perf_counter()
                for _ in range(count):
                    operation()
                cp.cuda.Device().synchronize()
                seconds = (time.perf_counter() - begin) / count
            found.append(f"{name} {1e6 * seconds:.1f}")
        print(f"CuPy, {spec}, K = {k}, µs in a chain: {', '.join(found)}")


def compare_chains(arguments, folder):
    for number, spec in enumerate(arguments.cg_matrices):
        path = os.path.join(folder, f"chain{number}.npz")
        cupy_chains(laplacian(arguments.rowloom, spec, path), spec)
    if arguments.chains:
        subprocess.run([arguments.chains, arguments.devices, *arguments.cg_matrices], check=True)


def compare_cg(arguments, folder):
    print("| matrix | rows | CuPy ms | Rowloom ms | µs per iteration | speed-up | residuals |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for number, spec in enumerate(arguments.cg_matrices):
        path = os.path.join(folder, f"laplacian{number}.npz")
        a = laplacian(arguments.rowloom, spec, path)
        peer, peer_residual = cupy_cg(a, arguments.cg_iterations)
        own, own_residual = rowloom_cg(arguments.cg_example, arguments.devices, path, arguments.cg_iterations)
        # Negated, so that a NaN is refused.
        if not max(peer_residual, own_residual) < 1e-8:
            refuse(f"{spec}: the residuals are {peer_residual:.1e} and {own_residual:.1e}")
        each = f"{1e6 * peer / arguments.cg_iterations:.1f}; {1e6 * own / arguments.cg_iterations:.1f}"
        residuals = f"{peer_residual:.1e}; {own_residual:.1e}"
        print(f"| {spec} | {a.shape[0]} | {1e3 * peer:.1f} | {1e3 * own:.1f} | {each} | {peer / own:.2f} | {residuals} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--example", default="target/release/examples/subspace_iteration")
    parser.add_argument("--rowloom", default="target/release/rowloom")
    parser.add_argument("--devices", default="cuda:0")
    parser.add_argument("--matrix", default="gen:stencil27,n=96")
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--cg-example", default="target/release/examples/conjugate_gradients")
    parser.add_argument("--cg-matrices", nargs="*", default=["gen:stencil5,n=100", "gen:stencil27,n=96"])
    parser.add_argument("--cg-iterations", type=int, default=1000)
    parser.add_argument("--chains", help="the executable of the bench vector_chains")
    parser.add_argument("--only", choices=["cg", "subspace"])
    arguments = parser.parse_args()
    if arguments.only != "subspace":
        with tempfile.TemporaryDirectory() as folder:
            compare_cg(arguments, folder)
            print()
            compare_chains(arguments, folder)
    if arguments.only != "cg":
        compare_subspace(arguments)


def compare_subspace(arguments):
    k, degree, iterations = arguments.columns, arguments.degree, arguments.iterations

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "matrix.npz")
        subprocess.run([arguments.rowloom, "convert", arguments.matrix, path], check=True, stdout=subprocess.DEVNULL)
        with np.load(path) as arrays:
            parts = arrays["data"], arrays["indices"].astype(np.int32), arrays["indptr"].astype(np.int32)
            a = cupyx.scipy.sparse.csr_matrix(tuple(map(cp.asarray, parts)), shape=tuple(arrays["shape"].tolist()))
    products = degree * iterations + 1
    card = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{arguments.matrix}: {a.shape[0]} rows, {a.nnz} nonzeros, K = {k}, f64, on {card}")
    print(f"{iterations} iterations with a filter of degree {degree}: {products} products")
    print(f"CuPy {cp.__version__}: {time_product(a, k) * 1e3:.3f} ms per chained product A @ X")

    own = time_rowloom(arguments.example, arguments.devices, arguments.matrix, k, degree, iterations)
    rows = [("Rowloom", *own)]
    for name, step in [("CuPy, A @ X", step_with_matmul), ("CuPy, cusparse.spmm", step_with_spmm)]:
        try:
            rows.append((name, *time_cupy(a, k, degree, iterations, step)))
        except Exception as error:  # A CuPy without this interface of cuSPARSE is compared by the other way.
            print(f"{name} is not measured: {error!r}")

    if len(rows) == 1:
        refuse("CuPy solved nothing, so there is no independent result")
    agreements = [agree(name, values, residuals, own[1], own[2]) for name, _, values, residuals in rows[1:]]
    print()
    print("| program | solve ms | ms per product | largest eigenvalue | largest residual |")
    print("|---|---:|---:|---:|---:|")
    for name, seconds, values, residuals in rows:
        milliseconds = 1e3 * seconds
        print(f"| {name} | {milliseconds:.1f} | {milliseconds / products:.3f} | {values[0]:.12f} | {max(residuals):.1e} |")
    peer = min(rows[1:], key=lambda row: row[1])
    ratio = peer[1] / own[0]
    print(f"Rowloom is {ratio:.2f}x faster than {peer[0]} ({peer[1] * 1e3:.1f} ms -> {own[0] * 1e3:.1f} ms)")
    print("\n".join(agreements))


if __name__ == "__main__":
    main()
