"""Operators as SciPy's solvers expect them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scipy.sparse.linalg import LinearOperator

if TYPE_CHECKING:
    import numpy as np

    from ._solver_methods import Multiplies

    Array = np.ndarray[Any, Any]


class RowloomOperator(LinearOperator):  # type: ignore[misc]  # SciPy has no types
    """A ``LinearOperator`` whose products are Rowloom's."""

    def __init__(self, a: Multiplies) -> None:
        super().__init__(a.dtype, a.shape)
        self.a = a

    def _matvec(self, x: Array) -> Any:
        return self.a @ x

    def _matmat(self, x: Array) -> Any:
        return self.a @ x

    def _rmatvec(self, x: Array) -> Any:
        return self.a.H @ x

    def _rmatmat(self, x: Array) -> Any:
        return self.a.H @ x

    def _adjoint(self) -> RowloomOperator:
        return RowloomOperator(self.a.H)

    def _transpose(self) -> RowloomOperator:
        return RowloomOperator(self.a.T)
