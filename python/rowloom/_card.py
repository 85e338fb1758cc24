"""Products with arrays of CuPy, PyTorch and other libraries in the memory of a card."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from . import _rowloom

#: The kinds of memory of DLPack that the host can read: its own, and page-locked memory.
_HOST_MEMORY = (1, 3)
#: Kernels load 16 bytes at a time.
_ALIGNMENT = 16
#: For each type of arrays the name of its library.
_libraries: dict[type, str] = {}


def library_of(x: Any) -> str:
    """The name of the package of an array."""
    kind = type(x)
    name = _libraries.get(kind)
    if name is None:
        name = _libraries[kind] = kind.__module__.partition(".")[0]
    return name


def is_on_card(x: Any) -> bool:
    """Whether an array is in the memory of a card."""
    library = library_of(x)
    if library == "cupy":
        return True
    if library == "torch":
        return bool(x.is_cuda)
    device = getattr(x, "__dlpack_device__", None)
    if device is None:
        return hasattr(x, "__cuda_array_interface__")
    return device()[0] not in _HOST_MEMORY


def multiply_on_card(
    operator_on: Callable[[int], _rowloom.Operator],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    x: Any,
    alpha: float,
    beta: float,
    out: Any,
) -> Any:
    """``alpha * A @ x + beta * out`` with ``x`` and ``out`` where they are; ``out`` is an array of the library of ``x``.

    With arrays of CuPy and PyTorch the product is issued on the library's current stream, as the library's own operations are, and
    nothing is waited for. The library frees memory in the order of this stream, so it may free the arrays before the product ends.
    """
    rows, cols = shape
    card = card_of(x)
    facts = _checked("x", x, dtype, cols)
    is_vector = len(facts["shape"]) == 1
    k = 1 if is_vector else int(facts["shape"][1])
    if out is None and library_of(x) == "jaxlib":
        return _multiply_jax(operator_on(card), rows, k, x, facts, alpha)
    if out is None:
        out = _empty_like(x, (rows,) if is_vector else (rows, k))
        out_facts = out.__cuda_array_interface__
    else:
        if library_of(out) == "jaxlib":
            raise TypeError("arrays of JAX cannot be written; use the result instead of out")
        out_card = card_of(out)
        out_facts = _checked("out", out, dtype, rows)
        out_shape = tuple(out_facts["shape"])
        if out_card != card or len(out_shape) != len(facts["shape"]) or (not is_vector and out_shape[1] != k):
            raise ValueError(f"out has the shape {out_shape} on card {out_card}; x decides both")
        if out_facts["data"][1]:
            raise ValueError("out is read-only")
    if k == 0 or rows == 0:
        return out
    operator = operator_on(card)
    pitch = operator.card_pitch(k)
    size = dtype.itemsize
    from_, from_address = _packed(x, facts, k, pitch, size, True)
    to, to_address = _packed(out, out_facts, k, pitch, size, beta != 0.0)
    if from_address < to_address + rows * pitch * size and to_address < from_address + cols * pitch * size:
        from_, from_address = _copied(x, cols, k, pitch, True)
    stream = _current_stream(x, facts, card) if type(out) is type(x) else None
    if stream is None:
        own = operator.card_stream(k)
        if own is not None:
            # The library lets this stream wait for its current one; the arrays themselves are not taken from the capsules.
            from_.__dlpack__(stream=own)
            if type(to) is not type(from_):
                to.__dlpack__(stream=own)
    operator.multiply_on_card(k, from_address, to_address, alpha, beta, stream)
    if to is not out:
        out[...] = to[:, 0] if is_vector else to[:, :k]
    return out


def _multiply_jax(operator: _rowloom.Operator, rows: int, k: int, x: Any, facts: dict[str, Any], alpha: float) -> Any:
    """``alpha * A @ x`` as a new array of JAX, whose arrays cannot be written: in vectors on the card that JAX takes over."""
    from ._vectors import PaddedRows

    jax = sys.modules["jax"]
    pitch = operator.card_pitch(k)
    shape = facts["shape"]
    from_ = x if pitch == k else jax.numpy.pad(x.reshape(shape[0], k), ((0, 0), (0, pitch - k)))
    y = operator.vectors(k, False)
    to_address, _ = y.export()
    stream = operator.card_stream(k)
    if stream is not None:
        from_.__dlpack__(stream=stream)
    operator.multiply_on_card(k, int(from_.__cuda_array_interface__["data"][0]), to_address, alpha, 0.0, None)
    result = jax.dlpack.from_dlpack(PaddedRows(y))
    if pitch != k:
        result = result[:, :k]
    return result.reshape(rows) if len(shape) == 1 else result


def _current_stream(x: Any, facts: dict[str, Any], card: int) -> int | None:
    """The stream on which the library of ``x`` issues its own operations; ``None`` if it is unknown."""
    library = library_of(x)
    if library == "cupy":
        stream: int | None = facts.get("stream")
        return stream
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(card).cuda_stream)
    return None


def card_of(x: Any) -> int:
    """The number of the card whose memory an array is in."""
    library = library_of(x)
    if library == "cupy":
        return int(x.device.id)
    if library == "torch":
        return int(x.get_device())
    device = getattr(x, "__dlpack_device__", None)
    if device is None or not hasattr(type(x), "__cuda_array_interface__"):
        raise TypeError("arrays on a card need __cuda_array_interface__ and __dlpack__")
    return int(device()[1])


def check_on_card(x: Any, dtype: np.dtype[Any], rows: int) -> None:
    """An error if ``x`` is no X of a matrix of this type with this number of columns."""
    _checked("x", x, dtype, rows)


def as_array_of(x: Any, values: np.ndarray[Any, Any]) -> Any:
    """``values`` as an array of the library and on the card of ``x``."""
    library = library_of(x)
    module = sys.modules.get(library)
    if library == "torch" and module is not None:
        return module.as_tensor(values, device=x.device)
    if library == "cupy" and module is not None:
        with x.device:
            return module.asarray(values)
    if library == "jaxlib":
        jax = sys.modules["jax"]
        return jax.device_put(values, x.device)
    raise TypeError(f"a centred or scaled operator takes arrays of CuPy, PyTorch and JAX on a card, and this is one of {library}")


def _checked(name: str, x: Any, dtype: np.dtype[Any], rows: int) -> dict[str, Any]:
    """The array's ``__cuda_array_interface__``, which takes libraries microseconds to make."""
    facts: dict[str, Any] = x.__cuda_array_interface__
    if facts["typestr"] != dtype.str:
        raise TypeError(f"{name} has the type {facts['typestr']}; on a card it must have the type of A, {dtype.str}")
    shape = facts["shape"]
    if len(shape) not in (1, 2) or shape[0] != rows:
        raise ValueError(f"{name} has the shape {shape}; it must have {rows} rows and one or two dimensions")
    return facts


