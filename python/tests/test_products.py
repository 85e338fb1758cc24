"""Products against SciPy. Values are small integers, so that every order of a sum gives the same bits."""

import numpy as np
import pytest
import rowloom
from conftest import arrays_for, matrices
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

DEVICES = ["cpu", "auto"]


def same(actual, expected):
    np.testing.assert_array_equal(actual, expected)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape


@given(st.data(), matrices())
def test_a_product_equals_scipys_for_every_type_and_layout(data, matrix):
    x_type = data.draw(st.sampled_from([np.float64, np.float32, np.int32, np.int64, np.uint8, np.bool_]))
    x = data.draw(arrays_for(matrix.shape[1], x_type))
    same(rowloom.csr(matrix, devices="cpu") @ x, matrix @ x)


@given(st.data(), matrices())
def test_a_transposed_product_equals_scipys(data, matrix):
    x = data.draw(arrays_for(matrix.shape[0], matrix.dtype))
    a = rowloom.csr(matrix, devices="cpu")
    same(a.T @ x, matrix.T @ x)
    assert a.T.T is a


@given(st.data(), matrices())
def test_a_product_from_the_left_equals_scipys(data, matrix):
    x = data.draw(arrays_for(matrix.shape[0], matrix.dtype))
    same(x.T @ rowloom.csr(matrix, devices="cpu"), x.T @ matrix)


@given(st.data(), matrices())
def test_a_complex_product_equals_scipys(data, matrix):
    x_type = data.draw(st.sampled_from([np.complex128, np.complex64]))
    x = data.draw(arrays_for(matrix.shape[1], x_type))
    x = x + 1j * x[::-1]
    same(rowloom.csr(matrix, devices="cpu") @ x.astype(x_type), matrix @ x.astype(x_type))


@given(st.data(), matrices(), st.sampled_from([0.0, 1.0, -2.0]), st.sampled_from([0.0, 1.0, 0.5]))
def test_out_of_every_layout_gets_the_scaled_product(data, matrix, alpha, beta):
    x = data.draw(arrays_for(matrix.shape[1], matrix.dtype))
    out = data.draw(arrays_for(matrix.shape[0], matrix.dtype).filter(lambda out: out.ndim == x.ndim))
    out = out if out.flags.writeable else out.copy()
    if x.ndim == 2:
        x = np.resize(x, (matrix.shape[1], out.shape[1]))
    expected = alpha * (matrix @ x) + beta * out
    a = rowloom.csr(matrix, devices="cpu")
    assert a.matmul(x, alpha=alpha, beta=beta, out=out) is out
    same(out, expected.astype(matrix.dtype))


def test_an_old_out_has_no_effect_without_beta():
    a = rowloom.csr(sparse.eye_array(4, format="csr"), devices="cpu")
    out = np.full(4, np.nan)
    a.dot(np.arange(4.0), out=out)
    same(out, np.arange(4.0))


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_out_may_overlap_x(shift):
    matrix = sparse.random_array((50, 50), density=0.2, format="csr", random_state=1)
    memory = np.arange(200.0)
    x, out = memory[:100].reshape(50, 2), memory[shift : 100 + shift].reshape(50, 2)
    expected = matrix @ x.copy()
    rowloom.csr(matrix, devices="cpu").dot(x, out=out)
    np.testing.assert_allclose(out, expected, rtol=1e-13)


def test_columns_of_one_array_can_be_x_and_out():
    matrix = sparse.random_array((50, 50), density=0.2, format="csr", random_state=1)
    memory = np.random.default_rng(0).random((50, 6))
    expected = matrix @ memory[:, :3]
    rowloom.csr(matrix, devices="cpu").dot(memory[:, :3], out=memory[:, 3:])
    np.testing.assert_allclose(memory[:, 3:], expected, rtol=1e-13)


def test_the_order_of_the_result_is_that_of_x():
    a = rowloom.csr("gen:stencil5,n=5", devices="cpu")
    x = np.ones((25, 3))
    assert (a @ x).flags.c_contiguous
    assert (a @ np.asfortranarray(x)).flags.f_contiguous


