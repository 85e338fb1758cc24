"""Column means and sums of squares of transformed sparse matrices, in ``float64`` whatever the type of the matrix is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from ._csr import CSR
    from ._transformed import Outer, TransformedCSR

    Array = np.ndarray[Any, Any]

#: Nonzeros that are converted to float64 at once.
_CHUNK_NONZEROS = 1 << 20


class _Chunk(NamedTuple):
    """Rows, columns and values of the nonzeros of whole rows. No element of the matrix occurs twice."""

    rows: Array
    columns: Array
    values: Array


def column_means(base: CSR, rows: Array | None, columns: Array | None, outers: tuple[Outer, ...]) -> Array:
    """The column means of ``diag(rows) A diag(columns)`` minus the outer products."""
    import numpy as np

    count, width = base.shape
    if count == 0:
        raise ValueError("a matrix without rows has no column means; pass means")
    sums = np.zeros(width)
    # Sums and products may be infinite or no numbers, which is an error below.
    with np.errstate(over="ignore", invalid="ignore"):
        for chunk in _chunks(base, rows, columns):
            sums += np.bincount(chunk.columns, weights=chunk.values, minlength=width)
        means: Array = sums / count
        for outer in outers:
            of_u = 1.0 if outer.u is None else outer.u.mean()
            means -= of_u if outer.v is None else of_u * outer.v
    if not (finite := np.isfinite(means)).all():
        place = int(np.argmin(finite))
        raise ValueError(f"the mean of column {place} is {means[place]}; all values must be finite, and their sums too")
    return means


def squared_norm(operator: TransformedCSR) -> float:
    """The sum of the squares of all elements.

    For a centred operator only squares of deviations are added, so that large means cost no digits.
    """
    import numpy as np

    # A sum that is infinite or no number is the caller's error.
    with np.errstate(over="ignore", invalid="ignore"):
        return _squared_norm(operator)


def _squared_norm(operator: TransformedCSR) -> float:
    import numpy as np

    count, width = operator.shape
    us = [np.ones(count) if outer.u is None else outer.u for outer in operator.outers]
    vs = [np.ones(width) if outer.v is None else outer.v for outer in operator.outers]
    is_centered = len(us) == 1 and operator.outers[0].u is None
    stored, of_stored = 0.0, 0.0
    stored_in_columns = np.zeros(width, np.int64)
    for chunk in _chunks(operator.base, operator.rows, operator.columns):
        subtracted = np.zeros(len(chunk.values))
        for u, v in zip(us, vs):
            subtracted += u[chunk.rows] * v[chunk.columns]
        stored += float(np.square(chunk.values - subtracted).sum())
        if is_centered:
            stored_in_columns += np.bincount(chunk.columns, minlength=width)
        else:
            of_stored += float(np.square(subtracted).sum())
    # The elements that are not stored are minus the outer products.
    if is_centered:
        return stored + float((np.square(vs[0]) * (count - stored_in_columns)).sum())
    everywhere = sum(float((u @ w) * (v @ z)) for u, v in zip(us, vs) for w, z in zip(us, vs))
    return stored + max(everywhere - of_stored, 0.0)


def _chunks(base: CSR, r: Array | None, c: Array | None) -> Iterator[_Chunk]:
    """The nonzeros of ``diag(r) A diag(c)``."""
    import numpy as np

    data, indices, indptr = base._native.arrays()
    count, width = base.shape
    # Each chunk is added to all columns, so it has about as many nonzeros at least.
    most = max(_CHUNK_NONZEROS, width)
    first = 0
    while first < count:
        # At least one row, however long it is.
        last = max(first + 1, int(np.searchsorted(indptr, indptr[first] + most, side="right")) - 1)
        part = slice(indptr[first], indptr[last])
        rows = np.repeat(np.arange(first, last), np.diff(indptr[first : last + 1]))
        chunk = _without_duplicates(rows, indices[part], data[part].astype(np.float64))
        if r is not None:
            np.multiply(chunk.values, r[chunk.rows], out=chunk.values)
        if c is not None:
            np.multiply(chunk.values, c[chunk.columns], out=chunk.values)
        yield chunk
        first = last


def _without_duplicates(rows: Array, columns: Array, values: Array) -> _Chunk:
    """The elements, with the values of the same element added."""
    import numpy as np

    if not ((np.diff(columns) <= 0) & (np.diff(rows) == 0)).any():
        return _Chunk(rows, columns, values)
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    firsts = np.flatnonzero(np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(columns) != 0)]))
    return _Chunk(rows[firsts], columns[firsts], np.add.reduceat(values[order], firsts))
