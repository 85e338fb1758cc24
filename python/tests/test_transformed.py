"""Centred and scaled operators against dense matrices of NumPy."""

import gc
import pickle
import sys
import types

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import rowloom
from scipy import sparse
from scipy.sparse import linalg

from conftest import arrays_for, matrices
from test_card import Cupys, Device, OnCard, aligned


@pytest.fixture
def matrix():
    return sparse.random_array((60, 40), density=0.2, format="csr", rng=2)


def close(actual, expected, dense, x):
    """Within the rounding of sums of the terms of ``dense @ x``."""
    terms = np.abs(dense) @ np.abs(x)
    unit = np.finfo(np.result_type(actual, np.float32)).eps
    assert actual.shape == expected.shape
    assert (np.abs(actual - expected) <= 64 * unit * (terms + terms.max(initial=0.0))).all()


STEPS = st.lists(st.sampled_from(["centre", "means", "rows", "columns", "both", "transpose"]), max_size=5)


def applied(operator, dense, steps, seed):
    """The operator and the dense matrix after the same steps."""
    random = np.random.default_rng(seed)
    for step in steps:
        r, c = (random.integers(-3, 4, length) / 2 for length in dense.shape)
        match step:
            case "centre":
                operator, dense = operator.centered(), dense - dense.mean(axis=0)
            case "means":
                operator, dense = operator.centered(c), dense - c
            case "rows":
                operator, dense = operator.scaled(rows=r), dense * r[:, None]
            case "columns":
                operator, dense = operator.scaled(columns=c), dense * c
            case "both":
                operator, dense = operator.scaled(rows=r, columns=c), dense * r[:, None] * c
            case "transpose":
                operator, dense = operator.T, dense.T
    return operator, dense


@hypothesis.given(st.data(), matrices(), STEPS, st.integers(0, 2**32 - 1))
def test_every_chain_of_steps_multiplies_as_its_dense_matrix(data, a, steps, seed):
    hypothesis.assume(min(a.shape) > 0)
    operator, dense = applied(rowloom.csr(a).scaled(), a.toarray().astype(np.float64), steps, seed)
    assert operator.shape == dense.shape and operator.dtype == a.dtype
    x = data.draw(arrays_for(dense.shape[1], data.draw(st.sampled_from([np.float64, np.float32]))))
    # Steps that cancel leave the rounding of the larger matrices before them.
    size = np.full(dense.shape, 8.0 * 3 ** len(steps))
    y = operator @ x
    assert y.dtype == np.result_type(a.dtype, x.dtype)
    close(y, dense @ x, size, x)
    old = np.ones_like(y)
    out = old.copy()
    assert operator.matmul(x, alpha=2.0, beta=-0.5, out=out) is out
    close(out, 2.0 * (dense @ x) - 0.5, 2.0 * size, np.abs(x) + 1.0)
    z = data.draw(arrays_for(dense.shape[0], np.float64))
    close(operator.T @ z, dense.T @ z, size.T, z)


@hypothesis.given(matrices(dtype=np.float64), STEPS, st.integers(0, 2**32 - 1))
def test_the_transposed_operator_is_the_adjoint(a, steps, seed):
    hypothesis.assume(min(a.shape) > 0)
    operator, _ = applied(rowloom.csr(a).scaled(), a.toarray(), steps, seed)
    random = np.random.default_rng(seed)
    x, y = random.standard_normal(operator.shape[1]), random.standard_normal(operator.shape[0])
    size = 8.0 * 3 ** len(steps) * np.abs(x).sum() * np.abs(y).sum()
    assert abs(y @ (operator @ x) - (operator.T @ y) @ x) <= 1e-13 * size