def _packed(x: Any, facts: dict[str, Any], k: int, pitch: int, size: int, has_values: bool) -> tuple[Any, int]:
    """``x`` if its rows are packed at the pitch of the card's kernels, else a padded copy; and the address."""
    if pitch == k:
        strides, address = facts.get("strides"), facts["data"][0]
        packed = (k * size, size) if len(facts["shape"]) == 2 else (size,)
        if (strides is None or tuple(strides) == packed) and address % _ALIGNMENT == 0:
            return x, address
    return _copied(x, facts["shape"][0], k, pitch, has_values)


def _copied(x: Any, rows: int, k: int, pitch: int, has_values: bool) -> tuple[Any, int]:
    """A padded copy of ``x`` and its address. The padding is not set: kernels compute it like columns, and nothing reads the results."""
    copy = _empty_like(x, (rows, pitch))
    if has_values:
        copy[:, :k] = x.reshape(rows, k)
    return copy, int(copy.__cuda_array_interface__["data"][0])


def _empty_like(x: Any, shape: tuple[int, ...]) -> Any:
    """A new array of the library and on the card of ``x``."""
    library = type(x).__module__.partition(".")[0]
    module = sys.modules.get(library)
    if library == "torch" and module is not None:
        return module.empty(shape, dtype=x.dtype, device=x.device)
    if library == "cupy" and module is not None:
        with x.device:
            return module.empty(shape, dtype=x.dtype)
    raise TypeError(f"arrays of {library} are unsupported here; pass packed, aligned x and out of CuPy or PyTorch")
