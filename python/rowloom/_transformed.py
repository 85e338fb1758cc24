"""Operators of centred and scaled matrices, which are never formed.

An operator is ``diag(r) A diag(c) - U V.T``: a sparse matrix, factors of its rows and columns, and a few outer products. Centring,
scaling and transposing give the same form again, so a chain of them costs one sparse product and one pass over X and Y.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from ._card import as_array_of, card_of, check_on_card, is_on_card, library_of
from ._factors import checked_factors
from ._inputs import on_host, refuse_sparse
from ._moments import column_means
from ._solver_methods import SolverMethods
from ._vectors import Vectors

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from ._csr import CSR

    Array = np.ndarray[Any, Any]


class Outer(NamedTuple):
    """``u v.T``, which is subtracted. ``None`` is a vector of ones."""

    u: Array | None
    v: Array | None


class TransformedCSR(SolverMethods):
    """A centred or scaled sparse matrix; :meth:`CSR.centered` and :meth:`CSR.scaled` make one.

    It is multiplied as :class:`CSR` is. ``base`` is the operator of the sparse matrix, with the plans and reports of the products.

    >>> import numpy as np, rowloom
    >>> a = rowloom.csr((np.array([2.0, 4.0, 6.0]), np.array([0, 0, 1]), np.array([0, 1, 3])))
    >>> a.centered() @ np.eye(2)
    array([[-1., -3.],
           [ 1.,  3.]])
    >>> a.scaled(columns=[0.5, 1.0]) @ np.eye(2)
    array([[1., 0.],
           [2., 6.]])
    """

    __slots__ = ("__weakref__", "_of_cards", "_of_vectors", "_ones", "_transposed", "base", "columns", "dtype", "outers", "rows", "shape")

    def __init__(self, base: CSR, rows: Array | None, columns: Array | None, outers: tuple[Outer, ...]) -> None:
        self.base = base
        self.rows = rows
        self.columns = columns
        self.outers = outers
        self.shape: tuple[int, int] = base.shape
        self.dtype: np.dtype[Any] = base.dtype
        self._transposed: TransformedCSR | weakref.ref[TransformedCSR] | None = None
        # The outer products as vectors, for the number of columns that was used last.
        self._of_vectors: tuple[int, list[tuple[Vectors, Vectors]]] | None = None
        self._ones: Array | None = None
        # For each library and card the vectors of this operator there.
        self._of_cards: dict[tuple[str, int], dict[int, Any]] = {}

    def centered(self, means: Any = None) -> TransformedCSR:
        """The operator minus its column means, or minus ``means`` in every row; see :meth:`CSR.centered`."""
        if means is None:
            subtracted = column_means(self.base, self.rows, self.columns, self.outers)
        else:
            subtracted = checked_factors("means", means, self.shape[1], "columns")
        others = tuple(outer for outer in self.outers if outer.u is not None)
        for outer in self.outers:
            if outer.u is None:
                subtracted = subtracted + (1.0 if outer.v is None else outer.v)
        return TransformedCSR(self.base, self.rows, self.columns, (*others, Outer(None, subtracted)))

    def scaled(self, *, rows: Any = None, columns: Any = None) -> TransformedCSR:
        """``diag(rows) A diag(columns)``; see :meth:`CSR.scaled`."""
        r = None if rows is None else checked_factors("rows", rows, self.shape[0], "rows")
        c = None if columns is None else checked_factors("columns", columns, self.shape[1], "columns")
        outers = tuple(Outer(_times(outer.u, r), _times(outer.v, c)) for outer in self.outers)
        return TransformedCSR(self.base, _times(self.rows, r), _times(self.columns, c), outers)

    def __matmul__(self, x: Any) -> Any:
        return self.matmul(x)

    def dot(self, x: Any, out: Any = None) -> Any:
        """``A @ x``, in ``out`` if it is given."""
        return self.matmul(x, out=out)

    def matmul(self, x: Any, *, alpha: float = 1.0, beta: float = 0.0, out: Any = None) -> Any:
        """``alpha * A @ x + beta * out``, in ``out`` if it is given; ``x`` is what :meth:`CSR.matmul` takes."""
        if out is None and beta != 0.0:
            raise ValueError("beta is for out, which is missing")
        if isinstance(x, Vectors):
            return self._multiply_vectors(x, alpha, beta, out)
        refuse_sparse(x)
        if is_on_card(x):
            check_on_card(x, self.dtype, self.shape[1])
            return self._multiply(x, self._factors_on_card(x), alpha, beta, out)
        array, factors = self._host_operands(x, out)
        return self._multiply(array, factors, alpha, beta, out)

    def _host_operands(self, x: Any, out: Any) -> tuple[Array, Callable[[Array], Array]]:
        """``x`` as an array of the type of the product, and how factors are taken for it."""
        import numpy as np

        array = on_host(x)
        if array.ndim not in (1, 2) or len(array) != self.shape[1]:
            raise ValueError(f"x has the shape {array.shape}; it must have {self.shape[1]} rows and one or two dimensions")
        dtype = np.result_type(self.dtype, array.dtype)
        if dtype not in (np.float64, np.float32, np.complex128, np.complex64):
            raise TypeError(f"x has the dtype {array.dtype}; a product has float32, float64, complex64 or complex128")
        if out is not None:
            shape = self.shape[:1] + array.shape[1:]
            if not isinstance(out, np.ndarray) or out.dtype != dtype:
                raise TypeError(f"out must be a NumPy array of {dtype}, as the result is")
            if out.shape != shape:
                raise ValueError(f"out has the shape {out.shape}; the result has {shape}")
            if not out.flags.writeable:
                raise ValueError("out is read-only")
        # Corrections are summed in float64 for both types: they cancel most of the product.
        return array.astype(dtype, copy=False), lambda values: values

    def _factors_on_card(self, x: Any) -> Callable[[Array], Any]:
        """How factors are taken for an array on a card: as arrays of its library there, in the type of A, which are kept."""
        import numpy as np

        known = self._of_cards.setdefault((library_of(x), card_of(x)), {})

        def of_card(values: Array) -> Any:
            array = known.get(id(values))
            if array is None:
                array = known[id(values)] = as_array_of(x, np.array(values, self.dtype))
            return array

        return of_card

    def _multiply(self, x: Any, taken: Callable[[Array], Any], alpha: float, beta: float, out: Any) -> Any:
        """The product with an array of any library."""
        is_matrix = len(x.shape) == 2

        def along_rows(values: Array) -> Any:
            return taken(values)[:, None] if is_matrix else taken(values)

        # Before the product, since out may overlap x.
        sums = [taken(self._ones_of_x() if outer.v is None else outer.v) @ x for outer in self.outers]
        if self.columns is not None:
            scaled = x * along_rows(self.columns)
            x = scaled if scaled.dtype == x.dtype else scaled.astype(x.dtype)
        if self.rows is None:
            y = self.base.matmul(x, alpha=alpha, beta=beta, out=out)
            for outer, sum_ in zip(self.outers, sums):
                y -= alpha * sum_ if outer.u is None else along_rows(outer.u) * (alpha * sum_)
            return y
        y = self.base.matmul(x)
        y *= along_rows(self.rows)
        for outer, sum_ in zip(self.outers, sums):
            y -= sum_ if outer.u is None else along_rows(outer.u) * sum_
        if alpha != 1.0:
            y *= alpha
        if out is None:
            return y
        # With beta = 0 the old out has no effect, also where it is not finite.
        out[...] = y if beta == 0.0 else y + beta * out
        return out

    def _ones_of_x(self) -> Array:
        """A one for each row of X: NumPy adds rows in the type of X, and faster by a product."""
        import numpy as np

        if self._ones is None:
            self._ones = np.ones(self.shape[1])
        return self._ones

    def _multiply_vectors(self, x: Vectors, alpha: float, beta: float, out: Any) -> Any:
        """The product with vectors; all rows stay on the devices."""
        if self.rows is not None or self.columns is not None:
            raise TypeError(
                "Vectors have no operation that scales their rows; multiply by arrays, or scale the sparse matrix itself "
                "before rowloom.csr and centre that operator"
            )
        y = self.base.matmul(x, alpha=alpha, beta=beta, out=out)
        for u, v in self._outers_of_vectors(x.shape[1]):
            sums = x.scalars()
            v.dot_into(x, sums)
            y.axpby(-alpha * sums, u, 1.0)
        return y

    def _outers_of_vectors(self, k: int) -> list[tuple[Vectors, Vectors]]:
        """The outer products, with each vector in all ``k`` columns."""
        known = self._of_vectors
        if known is None or known[0] != k:
            pairs = [(_filled(self.vectors(k), outer.u), _filled(self.x_vectors(k), outer.v)) for outer in self.outers]
            self._of_vectors = known = (k, pairs)
        return known[1]

    @property
    def T(self) -> TransformedCSR:  # noqa: N802 (NumPy's name)
        """The transposed operator; the sparse matrix is transposed once."""
        known = self._transposed() if isinstance(self._transposed, weakref.ref) else self._transposed
        if known is None:
            swapped = tuple(Outer(outer.v, outer.u) for outer in self.outers)
            known = TransformedCSR(self.base.T, self.columns, self.rows, swapped)
            known._transposed = weakref.ref(self)
            self._transposed = known
        return known

    def transpose(self) -> TransformedCSR:
        """The transposed operator."""
        return self.T

    def vectors(self, k: int = 1) -> Vectors:
        """Vectors of zeros with the rows of Y and ``k`` columns; those of ``base`` fit too."""
        return self.base.vectors(k)

    def x_vectors(self, k: int = 1) -> Vectors:
        """The same with the rows of X, for a matrix that is not square."""
        return self.base.x_vectors(k)

    def __repr__(self) -> str:
        rows, columns = self.shape
        parts = [
            *(["rows scaled"] if self.rows is not None else []),
            *(["columns scaled"] if self.columns is not None else []),
            f"minus rank {len(self.outers)}",
        ]
        return f"<rowloom.TransformedCSR {rows} x {columns}, {self.base.nnz} nonzeros, {self.dtype}, {', '.join(parts)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return TransformedCSR, (self.base, self.rows, self.columns, self.outers)


def _times(a: Array | None, b: Array | None) -> Array | None:
    """The element-wise product, where ``None`` has ones."""
    if a is None or b is None:
        return b if a is None else a
    return a * b


def _filled(vectors: Vectors, values: Array | None) -> Vectors:
    """The vectors with the values in each column."""
    import numpy as np

    if values is None:
        vectors.fill(1.0)
    else:
        vectors.copy_from(np.repeat(values.astype(vectors.dtype)[:, None], vectors.shape[1], axis=1))
    return vectors