def test_a_centred_operator_has_no_mean_and_the_given_one(matrix):
    a = rowloom.csr(matrix)
    np.testing.assert_allclose(a.centered().T @ np.ones(60), 0.0, atol=1e-12)
    means = np.arange(40.0)
    np.testing.assert_allclose(a.centered(means) @ np.eye(40), matrix.toarray() - means, atol=1e-12)
    # Centring again changes nothing but rounding.
    np.testing.assert_allclose(a.centered(means).centered() @ np.eye(40), a.centered() @ np.eye(40), atol=1e-12)


def test_columns_are_standardised_as_scanpy_does(matrix):
    dense = matrix.toarray()
    factors = 1.0 / dense.std(axis=0, ddof=1)
    standard = rowloom.csr(matrix).scaled(columns=factors).centered()
    np.testing.assert_allclose(standard @ np.eye(40), (dense - dense.mean(axis=0)) * factors, atol=1e-12)
    other = rowloom.csr(matrix).centered().scaled(columns=factors)
    np.testing.assert_allclose(other @ np.eye(40), standard @ np.eye(40), atol=1e-12)


def test_means_of_single_precision_are_summed_in_double_precision():
    # A sum in float32 stops at 2**24.
    rows = 1 << 25
    tall = sparse.csr_array((np.ones(rows, np.float32), np.zeros(rows, np.int32), np.arange(rows + 1)), shape=(rows, 1))
    assert rowloom.csr(tall).centered().outers[0].v[0] == 1.0


def test_corrections_of_single_precision_cancel_as_far_as_the_type_allows():
    random = np.random.default_rng(0)
    dense = (1000.0 + random.standard_normal((200, 50))).astype(np.float32)
    x = np.ones((50, 3), np.float32)
    y = rowloom.csr(sparse.csr_array(dense)).centered() @ x
    expected = (dense.astype(np.float64) - dense.mean(axis=0, dtype=np.float64)) @ x
    # The product of A itself has the rounding of sums of 50 terms of 1000.
    assert y.dtype == np.float32 and np.abs(y - expected).max() <= 50 * 1000 * 4 * np.finfo(np.float32).eps


def test_duplicates_and_unsorted_rows_are_those_of_the_matrix():
    a = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3, 3])), shape=(2, 2))
    np.testing.assert_array_equal(rowloom.csr(a).centered() @ np.eye(2), [[1.0, 2.5], [-1.0, -2.5]])


def test_solvers_take_the_operator(matrix):
    dense = matrix.toarray() - matrix.toarray().mean(axis=0)
    centered = rowloom.csr(matrix).centered()
    expected = np.linalg.svd(dense, compute_uv=False)[:4]
    for operator in (centered, centered.as_linear_operator(), linalg.aslinearoperator(centered)):
        u, s, vt = linalg.svds(operator, k=4, rng=0)
        np.testing.assert_allclose(np.sort(s)[::-1], expected, rtol=1e-10)
        np.testing.assert_allclose(centered @ vt.T, u * s, atol=1e-10)
    square = sparse.random_array((30, 30), density=0.3, format="csr", rng=3)
    square = (square + square.T).tocsr()
    scale = np.linspace(1.0, 2.0, 30)
    values = linalg.eigsh(rowloom.csr(square).scaled(rows=scale, columns=scale), k=3, return_eigenvectors=False)
    dense = square.toarray() * scale * scale[:, None]
    expected = np.linalg.eigvalsh(dense)
    np.testing.assert_allclose(np.sort(values), np.sort(expected[np.argsort(np.abs(expected))[-3:]]), rtol=1e-10)


def test_the_operator_has_the_methods_of_linear_operators(matrix):
    centered, dense = rowloom.csr(matrix).centered(), matrix.toarray() - matrix.toarray().mean(axis=0)
    x, y = np.random.default_rng(0).random((40, 3)), np.random.default_rng(1).random((60, 3))
    for actual, expected in [
        (centered.matvec(x[:, 0]), dense @ x[:, 0]),
        (centered.matvec(x[:, :1]), dense @ x[:, :1]),
        (centered.rmatvec(y[:, 0]), dense.T @ y[:, 0]),
        (centered.matmat(x), dense @ x),
        (centered.rmatmat(y), dense.T @ y),
        (y.T @ centered, y.T @ dense),
        (centered.transpose() @ y, dense.T @ y),
        (centered @ (x + 1j), dense @ (x + 1j)),
        (centered @ np.ones(40, int), dense @ np.ones(40)),
    ]:
        np.testing.assert_allclose(actual, expected, atol=1e-12)
        assert actual.shape == expected.shape


