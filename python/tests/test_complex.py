"""Complex matrices: products, types, adjoints and refusals, compared with SciPy."""

import pickle

import numpy as np
import pytest
import rowloom
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator, gmres

TYPES = [np.complex128, np.complex64]


def random_matrix(rows=40, columns=30, dtype=np.complex128, seed=1):
    random = np.random.default_rng(seed)
    matrix = sparse.random_array((rows, columns), density=0.2, rng=random, format="csr")
    matrix = (matrix + 1j * sparse.random_array((rows, columns), density=0.2, rng=random, format="csr")).tocsr()
    return matrix.astype(dtype)


def random_x(shape, dtype, seed=2):
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * random.standard_normal(shape)
    return x.astype(dtype)


def assert_equal_products(y, expected):
    assert y.dtype == expected.dtype
    assert y.shape == expected.shape
    single = y.dtype == np.complex64
    np.testing.assert_allclose(y, expected, rtol=1e-4 if single else 1e-12, atol=1e-5 if single else 1e-12)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("x_type", [np.complex128, np.complex64, np.float64, np.float32, np.int64])
@pytest.mark.parametrize("columns", [None, 0, 1, 3, 8])
def test_products_equal_scipys_in_values_and_type(dtype, x_type, columns):
    matrix = random_matrix(dtype=dtype)
    x = random_x((30,) if columns is None else (30, columns), x_type)
    a = rowloom.csr(matrix, devices="cpu")
    assert (a.dtype, a.shape, a.nnz) == (matrix.dtype, matrix.shape, matrix.nnz)
    assert_equal_products(a @ x, matrix @ x)
    assert_equal_products(a.dot(np.asfortranarray(x)), matrix @ x)


def test_x_may_have_any_strides():
    matrix = random_matrix()
    a = rowloom.csr(matrix, devices="cpu")
    x = random_x((60, 10), np.complex128)
    for part in [x[::2, ::3], x[29::-1, :2], x[:30].T[:5].T, x[::2, 0], np.broadcast_to(x[0, 0], (30, 2))]:
        assert_equal_products(a @ part, matrix @ part)


def test_out_is_written_scaled_and_checked():
    matrix = random_matrix()
    a = rowloom.csr(matrix, devices="cpu")
    x, old = random_x((30, 4), np.complex128), random_x((40, 4), np.complex128, 3)
    expected = matrix @ x
    for order in "CF":
        for alpha, beta in [(1.0, 0.0), (2.0, -0.5), (1j, 0.0), (2 - 1j, 3j), (np.complex64(2j), 1)]:
            out = old.copy(order)
            assert a.matmul(x, alpha=alpha, beta=beta, out=out) is out
            np.testing.assert_allclose(out, alpha * expected + beta * old, rtol=1e-6, atol=1e-6)
    assert_equal_products(a.matmul(x, alpha=2j), 2j * expected)
    for out in [np.empty((40, 4)), np.empty((40, 3), complex), [1], np.empty(40, complex)]:
        with pytest.raises(ValueError, match="out must be an array of complex128"):
            a.dot(x, out=out)
    fixed = old.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        a.dot(x, out=fixed)
    with pytest.raises(ValueError, match="beta"):
        a.matmul(x, beta=1.0)


def test_infinities_are_those_of_scipys_real_products():
    matrix = sparse.csr_array(np.array([[1 + 2j, 0], [0, 3j]]))
    x = np.array([np.inf, 1.0]) + 0j
    real, imaginary = matrix.real @ x.real - matrix.imag @ x.imag, matrix.real @ x.imag + matrix.imag @ x.real
    y = rowloom.csr(matrix, devices="cpu") @ x
    np.testing.assert_array_equal(y.real[1], real[1])
    np.testing.assert_array_equal(y.imag[1], imaginary[1])
    assert np.isinf(y.real[0])


