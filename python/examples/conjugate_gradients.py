"""Conjugate gradients on vectors that stay on the devices, for 1 and 8 right-hand sides, and the same with SciPy.

Step lengths are quotients of scalars that stay on the device, so no iteration waits for it; convergence is tested every 20 iterations.
The matrix is a 7-point stencil on a grid of three dimensions. The arguments are the number of points along an edge of the grid, 48 without
it, and the devices, `auto` without them. On a grid of 12 points along an edge, operations are so short that starting them takes most of
the time, and SciPy may be faster.
"""

import sys
import time

import numpy as np
import rowloom
from scipy.sparse import diags_array, eye_array, kron
from scipy.sparse.linalg import cg

EDGE = int(sys.argv[1]) if len(sys.argv) > 1 else 48
DEVICES = sys.argv[2] if len(sys.argv) > 2 else "auto"
TOLERANCE, TEST_INTERVAL, REPETITIONS = 1e-8, 20, 2

line, ones = diags_array([2.0, -1.0, -1.0], offsets=[0, -1, 1], shape=(EDGE, EDGE)), eye_array(EDGE)
matrix = (kron(kron(line, ones), ones) + kron(kron(ones, line), ones) + kron(kron(ones, ones), line)).tocsr()
operator = rowloom.csr(matrix, devices=DEVICES, uses=1000)


def with_rowloom(b):
    """X with A X = B, and the number of iterations."""
    x, r, p, q = (operator.vectors(b.shape[1]) for _ in range(4))
    r.copy_from(b)
    p.axpby(1.0, r, 0.0)
    rr, old_rr, pq = (r.scalars() for _ in range(3))
    r.dot_into(r, rr)
    least = TOLERANCE**2 * rr.to_numpy()
    iterations = 0
    while iterations % TEST_INTERVAL or (rr.to_numpy() > least).any():
        operator.matmul(p, out=q)
        p.dot_into(q, pq)
        x.axpby(rr / pq, p, 1.0)
        r.axpby(-(rr / pq), q, 1.0)
        rr, old_rr = old_rr, rr
        r.dot_into(r, rr)
        p.axpby(1.0, r, rr / old_rr)
        iterations += 1
    return x.to_numpy(), iterations


def with_scipy(b):
    """The same for one right-hand side after the other."""
    iterations = []
    solutions = [cg(matrix, column, rtol=TOLERANCE, atol=0.0, callback=iterations.append)[0] for column in b.T]
    return np.stack(solutions, axis=1), len(iterations) // b.shape[1]


for columns in (1, 8):
    b = np.random.default_rng(0).standard_normal((matrix.shape[0], columns))
    seconds, described = {}, []
    for name, solve in [("Rowloom", with_rowloom), ("SciPy", with_scipy)]:
        times = []
        for _ in range(REPETITIONS):
            start = time.perf_counter()
            x, iterations = solve(b)
            times.append(time.perf_counter() - start)
        residual = (np.linalg.norm(b - matrix @ x, axis=0) / np.linalg.norm(b, axis=0)).max()
        assert residual < 10 * TOLERANCE, f"{name} has not converged: {residual:.1e}"
        seconds[name] = min(times)
        described.append(f"{name} {1e3 * seconds[name]:.0f} ms ({iterations} iterations)")
    fast, slow = sorted(seconds, key=lambda name: seconds[name])
    print(f"K = {columns}: {', '.join(described)}: {fast} is {seconds[slow] / seconds[fast]:.1f}× faster")
