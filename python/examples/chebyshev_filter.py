"""A Chebyshev filter on vectors that stay on the devices, and the same with NumPy and SciPy.

The matrix is a grid with eight impurities, each of which gives an eigenvalue above those of the grid; the filter amplifies these. Only
a small matrix comes to the host. The argument is the number of points along an edge; 300 without it.
"""

import sys
import time

import numpy as np
import rowloom
from scipy.sparse import diags_array, eye_array, kron

EDGE = int(sys.argv[1]) if len(sys.argv) > 1 else 300
DEGREE, ITERATIONS, COLUMNS = 12, 4, 8
# The eigenvalues of the grid are between 0 and 8; those below 8 are damped.
CENTRE, HALF_WIDTH = 4.0, 4.0

line = diags_array([2.0, -1.0, -1.0], offsets=[0, -1, 1], shape=(EDGE, EDGE))
impurities = np.zeros(EDGE * EDGE)
impurities[np.linspace(0, EDGE * EDGE - 1, COLUMNS, dtype=int)] = np.linspace(8.0, 16.0, COLUMNS)
matrix = (kron(line, eye_array(EDGE)) + kron(eye_array(EDGE), line) + diags_array(impurities)).tocsr()
start = np.random.default_rng(0).standard_normal((EDGE * EDGE, COLUMNS))


def with_rowloom():
    a = rowloom.csr(matrix, uses=ITERATIONS * DEGREE + 1)
    x, y, rotated = (a.vectors(COLUMNS) for _ in range(3))
    x.copy_from(start)
    for _ in range(ITERATIONS):
        # T_0(B) X = X and T_1(B) X = B X, with B = (A - centre) / half_width.
        y.axpby(1.0, x, 0.0)
        a.matmul(x, alpha=1.0 / HALF_WIDTH, beta=-CENTRE / HALF_WIDTH, out=y)
        for _ in range(DEGREE - 1):
            # T_{j+1} = 2 B T_j - T_{j-1}; x has T_{j-1} and becomes T_{j+1}.
            x.axpby(-2.0 * CENTRE / HALF_WIDTH, y, -1.0)
            a.matmul(y, alpha=2.0 / HALF_WIDTH, beta=1.0, out=x)
            x, y = y, x
        # Orthonormal columns: Y R^-1, with Y^T Y = R^T R.
        r = np.linalg.cholesky(y.gram(y)).T
        y.times(np.linalg.inv(r), out=x)
    a.matmul(x, out=y)
    values, s = np.linalg.eigh(x.gram(y))
    x.times(s, out=rotated)
    return values, rotated.to_numpy()


def with_scipy():
    x = start
    for _ in range(ITERATIONS):
        y = (matrix @ x - CENTRE * x) / HALF_WIDTH
        for _ in range(DEGREE - 1):
            x, y = y, 2.0 / HALF_WIDTH * (matrix @ y - CENTRE * y) - x
        r = np.linalg.cholesky(y.T @ y).T
        x = y @ np.linalg.inv(r)
    values, s = np.linalg.eigh(x.T @ (matrix @ x))
    return values, x @ s


seconds, results = {}, {}
for name, solve in [("Rowloom", with_rowloom), ("SciPy", with_scipy)]:
    begin = time.perf_counter()
    values, vectors = results[name] = solve()
    seconds[name] = time.perf_counter() - begin
    residual = np.linalg.norm(matrix @ vectors - vectors * values, axis=0).max()
    print(f"{name}: {seconds[name]:.3f} s, eigenvalues {np.array2string(values[::-1], precision=6)}, residual {residual:.1e}")
    assert residual < 1e-6
print(f"Rowloom has {seconds['SciPy'] / seconds['Rowloom']:.1f}× the speed of SciPy")
np.testing.assert_allclose(results["Rowloom"][0], results["SciPy"][0], rtol=1e-10)
