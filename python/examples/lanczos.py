"""Lanczos iteration on vectors that stay on the devices, from 1 and from 8 start vectors, and the same with SciPy's `eigsh`.

The coefficients of 25 steps stay on the device and are then read together, so no step waits for it. The arguments are the number of
points along an edge of the grid, 40 without it, and the devices, `auto` without them.
"""

import sys
import time

import numpy as np
import rowloom
from scipy.linalg import eigvalsh_tridiagonal
from scipy.sparse import diags_array, eye_array, kron
from scipy.sparse.linalg import eigsh

EDGE = int(sys.argv[1]) if len(sys.argv) > 1 else 40
DEVICES = sys.argv[2] if len(sys.argv) > 2 else "auto"
TOLERANCE, TEST_INTERVAL = 1e-10, 25

line = diags_array([2.0, -1.0, -1.0], offsets=[0, -1, 1], shape=(EDGE, EDGE))
matrix = (kron(line, eye_array(EDGE)) + kron(eye_array(EDGE), line)).tocsr()
operator = rowloom.csr(matrix, devices=DEVICES, uses=1000)


def with_rowloom(columns):
    """The largest eigenvalue from each start vector, and the number of steps."""
    x, y, before = (operator.vectors(columns) for _ in range(3))
    x.copy_from(np.random.default_rng(0).standard_normal(x.shape))
    projections = [x.scalars() for _ in range(TEST_INTERVAL)]
    norms = [x.scalars() for _ in range(TEST_INTERVAL + 1)]
    length = x.scalars()
    x.norm_into(length)
    x.scale(1.0 / length)
    diagonals, beside = [], []
    found, converged = np.full(columns, -np.inf), False
    while not converged:
        for step in range(TEST_INTERVAL):
            operator.matmul(x, out=y)
            x.dot_into(y, projections[step])
            y.axpby(-projections[step], x, 1.0)
            y.axpby(-norms[step], before, 1.0)
            y.norm_into(norms[step + 1])
            y.scale(1.0 / norms[step + 1])
            before, x, y = x, y, before
        diagonals += [scalars.to_numpy() for scalars in projections]
        beside += [scalars.to_numpy() for scalars in norms[1:]]
        norms[0], norms[-1] = norms[-1], norms[0]
        d, e = np.array(diagonals), np.array(beside[:-1])
        last = len(d) - 1
        pairs = zip(d.T, e.T, strict=True)
        values = [eigvalsh_tridiagonal(*pair, select="i", select_range=(last, last))[0] for pair in pairs]
        converged = (np.array(values) - found < TOLERANCE * np.abs(values)).all()
        found = np.array(values)
    return found, len(diagonals)


start = time.perf_counter()
known = eigsh(matrix, 1, which="LA", tol=TOLERANCE, return_eigenvectors=False)[0]
print(f"SciPy: {1e3 * (time.perf_counter() - start):.1f} ms")
for columns in (1, 8):
    with_rowloom(columns)  # warm-up
    start = time.perf_counter()
    found, steps = with_rowloom(columns)
    print(f"K = {columns}: {steps} steps in {1e3 * (time.perf_counter() - start):.1f} ms")
    assert np.abs(found - known).max() < 1e-8 * known, f"{found} and {known} differ"