def test_lists_are_arrays():
    same(rowloom.csr(sparse.eye_array(2, format="csr")) @ [1, 2], np.array([1.0, 2.0]))


class OtherLibrary:
    """An array of another library, as DLPack shows it."""

    def __init__(self, array, kind=1):
        self.array, self.kind = array, kind

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self.kind, 0)


def test_arrays_of_other_libraries_in_host_memory_are_used():
    x = np.arange(8.0).reshape(4, 2)
    same(rowloom.csr(sparse.eye_array(4, format="csr")) @ OtherLibrary(x), x)


def test_arrays_on_a_card_need_both_protocols():
    with pytest.raises(TypeError, match="__cuda_array_interface__"):
        rowloom.csr(sparse.eye_array(4, format="csr")) @ OtherLibrary(np.ones(4), kind=2)


def test_misaligned_arrays_are_copied():
    bytes_ = np.zeros(8 * 4 + 1, np.uint8)
    x = bytes_[1:].view(np.float64)
    assert not x.flags.aligned
    x[:] = [1, 2, 3, 4]
    same(rowloom.csr(sparse.eye_array(4, format="csr")) @ x, np.array([1.0, 2.0, 3.0, 4.0]))


def test_single_precision_times_double_precision_is_double_precision():
    matrix = sparse.csr_array(np.array([[np.float32(0.1)]]))
    same(rowloom.csr(matrix) @ np.array([1.0]), matrix @ np.array([1.0]))


def test_zero_times_infinity_is_nan():
    matrix = sparse.csr_array((np.array([0.0]), np.array([0]), np.array([0, 1])), shape=(1, 1))
    assert np.isnan(rowloom.csr(matrix) @ np.array([np.inf]))[0]


def test_large_products_on_several_threads_equal_scipys():
    matrix = sparse.random_array((5_000, 4_000), density=3e-3, format="csr", random_state=3)
    matrix.data = np.round(matrix.data * 8)
    for k in (1, 2, 8, 33):
        x = np.round(np.random.default_rng(k).random((4_000, k)) * 8)
        for threads in (None, 1, 3):
            a = rowloom.csr(matrix, devices="cpu", threads=threads)
            same(a @ x, matrix @ x)
            same(a @ np.asfortranarray(x), matrix @ x)
            same(a.T @ (matrix @ x), matrix.T @ (matrix @ x))


def test_reproducible_products_have_the_same_bits_for_any_number_of_threads():
    matrix = sparse.random_array((3000, 3000), density=0.01, format="csr", random_state=3)
    x = np.random.default_rng(0).random((3000, 4))
    results = [rowloom.csr(matrix, threads=n, reproducible=True, uses=5) @ x for n in (1, 2, 3)]
    assert all(result.tobytes() == results[0].tobytes() for result in results)


def test_many_numbers_of_columns_use_few_products():
    a = rowloom.csr("gen:stencil5,n=8", devices="cpu")
    scipy_matrix = a.to_scipy()
    for k in [*range(1, 20), *range(1, 20)]:
        x = np.random.default_rng(k).random((64, k))
        np.testing.assert_allclose(a @ x, scipy_matrix @ x, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("devices", ["cpu", "emu:0", "cpu,emu:0"])
def test_unsorted_rows_with_duplicates_are_right_on_every_device(devices):
    random = np.random.default_rng(5)
    indptr = np.arange(0, 3001, 10)
    parts = (random.integers(-4, 5, 3000).astype(float), random.integers(0, 200, 3000), indptr)
    matrix = sparse.csr_array((300, 200))
    matrix.data, matrix.indices, matrix.indptr = parts
    x = random.integers(-4, 5, (200, 4)).astype(float)
    try:
        a = rowloom.csr(matrix, devices=devices)
        y = a @ x
    except (ValueError, rowloom.DeviceError) as error:
        if "emu" in devices and "emulat" in str(error):
            pytest.skip("built without the emulator")
        raise
    same(y, matrix.toarray() @ x)
