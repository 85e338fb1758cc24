"""Arrays of other libraries in the memory of a card. An emulated card has host memory, so NumPy's arrays can be in it."""

import json
import sys
import threading
import types

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


class Device:
    """The device of an array of CuPy."""

    id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Cupys(OnCard):
    """An array that shows itself as one of CuPy: products are issued on the stream that it names, and no stream waits."""

    __module__ = "cupy"
    device = Device()

    @property
    def dtype(self):
        return self.array.dtype

    @property
    def __cuda_array_interface__(self):
        return {**super().__cuda_array_interface__, "stream": 1}

    def __dlpack__(self, stream=None):
        raise AssertionError("no other stream waits for this array")

    def __getitem__(self, key):
        return Cupys(self.array[key])

    def __setitem__(self, key, value):
        self.array[key] = value.array

    def reshape(self, *shape):
        return Cupys(self.array.reshape(shape))


@pytest.fixture
def cupy(monkeypatch):
    """A module named CuPy that makes arrays in the memory of an emulated card."""
    module = types.ModuleType("cupy")
    # Aligned, as arrays on a card are.
    module.empty = lambda shape, dtype: Cupys(aligned(np.full(shape, np.nan, dtype)))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def aligned(array):
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


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


@pytest.mark.parametrize("k", [None, 1, 2, 3, 4, 5, 8, 32])
def test_products_are_issued_on_the_stream_of_the_library(a, cupy, k):
    random = np.random.default_rng(0)
    shape = (144,) if k is None else (144, k)
    x, y = random.random(shape), random.random(shape)
    expected = a.to_scipy() @ x
    result = a @ Cupys(aligned(x))
    assert isinstance(result, Cupys)
    np.testing.assert_allclose(result.array, expected, rtol=1e-12)
    out = Cupys(aligned(y))
    assert a.matmul(Cupys(aligned(x)), alpha=2.0, beta=-0.5, out=out) is out
    np.testing.assert_allclose(out.array, 2.0 * expected - 0.5 * y, rtol=1e-12, atol=1e-12)


def test_rows_with_gaps_and_columns_in_fortran_order_are_copied(a, cupy):
    random = np.random.default_rng(0)
    for x in (random.random((144, 9))[:, 1:5], np.asfortranarray(random.random((144, 4))), random.random((288, 4))[::2]):
        np.testing.assert_allclose((a @ Cupys(x)).array, a.to_scipy() @ x, rtol=1e-12)


def test_out_may_overlap_x_on_a_card(a, cupy):
    x = Cupys(aligned(np.random.default_rng(0).random((144, 4))))
    expected = a.to_scipy() @ x.array
    a.dot(x, out=x)
    np.testing.assert_allclose(x.array, expected, rtol=1e-12)


def test_report_and_trace_are_those_of_the_product_on_the_card(a, cupy, tmp_path):
    x = np.ones((144, 4))
    assert a.last_report is None
    a @ Cupys(aligned(x))
    report = a.last_report
    assert set(report.devices) == {"emu:0"}
    assert 0.0 < report.seconds < 10.0
    a.trace(tmp_path / "card.json")
    events = json.loads((tmp_path / "card.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["product"]
    a @ x
    a.trace(tmp_path / "host.json")
    events = json.loads((tmp_path / "host.json").read_text())["traceEvents"]
    assert any("kernel" in event["name"] for event in events if event["ph"] == "X")


def test_threads_share_an_operator_on_a_card(a, cupy):
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for k in (2, 4, 8):
            x, out = random.random((144, k)), Cupys(aligned(np.zeros((144, k))))
            for _ in range(5):
                a.dot(Cupys(aligned(x)), out=out)
            if not np.allclose(out.array, a.to_scipy() @ x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_lost_card_is_a_device_error(cupy):
    a = rowloom.csr("gen:stencil5,n=12", devices="emu:0?lost_at_operation=4")
    x = Cupys(aligned(np.ones((144, 4))))
    with pytest.raises(rowloom.DeviceError):
        for _ in range(9):
            a @ x
    with pytest.raises(rowloom.DeviceError, match="lost"):
        a @ x


@pytest.mark.parametrize("shape", [(144,), (144, 4), (144, 5)])
def test_products_with_arrays_of_jax_are_arrays_of_jax(a, monkeypatch, shape):
    class Jaxs(OnCard):
        """An array that shows itself as one of JAX, which cannot be written."""

        __module__ = "jaxlib.array"

        def reshape(self, *shape):
            return Jaxs(self.array.reshape(shape))

        def __getitem__(self, key):
            return Jaxs(self.array[key])

    jax = types.ModuleType("jax")
    jax.numpy = types.SimpleNamespace(pad=lambda x, width: Jaxs(np.pad(x.array, width)))
    jax.dlpack = types.SimpleNamespace(from_dlpack=lambda rows: Jaxs(np.from_dlpack(rows)))
    monkeypatch.setitem(sys.modules, "jax", jax)
    x = np.random.default_rng(0).random(shape)
    y = a @ Jaxs(aligned(x))
    assert isinstance(y, Jaxs)
    with pytest.raises(TypeError, match="cannot be written"):
        a.dot(Jaxs(aligned(x)), out=y)
    np.testing.assert_allclose(y.array, a.to_scipy() @ x, rtol=1e-12)
