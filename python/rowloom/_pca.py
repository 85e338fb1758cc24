"""Principal components of sparse matrices, which are not made dense."""

from __future__ import annotations

import operator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._csr import CSR, csr
from ._distributed import DistributedCSR
from ._moments import column_means, squared_norm
from ._transformed import TransformedCSR

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


#: The largest angle for each size of values in bytes.
_TOLERANCES = {8: 1e-7, 4: 1e-3}


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """Principal components of the rows of a matrix; :func:`pca` computes them. The names are those of scikit-learn's ``PCA``."""

    #: The components as rows, the one with the largest variance first. Their lengths are 1.
    components: Array
    #: The singular values of the centred matrix.
    singular_values: Array
    #: The variance of the scores of each component, for ``rows - 1`` degrees of freedom.
    explained_variance: Array
    #: The same over the variance of all columns.
    explained_variance_ratio: Array
    #: The mean of each column.
    mean: Array
    #: The centred rows in terms of the components: ``transform`` of scikit-learn.
    scores: Array
    #: For each component the larger norm of ``A v - s u`` and ``A.T u - s v``, for the centred A with the singular vectors u and v.
    residuals: Array
    #: The number of columns that were multiplied by A, and by its transposed matrix.
    products: int

    def __repr__(self) -> str:
        share = float(self.explained_variance_ratio.sum())
        return f"<rowloom.PrincipalComponents: {len(self.components)} of {len(self.mean)} columns, {share:.1%} of the variance>"


def pca(a: Any, n: int, *, tolerance: float | None = None, seed: int | None = 0) -> PrincipalComponents:
    """The ``n`` principal components of the rows of a sparse matrix with the largest variance.

    The columns are centred, and not scaled; scale them with :meth:`CSR.scaled`. The centred matrix is never formed: memory is that of A,
    its transposed matrix, and at most ``n + 200`` dense columns of both lengths, or as much as A itself if that is more. The signs are
    those of scikit-learn's ``PCA``: the element of each component with the largest absolute value is positive.

    Parameters
    ----------
    a
        A SciPy sparse matrix, or whatever else :func:`csr` takes; or an operator, which may be scaled. ``csr`` has the options for
        devices and threads. Results are ``float32`` for a ``float32`` matrix, otherwise ``float64``.
    n
        The number of components, at most the smaller number of rows and columns.
    tolerance
        The largest angle in radians, estimated, between a component and the exact one. Products are computed until it is reached.
        Components whose singular values are equal to rounding span the same space. Without it 1e-7 for ``float64``, and 1e-3 for
        ``float32``.
    seed
        Of the random start. The same seed gives the same bits with the same devices and libraries; ``None`` takes another one each time.

    Examples
    --------
    >>> import rowloom, scipy.sparse
    >>> a = scipy.sparse.random_array((500, 80), density=0.1, format="csr", rng=1)
    >>> result = rowloom.pca(a, 3)
    >>> result.components.shape, result.scores.shape
    ((3, 80), (500, 3))
    """
    import numpy as np

    from ._singular import largest_triplets

    matrix = _operator(a)
    rows, columns = matrix.shape
    n = _checked_number(n, rows, columns)
    tolerance = _checked_tolerance(tolerance, matrix.dtype)
    means = column_means(matrix.base, matrix.rows, matrix.columns, matrix.outers)
    centered = matrix.centered(means)
    variance = squared_norm(centered) / (rows - 1)
    if not np.isfinite(variance):
        raise ValueError(f"the variance of the matrix is {variance}: its values are too large; scale them")
    with _one_blas_thread():
        left, values, right, residuals, products = largest_triplets(centered, n, tolerance, seed)
    largest = right[np.argmax(np.abs(right), axis=0), range(n)]
    signs = np.where(largest < 0.0, -1.0, 1.0)
    dtype = matrix.dtype
    explained = np.square(values) / (rows - 1)
    with np.errstate(invalid="ignore"):
        ratio = explained / variance
    return PrincipalComponents(
        components=np.ascontiguousarray((right * signs).T, dtype),
        singular_values=values.astype(dtype),
        explained_variance=explained.astype(dtype),
        explained_variance_ratio=ratio.astype(dtype),
        mean=means.astype(dtype),
        scores=np.ascontiguousarray(left * (signs * values), dtype),
        residuals=residuals,
        products=products,
    )


def _one_blas_thread() -> AbstractContextManager[Any]:
    """One thread for NumPy's BLAS meanwhile, if threadpoolctl is installed.

    Threads of OpenBLAS wait actively after each operation, on the processors of the product that follows.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


def _operator(a: Any) -> TransformedCSR:
    """The operator of ``a``. One that is made here has the same bits for any devices."""
    if isinstance(a, TransformedCSR):
        return a
    if isinstance(a, DistributedCSR):
        raise TypeError("the operator is divided between ranks; pca takes one of a single process")
    return (a if isinstance(a, CSR) else csr(a, reproducible=True)).scaled()


def _checked_number(n: Any, rows: int, columns: int) -> int:
    try:
        number = operator.index(n)
    except TypeError:
        raise TypeError(f"n is {n!r}; the number of components is an integer") from None
    if rows < 2 or columns < 1:
        raise ValueError(f"the matrix has {rows} rows and {columns} columns; components need two rows and one column at least")
    if not 1 <= number <= min(rows, columns):
        raise ValueError(f"n is {number}; a matrix of {rows} rows and {columns} columns has 1 to {min(rows, columns)} components")
    return number


def _checked_tolerance(tolerance: float | None, dtype: np.dtype[Any]) -> float:
    if tolerance is None:
        return _TOLERANCES[dtype.itemsize]
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"tolerance is {tolerance}; it must be an angle between 0 and 1 radians")
    return float(tolerance)
