"""What SciPy's solvers call on an operator, in terms of its products and of its transposed operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ._inputs import as_columns, as_vector, refuse_sparse

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse.linalg import LinearOperator


class Multiplies(Protocol):
    """An operator with a product and a transposed operator."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def __matmul__(self, x: Any) -> Any: ...

    @property
    def T(self) -> Multiplies: ...  # noqa: N802 (NumPy's name)

    @property
    def H(self) -> Multiplies: ...  # noqa: N802 (SciPy's name)


class SolverMethods:
    """Methods of operators."""

    __slots__ = ()

    #: NumPy leaves ``X @ A`` to the operator.
    __array_ufunc__ = None
    ndim = 2

    @property
    def H(self: Multiplies) -> Any:  # noqa: N802 (SciPy's name)
        """The adjoint operator: of real values, the transposed one."""
        return self.T

    def __rmatmul__(self: Multiplies, x: Any) -> Any:
        import numpy as np

        refuse_sparse(x)
        return (self.T @ np.asarray(x).T).T

    def matvec(self: Multiplies, x: Any) -> Any:
        """``A @ x`` for a vector: of shape ``(n,)`` or ``(n, 1)``, as the result.

        With it and the next three, SciPy's solvers take the operator itself.

        >>> from scipy.sparse.linalg import cg
        >>> import numpy as np, rowloom
        >>> a = rowloom.csr("gen:stencil5,n=10")
        >>> x, failed = cg(a, np.ones(100), rtol=1e-10)
        >>> failed, bool(np.allclose(a @ x, 1.0))
        (0, True)
        """
        return self @ as_vector(x)

    def rmatvec(self: Multiplies, x: Any) -> Any:
        """``A.H @ x`` for a vector; for real values this is ``A.T @ x``."""
        return self.H @ as_vector(x)

    def matmat(self: Multiplies, x: Any) -> Any:
        """``A @ x`` for an array of two dimensions."""
        return self @ as_columns(x)

    def rmatmat(self: Multiplies, x: Any) -> Any:
        """``A.H @ x`` for an array of two dimensions; for real values this is ``A.T @ x``."""
        return self.H @ as_columns(x)

    def as_linear_operator(self: Multiplies) -> LinearOperator:
        """The operator for the solvers of ``scipy.sparse.linalg``.

        >>> from scipy.sparse.linalg import cg
        >>> import numpy as np, rowloom
        >>> a = rowloom.csr("gen:stencil5,n=10")
        >>> x, failed = cg(a.as_linear_operator(), np.ones(100), rtol=1e-10)
        >>> failed, bool(np.allclose(a @ x, 1.0))
        (0, True)
        """
        from ._linear_operator import RowloomOperator

        return RowloomOperator(self)
