"""The largest eigenvalues of a 3-D stencil with SciPy's lobpcg, on products of Rowloom and of SciPy.

The argument is the number of points along an edge; 48 without it.
"""

import sys
import time
import warnings

import numpy as np
import rowloom
from scipy.sparse.linalg import LinearOperator, lobpcg

edge = int(sys.argv[1]) if len(sys.argv) > 1 else 48
BLOCK, WANTED, ITERATIONS = 12, 4, 8


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
seconds, results = {}, {}
# A few iterations: the products are compared, so the eigenvalues need not have converged.
warnings.filterwarnings("ignore", "Exited", UserWarning)
for name, matrix in [("Rowloom", a), ("SciPy", a.to_scipy())]:
    operator = Timed(matrix)
    begin = time.perf_counter()
    values, _ = lobpcg(operator, start.copy(), largest=True, tol=1e-6, maxiter=ITERATIONS)
    whole = time.perf_counter() - begin
    seconds[name], results[name] = operator.seconds, values[:WANTED]
    print(f"{name}: {operator.seconds:.3f} s in products of {whole:.3f} s, eigenvalues {np.array2string(values[:WANTED], precision=6)}")
print(f"products of Rowloom have {seconds['SciPy'] / seconds['Rowloom']:.1f}× the speed of SciPy's")
np.testing.assert_allclose(results["Rowloom"], results["SciPy"], rtol=1e-6)
