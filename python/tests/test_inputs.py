"""What `csr` accepts, and what it refuses with which exception."""

import numpy as np
import pytest
import rowloom
from conftest import matrices
from hypothesis import given
from hypothesis import strategies as st
from scipy import io, sparse


@pytest.mark.parametrize("format_", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("kind", [sparse.random_array, sparse.random])
def test_every_format_of_scipy_is_accepted(format_, kind):
    shape = ((12, 9),) if kind is sparse.random_array else (12, 9)
    matrix = kind(*shape, density=0.3, format=format_, random_state=1)
    x = np.arange(9.0)
    np.testing.assert_allclose(rowloom.csr(matrix) @ x, matrix @ x, rtol=1e-14)


def test_duplicates_of_a_coo_matrix_are_added():
    matrix = sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    np.testing.assert_array_equal(rowloom.csr(matrix) @ np.array([1.0, 10.0]), [30.0, 4.0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.bool_, np.float16, ">f8", ">f4"])
def test_other_real_types_are_converted(dtype):
    data = np.array([1, 0, 1], dtype)
    a = rowloom.csr((data, np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    single = np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize < 8
    assert a.dtype == (np.float32 if single else np.float64)
    np.testing.assert_array_equal(a @ np.array([1.0, 2.0]), [1.0, 2.0])


def test_a_type_can_be_asked_for():
    matrix = sparse.eye_array(3, format="csr")
    assert rowloom.csr(matrix, dtype=np.float32).dtype == np.float32
    assert rowloom.csr("gen:stencil5,n=4", dtype="float32").dtype == np.float32


@pytest.mark.parametrize("dtype", [np.longdouble, object])
def test_unsupported_values_are_refused(dtype):
    with pytest.raises(ValueError, match="float64 and float32 are supported"):
        rowloom.csr((np.ones(1, dtype), np.array([0]), np.array([0, 1])))


@pytest.mark.parametrize(
    ("indices", "indptr", "message"),
    [
        ([0, 3], [0, 1, 2], r"indices\[1\] is 3; the matrix has 3 columns"),
        ([-1, 0], [0, 1, 2], r"indices\[0\] is -1; the matrix has 3 columns"),
        ([0, 2**40], [0, 1, 2], r"indices\[1\] is 1099511627776; the matrix has 3 columns"),
        ([0, 1], [0, 2, 1, 2], "indptr has length 4"),
        ([0, 1], [0, 3, 2], "indptr decreases from 3 to 2 in row 1"),
        ([0, 1], [1, 1, 2], "indptr starts at 1"),
        ([0, 1], [0, 1, 3], "indptr ends at 3, but there are 2 indices and 2 values"),
        ([0, 1], [0, 1, -1], "indptr ends at -1"),
        ([0, 1], [0, -1, 2], "indptr decreases"),
        ([0.0, 1.0], [0, 1, 2], "integer type"),
        ([[0, 1]], [0, 1, 2], "one dimension"),
    ],
)
@pytest.mark.parametrize("index_type", [None, np.int32])
def test_inconsistent_arrays_are_refused(indices, indptr, message, index_type):
    indices = np.array(indices)
    if index_type and indices.dtype.kind == "i" and indices.max() < 2**31:
        indices = indices.astype(index_type)
    with pytest.raises(ValueError, match=message):
        rowloom.csr((np.ones(2), indices, np.array(indptr)), shape=(2, 3))


@given(st.lists(st.integers(-3, 6), max_size=8), st.lists(st.integers(-3, 6), min_size=1, max_size=6), st.booleans())
def test_random_arrays_are_refused_or_give_scipys_product(indices, indptr, wide):
    """No arrays crash the process."""
    index_type = np.int64 if wide else np.int32
    parts = (np.ones(len(indices)), np.array(indices, index_type), np.array(indptr, index_type))
    shape = (len(indptr) - 1, 4)
    try:
        a = rowloom.csr(parts, shape=shape, devices="cpu")
    except ValueError:
        return
    np.testing.assert_array_equal(a @ np.arange(4.0), sparse.csr_array(parts, shape=shape) @ np.arange(4.0))


def test_elements_behind_the_last_pointer_are_ignored():
    parts = (np.array([1.0, 2.0, 9.0]), np.array([0, 1, 99], np.int32), np.array([0, 1, 2], np.int32))
    a = rowloom.csr(parts, shape=(2, 2))
    assert a.nnz == 2
    np.testing.assert_array_equal(a @ np.ones(2), [1.0, 2.0])


@pytest.mark.parametrize("shape", [(2, 2**32), (2, 2**33), (-1, 3), (2, 3, 4)])
def test_impossible_shapes_are_refused(shape):
    with pytest.raises(ValueError):
        rowloom.csr((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), shape=shape)


def test_negative_columns_of_a_very_wide_matrix_are_refused():
    columns = np.array([-5], np.int32)
    with pytest.raises(ValueError, match="is -5"):
        rowloom.csr((np.ones(1), columns, np.array([0, 1])), shape=(1, 2**32 - 2))


@pytest.mark.parametrize("wrong", [np.eye(3), [[1.0]], 7, None, (np.ones(1), np.array([0]))])
def test_what_is_not_sparse_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="no sparse matrix"):
        rowloom.csr(wrong)


def test_one_dimensional_sparse_arrays_are_refused():
    with pytest.raises(ValueError, match="a matrix has two"):
        rowloom.csr(sparse.coo_array(np.array([1.0, 0.0, 2.0])))


@given(matrices())
def test_files_of_scipy_are_read(matrix):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        x = np.arange(matrix.shape[1], dtype=matrix.dtype)
        sparse.save_npz(f"{folder}/a.npz", matrix)
        np.testing.assert_array_equal(rowloom.csr(f"{folder}/a.npz", dtype=matrix.dtype) @ x, matrix @ x)


def test_paths_and_matrix_market_files_are_read(tmp_path):
    matrix = sparse.random_array((20, 10), density=0.2, random_state=0)
    io.mmwrite(tmp_path / "a.mtx", matrix)
    a = rowloom.csr(tmp_path / "a.mtx")
    np.testing.assert_allclose(a @ np.ones(10), matrix @ np.ones(10))
    assert (a.shape, a.nnz) == (matrix.shape, matrix.nnz)


def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        rowloom.csr(tmp_path / "none.mtx")
    assert caught.value.filename == str(tmp_path / "none.mtx")


def test_a_folder_is_an_os_error(tmp_path):
    with pytest.raises((OSError, ValueError)):
        rowloom.csr(tmp_path)


def test_a_damaged_file_is_a_value_error_with_its_line(tmp_path):
    (tmp_path / "bad.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1.0\n")
    with pytest.raises(ValueError, match=r"bad\.mtx:3"):
        rowloom.csr(tmp_path / "bad.mtx")


def test_a_file_that_needs_too_much_memory_is_a_memory_error(tmp_path):
    (tmp_path / "big.mtx").write_text("%%MatrixMarket matrix coordinate real general\n4000000000000 2 1\n1 1 1.0\n")
    with pytest.raises(MemoryError):
        rowloom.csr(tmp_path / "big.mtx")


def test_an_unknown_device_is_a_value_error():
    with pytest.raises(ValueError, match="devices|device"):
        rowloom.csr("gen:stencil5,n=4", devices="gpu7") @ np.ones(16)


def test_a_missing_gpu_is_a_device_error():
    with pytest.raises(rowloom.DeviceError):
        rowloom.csr("gen:stencil5,n=4", devices="cuda:63") @ np.ones(16)


@pytest.mark.parametrize("option", ["threads", "uses"])
def test_counts_below_one_are_refused(option):
    with pytest.raises(ValueError, match=option):
        rowloom.csr("gen:stencil5,n=4", **{option: 0})


def operand(shape=(25,), dtype=np.float64):
    return np.ones(shape, dtype)


@pytest.mark.parametrize(
    ("x", "options", "error"),
    [
        (operand((24,)), {}, ValueError),
        (operand((24, 2)), {}, ValueError),
        (operand((25, 2, 2)), {}, ValueError),
        (operand(()), {}, ValueError),
        (operand(dtype=np.longdouble), {}, TypeError),
        (operand(dtype=object), {}, TypeError),
        (np.array(["a"] * 25), {}, TypeError),
        (sparse.eye_array(25), {}, TypeError),
        (operand(), {"beta": 1.0}, ValueError),
        (operand(), {"out": operand((24,))}, ValueError),
        (operand(), {"out": operand((25, 1))}, ValueError),
        (operand((25, 2)), {"out": operand((25, 3))}, ValueError),
        (operand(), {"out": operand(dtype=np.float32)}, TypeError),
        (operand(), {"out": [0.0] * 25}, TypeError),
        (operand(), {"out": np.broadcast_to(np.ones(1), (25,))}, ValueError),
        (operand(), {"alpha": "2"}, TypeError),
        (operand(), {"alpha": 1j}, TypeError),
    ],
)
def test_wrong_operands_are_refused(x, options, error):
    with pytest.raises(error):
        rowloom.csr("gen:stencil5,n=5").matmul(x, **options)