def test_out_may_overlap_x(matrix):
    square = matrix[:40]
    x = np.random.default_rng(0).random((40, 3))
    for operator in (rowloom.csr(square).centered(), rowloom.csr(square).centered().scaled(rows=np.arange(40.0))):
        expected = operator @ x
        values = x.copy()
        operator.dot(values, out=values)
        np.testing.assert_array_equal(values, expected)


def test_old_values_of_out_have_no_effect_without_beta(matrix):
    for operator in (rowloom.csr(matrix).centered(), rowloom.csr(matrix).scaled(rows=np.ones(60)).centered()):
        out = np.full((60, 2), np.nan)
        operator.dot(np.ones((40, 2)), out=out)
        assert np.isfinite(out).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("devices", ["cpu", "emu:0", "cpu,emu:0"])
def test_vectors_are_multiplied_where_they_are(matrix, devices, dtype):
    a = rowloom.csr(matrix.astype(dtype), devices=devices)
    rounding = 1e-12 if dtype == np.float64 else 1e-4
    try:
        a.vectors(1)
    except (ValueError, rowloom.DeviceError) as error:
        if "emu" in devices and "emulat" in str(error):
            pytest.skip("built without the emulator")
        raise
    dense, means = matrix.toarray(), np.arange(40.0) / 40
    for operator, expected in ((a.centered(means), dense - means), (a.centered(means).T, (dense - means).T)):
        for k in (1, 3):
            host = np.random.default_rng(0).random((expected.shape[1], k)).astype(dtype)
            x, y = operator.x_vectors(k), operator.vectors(k)
            x.copy_from(host)
            y.fill(1.0)
            np.testing.assert_allclose((operator @ x).to_numpy(), expected @ host, atol=rounding)
            assert operator.matmul(x, alpha=2.0, beta=3.0, out=y) is y
            np.testing.assert_allclose(y.to_numpy(), 2.0 * (expected @ host) + 3.0, atol=rounding)
    with pytest.raises(TypeError, match="scales their rows"):
        a.scaled(rows=np.ones(60)) @ a.x_vectors(1)
    with pytest.raises(TypeError, match="Vectors too"):
        a.centered().matmul(a.x_vectors(1), out=np.ones((60, 1)))


class Cards(Cupys):
    """An array of the library on a card with the arithmetic that corrections use."""

    __module__ = "cupy"
    device = Device()

    def __mul__(self, other):
        return Cards(aligned(self.array * getattr(other, "array", other)))

    __rmul__ = __mul__

    def __matmul__(self, other):
        return Cards(aligned(np.asarray(self.array @ other.array)))

    def __add__(self, other):
        return Cards(aligned(self.array + other.array))

    def __isub__(self, other):
        self.array -= other.array
        return self

    def __imul__(self, other):
        self.array *= getattr(other, "array", other)
        return self

    def __getitem__(self, key):
        return Cards(self.array[key])

    def reshape(self, *shape):
        return Cards(self.array.reshape(shape))


@pytest.fixture
def cupy(monkeypatch):
    module = types.ModuleType("cupy")
    module.empty = lambda shape, dtype: Cards(aligned(np.full(shape, np.nan, dtype)))
    module.asarray = lambda values: Cards(aligned(values))
    monkeypatch.setitem(sys.modules, "cupy", module)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [None, 1, 3, 8])