def test_transposed_and_adjoint_operators_and_solvers():
    matrix = random_matrix(30, 30) + 10 * sparse.eye_array(30, format="csr")
    a = rowloom.csr(matrix, devices="cpu")
    x = random_x((30, 3), np.complex128)
    assert_equal_products(a.T @ x, matrix.T @ x)
    assert_equal_products(a.H @ x, matrix.conj().T @ x)
    assert_equal_products(a.rmatvec(x[:, 0]), matrix.conj().T @ x[:, 0])
    assert_equal_products(x.T @ a, x.T @ matrix)
    operator = a.as_linear_operator()
    assert_equal_products(operator.rmatmat(x), matrix.conj().T @ x)
    assert_equal_products(operator.H @ x[:, 1], matrix.conj().T @ x[:, 1])
    assert_equal_products(operator.T @ x[:, 1], matrix.T @ x[:, 1])
    solution, failed = gmres(aslinearoperator(a), x[:, 0], rtol=1e-10)
    assert failed == 0
    np.testing.assert_allclose(matrix @ solution, x[:, 0], atol=1e-7)


def test_real_operators_have_an_adjoint():
    matrix = random_matrix().real.tocsr()
    a = rowloom.csr(matrix, devices="cpu")
    x = random_x((40,), np.complex128)
    np.testing.assert_allclose(a.H @ x, matrix.T @ x)


@pytest.mark.parametrize("dtype", TYPES)
def test_copies_pickles_and_other_formats_have_the_same_values(dtype):
    matrix = random_matrix(dtype=dtype)
    for given in [matrix, matrix.tocsc(), matrix.tocoo(), matrix.todok()]:
        a = rowloom.csr(given, devices="cpu")
        for back in [a, pickle.loads(pickle.dumps(a))]:
            assert back.dtype == dtype
            assert (back.to_scipy() != matrix).nnz == 0
    with_zeros = rowloom.csr(random_matrix().real, dtype=dtype, devices="cpu")
    assert with_zeros.dtype == dtype
    assert "ComplexCSR 40 x 30" in repr(a)


def test_duplicates_and_unsorted_rows_are_multiplied_as_they_are():
    data, indices, indptr = np.array([1j, 2, 3 + 1j]), np.array([2, 0, 2]), np.array([0, 3, 3])
    matrix = sparse.csr_array((data, indices, indptr), shape=(2, 3))
    x = random_x((3, 2), np.complex128)
    assert_equal_products(rowloom.csr((data, indices, indptr), shape=(2, 3), devices="cpu") @ x, matrix @ x)


def test_plans_and_reports_are_those_of_the_real_product():
    a = rowloom.csr(random_matrix(), devices="cpu")
    assert a.last_report is None
    a @ random_x((30, 2), np.complex128)
    assert a.last_report.seconds > 0
    assert a.plan(2).devices == ["cpu"]
    assert "kernel" in a.explain()
    a.clear()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: a @ np.ones(3), ValueError, "X has 3 rows; A has 30 columns"),
        (lambda a: a @ np.ones((30, 1, 1)), ValueError, "3 dimensions"),
        (lambda a: a @ np.ones(30, object), TypeError, "complex128 or complex64"),
        (lambda a: a @ np.ones(30, np.clongdouble), TypeError, "complex128 or complex64"),
        (lambda a: a @ sparse.eye_array(30), TypeError, "SciPy"),
        (lambda a: a.centered(), TypeError, "not centred or scaled"),
        (lambda a: a.scaled(rows=np.ones(40)), TypeError, "not centred or scaled"),
        (lambda a: a.vectors(2), TypeError, "Vectors are real"),
        (lambda a: rowloom.csr(random_matrix(), dtype=np.float64), ValueError, "cannot hold complex values"),
        (lambda a: rowloom.csr((np.ones(1, complex), [3], [0, 1]), shape=(1, 3)), ValueError, r"indices\[0\] is 3"),
        (lambda a: rowloom.csr((np.ones(1, complex), [0], [0, 2]), shape=(1, 3)), ValueError, "indptr ends at 2"),
        (lambda a: rowloom.csr((np.ones(1, np.clongdouble), [0], [0, 1])), ValueError, "complex128 and complex64"),
    ],
)
def test_wrong_usages_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(rowloom.csr(random_matrix(), devices="cpu"))
