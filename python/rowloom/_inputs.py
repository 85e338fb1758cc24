"""What callers pass, as the native module takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    #: Values, columns, row pointers, and the shape.
    Arrays = tuple[Array, Array, Array, tuple[int, int]]


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    for name in ("threads", "uses"):
        if options[name] is not None and options[name] < 1:
            raise ValueError(f"{name} must be at least 1")
    return options


def is_complex(dtype: Any) -> bool:
    """Whether values have or shall have a complex type."""
    import numpy as np

    return dtype is not None and np.dtype(dtype).kind == "c"


def is_single(dtype: Any) -> bool:
    import numpy as np

    given = np.dtype(np.float64 if dtype is None else dtype)
    if given not in (np.float64, np.float32):
        raise ValueError(f"dtype {given} is unsupported; float64 and float32 are supported")
    return bool(given == np.float32)


def arrays_of(a: Any, shape: tuple[int, int] | None) -> Arrays:
    """The arrays of CSR: values, columns, row pointers, and the shape."""
    import numpy as np

    if hasattr(a, "tocsr"):
        if shape is not None:
            raise TypeError("shape is for a tuple of arrays; a sparse matrix has its own shape")
        if len(a.shape) != 2:
            raise ValueError(f"the sparse array has {len(a.shape)} dimension(s); a matrix has two")
        a = a.tocsr()
        return a.data, a.indices, a.indptr, a.shape
    if not isinstance(a, tuple) or len(a) != 3:
        raise TypeError(
            f"a {type(a).__name__} is no sparse matrix; pass a SciPy sparse matrix, (data, indices, indptr), or a path"
        )
    data, indices, indptr = (np.asarray(part) for part in a)
    if any(part.ndim != 1 for part in (data, indices, indptr)):
        raise ValueError("data, indices and indptr must have one dimension each")
    if shape is None:
        shape = (max(len(indptr) - 1, 0), int(indices.max()) + 1 if len(indices) else 0)
    return data, indices, indptr, shape


def prepared(data: Array, indices: Array, indptr: Array, shape: tuple[int, int], dtype: Any) -> Arrays:
    """The arrays and the shape as the native module takes them."""
    import numpy as np

    values = _values(data, dtype)
    indices, indptr = _indices("indices", indices), _indices("indptr", indptr)
    if len(shape) != 2 or any(not 0 <= length < 2**63 for length in shape):
        raise ValueError(f"{shape} is no shape of a matrix")
    values, indices, indptr = (np.ascontiguousarray(array) for array in (values, indices, indptr))
    return values, indices, indptr, (int(shape[0]), int(shape[1]))


def on_host(x: Any) -> Array:
    """An array of NumPy or of another library, in host memory."""
    import numpy as np

    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def as_vector(x: Any) -> Any:
    """``x``, which must be a vector or have one column."""
    import numpy as np

    if len(np.shape(x)) == 2 and np.shape(x)[1] != 1:
        raise ValueError(f"x has {np.shape(x)[1]} columns; a vector has one")
    return x


def as_columns(x: Any) -> Any:
    """``x``, which must have two dimensions."""
    import numpy as np

    if len(np.shape(x)) != 2:
        raise ValueError(f"x has {len(np.shape(x))} dimensions; it must have two")
    return x


def refuse_sparse(x: Any) -> None:
    """An error if ``x`` is a sparse matrix of any library, or an operator."""
    if hasattr(x, "tocsr") or hasattr(x, "matvec"):
        raise TypeError(
            f"x is a sparse matrix or an operator ({type(x).__name__}); Rowloom multiplies by dense arrays only, "
            "so use SciPy for a product of two sparse matrices: a.to_scipy() @ b.to_scipy()"
        )


def number_of_columns(k: int) -> int:
    if k < 1:
        raise ValueError("a product has at least one column")
    return k


def _values(data: Array, dtype: Any) -> Array:
    import numpy as np

    if data.dtype.kind not in "fiub" or data.dtype.itemsize > 8:
        raise ValueError(f"values of dtype {data.dtype} are unsupported; float64 and float32 are supported")
    if dtype is None and data.dtype.kind == "f" and data.dtype.itemsize < 8:
        dtype = np.float32
    single = is_single(dtype)
    return np.require(data, np.float32 if single else np.float64, ["C", "A"])


def _indices(name: str, indices: Array) -> Array:
    import numpy as np

    if indices.dtype.kind not in "iu" and len(indices) > 0:
        raise ValueError(f"{name} has the dtype {indices.dtype}; it must have an integer type")
    if indices.dtype == np.uint64 and len(indices) > 0 and indices.max() >= 2**63:
        raise ValueError(f"{name} has an element beyond 2**63")
    narrow = indices.dtype.kind == "i" and indices.dtype.itemsize == 4
    return np.require(indices, np.int32 if narrow else np.int64, ["C", "A"])