def test_arrays_on_a_card_stay_there(matrix, cupy, k, dtype):
    a = rowloom.csr(matrix.astype(dtype), devices="emu:0")
    try:
        a.vectors(1)
    except rowloom.DeviceError:
        pytest.skip("built without the emulator")
    random = np.random.default_rng(0)
    dense = matrix.toarray()
    r, c = random.random(60), random.random(40)
    scaled = dense * r[:, None] * c
    for operator, expected in (
        (a.centered(), dense - dense.mean(axis=0)),
        (a.scaled(columns=c).centered(), dense * c - (dense * c).mean(axis=0)),
        (a.scaled(rows=r, columns=c).centered(), scaled - scaled.mean(axis=0)),
        (a.centered().T, (dense - dense.mean(axis=0)).T),
    ):
        rows, columns = expected.shape
        x = random.random(columns if k is None else (columns, k)).astype(dtype)
        y = random.random(rows if k is None else (rows, k)).astype(dtype)
        rounding = 1e-12 if dtype == np.float64 else 1e-4
        result = operator @ Cards(aligned(x))
        assert isinstance(result, Cards) and result.dtype == dtype
        np.testing.assert_allclose(result.array, expected @ x, atol=rounding)
        out = Cards(aligned(y))
        assert operator.matmul(Cards(aligned(x)), alpha=2.0, beta=-0.5, out=out) is out
        np.testing.assert_allclose(out.array, 2.0 * (expected @ x) - 0.5 * y, atol=rounding)
    with pytest.raises(TypeError, match="type of A"):
        a.centered() @ Cards(aligned(np.ones(40, np.float32 if dtype == np.float64 else np.float64)))
    with pytest.raises(ValueError, match="40 rows"):
        a.centered() @ Cards(aligned(np.ones(41, dtype)))
    with pytest.raises(TypeError, match="CuPy, PyTorch and JAX"):
        a.centered() @ OnCard(np.ones(40, dtype))


class Jaxs(OnCard):
    """An array that shows itself as one of JAX: with arithmetic, but it cannot be written."""

    __module__ = "jaxlib.array"
    device = Device()

    @property
    def dtype(self):
        return self.array.dtype

    def __mul__(self, other):
        return Jaxs(aligned(self.array * getattr(other, "array", other)))

    __rmul__ = __mul__

    def __matmul__(self, other):
        return Jaxs(aligned(np.asarray(self.array @ other.array)))

    def __sub__(self, other):
        return Jaxs(aligned(self.array - other.array))

    def __getitem__(self, key):
        return Jaxs(self.array[key])

    def reshape(self, *shape):
        return Jaxs(self.array.reshape(shape))


