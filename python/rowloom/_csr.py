"""The operator ``CSR`` and ``csr``, which makes it."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, overload

from . import _rowloom
from ._card import is_on_card, multiply_on_card
from ._inputs import (
    arrays_of,
    checked_options,
    is_complex,
    is_single,
    number_of_columns,
    on_host,
    prepared,
    refuse_sparse,
)
from ._plan import Plan
from ._report import Fault, Report
from ._solver_methods import SolverMethods
from ._vectors import Vectors

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Comm
    from scipy.sparse import csr_array

    from ._complex import ComplexCSR
    from ._distributed import DistributedCSR
    from ._transformed import TransformedCSR

    Array = np.ndarray[Any, Any]
    Path = str | os.PathLike[str]


@overload
def csr(
    a: Any,
    *,
    shape: tuple[int, int] | None = ...,
    dtype: Any = ...,
    copy: bool | None = ...,
    devices: str = ...,
    threads: int | None = ...,
    uses: int | None = ...,
    reproducible: bool = ...,
    check: str = ...,
    comm: None = ...,
) -> CSR: ...
@overload
def csr(
    a: Any,
    *,
    shape: tuple[int, int] | None = ...,
    dtype: Any = ...,
    copy: bool | None = ...,
    devices: str = ...,
    threads: int | None = ...,
    uses: int | None = ...,
    reproducible: bool = ...,
    check: str = ...,
    comm: Comm,
) -> DistributedCSR: ...
def csr(
    a: Any,
    *,
    shape: tuple[int, int] | None = None,
    dtype: Any = None,
    copy: bool | None = None,
    devices: str = "auto",
    threads: int | None = None,
    uses: int | None = None,
    reproducible: bool = False,
    check: str = "first",
    comm: Comm | None = None,
) -> CSR | ComplexCSR | DistributedCSR:
    """Make an operator from a sparse matrix.

    Parameters
    ----------
    a
        A SciPy sparse array or matrix of any format; a tuple ``(data, indices, indptr)``; or the path of a file: Matrix Market,
        SciPy's ``.npz``, SuiteSparse's ``.tar.gz`` or Rowloom's ``.rlm``. ``"gen:stencil27,n=64"`` names a generated matrix.
    shape
        Rows and columns, for a tuple. Without it the largest index decides.
    dtype
        ``float64`` or ``float32``. Without it these two types stay; integers and booleans become ``float64``. Complex values, or
        ``complex128`` or ``complex64`` here, give a :class:`ComplexCSR`.
    copy
        Without it, the indices are copied, and so are values that SciPy would sort or that are in memory of another library; other
        values are used in place. After a change of such values, a product has old or new ones. ``True`` copies everything, so that
        the operator never changes. ``False`` uses all arrays in place where their types allow it: then indices must not be changed
        while the operator lives, or the process may crash.
    devices
        ``"auto"`` (the CPU, and every GPU that makes products faster) or a list such as ``"cpu,cuda:0"``.
    threads
        Worker threads; one for each hardware thread without it.
    uses
        The number of products that will be computed, if it is known.
    reproducible
        Whether results have the same bits for any devices and threads.
    check
        Which products are checked: ``"first"`` (of every plan), ``"always"`` or ``"never"``. A check compares the rows of the result
        with those of A X; wrong rows are computed again, and the report names the device.
    comm
        A communicator of mpi4py. All its ranks call this, each with its own rows of A, and get a :class:`DistributedCSR`.

    Examples
    --------
    >>> import numpy as np
    >>> a = csr((np.array([1.0, 2.0, 3.0]), np.array([0, 2, 1]), np.array([0, 2, 3])), shape=(2, 3))
    >>> a @ np.array([1.0, 10.0, 100.0])
    array([201.,  30.])
    """
    options = {"devices": devices, "threads": threads, "uses": uses, "reproducible": reproducible, "check": check}
    if comm is not None:
        from ._distributed import distributed_csr

        return distributed_csr(comm, a, shape, dtype, copy, options)
    if isinstance(a, str | os.PathLike):
        if shape is not None:
            raise TypeError("shape is for a tuple of arrays; a file has its own shape")
        native = _rowloom.from_file(a, is_single(dtype), **checked_options(options))
        return CSR(native, options)
    arrays = arrays_of(a, shape)
    if is_complex(arrays[0].dtype) or is_complex(dtype):
        from ._complex import complex_csr

        return complex_csr(arrays, dtype, copy, options)
    return CSR(_rowloom.from_arrays(*prepared(*arrays, dtype), copy, **checked_options(options)), options)


class CSR(SolverMethods):
    """A sparse matrix that is multiplied by dense arrays; :func:`csr` makes one.

    Products of several threads may use one operator. The interpreter's lock is released while a product runs.
    """

    __slots__ = ("__weakref__", "_cards", "_multiply", "_native", "_options", "_other_type", "_transposed", "dtype", "nnz", "shape")

    def __init__(self, native: _rowloom.Operator, options: dict[str, Any]) -> None:
        self._native = native
        self._multiply = native.multiply
        self._options = options
        self._other_type: CSR | None = None
        self._cards: dict[int, _rowloom.Operator] = {}
        self._transposed: CSR | weakref.ref[CSR] | None = None
        self.shape: tuple[int, int] = native.shape
        self.dtype: np.dtype[Any] = native.dtype
        self.nnz: int = native.nnz

    def __matmul__(self, x: Any) -> Any:
        y = self._multiply(x)
        return self._converted(x, 1.0, 0.0, None) if y is None else y

    def dot(self, x: Any, out: Any = None) -> Any:
        """``A @ x``, in ``out`` if it is given.

        >>> import numpy as np
        >>> a = csr("gen:stencil5,n=2")
        >>> y = np.empty(4)
        >>> a.dot(np.ones(4), out=y) is y
        True
        """
        y = self._multiply(x, 1.0, 0.0, out)
        return self._converted(x, 1.0, 0.0, out) if y is None else y

    def matmul(self, x: Any, *, alpha: float = 1.0, beta: float = 0.0, out: Any = None) -> Any:
        """``alpha * A @ x + beta * out``, in ``out`` if it is given.

        With ``beta=0`` the old ``out`` has no effect. ``x`` and ``out`` are arrays, or both are :class:`Vectors`.

        >>> import numpy as np
        >>> a = csr((np.array([2.0, 3.0]), np.array([0, 1]), np.array([0, 1, 2])))
        >>> y = np.array([10.0, 20.0])
        >>> a.matmul(np.array([1.0, 1.0]), alpha=2.0, beta=-1.0, out=y)
        array([ -6., -14.])
        """
        if out is None and beta != 0.0:
            raise ValueError("beta is for out, which is missing")
        y = self._multiply(x, alpha, beta, out)
        return self._converted(x, alpha, beta, out) if y is None else y

    def _converted(self, x: Any, alpha: float, beta: float, out: Any) -> Any:
        """The product with an ``x`` that is no aligned array of the matrix's type."""
        import numpy as np

        if isinstance(x, Vectors):
            y = out if out is not None else self.vectors(x.shape[1])
            if not isinstance(y, Vectors):
                raise TypeError("x is Vectors, so out must be Vectors too")
            self._native.multiply_vectors(x._native, y._native, alpha, beta)
            return y
        refuse_sparse(x)
        if is_on_card(x):
            return multiply_on_card(self._on_card, self.shape, self.dtype, x, alpha, beta, out)
        array = on_host(x)
        dtype = np.result_type(self.dtype, array.dtype)
        if dtype.kind == "c":
            return self._complex(array, dtype, alpha, beta, out)
        if dtype not in (np.float64, np.float32):
            raise TypeError(f"x has the dtype {array.dtype}; a product has float64 or float32")
        return self._in(dtype)._multiply(np.require(array, dtype, ["A"]), alpha, beta, out)

    def _complex(self, x: Array, dtype: np.dtype[Any], alpha: float, beta: float, out: Any) -> Array:
        """The product with a complex x: the real and imaginary parts are columns of their own."""
        import numpy as np

        if dtype not in (np.complex128, np.complex64):
            raise TypeError(f"x has the dtype {x.dtype}; a product has complex128 or complex64")
        if x.ndim not in (1, 2):
            raise ValueError(f"x has {x.ndim} dimensions; it must have one or two")
        real = np.dtype(np.float64 if dtype == np.complex128 else np.float32)
        shape = self.shape[:1] + x.shape[1:]
        if out is not None and (not isinstance(out, np.ndarray) or out.dtype != dtype or out.shape != shape):
            raise ValueError(f"out must be an array of {dtype} with the shape {shape}")
        k = 1 if x.ndim == 1 else x.shape[1]
        columns = np.ascontiguousarray(x, dtype).reshape(len(x), k).view(real)
        y = np.array(out, dtype, order="C") if beta != 0.0 else np.empty(shape, dtype)
        self._in(real)._multiply(columns, alpha, beta, y.reshape(len(y), k).view(real))
        if out is None:
            return y
        out[...] = y
        return out

    def _on_card(self, card: int) -> _rowloom.Operator:
        """The operator for arrays in the memory of a card."""
        operator = self._cards.get(card)
        if operator is None:
            emulated = self._options["devices"].startswith("emu:")
            devices = self._options["devices"] if emulated else f"cuda:{card}"
            operator = self._cards.setdefault(card, self._native.on_devices(devices))
        return operator

    def _in(self, dtype: np.dtype[Any]) -> CSR:
        """The operator whose values have this type."""
        if dtype == self.dtype:
            return self
        if self._other_type is None:
            self._other_type = CSR(self._native.cast(dtype.itemsize == 4), self._options)
        return self._other_type

    @property
    def T(self) -> CSR:  # noqa: N802 (NumPy's name)
        """The transposed operator; it is made once."""
        known = self._transposed() if isinstance(self._transposed, weakref.ref) else self._transposed
        if known is None:
            known = CSR(self._native.transposed(), self._options)
            known._transposed = weakref.ref(self)
            self._transposed = known
        return known

    def transpose(self) -> CSR:
        """The transposed operator."""
        return self.T

    def vectors(self, k: int = 1) -> Vectors:
        """Vectors of zeros with the rows of Y and ``k`` columns, which stay on the devices of the product."""
        return Vectors(self._native.vectors(number_of_columns(k), False))

    def x_vectors(self, k: int = 1) -> Vectors:
        """The same with the rows of X, for a matrix that is not square."""
        return Vectors(self._native.vectors(number_of_columns(k), True))

    def plan(self, k: int = 1) -> Plan:
        """The plan of products with ``k`` columns.

        >>> csr("gen:stencil5,n=10", devices="cpu").plan(8).devices
        ['cpu']
        """
        return Plan.of(self._native, k)

    def explain(self, k: int | None = None) -> str:
        """The plan in words: devices, kernels, reasons, predicted and measured times, and faults.

        It is that of products with ``k`` columns, or of the last product.

        >>> print(csr("gen:stencil5,n=10", devices="cpu").explain(8))  # doctest: +ELLIPSIS
        device: cpu: 100 rows in 1 chunk
        kernel: cpu_csr on csr, 1 chunk on cpu
        ...
        product: predicted ...
        """
        text = self._native.explain(None if k is None else number_of_columns(k))
        return text if text is not None else self.explain(1)

    @property
    def last_report(self) -> Report | None:
        """The times of the last product; ``None`` before the first.

        Of a product with arrays on a card they are the times of its kernels, for which this waits.
        """
        report = self._last_used().last_report()
        if report is None:
            return None
        seconds, devices, faults = report
        return Report(seconds, dict(devices), tuple(Fault(*fault) for fault in faults))

    def trace(self, path: Path, *, force: bool = False) -> None:
        """Write the timeline of the last product as a Chrome trace, which https://ui.perfetto.dev opens.

        An older trace is replaced. Any other file raises ``FileExistsError``, unless ``force`` is true.
        """
        self._last_used().trace(path, force)

    def _last_used(self) -> _rowloom.Operator:
        """The operator of the last product: of arrays of the matrix's type, of the other type, or on a card."""
        operators: list[_rowloom.Operator] = [self._native, *self._cards.values()]
        if self._other_type is not None:
            operators.append(self._other_type._native)
        return max(operators, key=lambda operator: operator.last_use)

    def clear(self) -> None:
        """Free the plans and device memory of all products; later products make them anew."""
        self._native.clear()
        self._cards.clear()

    def to_scipy(self) -> csr_array:
        """A copy as a SciPy sparse array."""
        from scipy.sparse import csr_array

        return csr_array(self._native.arrays(), shape=self.shape)

    def centered(self, means: Any = None) -> TransformedCSR:
        """``A - 1 means.T``: in every column its mean is subtracted, or ``means``. No dense matrix is formed.

        The means are those of the values at the time of this call, in ``float64``.

        >>> import numpy as np
        >>> a = csr((np.array([2.0, 4.0, 6.0]), np.array([0, 0, 1]), np.array([0, 1, 3])))
        >>> a.centered() @ np.array([1.0, 0.0])
        array([-1.,  1.])
        """
        return self._transformed().centered(means)

    def scaled(self, *, rows: Any = None, columns: Any = None) -> TransformedCSR:
        """``diag(rows) A diag(columns)``: each row and column times its factor. The values of A stay as they are.

        Chains are as they are read: ``a.scaled(columns=c).centered()`` scales the columns and subtracts their means then.

        >>> import numpy as np
        >>> a = csr((np.array([2.0, 4.0, 6.0]), np.array([0, 0, 1]), np.array([0, 1, 3])))
        >>> a.scaled(rows=[1.0, 0.5], columns=[1.0, 10.0]) @ np.ones(2)
        array([ 2., 32.])
        """
        return self._transformed().scaled(rows=rows, columns=columns)

    def _transformed(self) -> TransformedCSR:
        from ._transformed import TransformedCSR

        return TransformedCSR(self, None, None, ())

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<rowloom.CSR {rows} x {columns}, {self.nnz} nonzeros, {self.dtype}, devices={self._options['devices']!r}>"

    def _repr_svg_(self) -> str:
        return self._native.spy(repr(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (*self._native.arrays(), self.shape, self._options)


def _rebuilt(data: Array, indices: Array, indptr: Array, shape: tuple[int, int], options: dict[str, Any]) -> CSR:
    arrays = prepared(data, indices, indptr, shape, data.dtype)
    return CSR(_rowloom.from_arrays(*arrays, None, **checked_options(options)), options)
