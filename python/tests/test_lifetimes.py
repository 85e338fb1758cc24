"""Arrays that an operator reads: kept alive and in place, whatever their flags and whatever their owner does."""

import gc
import weakref

import numpy as np
import pytest
import rowloom
from processes import assert_runs
from scipy import sparse


def stencil(n=30):
    matrix = rowloom.csr(f"gen:stencil5,n={n}", devices="cpu").to_scipy()
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


# Every case of arrays that are gone after the operator was made: `parts` are the only references to them.
READ_ONLY_SOURCES = {
    "read-only arrays": """
        for part in parts:
            part.setflags(write=False)
    """,
    "mapped files": """
        for number, part in enumerate(parts):
            np.save(f"{number}.npy", part)
        parts = [np.load(f"{number}.npy", mmap_mode="r") for number in range(3)]
    """,
    "bytes": """
        parts = [np.frombuffer(part.tobytes(), part.dtype) for part in parts]
    """,
    "files that joblib maps": """
        import joblib
        joblib.dump(parts, "parts.joblib")
        parts = joblib.load("parts.joblib", mmap_mode="r")
    """,
    "buffers beside a pickle": """
        import pickle
        buffers = []
        text = pickle.dumps(parts, protocol=5, buffer_callback=buffers.append)
        parts = pickle.loads(text, buffers=[bytes(buffer) for buffer in buffers])
        del buffers
    """,
}


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("source", READ_ONLY_SOURCES)
def test_read_only_arrays_live_as_long_as_their_operator(source, copy, tmp_path):
    if "joblib" in source:
        pytest.importorskip("joblib")
    make = READ_ONLY_SOURCES[source]
    assert_runs(
        f"""
        matrix = stencil()
        shape, x = matrix.shape, x_of(matrix)
        expected = matrix @ x
        parts = [matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy()]
        {make.strip()}
        part = None
        a = rowloom.csr(tuple(parts), shape=shape, devices="cpu", copy={copy})
        del parts, part
        junk = reuse_freed_memory()
        assert_same(a @ x, expected)
        assert_same(a.T @ expected, matrix.T @ expected)
        """,
        tmp_path,
    )


def test_an_operator_in_processes_of_joblib_gives_the_same_rows(tmp_path):
    pytest.importorskip("joblib")
    (tmp_path / "work.py").write_text("def row_sums(a, x, index):\n    return a @ (x * index)\n")
    assert_runs(
        """
        import sys
        sys.path.insert(0, "")
        import joblib
        from work import row_sums
        a = rowloom.csr("gen:stencil5,n=300", devices="cpu", threads=1)  # Arrays of more than 1 MB, which joblib maps.
        x = np.random.default_rng(0).random(90_000)
        expected = a @ x
        results = joblib.Parallel(2)(joblib.delayed(row_sums)(a, x, index) for index in range(6))
        for index, result in enumerate(results):
            assert_same(result, expected * index)
        """,
        tmp_path,
    )


def test_a_pickled_operator_with_buffers_beside_it_is_the_same():
    assert_runs(
        """
        import pickle
        matrix = stencil()
        x = x_of(matrix)
        a = rowloom.csr(matrix, devices="cpu")
        buffers = []
        text = pickle.dumps(a, protocol=5, buffer_callback=buffers.append)
        memory = [bytearray(buffer) for buffer in buffers]
        b = pickle.loads(text, buffers=memory)
        for one in memory:
            one[:] = b"\\xff" * len(one)
        del memory, buffers
        junk = reuse_freed_memory()
        assert_same(b @ x, matrix @ x)
        """
    )


def test_writing_to_indices_does_not_change_an_operator():
    assert_runs(
        """
        matrix = stencil()
        x, views = x_of(matrix), (matrix.indices[:], matrix.indptr[:])
        expected = matrix @ x
        a = rowloom.csr(matrix, devices="cpu")
        for view in views:
            view[:] = 2**31 - 1
        assert_same(a @ x, expected)
        assert_same(a.T.T @ x, expected)
        """
    )


@pytest.mark.parametrize("copy", [None, False])
def test_arrays_in_use_cannot_be_resized(copy):
    assert_runs(
        f"""
        matrix = stencil()
        x = x_of(matrix)
        expected = matrix @ x
        # Arrays that own their memory; those of a matrix may be views.
        data, indices = matrix.data.copy(), matrix.indices.copy()
        a = rowloom.csr((data, indices, matrix.indptr), shape=matrix.shape, devices="cpu", copy={copy})
        for array in (data, indices):
            for length in (5, 10_000_000):
                try:
                    array.resize(length, refcheck=False)
                except ValueError:
                    pass
        junk = reuse_freed_memory()
        assert_same(a @ x, expected)
        """
    )


def test_the_array_below_a_view_cannot_be_resized():
    assert_runs(
        """
        matrix = stencil()
        x = x_of(matrix)
        expected = matrix @ x
        below = np.concatenate([matrix.data, matrix.data])
        a = rowloom.csr((below[: matrix.nnz], matrix.indices, matrix.indptr), shape=matrix.shape, devices="cpu")
        try:
            below.resize(3, refcheck=False)
        except ValueError:
            pass
        junk = reuse_freed_memory()
        assert_same(a @ x, expected)
        """
    )


def test_memory_of_another_object_that_is_used_in_place_stays_there():
    memory = bytearray(np.ones(4).tobytes())
    values = np.ndarray(4, np.float64, memory)
    a = rowloom.csr((values, np.arange(4, dtype=np.int32), np.arange(5)), copy=False, devices="cpu")
    with pytest.raises(BufferError):
        memory.extend(bytes(1_000_000))
    np.testing.assert_array_equal(a @ np.ones(4), np.ones(4))
    del a
    gc.collect()
    memory.extend(bytes(8))


