"""Multivectors on devices against NumPy."""

import gc
import pickle
import sys

import numpy as np
import pytest
import rowloom


@pytest.fixture(params=["cpu", "emu:0", "cpu,emu:0"])
def a(request):
    try:
        a = rowloom.csr("gen:stencil5,n=12", devices=request.param)
        a.vectors(1)
    except (ValueError, rowloom.DeviceError) as error:
        if "emu" in request.param and "emulat" in str(error):
            pytest.skip("built without the emulator")
        raise
    return a


@pytest.fixture(params=["C", "F", "strided"])
def pair(a, request):
    random = np.random.default_rng(0)
    host = [random.random((288, 6)) for _ in range(2)]
    host = [values[::2, ::2] if request.param == "strided" else np.array(values[:144, :3], order=request.param) for values in host]
    both = a.vectors(3), a.vectors(3)
    for vectors, values in zip(both, host):
        vectors.copy_from(values)
    return both, host


def test_copies_have_the_same_values(pair):
    (x, _), (host, _) = pair
    np.testing.assert_array_equal(x.to_numpy(), host)
    np.testing.assert_array_equal(np.asarray(x), host)
    with pytest.raises(ValueError):
        np.asarray(x, copy=False)
    assert x.shape == (144, 3) and x.dtype == np.float64


def test_dlpack_gives_the_rows_in_place_or_refuses(pair):
    (x, _), (host, _) = pair
    if x._native.place() is None:
        with pytest.raises(BufferError, match="several devices"):
            np.from_dlpack(x)
    else:
        rows = np.from_dlpack(x)
        np.testing.assert_array_equal(rows, host)
        x.fill(7.0)
        x.synchronize()
        assert (rows == 7.0).all()
        # The consumer keeps the memory.
        x.copy_from(host)
        del x, pair
        gc.collect()
        np.testing.assert_array_equal(rows, host)


def test_an_unused_capsule_frees_its_rows(pair):
    (x, _), (host, _) = pair
    if x._native.place() is not None:
        native = x._native
        # Counted outside of assertions, which hold their operands.
        before = sys.getrefcount(native)
        capsule = x.__dlpack__()
        with_capsule = sys.getrefcount(native)
        del capsule
        after = sys.getrefcount(native)
        assert (with_capsule, after) == (before + 1, before)


def test_a_copy_of_rows_on_any_devices_is_given_on_demand(pair):
    (x, _), (host, _) = pair
    copy = np.from_dlpack(x, copy=True)
    x.fill(0.0)
    np.testing.assert_array_equal(copy, host)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 5))


def test_products_equal_scipys(a, pair):
    (x, y), (host_x, host_y) = pair
    matrix = a.to_scipy()
    assert a.matmul(x, alpha=2.0, beta=-0.5, out=y) is y
    np.testing.assert_allclose(y.to_numpy(), 2.0 * (matrix @ host_x) - 0.5 * host_y, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose((a @ x).to_numpy(), matrix @ host_x, rtol=1e-13)


def test_operations_equal_numpys(pair):
    (x, y), (host_x, host_y) = pair
    np.testing.assert_allclose(x.dot(y), (host_x * host_y).sum(0), rtol=1e-13)
    np.testing.assert_allclose(x.dot(x), (host_x**2).sum(0), rtol=1e-13)
    np.testing.assert_allclose(x.norm(), np.linalg.norm(host_x, axis=0), rtol=1e-13)
    np.testing.assert_allclose(x.gram(y), host_x.T @ host_y, rtol=1e-13)
    np.testing.assert_allclose(x.gram(x), host_x.T @ host_x, rtol=1e-13)
    y.axpby(3.0, x, -1.0)
    np.testing.assert_allclose(y.to_numpy(), 3.0 * host_x - host_y, rtol=1e-12, atol=1e-12)
    y.copy_from(host_y)
    y.scale(2.0)
    y.scale([1.0, -1.0, 0.5])
    np.testing.assert_allclose(y.to_numpy(), 2.0 * host_y * [1.0, -1.0, 0.5], rtol=1e-13)
    s = np.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(x.times(s, out=y).to_numpy(), host_x @ s, rtol=1e-13)
    y.fill(4.0)
    y.synchronize()
    np.testing.assert_array_equal(y.to_numpy(), np.full((144, 3), 4.0))


def test_rectangular_matrices_have_vectors_of_x_and_y():
    a = rowloom.csr((np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 1, 2])), shape=(2, 3))
    x = a.x_vectors(1)
    x.copy_from(np.array([1.0, 10.0, 100.0]))
    np.testing.assert_array_equal((a @ x).to_numpy(), [[100.0], [2.0]])


