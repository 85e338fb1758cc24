"""Random operators and arrays for `soak.py`."""

import os
import tempfile

import numpy as np
import rowloom
from scipy import sparse

DEVICES = ["cpu", "emu:0", "cpu,emu:0"]
THREADS = [None, 1, 2]
COLUMNS = [None, 1, 2, 3, 5, 8, 13]


class Shared:
    """An operator, and the matrix that it must be equal to. Values are small integers, so that all sums are exact."""

    def __init__(self, operator, matrix):
        self.operator = operator
        self.matrix = matrix


def integers(random, shape, dtype):
    return random.integers(-4, 5, shape).astype(dtype)


def random_matrix(random, square=False):
    rows = int(random.integers(1, 1500))
    columns = rows if square else int(random.integers(1, 1500))
    dtype = random.choice([np.float64, np.float32])
    lengths = random.integers(0, 9, rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(random.choice([np.int32, np.int64]))
    indices = random.integers(0, columns, indptr[-1]).astype(indptr.dtype)
    matrix = sparse.csr_array((rows, columns), dtype=dtype)
    matrix.data, matrix.indices, matrix.indptr = integers(random, indptr[-1], dtype), indices, indptr
    if random.random() < 0.5:
        matrix.sum_duplicates()
    return matrix


def in_other_memory(random, arrays, folder):
    """Copies of arrays in memory of another kind: read-only, bytes, or a mapped file whose name is gone."""
    kind = random.integers(0, 4)
    if kind == 0:
        return [array.copy() for array in arrays]
    if kind == 1:
        copies = [array.copy() for array in arrays]
        for copied in copies:
            copied.setflags(write=False)
        return copies
    if kind == 2:
        return [np.frombuffer(array.tobytes(), array.dtype) for array in arrays]
    mapped = []
    for array in arrays:
        # A file without bytes cannot be mapped.
        if len(array) == 0:
            mapped.append(array.copy())
            continue
        path = tempfile.mktemp(suffix=".npy", dir=folder)
        np.save(path, array)
        mapped.append(np.load(path, mmap_mode="r"))
        os.unlink(path)
    return mapped


def new_shared(random, folder, square=False):
    matrix = random_matrix(random, square)
    options = {
        "devices": str(random.choice(DEVICES)),
        "threads": THREADS[random.integers(0, len(THREADS))],
        "reproducible": bool(random.random() < 0.3),
        "check": str(random.choice(["first", "always", "never"])),
    }
    kind = random.integers(0, 4)
    if kind == 0:
        operator = rowloom.csr(matrix.copy(), copy=[None, True][random.integers(0, 2)], **options)
    elif kind == 1:
        path = tempfile.mktemp(suffix=".npz", dir=folder)
        # A file has the index type of SciPy's choice and neither unsorted entries nor duplicates.
        matrix.sum_duplicates()
        sparse.save_npz(path, matrix, compressed=False)
        operator = rowloom.csr(path, dtype=matrix.dtype, **options)
        os.unlink(path)
    else:
        arrays = in_other_memory(random, (matrix.data, matrix.indices, matrix.indptr), folder)
        copy = [None, True, False][random.integers(0, 3)]
        # The arrays are gone afterwards, apart from what the operator holds.
        operator = rowloom.csr(tuple(arrays), shape=matrix.shape, copy=copy, **options)
    return Shared(operator, matrix)


def random_x(random, rows, dtype):
    columns = COLUMNS[random.integers(0, len(COLUMNS))]
    layout = random.integers(0, 4)
    if columns is None:
        return integers(random, 2 * rows, dtype)[::2] if layout == 0 else integers(random, rows, dtype)
    if layout == 0:
        return np.asfortranarray(integers(random, (rows, columns), dtype))
    if layout == 1:
        return integers(random, (rows, columns + 2), dtype)[:, 1:-1]
    if layout == 2:
        return integers(random, (rows, columns), dtype)[::-1]
    return integers(random, (rows, columns), dtype)
