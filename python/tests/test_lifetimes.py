"""Arrays that an operator uses in place: kept alive, locked, unlocked."""

import gc
import weakref

import numpy as np
import pytest
import rowloom
from rowloom._lease import chain
from scipy import sparse


def stencil(n=30):
    matrix = rowloom.csr(f"gen:stencil5,n={n}", devices="cpu").to_scipy()
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def test_values_and_indices_are_used_in_place():
    matrix = stencil()
    a = rowloom.csr(matrix, devices="cpu")
    before = a @ np.ones(900)
    # Unlocked by force, to see where the numbers are; an array before its views.
    for array in reversed(chain(matrix.data)):
        array.flags.writeable = True
    matrix.data *= 3.0
    np.testing.assert_allclose(a @ np.ones(900), 3.0 * before)


def test_a_copy_is_independent_of_its_source():
    matrix = stencil()
    a = rowloom.csr(matrix, devices="cpu", copy=True)
    before = a @ np.ones(900)
    matrix.data *= 3.0
    np.testing.assert_array_equal(a @ np.ones(900), before)


def test_the_arrays_outlive_their_matrix():
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


def test_the_arrays_cannot_be_written_while_an_operator_lives():
    matrix = stencil()
    a, b = rowloom.csr(matrix), rowloom.csr(matrix)
    for array in (matrix.data, matrix.indices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    with pytest.raises(ValueError, match="read-only|readonly|writ"):
        matrix *= 2.0
    del a
    gc.collect()
    assert not matrix.data.flags.writeable
    del b
    gc.collect()
    matrix.data[0] = 7.0
    matrix.indices[0] = 0


def test_the_array_below_a_view_is_locked_too():
    below = np.arange(20, dtype=np.int32)
    parts = (np.ones(10), below[:10], np.array([0, 10]))
    a = rowloom.csr(parts, shape=(1, 20))
    with pytest.raises(ValueError, match="read-only"):
        below[0] = 10**9
    del a, parts
    gc.collect()
    below[0] = 5


def test_arrays_that_were_read_only_stay_read_only():
    matrix = stencil()
    matrix.data.flags.writeable = False
    a = rowloom.csr(matrix)
    del a
    gc.collect()
    assert not matrix.data.flags.writeable and matrix.indices.flags.writeable


def test_indices_in_the_memory_of_another_library_are_copied():
    memory = bytearray(np.array([0, 1], np.int32).tobytes())
    indices = np.frombuffer(memory, np.int32)
    a = rowloom.csr((np.ones(2), indices, np.array([0, 1, 2])), shape=(2, 2))
    memory[0:4] = (10**9).to_bytes(4, "little")
    np.testing.assert_array_equal(a @ np.array([1.0, 2.0]), [1.0, 2.0])


def test_arrays_of_an_operator_cannot_be_resized():
    matrix = stencil()
    a = rowloom.csr(matrix)
    with pytest.raises(ValueError):
        matrix.data.resize(5)
    assert (a @ np.ones(900)).shape == (900,)


def test_a_matrix_that_gets_new_arrays_does_not_change_its_operator():
    matrix = stencil()
    a = rowloom.csr(matrix, devices="cpu")
    before = a @ np.ones(900)
    matrix.data = matrix.data * 2.0
    matrix[0, 500] = 17.0
    np.testing.assert_array_equal(a @ np.ones(900), before)


def test_a_refused_matrix_is_unlocked():
    indices = np.array([0, 9], np.int32)
    with pytest.raises(ValueError):
        rowloom.csr((np.ones(2), indices, np.array([0, 2])), shape=(1, 2))
    gc.collect()
    assert indices.flags.writeable


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
