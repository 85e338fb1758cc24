"""Arrays of other libraries in the memory of a card. An emulated card has host memory, so NumPy's arrays can be in it."""

import numpy as np
import pytest
import rowloom


class OnCard:
    """An array in the memory of an emulated card, as CuPy and PyTorch show theirs."""

    def __init__(self, array, read_only=False):
        self.array, self.shape, self.read_only = array, array.shape, read_only

    @property
    def __cuda_array_interface__(self):
        strides = None if self.array.flags.c_contiguous else self.array.strides
        data = (self.array.ctypes.data, self.read_only)
        return {"data": data, "shape": self.shape, "strides": strides, "typestr": self.array.dtype.str, "version": 3}

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, stream=None):
        return None


@pytest.fixture
def a():
    a = rowloom.csr("gen:stencil5,n=12", devices="emu:0")
    try:
        a.vectors(1)
    except rowloom.DeviceError:
        pytest.skip("built without the emulator")
    return a


@pytest.mark.parametrize("k", [None, 1, 2, 4, 8, 32])
def test_arrays_on_a_card_are_used_in_place(a, k):
    random = np.random.default_rng(0)
    shape = (144,) if k is None else (144, k)
    x, y = random.random(shape), random.random(shape)
    expected = 2.0 * (a.to_scipy() @ x) - 0.5 * y
    out = OnCard(y)
    assert a.matmul(OnCard(x), alpha=2.0, beta=-0.5, out=out) is out
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
    a.dot(OnCard(x), out=out)
    np.testing.assert_allclose(y, a.to_scipy() @ x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("x", "out", "error"),
    [
        (OnCard(np.ones((144, 4), np.float32)), OnCard(np.ones((144, 4))), TypeError),
        (OnCard(np.ones((144, 4))), OnCard(np.ones((144, 4), np.float32)), TypeError),
        (OnCard(np.ones((143, 4))), OnCard(np.ones((144, 4))), ValueError),
        (OnCard(np.ones((144, 4))), OnCard(np.ones((143, 4))), ValueError),
        (OnCard(np.ones((144, 4))), OnCard(np.ones((144, 2))), ValueError),
        (OnCard(np.ones((144, 4))), OnCard(np.ones(144)), ValueError),
        (OnCard(np.ones((144, 4, 1))), OnCard(np.ones((144, 4))), ValueError),
        (OnCard(np.ones((144, 4))), OnCard(np.ones((144, 4)), read_only=True), ValueError),
        (OnCard(np.ones((144, 4))), np.ones((144, 4)), TypeError),
        (OnCard(np.ones((144, 4))), None, TypeError),
    ],
)
def test_wrong_arrays_on_a_card_are_refused(a, x, out, error):
    with pytest.raises(error):
        a.dot(x, out=out)
