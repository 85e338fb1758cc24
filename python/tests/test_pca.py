"""Principal components against scikit-learn on dense matrices."""

import numpy as np
import pytest
import rowloom
from rowloom import _singular
from scipy import sparse

decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed")

#: Components are equal to this, with their signs.
EQUAL = 1e-6


def counts(rows, columns, density=0.1, seed=0):
    """A matrix of counts whose columns have different sizes, so that singular values differ."""
    random = np.random.default_rng(seed)
    matrix = sparse.random_array((rows, columns), density=density, format="csr", rng=random)
    matrix.data = random.poisson(3.0, matrix.nnz) + 1.0
    matrix = matrix * np.linspace(0.2, 3.0, columns)
    return sparse.csr_array(matrix)


def compare(actual, dense, n, equal=EQUAL):
    """Equal to scikit-learn in every field, with signs."""
    expected = decomposition.PCA(n, svd_solver="full").fit(dense)
    scores = expected.transform(dense)
    scale = expected.singular_values_[0]
    np.testing.assert_allclose(actual.components, expected.components_, atol=equal)
    np.testing.assert_allclose(actual.singular_values, expected.singular_values_, rtol=equal, atol=equal * scale)
    np.testing.assert_allclose(actual.explained_variance, expected.explained_variance_, rtol=equal, atol=equal * scale)
    np.testing.assert_allclose(actual.explained_variance_ratio, expected.explained_variance_ratio_, rtol=equal, atol=equal)
    np.testing.assert_allclose(actual.mean, expected.mean_, atol=equal)
    np.testing.assert_allclose(actual.scores, scores, atol=equal * scale)


@pytest.mark.parametrize(
    ("rows", "columns", "n"),
    [(300, 80, 10), (80, 300, 10), (300, 80, 79), (120, 120, 50), (2000, 40, 5), (40, 2000, 5), (500, 1, 1), (2, 5, 1), (30, 200, 29)],
)
def test_all_fields_equal_scikit_learns(rows, columns, n):
    matrix = counts(rows, columns, 0.3 if min(rows, columns) < 10 else 0.1)
    compare(rowloom.pca(matrix, n), matrix.toarray(), n)


@pytest.mark.parametrize("shape", [(60, 25), (25, 60), (30, 30)])
def test_all_components_are_computed(shape):
    matrix = counts(*shape, 0.3)
    n = min(shape)
    actual, dense = rowloom.pca(matrix, n), matrix.toarray()
    # The last component of a matrix with few rows has the singular value zero, and any direction.
    determined = min(n, shape[0] - 1)
    expected = decomposition.PCA(n, svd_solver="full").fit(dense)
    np.testing.assert_allclose(actual.components[:determined], expected.components_[:determined], atol=EQUAL)
    np.testing.assert_allclose(actual.singular_values, expected.singular_values_, atol=1e-10 * expected.singular_values_[0])
    np.testing.assert_allclose(actual.components @ actual.components.T, np.eye(n), atol=1e-12)
    assert abs(actual.explained_variance_ratio.sum() - 1.0) < 1e-12


def test_bases_are_restarted_until_the_components_are_right(monkeypatch):
    monkeypatch.setattr(_singular, "_BLOCK_COLUMNS", 4)
    monkeypatch.setattr(_singular, "_FEWEST_BLOCKS", 3)
    monkeypatch.setattr(_singular, "_MOST_BLOCKS", 3)
    restarts = []
    restart = _singular._Bases.restart
    monkeypatch.setattr(_singular._Bases, "restart", lambda *given: (restarts.append(1), restart(*given))[1])
    matrix = counts(400, 200)
    compare(rowloom.pca(matrix, 6), matrix.toarray(), 6)
    assert len(restarts) > 3


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "operator", "wrapped"])
def test_every_input_gives_the_same(format):
    matrix = counts(200, 60)
    given = {"operator": rowloom.csr, "wrapped": lambda a: rowloom.csr(a).centered()}.get(format)
    result = rowloom.pca(given(matrix) if given else matrix.asformat(format), 4)
    if format == "wrapped":
        # The matrix of this operator has the means zero, to rounding.
        np.testing.assert_allclose(result.mean, 0.0, atol=1e-12)
        compare(result, matrix.toarray() - matrix.toarray().mean(axis=0), 4)
    else:
        compare(result, matrix.toarray(), 4)


