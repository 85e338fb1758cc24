"""Operators of complex matrices, whose products are those of a real matrix with twice as many columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _rowloom
from ._card import is_on_card
from ._inputs import checked_options, is_complex, number_of_columns, on_host, prepared, refuse_sparse
from ._plan import Plan
from ._report import Fault, Report
from ._solver_methods import SolverMethods
from ._vectors import Vectors

if TYPE_CHECKING:
    import os

    import numpy as np
    from scipy.sparse import csr_array

    Array = np.ndarray[Any, Any]
    Path = str | os.PathLike[str]


def complex_csr(
    arrays: tuple[Array, Array, Array, tuple[int, int]], dtype: Any, copy: bool | None, options: dict[str, Any]
) -> ComplexCSR:
    """The operator of a matrix with these values, columns and row pointers."""
    import numpy as np

    data, indices, indptr, shape = arrays
    kind: np.dtype[Any] = np.dtype(data.dtype if dtype is None else dtype)
    if dtype is None and kind not in (np.complex64, np.complex128):
        raise ValueError(f"values of dtype {kind} are unsupported; complex128 and complex64 are supported")
    if not is_complex(kind):
        raise ValueError(f"dtype {kind} cannot hold complex values; complex128 and complex64 are supported")
    kind = np.dtype(np.complex64 if kind == np.complex64 else np.complex128)
    data = np.require(data, kind, ["C", "A"])
    real = data.real.dtype
    # The indices are checked here, since the native module would name those of the real matrix.
    data_view, indices, indptr, shape = prepared(data.view(real), indices, indptr, shape, real)
    rows, columns = shape
    entries = len(data)
    if len(indptr) > 0 and indptr[-1] > min(entries, len(indices)):
        raise ValueError(f"indptr ends at {indptr[-1]}, but there are {len(indices)} indices and {entries} values")
    if len(indices) > 0 and (indices.min() < 0 or indices.max() >= columns):
        position = int(np.argmax((indices < 0) | (indices >= columns)))
        raise ValueError(f"indices[{position}] is {indices[position]}; the matrix has {columns} columns")
    pairs = np.empty((len(indices), 2), np.int64)
    np.multiply(indices, 2, out=pairs[:, 0])
    np.add(pairs[:, 0], 1, out=pairs[:, 1])
    pointers = indptr.astype(np.int64) * 2
    real_arrays = (data_view, pairs.reshape(-1), pointers, (rows, 2 * columns))
    return ComplexCSR(_rowloom.from_arrays(*real_arrays, copy, **checked_options(options)), options)


class ComplexCSR(SolverMethods):
    """A complex sparse matrix that is multiplied by dense arrays; :func:`rowloom.csr` makes one of complex values.

    In memory it is a real matrix: column ``2c`` has the real parts of column ``c``, and column ``2c + 1`` the imaginary parts. Its plans and
    reports are those of the real product, with two columns for each column of ``x``.
    """

    __slots__ = ("__weakref__", "_adjoint", "_native", "_options", "_other_type", "_transposed", "dtype", "nnz", "shape")

    def __init__(self, native: _rowloom.Operator, options: dict[str, Any]) -> None:
        import numpy as np

        self._native = native
        self._options = options
        self._other_type: ComplexCSR | None = None
        self._transposed: ComplexCSR | None = None
        self._adjoint: ComplexCSR | None = None
        rows, columns = native.shape
        self.shape: tuple[int, int] = (rows, columns // 2)
        self.dtype: np.dtype[Any] = np.dtype(np.complex64 if native.dtype.itemsize == 4 else np.complex128)
        self.nnz: int = native.nnz // 2

    def __matmul__(self, x: Any) -> Any:
        return self._product(x, 1.0, 0.0, None)

    def dot(self, x: Any, out: Any = None) -> Any:
        """``A @ x``, in ``out`` if it is given."""
        return self._product(x, 1.0, 0.0, out)

    def matmul(self, x: Any, *, alpha: complex = 1.0, beta: complex = 0.0, out: Any = None) -> Any:
        """``alpha * A @ x + beta * out``, in ``out`` if it is given. With ``beta=0`` the old ``out`` has no effect.

        >>> import numpy as np, rowloom
        >>> a = rowloom.csr((np.array([2.0j, 3.0]), np.array([0, 1]), np.array([0, 1, 2])))
        >>> y = np.array([10.0, 20.0j])
        >>> a.matmul(np.array([1.0, 1.0]), alpha=2.0, beta=-1.0, out=y)
        array([-10. +4.j,   6.-20.j])
        """
        if out is None and beta != 0.0:
            raise ValueError("beta is for out, which is missing")
        return self._product(x, alpha, beta, out)

    def _product(self, x: Any, alpha: complex, beta: complex, out: Any) -> Any:
        import numpy as np

        if isinstance(x, Vectors):
            raise TypeError("Vectors are real; multiply a complex matrix by arrays of NumPy")
        refuse_sparse(x)
        if is_on_card(x):
            raise TypeError("x is on a card; a complex matrix is multiplied by arrays in host memory")
        array = on_host(x)
        dtype = np.result_type(self.dtype, array.dtype)
        if dtype not in (np.complex128, np.complex64):
            raise TypeError(f"x has the dtype {array.dtype}; a product has complex128 or complex64")
        if array.ndim not in (1, 2):
            raise ValueError(f"x has {array.ndim} dimensions; it must have one or two")
        if len(array) != self.shape[1]:
            raise ValueError(f"X has {len(array)} rows; A has {self.shape[1]} columns")
        shape = self.shape[:1] + array.shape[1:]
        if out is not None:
            if not isinstance(out, np.ndarray) or out.dtype != dtype or out.shape != shape:
                raise ValueError(f"out must be an array of {dtype} with the shape {shape}")
            if not out.flags.writeable:
                raise ValueError("out is read-only")
        is_scaled = isinstance(alpha, complex) or isinstance(beta, complex) or np.iscomplexobj([alpha, beta])
        real_alpha, real_beta = (1.0, 0.0) if is_scaled else (float(alpha.real), float(beta.real))
        in_place = out is not None and out.flags.c_contiguous and out.flags.aligned and not is_scaled
        if in_place:
            y = out
        else:
            y = np.array(out, dtype, order="C") if real_beta != 0.0 else np.empty(shape, dtype)
        operator = self._in(dtype)
        rotated = _rotated(array, dtype)
        real = rotated.dtype
        operator._native.multiply(rotated, real_alpha, real_beta, y.reshape(shape[0], rotated.shape[1] // 2).view(real))
        if is_scaled:
            y = alpha * y if beta == 0 else alpha * y + beta * out
            y = y.astype(dtype, copy=False)
        if out is None:
            return y
        if not in_place:
            out[...] = y
        return out

    def _in(self, dtype: np.dtype[Any]) -> ComplexCSR:
        """The operator whose values have this type."""
        if dtype == self.dtype:
            return self
        if self._other_type is None:
            self._other_type = ComplexCSR(self._native.cast(dtype.itemsize == 8), self._options)
        return self._other_type

    @property
    def T(self) -> ComplexCSR:  # noqa: N802 (NumPy's name)
        """The transposed operator; it is made once, and needs SciPy."""
        if self._transposed is None:
            self._transposed = self._of(self.to_scipy().T.tocsr())
        return self._transposed

    @property
    def H(self) -> ComplexCSR:  # noqa: N802 (SciPy's name)
        """The conjugate of the transposed operator; it is made once, and needs SciPy."""
        if self._adjoint is None:
            self._adjoint = self._of(self.to_scipy().conj().T.tocsr())
        return self._adjoint

    def _of(self, matrix: csr_array) -> ComplexCSR:
        return complex_csr((matrix.data, matrix.indices, matrix.indptr, matrix.shape), None, None, self._options)

    def transpose(self) -> ComplexCSR:
        """The transposed operator."""
        return self.T

    def plan(self, k: int = 1) -> Plan:
        """The plan of products with ``k`` complex columns: that of the real product with ``2 k`` columns."""
        return Plan.of(self._native, 2 * number_of_columns(k))

    def explain(self, k: int | None = None) -> str:
        """The plan in words, as :meth:`rowloom.CSR.explain`: that of the real product."""
        text = self._native.explain(None if k is None else 2 * number_of_columns(k))
        return text if text is not None else self.explain(1)

    @property
    def last_report(self) -> Report | None:
        """The times of the last product; ``None`` before the first."""
        report = self._last_used().last_report()
        if report is None:
            return None
        seconds, devices, faults = report
        return Report(seconds, dict(devices), tuple(Fault(*fault) for fault in faults))

    def trace(self, path: Path, *, force: bool = False) -> None:
        """Write the timeline of the last product, as :meth:`rowloom.CSR.trace`."""
        self._last_used().trace(path, force)

    def _last_used(self) -> _rowloom.Operator:
        other = self._other_type
        return self._native if other is None else max(self._native, other._native, key=lambda operator: operator.last_use)

    def centered(self, means: Any = None) -> Any:
        """Not for complex values: raises ``TypeError``."""
        raise TypeError("a complex matrix is not centred or scaled; change its values before rowloom.csr, or multiply it as it is")

    def scaled(self, *, rows: Any = None, columns: Any = None) -> Any:
        """Not for complex values: raises ``TypeError``."""
        return self.centered()

    def vectors(self, k: int = 1) -> Any:
        """Not for complex values: raises ``TypeError``."""
        raise TypeError("Vectors are real; multiply a complex matrix by arrays of NumPy")

    x_vectors = vectors

    def clear(self) -> None:
        """Free the plans and device memory of all products; later products make them anew."""
        self._native.clear()

    def to_scipy(self) -> csr_array:
        """A copy as a SciPy sparse array."""
        from scipy.sparse import csr_array

        return csr_array(self._arrays(), shape=self.shape)

    def _arrays(self) -> tuple[Array, Array, Array]:
        data, indices, indptr = self._native.arrays()
        return data.view(self.dtype), indices[::2] // 2, indptr // 2

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<rowloom.ComplexCSR {rows} x {columns}, {self.nnz} nonzeros, {self.dtype}, devices={self._options['devices']!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return complex_csr, ((*self._arrays(), self.shape), self.dtype, None, self._options)


def _rotated(x: Array, dtype: np.dtype[Any]) -> Array:
    """The X of the real product: every row of ``x`` and then ``i`` times it, real and imaginary parts in turn."""
    import numpy as np

    rows, k = len(x), 1 if x.ndim == 1 else x.shape[1]
    x = np.ascontiguousarray(x, dtype)
    # Not 1j * x, which would make a NaN of an infinity.
    rotated = np.empty_like(x)
    np.negative(x.imag, out=rotated.real)
    rotated.imag = x.real
    both = np.empty((rows, 2, k), dtype)
    both[:, 0] = x.reshape(rows, k)
    both[:, 1] = rotated.reshape(rows, k)
    return both.view(rotated.real.dtype).reshape(2 * rows, 2 * k)
