"""Large results of products on a GPU are in page-locked memory, which is used again when a result is gone."""

import pickle

import numpy as np
import pytest
import rowloom

ROWS, K = 20_000, 8


@pytest.fixture
def a():
    a = rowloom.csr(f"gen:diagonal,rows={ROWS}", devices="emu:0", uses=100)
    try:
        a @ np.ones(ROWS)
    except (ValueError, rowloom.DeviceError) as error:
        if "emulat" in str(error):
            pytest.skip("built without the emulator")
        raise
    return a


def owner(y):
    while isinstance(y.base, np.ndarray):
        y = y.base
    return type(y.base).__name__


def test_results_are_right_and_stay_as_they_are(a):
    random = np.random.default_rng(0)
    matrix = a.to_scipy()
    inputs = [random.random((ROWS, K)) for _ in range(5)]
    # More results than there are buffers.
    results = [a @ x for x in inputs]
    assert owner(results[0]) == "PageLockedMemory" and results[-1].flags.owndata
    for x, y in zip(inputs, results):
        np.testing.assert_allclose(y, matrix @ x, rtol=1e-13)
        assert y.flags.c_contiguous and y.flags.writeable and y.shape == (ROWS, K)
    # A result is X of the next product, in place and as a view.
    y = results[0]
    np.testing.assert_allclose(a @ y, matrix @ y, rtol=1e-13)
    np.testing.assert_allclose(a @ y[:, ::-1], matrix @ y[:, ::-1], rtol=1e-13)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(y)), y)
    y[...] = 1.0
    np.testing.assert_allclose(a @ y, matrix @ y, rtol=1e-13)


def test_the_memory_of_a_result_that_is_gone_is_used_again(a):
    x = np.ones((ROWS, K))
    first = a @ x
    address = first.ctypes.data
    kept = first[3:5]
    del first
    second = a @ x
    assert second.ctypes.data != address, "a view keeps the memory"
    del kept
    assert (a @ x).ctypes.data == address


def test_results_survive_their_operator(a):
    x = np.ones((ROWS, K))
    expected = a.to_scipy() @ x
    y = a @ x
    a.clear()
    del a
    np.testing.assert_allclose(y, expected)


def test_small_results_and_fortran_order_are_ordinary_arrays(a):
    assert (a @ np.ones(ROWS)).flags.owndata
    y = a @ np.asfortranarray(np.ones((ROWS, K)))
    assert y.flags.f_contiguous and y.flags.owndata