def test_wrong_operands_are_refused(a):
    x, y = a.vectors(2), a.vectors(3)
    other = rowloom.csr("gen:stencil5,n=12", devices="cpu").vectors(2)
    for use in (
        lambda: a.matmul(x, out=y),
        lambda: a.matmul(x, out=x),
        lambda: a.matmul(other),
        lambda: a.T @ x,
        lambda: x.axpby(1.0, x, 1.0),
        lambda: x.dot(y),
        lambda: x.copy_from(np.ones((5, 2))),
        lambda: x.scale([1.0, 2.0, 3.0]),
        lambda: x.times(np.eye(3), out=a.vectors(2)),
        lambda: a.vectors(0),
    ):
        with pytest.raises(ValueError):
            use()
    with pytest.raises(TypeError):
        a.matmul(x, out=np.ones((144, 2)))
    with pytest.raises(TypeError):
        a.matmul(np.ones((144, 2)), out=x)


def test_vectors_outlive_their_operator():
    x = rowloom.csr("gen:stencil5,n=12").vectors(2)
    x.fill(2.0)
    np.testing.assert_array_equal(x.to_numpy(), np.full((144, 2), 2.0))


def test_vectors_of_one_operator_fit_also_after_products_with_many_other_columns_and_after_clear(a):
    x = a.vectors(2)
    x.fill(1.0)
    # More numbers of columns than an operator keeps plans for.
    for k in range(3, 14):
        a @ np.ones((144, k))
    y = a.vectors(2)
    a.matmul(x, out=y)
    a.clear()
    z = a.vectors(2)
    z.axpby(2.0, y, 0.0)
    np.testing.assert_array_equal(z.to_numpy(), 2.0 * (a.to_scipy() @ np.ones((144, 2))))


def test_scalars_are_sums_that_operations_take_as_factors(pair):
    (x, y), (a, b) = pair
    sums, norms = x.scalars(), x.scalars()
    assert (sums.to_numpy() == 0.0).all()
    x.dot_into(y, sums)
    x.norm_into(norms)
    np.testing.assert_array_equal(sums.to_numpy(), x.dot(y))
    np.testing.assert_array_equal(np.asarray(norms), x.norm())
    s, n = sums.to_numpy(), norms.to_numpy()
    y.axpby(sums / norms, x, -norms)
    b = s / n * a - n * b
    np.testing.assert_allclose(y.to_numpy(), b, rtol=1e-12, atol=1e-12)
    y.axpby(-(sums / norms), x, 2)
    b = -s / n * a + 2.0 * b
    np.testing.assert_allclose(y.to_numpy(), b, rtol=1e-12, atol=1e-12)
    y.axpby(np.float64(0.5) * norms, x, 1.0 / sums)
    np.testing.assert_allclose(y.to_numpy(), 0.5 * n * a + b / s, rtol=1e-12, atol=1e-12)
    x.scale(1.0 / norms)
    np.testing.assert_allclose(x.norm(), 1.0, rtol=1e-14)
    x.scale(norms)
    np.testing.assert_allclose(x.to_numpy(), a, rtol=1e-14)
    x.scale(3.0 * (norms / norms))
    np.testing.assert_allclose(x.to_numpy(), 3.0 * a, rtol=1e-14)


def test_a_division_by_a_scalar_of_zero_is_infinite(a):
    x = a.vectors(1)
    x.fill(-1.0)
    x.scale(1.0 / x.scalars())
    assert (x.to_numpy() == -np.inf).all()


def test_wrong_scalars_are_refused(a):
    x, scalars = a.vectors(2), a.vectors(3).scalars()
    for use in (lambda: x.scale(scalars), lambda: x.axpby(1.0 / scalars, a.vectors(2), 0.0), lambda: x.norm_into(scalars)):
        with pytest.raises(ValueError, match="different products"):
            use()
    single = rowloom.csr("gen:stencil5,n=12", dtype=np.float32, devices="cpu").vectors(2)
    with pytest.raises(ValueError, match="different dtypes"):
        x.scale(single.scalars())
    with pytest.raises(TypeError):
        x.scalars() / 2.0
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(x.scalars())


def test_scalars_outlive_their_vectors_and_their_operator(a):
    x = a.vectors(2)
    x.fill(2.0)
    sums = x.scalars()
    x.dot_into(x, sums)
    del x, a
    gc.collect()
    np.testing.assert_array_equal(sums.to_numpy(), [576.0, 576.0])