def test_scaled_operators_give_components_of_the_scaled_matrix():
    matrix = counts(200, 60)
    dense = matrix.toarray()
    r, c = np.linspace(0.5, 1.5, 200), 1.0 / dense.std(axis=0)
    compare(rowloom.pca(rowloom.csr(matrix).scaled(columns=c), 4), dense * c, 4)
    compare(rowloom.pca(rowloom.csr(matrix).centered().scaled(rows=r), 4), (dense - dense.mean(axis=0)) * r[:, None], 4)


def test_results_of_single_precision_have_its_accuracy():
    matrix = counts(300, 80).astype(np.float32)
    result = rowloom.pca(matrix, 5)
    assert {getattr(result, name).dtype for name in ("components", "singular_values", "mean", "scores")} == {np.dtype(np.float32)}
    compare(result, matrix.toarray().astype(np.float64), 5, equal=2e-3)


def test_large_means_cost_no_digits_of_the_variance():
    dense = 1e6 + np.random.default_rng(0).standard_normal((200, 30)) * np.linspace(1.0, 3.0, 30)
    compare(rowloom.pca(sparse.csr_array(dense), 3), dense, 3)


def test_repeated_singular_values_are_all_found():
    # The categories of one column as 60 columns of ones: 59 equal singular values, and a column that varies less.
    categories = np.repeat(np.arange(60), 20)
    matrix = sparse.csr_array((np.ones(1200), (np.arange(1200), categories)), shape=(1200, 60))
    result = rowloom.pca(matrix, 59)
    expected = np.linalg.svd(matrix.toarray() - matrix.toarray().mean(axis=0), compute_uv=False)[:59]
    np.testing.assert_allclose(result.singular_values, expected, rtol=1e-10)
    # And among others, in a matrix that is too large for bases of all columns.
    rest = counts(1200, 400, 0.02) * 0.05
    both = sparse.hstack([matrix * 3.0, rest], format="csr")
    result = rowloom.pca(both, 57)
    expected = np.linalg.svd(both.toarray() - both.toarray().mean(axis=0), compute_uv=False)[:57]
    np.testing.assert_allclose(result.singular_values, expected, rtol=1e-8)


def bases_with(first, n):
    """Bases that hold the exact triplets from `first` on, of a diagonal matrix with the values 60 to 1."""
    values = np.arange(60.0, 0.0, -1.0)
    bases = _singular._Bases(rowloom.csr(sparse.diags_array(values, format="csr")), n, seed=0)
    bases.u[:, :n] = bases.v[:, :n] = np.eye(60)[:, first : first + n]
    bases.b[range(n), range(n)] = values[first : first + n]
    bases.size, bases.largest = n, 60.0
    return bases


@pytest.mark.parametrize(("first", "is_right"), [(0, True), (1, False), (5, False)])
def test_random_columns_find_what_is_missing(first, is_right):
    bases = bases_with(first, 6)
    assert bases.are_confirmed(bases.approximations()) == is_right


def test_a_value_that_may_still_grow_to_the_next_one_is_no_distance():
    bases, p = bases_with(0, 2), np.eye(3)
    bases.size = 3
    for residual, has_converged in ((1e-9, True), (0.5, False)):
        found = _singular._Approximations(p, np.array([60.0, 59.0, 58.7]), p, np.array([1e-9, 1e-9, residual]))
        assert (bases.excess(found, 1e-7) <= 1.0) == has_converged


def test_duplicates_are_one_element_of_the_variance():
    dense = counts(30, 10, 0.4).toarray()
    rows, columns = np.nonzero(dense)
    values = dense[rows, columns]
    half = sparse.coo_array((np.tile(values / 2, 2), (np.tile(rows, 2), np.tile(columns, 2))), shape=dense.shape)
    order = np.argsort(half.coords[0], kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(half.coords[0], minlength=30))])
    compare(rowloom.pca((half.data[order], half.coords[1][order], indptr), 3), dense, 3)


def test_more_copies_than_a_block_has_columns_are_found(monkeypatch):
    monkeypatch.setattr(_singular, "_BLOCK_COLUMNS", 2)
    values = np.concatenate([np.full(6, 5.0), np.linspace(4.0, 0.1, 194)])
    random = np.random.default_rng(0)
    left = np.linalg.qr(random.standard_normal((400, 201)) - 0.0)[0]
    left = np.linalg.qr(left - left.mean(axis=0))[0][:, :200]
    right = np.linalg.qr(random.standard_normal((200, 200)))[0]
    result = rowloom.pca(sparse.csr_array((left * values) @ right.T), 8)
    np.testing.assert_allclose(result.singular_values, values[:8], rtol=1e-9)