@pytest.mark.parametrize("k", [None, 4, 5])
def test_products_with_arrays_of_jax_are_new_ones(matrix, monkeypatch, k):
    jax = types.ModuleType("jax")
    jax.numpy = types.SimpleNamespace(pad=lambda x, width: Jaxs(np.pad(x.array, width)))
    jax.dlpack = types.SimpleNamespace(from_dlpack=lambda rows: Jaxs(np.from_dlpack(rows)))
    jax.device_put = lambda values, device: Jaxs(aligned(values))
    monkeypatch.setitem(sys.modules, "jax", jax)
    a = rowloom.csr(matrix, devices="emu:0")
    try:
        a.vectors(1)
    except rowloom.DeviceError:
        pytest.skip("built without the emulator")
    r, c = np.linspace(0.5, 1.5, 60), np.linspace(1.0, 2.0, 40)
    scaled = matrix.toarray() * r[:, None] * c
    x = Jaxs(aligned(np.random.default_rng(0).random(40 if k is None else (40, k))))
    for operator, dense in ((a.centered(), matrix.toarray()), (a.scaled(rows=r, columns=c).centered(), scaled)):
        y = operator @ x
        assert isinstance(y, Jaxs)
        np.testing.assert_allclose(y.array, (dense - dense.mean(axis=0)) @ x.array, atol=1e-12)
    with pytest.raises(TypeError, match="cannot be written"):
        a.centered().dot(x, out=y)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda a: a.centered(np.ones(39)), ValueError, "39 elements; the matrix has 40 columns"),
        (lambda a: a.centered(np.ones((1, 40))), ValueError, "2 dimensions"),
        (lambda a: a.centered(np.ones(40) * 1j), TypeError, "complex128"),
        (lambda a: a.centered(["mean"] * 40), TypeError, "real numbers"),
        (lambda a: a.centered(np.full(40, np.nan)), ValueError, r"means\[0\] is nan"),
        (lambda a: a.centered(sparse.csr_array(np.ones((1, 40)))), TypeError, "sparse"),
        (lambda a: a.scaled(rows=np.ones(40)), ValueError, "40 elements; the matrix has 60 rows"),
        (lambda a: a.scaled(columns=np.ones(60)), ValueError, "60 elements; the matrix has 40 columns"),
        (lambda a: a.scaled(columns=1.0 / np.arange(-5.0, 35.0)), ValueError, r"columns\[5\] is inf"),
        (lambda a: a.scaled(rows=2.0), ValueError, "0 dimensions"),
        (lambda a: a.centered() @ np.ones(60), ValueError, "40 rows"),
        (lambda a: a.centered() @ np.ones((40, 1, 1)), ValueError, "one or two dimensions"),
        (lambda a: a.centered() @ np.full(40, "x"), TypeError, "dtype|promote|DType"),
        (lambda a: a.centered() @ a.to_scipy(), TypeError, "sparse matrix or an operator"),
        (lambda a: a.centered().matmul(np.ones(40), beta=1.0), ValueError, "out, which is missing"),
        (lambda a: a.centered().dot(np.ones(40), out=np.ones(59)), ValueError, "shape"),
        (lambda a: a.centered().dot(np.ones(40), out=np.ones(60, np.float32)), TypeError, "float64"),
        (lambda a: a.centered().matvec(np.ones((40, 2))), ValueError, "2 columns"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_wrong_arguments_are_refused(matrix, change, error, words):
    a = rowloom.csr(matrix)
    with pytest.raises(error, match=words):
        change(a)
    # The operator is as it was.
    np.testing.assert_allclose(a @ np.ones(40), matrix @ np.ones(40), atol=1e-12)


def test_matrices_without_rows_or_with_wrong_values_have_no_means():
    with pytest.raises(ValueError, match="without rows"):
        rowloom.csr(sparse.csr_array((0, 3))).centered()
    for value in (np.nan, np.inf, 1e308):
        bad = sparse.csr_array(np.array([[1.0, value], [1.0, value]]))
        with pytest.raises(ValueError, match="mean of column 1"):
            rowloom.csr(bad).centered()


def test_a_later_change_of_the_factors_has_no_effect(matrix):
    factors = np.full(40, 2.0)
    scaled = rowloom.csr(matrix).scaled(columns=factors)
    factors[:] = 7.0
    np.testing.assert_allclose(scaled @ np.ones(40), 2.0 * (matrix @ np.ones(40)), rtol=1e-12)


def test_operators_live_without_each_other_and_after_clear(matrix):
    centered = rowloom.csr(matrix).centered().T
    gc.collect()
    dense = matrix.toarray() - matrix.toarray().mean(axis=0)
    centered.base.clear()
    np.testing.assert_allclose(centered @ np.ones(60), 0.0, atol=1e-12)
    np.testing.assert_allclose(centered.T @ np.ones(40), dense @ np.ones(40), atol=1e-12)


def test_a_pickled_operator_is_the_same(matrix):
    operator = rowloom.csr(matrix).scaled(rows=np.arange(60.0)).centered()
    x = np.random.default_rng(0).random((40, 2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(operator)) @ x, operator @ x)


def test_bits_are_the_same_twice(matrix):
    x = np.random.default_rng(0).random((40, 5))
    first, second = (rowloom.csr(matrix).scaled(columns=np.arange(40.0)).centered() @ x for _ in range(2))
    assert first.tobytes() == second.tobytes()
