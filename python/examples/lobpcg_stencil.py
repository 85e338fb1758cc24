"""The largest eigenvalues of a 3-D stencil with SciPy's lobpcg, on products of Rowloom and of SciPy.

The argument is the number of points along an edge; 24 without it.
"""

import sys
import time

import numpy as np
import rowloom
from scipy.sparse.linalg import LinearOperator, lobpcg

edge = int(sys.argv[1]) if len(sys.argv) > 1 else 24
BLOCK, WANTED = 12, 4


class Timed(LinearOperator):
    """An operator that adds up the seconds of its products."""

    def __init__(self, matrix):
        super().__init__(matrix.dtype, matrix.shape)
        self.matrix, self.seconds = matrix, 0.0

    def _matmat(self, x):
        begin = time.perf_counter()
        y = self.matrix @ x
        self.seconds += time.perf_counter() - begin
        return y

    def _matvec(self, x):
        return self._matmat(x)


a = rowloom.csr(f"gen:stencil27,n={edge}")
start = np.random.default_rng(0).standard_normal((a.shape[0], BLOCK))
results = []
for name, matrix in [("Rowloom", a), ("SciPy", a.to_scipy())]:
    operator = Timed(matrix)
    values, _ = lobpcg(operator, start.copy(), largest=True, tol=0.05, maxiter=200)
    results.append(values)
    print(f"{name}: {operator.seconds:.3f} s in products, eigenvalues {np.array2string(values[:WANTED], precision=6)}")
np.testing.assert_allclose(results[0][:WANTED], results[1][:WANTED], rtol=1e-4)
