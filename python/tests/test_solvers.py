"""SciPy's solvers on operators of Rowloom and of SciPy."""

import numpy as np
import pytest
import rowloom
from scipy import sparse
from scipy.sparse import linalg


@pytest.fixture
def a():
    return rowloom.csr("gen:stencil5,n=20", devices="cpu")


def test_the_operator_has_every_method(a):
    operator, matrix = a.as_linear_operator(), a.to_scipy()
    x = np.random.default_rng(0).random((400, 3))
    assert operator.shape == (400, 400) and operator.dtype == np.float64
    for actual, expected in [
        (operator.matvec(x[:, 0]), matrix @ x[:, 0]),
        (operator.matvec(x[:, :1]), matrix @ x[:, :1]),
        (operator.matmat(x), matrix @ x),
        (operator.rmatvec(x[:, 0]), matrix.T @ x[:, 0]),
        (operator.rmatmat(x), matrix.T @ x),
        (operator.H @ x, matrix.T @ x),
        (operator.T @ x, matrix.T @ x),
        ((2 * operator + linalg.aslinearoperator(matrix)) @ x, 3 * (matrix @ x)),
    ]:
        np.testing.assert_allclose(actual, expected, rtol=1e-13)
        assert actual.shape == expected.shape


@pytest.mark.parametrize("solver", [linalg.cg, linalg.gmres, linalg.bicg, linalg.bicgstab, linalg.minres])
def test_linear_systems_are_solved(a, solver):
    b = np.random.default_rng(1).random(400)
    x, failed = solver(a.as_linear_operator(), b, rtol=1e-10)
    assert failed == 0
    np.testing.assert_allclose(a @ x, b, rtol=1e-6)


@pytest.mark.parametrize("solver", [linalg.cg, linalg.gmres, linalg.bicg, linalg.bicgstab, linalg.minres])
def test_solvers_take_the_operator_itself(a, solver):
    b = np.random.default_rng(1).random(400)
    x, failed = solver(a, b, rtol=1e-10)
    assert failed == 0
    np.testing.assert_allclose(a @ x, b, rtol=1e-6)


def test_the_operator_itself_has_the_methods_that_solvers_use(a):
    matrix = sparse.random_array((60, 40), density=0.3, format="csr", random_state=2)
    a, x, y = rowloom.csr(matrix), np.ones((40, 3)), np.ones((60, 3))
    operator = linalg.aslinearoperator(a)
    assert operator.shape == (60, 40) and operator.dtype == np.float64
    for actual, expected in [
        (a.matvec(x[:, 0]), matrix @ x[:, 0]),
        (a.matvec(x[:, :1]), matrix @ x[:, :1]),
        (a.rmatvec(y[:, 0]), matrix.T @ y[:, 0]),
        (a.matmat(x), matrix @ x),
        (a.rmatmat(y), matrix.T @ y),
        (operator @ x, matrix @ x),
        (operator.H @ y, matrix.T @ y),
    ]:
        np.testing.assert_allclose(actual, expected, rtol=1e-13)
    with pytest.raises(ValueError, match="3 columns"):
        a.matvec(x)
    with pytest.raises(ValueError, match="1 dimensions"):
        a.matmat(x[:, 0])


def test_decompositions_take_the_operator_itself(a):
    expected = linalg.eigsh(a.to_scipy(), k=3, return_eigenvectors=False)
    np.testing.assert_allclose(linalg.eigsh(a, k=3, return_eigenvectors=False), expected, rtol=1e-9)
    np.testing.assert_allclose(np.sort(linalg.svds(a, k=3, return_singular_vectors=False)), np.sort(expected), rtol=1e-9)
    x = np.random.default_rng(3).random((400, 6))
    values, _ = linalg.lobpcg(a, x.copy(), largest=True, tol=1e-8, maxiter=200)
    same, _ = linalg.lobpcg(a.to_scipy(), x.copy(), largest=True, tol=1e-8, maxiter=200)
    np.testing.assert_allclose(values, same, rtol=1e-6)


def test_least_squares_are_solved():
    matrix = sparse.random_array((120, 40), density=0.2, format="csr", random_state=4)
    b = np.random.default_rng(1).random(120)
    operator = rowloom.csr(matrix).as_linear_operator()
    expected = np.linalg.lstsq(matrix.toarray(), b, rcond=None)[0]
    np.testing.assert_allclose(linalg.lsqr(operator, b, atol=1e-12, btol=1e-12)[0], expected, atol=1e-6)
    np.testing.assert_allclose(linalg.lsmr(operator, b, atol=1e-12, btol=1e-12)[0], expected, atol=1e-6)


def test_eigenvalues_equal_scipys(a):
    expected = linalg.eigsh(a.to_scipy(), k=4, return_eigenvectors=False)
    actual = linalg.eigsh(a.as_linear_operator(), k=4, return_eigenvectors=False)
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


@pytest.mark.parametrize("solver", ["arpack", "lobpcg"])
def test_singular_values_equal_scipys(solver):
    matrix = sparse.random_array((60, 40), density=0.3, format="csr", random_state=2)
    operator = rowloom.csr(matrix).as_linear_operator()
    actual = linalg.svds(operator, k=3, solver=solver, return_singular_vectors=False, random_state=0)
    expected = np.linalg.svd(matrix.toarray(), compute_uv=False)[:3]
    np.testing.assert_allclose(np.sort(actual)[::-1], expected, rtol=1e-4)


def test_lobpcg_equals_scipys(a):
    x = np.random.default_rng(3).random((400, 6))
    values, _ = linalg.lobpcg(a.as_linear_operator(), x.copy(), largest=True, tol=1e-8, maxiter=200)
    expected, _ = linalg.lobpcg(a.to_scipy(), x.copy(), largest=True, tol=1e-8, maxiter=200)
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_complex_systems_are_solved(a):
    b = np.arange(400) * (1 + 2j)
    x, failed = linalg.gmres(a.as_linear_operator(), b, rtol=1e-10)
    assert failed == 0
    np.testing.assert_allclose(a @ x, b, atol=1e-5)
