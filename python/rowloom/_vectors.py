"""Multivectors that stay on the devices of a product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from . import _rowloom

    Array = np.ndarray[Any, Any]


#: Host memory, as DLPack numbers devices.
_HOST = (1, 0)


class Coefficient:
    """A number times scalars over other scalars, as :class:`Scalars` form them; a factor of :meth:`Vectors.axpby` and of
    :meth:`Vectors.scale`."""

    __slots__ = ("_parts",)

    def __init__(self, number: float, multiplied: Scalars | None, divisors: Scalars | None) -> None:
        self._parts = (number, multiplied, divisors)

    def __neg__(self) -> Coefficient:
        number, multiplied, divisors = self._parts
        return Coefficient(-number, multiplied, divisors)

    def __rmul__(self, number: float) -> Coefficient:
        own, multiplied, divisors = self._parts
        return Coefficient(float(number) * own, multiplied, divisors)


class Scalars:
    """One number for each column of vectors, where products are computed; :meth:`Vectors.scalars` makes them.

    :meth:`Vectors.dot_into` and :meth:`Vectors.norm_into` write them. They are factors of :meth:`Vectors.axpby` and
    :meth:`Vectors.scale`, as are ``-a``, ``2.0 * a``, ``a / b`` and ``1.0 / a``. On one device no operation waits for them.

    >>> import numpy as np, rowloom
    >>> a = rowloom.csr("gen:stencil5,n=10")
    >>> x = a.vectors(2)
    >>> x.fill(3.0)
    >>> norms = x.scalars()
    >>> x.norm_into(norms)
    >>> x.scale(1.0 / norms)
    >>> x.norm()
    array([1., 1.])
    """

    __slots__ = ("_native",)

    # NumPy then leaves `number / scalars` to this class.
    __array_ufunc__ = None

    def __init__(self, native: _rowloom.Scalars) -> None:
        self._native = native

    def to_numpy(self) -> Array:
        """The numbers; waits for the operations that compute them."""
        return self._native.to_numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        import numpy as np

        if copy is False:
            raise ValueError("the numbers may be on a device, so an array is always a copy")
        return np.asarray(self.to_numpy(), dtype)

    def __neg__(self) -> Coefficient:
        return Coefficient(-1.0, self, None)

    def __rmul__(self, number: float) -> Coefficient:
        return Coefficient(float(number), self, None)

    def __truediv__(self, divisors: Scalars) -> Coefficient:
        if not isinstance(divisors, Scalars):
            return NotImplemented
        return Coefficient(1.0, self, divisors)

    def __rtruediv__(self, number: float) -> Coefficient:
        return Coefficient(float(number), None, self)

    def __reduce__(self) -> Any:
        raise TypeError("scalars belong to the devices of this process; pickle to_numpy() instead")


def _factor(factor: float | Scalars | Coefficient) -> Any:
    """A factor as the native module takes it."""
    if isinstance(factor, Scalars):
        return 1.0, factor._native, None
    if isinstance(factor, Coefficient):
        number, multiplied, divisors = factor._parts
        return number, multiplied and multiplied._native, divisors and divisors._native
    return float(factor), None, None


class Vectors:
    """A multivector whose rows stay where products with it are computed; :meth:`CSR.vectors` makes one.

    Products and operations on vectors run where the rows are. Operands must have been made by one operator and have the same
    number of columns.

    >>> import numpy as np, rowloom
    >>> a = rowloom.csr("gen:stencil5,n=10")
    >>> x, y = a.vectors(2), a.vectors(2)
    >>> x.copy_from(np.ones((100, 2)))
    >>> y = a.matmul(x, alpha=2.0, out=y)
    >>> bool(np.allclose(y.to_numpy(), 2.0 * (a @ np.ones((100, 2)))))
    True
    """

    __slots__ = ("_native",)

    def __init__(self, native: _rowloom.Vectors) -> None:
        self._native = native

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._native.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """``float64`` or ``float32``."""
        import numpy as np

        return np.dtype(np.float32 if self._native.is_single_precision else np.float64)

    def copy_from(self, x: Any) -> None:
        """Copy all rows from an array of the same shape."""
        import numpy as np

        array = np.require(x, self.dtype, ["A"])
        if array.shape != self.shape and not (array.ndim == 1 and (len(array), 1) == self.shape):
            raise ValueError(f"the array has the shape {array.shape}; the vectors have {self.shape}")
        self._native.copy_from(array)

    def to_numpy(self) -> Array:
        """A copy of all rows as a NumPy array."""
        return self._native.to_numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        import numpy as np

        if copy is False:
            raise ValueError("the rows may be on several devices, so an array is always a copy")
        return np.asarray(self.to_numpy(), dtype)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """All rows in place, for ``from_dlpack`` of another library; a copy in host memory if the consumer asks for one.

        All operations on the rows have ended when this returns, so the consumer's ``stream`` has nothing to wait for. Rows on several
        devices, or in a context of a card that other libraries cannot use, raise ``BufferError``.
        """
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            if copy is False or dl_device not in (None, _HOST):
                raise BufferError(f"the rows cannot be moved to the device {dl_device}")
            return self.to_numpy().__dlpack__()
        return self._native.dlpack(False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._native.place() or _HOST

    def fill(self, value: float) -> None:
        """Set all elements."""
        self._native.fill(value)

    def axpby(self, alpha: float | Scalars | Coefficient, x: Vectors, beta: float | Scalars | Coefficient) -> None:
        """``self = alpha * x + beta * self``, with numbers or :class:`Scalars`."""
        self._native.axpby(_factor(alpha), x._native, _factor(beta))

    def scale(self, factors: Any) -> None:
        """Multiply all elements by a number, or each column by its own: an array, or :class:`Scalars`."""
        import numpy as np

        if isinstance(factors, (int, float, Scalars, Coefficient)):
            self._native.scale(_factor(factors))
            return
        columns = np.broadcast_to(np.asarray(factors, np.float64), (self.shape[1],))
        self._native.scale_columns(columns.tolist())

    def dot(self, other: Vectors) -> Array:
        """For each column the inner product with the same column of ``other``."""
        return self._native.dot(other._native)

    def norm(self) -> Array:
        """The Euclidean norm of each column."""
        return self._native.norm()

    def scalars(self) -> Scalars:
        """A zero for each column, which stays where the rows are."""
        return Scalars(self._native.scalars())

    def dot_into(self, other: Vectors, sums: Scalars) -> None:
        """Write the results of :meth:`dot` to ``sums``; on one device without waiting."""
        self._native.sum_into(other._native, sums._native, False)

    def norm_into(self, norms: Scalars) -> None:
        """Write the results of :meth:`norm` to ``norms``; on one device without waiting."""
        self._native.sum_into(self._native, norms._native, True)

    def gram(self, other: Vectors) -> Array:
        """``self.T @ other``, a small square matrix."""
        return self._native.gram(other._native)

    def times(self, s: Any, out: Vectors) -> Vectors:
        """``self @ s`` with a small square matrix, in ``out``."""
        import numpy as np

        self._native.times(np.asarray(s, np.float64).tolist(), out._native)
        return out

    def synchronize(self) -> None:
        """Wait for all operations on the devices."""
        self._native.synchronize()

    def __reduce__(self) -> Any:
        raise TypeError("vectors belong to the devices of this process; pickle to_numpy() instead")

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<rowloom.Vectors {rows} x {columns}, {self.dtype}>"


class PaddedRows:
    """The rows of vectors with their padding, which are contiguous, for libraries that take no others."""

    __slots__ = ("_native",)

    def __init__(self, native: _rowloom.Vectors) -> None:
        self._native = native

    def __dlpack__(self, **_: Any) -> Any:
        return self._native.dlpack(True)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._native.place() or _HOST