@pytest.mark.parametrize("n", [5, 40, 100])
def test_singular_values_that_fall_by_orders_of_magnitude_are_right(n):
    values = np.logspace(0.0, -12.0, 200)
    random = np.random.default_rng(0)
    left = random.standard_normal((400, 200))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    right = np.linalg.qr(random.standard_normal((200, 200)))[0]
    result = rowloom.pca(sparse.csr_array((left * values) @ right.T), n)
    np.testing.assert_allclose(result.singular_values, values[:n], atol=1e-14, rtol=1e-9)
    np.testing.assert_allclose(np.abs(result.components @ right[:, :n]), np.eye(n), atol=EQUAL)
    # Left singular vectors are orthogonal too, which is not demanded of every column of their basis.
    scores = result.scores / result.singular_values
    np.testing.assert_allclose(scores.T @ scores, np.eye(n), atol=1e-9)


@pytest.mark.parametrize("shape", [(400, 200), (200, 400)])
def test_residuals_are_those_of_the_singular_vectors(shape):
    matrix = counts(*shape)
    result = rowloom.pca(matrix, 6, tolerance=1e-3)
    centered = matrix.toarray() - matrix.toarray().mean(axis=0)
    left, right, values = result.scores / result.singular_values, result.components.T, result.singular_values
    actual = [np.linalg.norm(centered @ right - left * values, axis=0), np.linalg.norm(centered.T @ left - right * values, axis=0)]
    np.testing.assert_allclose(np.maximum(*actual), result.residuals, rtol=1e-3, atol=1e-10)
    assert result.residuals.max() > 1e-6 and result.products < rowloom.pca(matrix, 6).products


def test_a_seed_decides_every_bit():
    matrix = counts(300, 150)
    first, second, other = (rowloom.pca(matrix, 5, seed=seed) for seed in (1, 1, 2))
    assert first.components.tobytes() == second.components.tobytes() and first.scores.tobytes() == second.scores.tobytes()
    assert first.scores.tobytes() != other.scores.tobytes()
    np.testing.assert_allclose(first.components, other.components, atol=EQUAL)


@pytest.mark.parametrize("devices", ["emu:0", "cpu,emu:0"])
def test_devices_change_no_bit_of_a_reproducible_operator(devices):
    matrix = counts(300, 150)
    a = rowloom.csr(matrix, devices=devices, reproducible=True)
    try:
        a.vectors(1)
    except (ValueError, rowloom.DeviceError) as error:
        if "emulat" in str(error):
            pytest.skip("built without the emulator")
        raise
    actual, expected = rowloom.pca(a, 5), rowloom.pca(matrix, 5)
    assert actual.components.tobytes() == expected.components.tobytes() and actual.scores.tobytes() == expected.scores.tobytes()


def test_equal_rows_have_components_without_variance():
    result = rowloom.pca(sparse.csr_array(np.ones((5, 3))), 2)
    np.testing.assert_array_equal(result.singular_values, 0.0)
    np.testing.assert_allclose(result.components @ result.components.T, np.eye(2), atol=1e-12)
    assert np.isnan(result.explained_variance_ratio).all()


@pytest.mark.parametrize(
    ("matrix", "n", "options", "error", "words"),
    [
        (counts(20, 9), 0, {}, ValueError, "1 to 9 components"),
        (counts(20, 9), 10, {}, ValueError, "n is 10"),
        (counts(9, 20), 10, {}, ValueError, "1 to 9 components"),
        (counts(20, 9), 2.5, {}, TypeError, "integer"),
        (counts(20, 9), 2, {"tolerance": 0.0}, ValueError, "tolerance is 0.0"),
        (counts(20, 9), 2, {"tolerance": float("nan")}, ValueError, "tolerance is nan"),
        (sparse.csr_array((0, 9)), 1, {}, ValueError, "0 rows"),
        (sparse.csr_array((9, 0)), 1, {}, ValueError, "0 columns"),
        (sparse.csr_array((1, 9)), 1, {}, ValueError, "two rows"),
        (sparse.csr_array(np.array([[1.0, np.nan], [2.0, 3.0]])), 1, {}, ValueError, "mean of column 1 is nan"),
        (sparse.csr_array(np.array([[1e200, 0.0], [2.0, 3.0]])), 1, {}, ValueError, "too large"),
        (np.ones((5, 5)), 1, {}, TypeError, "no sparse matrix"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_wrong_arguments_are_refused(matrix, n, options, error, words):
    with pytest.raises(error, match=words):
        rowloom.pca(matrix, n, **options)