def test_memory_of_another_object_is_copied():
    memory = bytearray(np.ones(4).tobytes())
    values = np.ndarray(4, np.float64, memory)
    a = rowloom.csr((values, np.arange(4, dtype=np.int32), np.arange(5)), devices="cpu")
    memory[:] = bytes(len(memory))
    memory.extend(bytes(1_000_000))
    np.testing.assert_array_equal(a @ np.ones(4), np.ones(4))


def test_a_matrix_stays_writeable():
    matrix = stencil()
    view = matrix.data[:]
    a, b = rowloom.csr(matrix), rowloom.csr(matrix, copy=False)
    for array in (matrix.data, matrix.indices, matrix.indptr, view):
        assert array.flags.writeable
    matrix *= 2.0
    matrix.data[0] = 7.0
    del a, b
    gc.collect()
    assert view.flags.writeable


def test_arrays_that_were_read_only_stay_read_only():
    matrix = stencil()
    matrix.data.flags.writeable = False
    a = rowloom.csr(matrix)
    del a
    gc.collect()
    assert not matrix.data.flags.writeable and matrix.indices.flags.writeable


def unsorted():
    """Rows of 8 entries in a decreasing order of columns, with a duplicate in each."""
    rows = 200
    indices = np.array([[(row + 8 - entry) % rows for entry in (1, 2, 3, 4, 5, 6, 7, 7)] for row in range(rows)], np.int32)
    data = np.random.default_rng(1).random(8 * rows)
    matrix = sparse.csr_array((rows, rows))
    matrix.data, matrix.indices, matrix.indptr = data, indices.ravel(), np.arange(0, 8 * rows + 1, 8, dtype=np.int32)
    return matrix


@pytest.mark.parametrize("work", ["abs(m)", "m.max()", "linalg.spsolve(m, x)", "m.sort_indices()", "m.sum_duplicates()", "m.__imul__(2)"])
def test_scipy_may_use_an_unsorted_matrix_while_its_operator_lives(work):
    from scipy.sparse import linalg

    m, x = unsorted(), np.random.default_rng(2).random(200)
    expected = m @ x
    a = rowloom.csr(m, devices="cpu")
    eval(work, {"m": m, "x": x, "linalg": linalg})
    np.testing.assert_allclose(a @ x, expected, rtol=1e-12)


def test_values_of_sorted_rows_are_used_in_place():
    matrix = stencil()
    a = rowloom.csr(matrix, devices="cpu", check="never")
    before = a @ np.ones(900)
    matrix.data *= 3.0
    # A new operator and a new plan have the new values.
    np.testing.assert_allclose(rowloom.csr(matrix, devices="cpu") @ np.ones(900), 3.0 * before)
    a.clear()
    np.testing.assert_allclose(a @ np.ones(900), 3.0 * before)


def test_a_copy_is_independent_of_its_source():
    matrix = stencil()
    a = rowloom.csr(matrix, devices="cpu", copy=True)
    before = a @ np.ones(900)
    matrix.data *= 3.0
    matrix.indices[:] = 2**31 - 1
    np.testing.assert_array_equal(a @ np.ones(900), before)


def test_the_values_outlive_their_matrix_and_not_their_operator():
    matrix = stencil()
    x = np.random.default_rng(0).random((900, 3))
    expected = matrix @ x
    owner = weakref.ref(matrix.data)
    a = rowloom.csr(matrix, devices="cpu")
    del matrix
    gc.collect()
    junk = [np.full(5000, np.nan) for _ in range(50)]
    assert owner() is not None
    np.testing.assert_allclose(a @ x, expected, rtol=1e-13)
    del a, junk
    gc.collect()
    assert owner() is None


def test_a_refused_matrix_is_released():
    data, indices = np.ones(2), np.array([0, 9], np.int32)
    with pytest.raises(ValueError):
        rowloom.csr((data, indices, np.array([0, 2])), shape=(1, 2))
    gc.collect()
    data.resize(3)
    indices.resize(3)


def test_a_matrix_that_gets_new_arrays_does_not_change_its_operator():
    matrix = stencil()
    a = rowloom.csr(matrix, devices="cpu")
    before = a @ np.ones(900)
    matrix.data = matrix.data * 2.0
    matrix[0, 500] = 17.0
    np.testing.assert_array_equal(a @ np.ones(900), before)


def test_results_belong_to_the_caller():
    a = rowloom.csr(sparse.eye_array(10, format="csr"))
    y = a @ np.ones(10)
    y[0] = 5.0
    del a
    gc.collect()
    assert y.flags.owndata and y[0] == 5.0


def test_making_and_dropping_operators_frees_their_memory():
    import resource

    matrix = stencil(100)
    x = np.ones((10_000, 4))

    def repeat(count):
        for _ in range(count):
            rowloom.csr(matrix, devices="cpu") @ x
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    first = repeat(20)
    assert repeat(60) - first < 20_000, "kilobytes"


def test_a_long_product_keeps_no_reference_to_its_arrays():
    import sys

    a = rowloom.csr("gen:stencil27,n=30", devices="cpu")
    x, out = np.ones((27_000, 64)), np.empty((27_000, 64))
    a.dot(x, out=out)  # The first product with a number of columns is not expected to be short.
    y = a @ np.ones((27_000, 65))
    vectors = a.vectors(64).to_numpy()
    unused = np.ones(1)
    counts = [sys.getrefcount(array) for array in (unused, x, out, y, vectors)]
    assert counts == counts[:1] * 5
