"""The vectors that a centred or scaled operator is made of, as callers pass them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def checked_factors(name: str, values: Any, length: int, counted: str) -> Array:
    """A copy in ``float64``, which later changes of the caller's array do not reach.

    ``counted`` says what the length is that of, in the words of an error.
    """
    import numpy as np

    if hasattr(values, "tocsr"):
        raise TypeError(f"{name} is a sparse {type(values).__name__}; pass an array of one dimension")
    array = np.asarray(values)
    if array.dtype.kind == "c":
        raise TypeError(f"{name} has the dtype {array.dtype}; the operator is real, so pass real numbers")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} has the dtype {array.dtype}; pass real numbers, such as an array of float64")
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions; it must have one")
    if len(array) != length:
        raise ValueError(f"{name} has {len(array)} elements; the matrix has {length} {counted}")
    # A copy in any case, so that the operator stays what it is.
    copy = np.array(array, np.float64)
    if not (finite := np.isfinite(copy)).all():
        place = int(np.argmin(finite))
        raise ValueError(f"{name}[{place}] is {copy[place]}; all elements must be finite")
    copy.flags.writeable = False
    return copy
