"""Operators over the ranks of an MPI job, each of which has its own rows: ``csr(..., comm=comm)``."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import _rowloom
from ._inputs import arrays_of, checked_options, is_single, number_of_columns, on_host, prepared, refuse_sparse
from ._plan import Plan
from ._report import Fault, Report
from ._vectors import Vectors

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

#: The key of the attribute by which a communicator keeps its :class:`_rowloom.Ranks`; made when it is first needed.
_keyval: int | None = None


def distributed_csr(
    comm: Any,
    a: Any,
    shape: tuple[int, int] | None,
    dtype: Any,
    copy: bool | None,
    options: dict[str, Any],
) -> DistributedCSR:
    """The operator of which ``a`` has the rows of this rank; of a file, each rank reads its own."""
    ranks = _ranks_of(comm)
    is_file = isinstance(a, str | os.PathLike)
    try:
        checked_options(options)
        if is_file and shape is not None:
            raise TypeError("shape is for a tuple of arrays; a file has its own shape")
        if isinstance(a, tuple) and shape is None:
            raise TypeError("with comm, a tuple needs shape=(rows of this rank, columns of the whole matrix)")
        single = is_single(dtype) if is_file else False
        arrays = None if is_file else prepared(*arrays_of(a, shape), dtype)
    except Exception as error:
        ranks.agree(f"{type(error).__name__}: {error}")
        raise
    ranks.agree(None)
    if arrays is None:
        native = _rowloom.from_file(a, single, **options, ranks=ranks)
    else:
        native = _rowloom.from_arrays(*arrays, copy, **options, ranks=ranks)
    return DistributedCSR(native, ranks, options)


def _ranks_of(comm: Any) -> _rowloom.Ranks:
    """The ranks of a communicator, which is duplicated when it is first used. Freeing it frees the duplicate."""
    global _keyval
    # A communicator exists only after its module was imported.
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not isinstance(comm, mpi.Comm):
        raise TypeError(f"comm is a {type(comm).__name__}; it must be a communicator of mpi4py")
    if not _rowloom.Ranks.are_supported():
        raise RuntimeError(
            "this build of rowloom has no MPI; install one that has it, from the folder of Rowloom's sources: "
            "pip install --force-reinstall --no-deps --config-settings=build-args='--features mpi' ./python"
        )
    if not mpi.Is_initialized() or mpi.Is_finalized():
        raise RuntimeError("MPI is not initialised, or has ended")
    if comm == mpi.COMM_NULL:
        raise ValueError("comm is the null communicator, or was freed")
    if comm.Is_inter():
        raise ValueError("comm connects two groups of ranks; pass a communicator of one group, such as comm.Merge()")
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise RuntimeError('MPI allows calls from one thread only; set mpi4py.rc.thread_level = "serialized" or "multiple"')
    if _keyval is None:
        _keyval = mpi.Comm.Create_keyval()
    ranks: _rowloom.Ranks | None = comm.Get_attr(_keyval)
    if ranks is None:
        ranks = _rowloom.Ranks(comm, mpi._addressof(comm), mpi.Get_library_version())
        comm.Set_attr(_keyval, ranks)
    return ranks


class DistributedCSR:
    """A sparse matrix whose rows are divided between the ranks of a communicator; :func:`csr` with ``comm`` makes one.

    Each rank owns consecutive rows of A and Y, ``rows``, and consecutive rows of X, ``x_rows``. They are the same for a square matrix. Every
    call that computes is collective: all ranks make it, in the same order, with the same number of columns.
    """

    __slots__ = ("__weakref__", "_lock", "_native", "_options", "_pair", "_ranks", "dtype", "nnz", "rows", "shape", "x_rows")

    #: NumPy leaves ``X @ A`` to this class, which refuses it.
    __array_ufunc__ = None
    ndim = 2

    def __init__(self, native: _rowloom.Operator, ranks: _rowloom.Ranks, options: dict[str, Any]) -> None:
        whole, rows, x_rows = native.whole(), native.own_rows(False), native.own_rows(True)
        if whole is None or rows is None or x_rows is None:
            raise ValueError("the operator is not divided between ranks")
        self._native = native
        self._ranks = ranks
        self._options = options
        self._lock = threading.Lock()
        # The vectors of the last product with arrays.
        self._pair: tuple[int, Vectors, Vectors] | None = None
        #: Rows and columns of the whole matrix.
        self.shape: tuple[int, int] = whole[:2]
        #: Nonzeros of the whole matrix.
        self.nnz: int = whole[2]
        #: The rows of A and of Y that this rank owns.
        self.rows = range(*rows)
        #: The rows of X that this rank owns.
        self.x_rows = range(*x_rows)
        self.dtype: np.dtype[Any] = native.dtype

    def __matmul__(self, x: Any) -> Any:
        return self.matmul(x)

    def dot(self, x: Any, out: Any = None) -> Any:
        """``A @ x``, in ``out`` if it is given."""
        return self.matmul(x, out=out)

    def matmul(self, x: Any, *, alpha: float = 1.0, beta: float = 0.0, out: Any = None) -> Any:
        """``alpha * A @ x + beta * out``, in ``out`` if it is given.

        ``x`` has the rows ``x_rows`` of X, and the result the rows ``rows`` of Y. Both are arrays, or both are :class:`Vectors`.
        """
        if isinstance(x, Vectors):
            if out is None and beta != 0.0:
                raise ValueError("beta is for out, which is missing")
            y = out if out is not None else self.vectors(x.shape[1])
            if not isinstance(y, Vectors):
                raise TypeError("x is Vectors, so out must be Vectors too")
            self._native.multiply_vectors(x._native, y._native, alpha, beta)
            return y
        try:
            array = self._checked(x, beta, out)
        except Exception as error:
            self._ranks.agree(f"{type(error).__name__}: {error}")
            raise
        # A wrong array of one rank is an error on all of them; otherwise they would wait for it.
        self._ranks.agree(None)
        return self._multiplied(array, alpha, beta, out)

    def _checked(self, x: Any, beta: float, out: Any) -> Array:
        """``x`` as an array that can be multiplied."""
        import numpy as np

        refuse_sparse(x)
        array = on_host(x)
        if array.ndim not in (1, 2):
            raise ValueError(f"x has {array.ndim} dimensions; it must have one or two")
        if len(array) != len(self.x_rows):
            raise ValueError(f"x has {len(array)} rows; this rank owns {len(self.x_rows)} rows of X")
        if np.result_type(self.dtype, array.dtype) != self.dtype:
            raise TypeError(f"x has the dtype {array.dtype}, and A has {self.dtype}; convert x, or make A with another dtype")
        shape = (len(self.rows), *array.shape[1:])
        if out is None and beta != 0.0:
            raise ValueError("beta is for out, which is missing")
        if out is not None:
            if not isinstance(out, np.ndarray) or out.dtype != self.dtype:
                raise TypeError(f"out must be a NumPy array of {self.dtype}, as the result is")
            if out.shape != shape:
                raise ValueError(f"out has the shape {out.shape}; the result has {shape}")
            if not out.flags.writeable:
                raise ValueError("out is read-only")
        return array

    def _multiplied(self, x: Array, alpha: float, beta: float, out: Any) -> Array:
        import numpy as np

        shape = (len(self.rows), *x.shape[1:])
        columns = 1 if x.ndim == 1 else x.shape[1]
        if columns == 0:
            return np.zeros(shape, self.dtype) if out is None else out
        with self._lock:
            if self._pair is None or self._pair[0] != columns:
                self._pair = (columns, self.x_vectors(columns), self.vectors(columns))
            _, from_x, to_y = self._pair
            from_x.copy_from(x)
            if beta != 0.0:
                to_y.copy_from(out)
            self._native.multiply_vectors(from_x._native, to_y._native, alpha, beta)
            y = to_y.to_numpy().reshape(shape)
        if out is None:
            return y
        out[...] = y
        return out  # type: ignore[no-any-return]

    def vectors(self, k: int = 1) -> Vectors:
        """Vectors of zeros with the rows of Y that this rank owns and ``k`` columns, which stay on the devices of the product.

        Their sums, ``dot``, ``norm`` and ``gram``, are over the rows of all ranks, and have the same bits on every rank.
        """
        return Vectors(self._native.vectors(number_of_columns(k), False))

    def x_vectors(self, k: int = 1) -> Vectors:
        """The same with the rows of X, for a matrix that is not square."""
        return Vectors(self._native.vectors(number_of_columns(k), True))

    def plan(self, k: int = 1) -> Plan:
        """The plan of this rank for products with ``k`` columns. All ranks call this."""
        return Plan.of(self._native, k)

    def explain(self, k: int = 1) -> str:
        """The plan in words: devices, kernels, reasons and predicted times. All ranks call this."""
        return str(self.plan(k))

    @property
    def last_report(self) -> Report | None:
        """The times of the last product on this rank; ``None`` before the first, and if one device computed it without messages."""
        report = self._native.last_report()
        if report is None:
            return None
        seconds, devices, faults = report
        return Report(seconds, dict(devices), tuple(Fault(*fault) for fault in faults))

    def clear(self) -> None:
        """Free the plans and device memory of all products; later products make them anew. All ranks call this."""
        with self._lock:
            self._pair = None
            self._native.clear()

    def __repr__(self) -> str:
        rows, columns = self.shape
        own = f"rows {self.rows.start} to {self.rows.stop} on this rank"
        return f"<rowloom.DistributedCSR {rows} x {columns}, {self.nnz} nonzeros, {self.dtype}, {own}>"

    def __reduce__(self) -> Any:
        raise TypeError("the operator belongs to the ranks of this job; it cannot be pickled")
