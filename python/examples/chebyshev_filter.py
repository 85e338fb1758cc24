"""A Chebyshev filter on vectors that stay on the devices: it amplifies eigenvectors outside an interval.

Only norms and a small matrix come to the host.
"""

import numpy as np
import rowloom
from scipy.sparse import diags_array, eye_array, kron

DEGREE = 12
COLUMNS = 8

EDGE = 40

line = diags_array([2.0, -1.0, -1.0], offsets=[0, -1, 1], shape=(EDGE, EDGE))
a = rowloom.csr(kron(line, eye_array(EDGE)) + kron(eye_array(EDGE), line), uses=10 * DEGREE)
n = a.shape[0]
# The eigenvalues of this Laplacian are between 0 and 8; those below 7.9 are damped.
low, high = 0.0, 7.9
centre, half_width = (high + low) / 2.0, (high - low) / 2.0

x, y = a.vectors(COLUMNS), a.vectors(COLUMNS)
rotated = a.vectors(COLUMNS)
x.copy_from(np.random.default_rng(0).standard_normal((n, COLUMNS)))
for _ in range(10):
    # T_0(B) X = X and T_1(B) X = B X, with B = (A - centre) / half_width.
    y.axpby(1.0, x, 0.0)
    a.matmul(x, alpha=1.0 / half_width, beta=-centre / half_width, out=y)
    for _ in range(DEGREE - 1):
        # T_{j+1} = 2 B T_j - T_{j-1}; x has T_{j-1} and becomes T_{j+1}.
        x.axpby(-2.0 * centre / half_width, y, -1.0)
        a.matmul(y, alpha=2.0 / half_width, beta=1.0, out=x)
        x, y = y, x
    # Orthonormal columns: Y R^-1, with Y^T Y = R^T R.
    r = np.linalg.cholesky(y.gram(y)).T
    y.times(np.linalg.inv(r), out=x)

a.matmul(x, out=y)
values, s = np.linalg.eigh(x.gram(y))
x.times(s, out=rotated)
a.matmul(rotated, out=y)
residuals = np.linalg.norm(y.to_numpy() - rotated.to_numpy() * values, axis=0)
print("eigenvalues", np.round(values[::-1], 6))
print("residuals", np.array2string(residuals[::-1], precision=1))
assert residuals[-1] < 1e-3
