"""Matrices for tests."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
import numpy as np
from scipy import sparse

# Products start threads, so the first example takes longer than the others.
settings.register_profile("rowloom", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rowloom")


@st.composite
def matrices(draw, dtype=None, square=False):
    """CSR matrices with empty rows, unsorted columns and duplicates. Values are small integers, so that sums are exact."""
    rows = draw(st.integers(0, 40))
    cols = rows if square else draw(st.integers(0, 40))
    seed = draw(st.integers(0, 2**32 - 1))
    density = draw(st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    dtype = dtype or draw(st.sampled_from([np.float64, np.float32]))
    index_type = draw(st.sampled_from([np.int32, np.int64]))
    random = np.random.default_rng(seed)
    lengths = random.binomial(max(cols, 1), density, rows) if cols else np.zeros(rows, int)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index_type)
    indices = random.integers(0, max(cols, 1), indptr[-1]).astype(index_type)
    data = random.integers(-8, 9, indptr[-1]).astype(dtype)
    matrix = sparse.csr_array((rows, cols), dtype=dtype)
    # Assigned, because the constructor may narrow the indices.
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


@st.composite
def arrays_for(draw, rows, dtype, max_columns=9):
    """X with `rows` rows: 1-D or 2-D, in any order, strided, reversed or transposed."""
    columns = draw(st.none() | st.integers(0, max_columns))
    seed = draw(st.integers(0, 2**32 - 1))
    layout = draw(st.sampled_from(["C", "F", "strided", "reversed", "columns", "broadcast"]))
    random = np.random.default_rng(seed)

    def integers(*shape):
        return random.integers(-8, 9, shape).astype(dtype)

    if columns is None:
        match layout:
            case "strided":
                return integers(2 * rows)[::2]
            case "reversed":
                return integers(rows)[::-1]
            case "broadcast":
                return np.broadcast_to(integers(1), (rows,))
            case _:
                return integers(rows)
    match layout:
        case "F":
            return np.asfortranarray(integers(rows, columns))
        case "strided":
            return integers(2 * rows, 3 * columns)[::2, ::3]
        case "reversed":
            return integers(rows, columns)[::-1, ::-1]
        case "columns":
            return integers(rows, columns + 3)[:, 1 : columns + 1]
        case "broadcast":
            return np.broadcast_to(integers(1, columns), (rows, columns))
        case _:
            return integers(rows, columns)
