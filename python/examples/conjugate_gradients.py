"""Conjugate gradients on vectors that stay on the devices, for 1 and 8 right-hand sides, and the same with SciPy.

Step lengths are quotients of scalars that stay on the device, so no iteration waits for it; convergence is tested every 20 iterations.
The arguments are the number of points along an edge of the grid, 60 without it, and the devices, `auto` without them.
"""

import sys
import time

import numpy as np
import rowloom
from scipy.sparse import diags_array, eye_array, kron
from scipy.sparse.linalg import cg

EDGE = int(sys.argv[1]) if len(sys.argv) > 1 else 60
DEVICES = sys.argv[2] if len(sys.argv) > 2 else "auto"
TOLERANCE, TEST_INTERVAL = 1e-8, 20

line = diags_array([2.0, -1.0, -1.0], offsets=[0, -1, 1], shape=(EDGE, EDGE))
matrix = (kron(line, eye_array(EDGE)) + kron(eye_array(EDGE), line)).tocsr()
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


for columns in (1, 8):
    b = np.random.default_rng(0).standard_normal((EDGE * EDGE, columns))
    with_rowloom(b)  # warm-up
    start = time.perf_counter()
    x, iterations = with_rowloom(b)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    solutions = [cg(matrix, column, rtol=TOLERANCE, atol=0.0)[0] for column in b.T]
    scipy_seconds = time.perf_counter() - start
    for name, solution in [("rowloom", x), ("SciPy", np.stack(solutions, axis=1))]:
        residual = (np.linalg.norm(b - matrix @ solution, axis=0) / np.linalg.norm(b, axis=0)).max()
        assert residual < 10 * TOLERANCE, f"{name} has not converged: {residual:.1e}"
    print(f"K = {columns}: {iterations} iterations in {1e3 * seconds:.1f} ms; SciPy {1e3 * scipy_seconds:.1f} ms")
