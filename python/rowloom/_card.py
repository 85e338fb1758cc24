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


def is_on_card(x: Any) -> bool:
    """Whether an array is in the memory of a card."""
    if hasattr(x, "__cuda_array_interface__"):
        return True
    device = getattr(x, "__dlpack_device__", None)
    return device is not None and device()[0] not in _HOST_MEMORY


def multiply_on_card(
    operator_on: Callable[[int], _rowloom.Operator],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    x: Any,
    alpha: float,
    beta: float,
    out: Any,
) -> Any:
    """``alpha * A @ x + beta * out`` with ``x`` and ``out`` where they are; ``out`` is an array of the library of ``x``."""
    rows, cols = shape
    card = _card_of(x)
    _check("x", x, dtype, cols)
    is_vector = len(x.shape) == 1
    k = 1 if is_vector else int(x.shape[1])
    if out is None:
        out = _empty_like(x, (rows,) if is_vector else (rows, k))
    else:
        out_card = _card_of(out)
        _check("out", out, dtype, rows)
        if out_card != card or len(out.shape) != len(x.shape) or (not is_vector and out.shape[1] != k):
            raise ValueError(f"out has the shape {tuple(out.shape)} on card {out_card}; x decides both")
        if out.__cuda_array_interface__["data"][1]:
            raise ValueError("out is read-only")
    if k == 0 or rows == 0:
        return out
    operator = operator_on(card)
    pitch = operator.card_pitch(k)
    from_, to = _packed(x, k, pitch, True), _packed(out, k, pitch, beta != 0.0)
    stream = operator.card_stream(k)
    if stream is not None:
        # The libraries let the stream wait for the work on their arrays; the arrays themselves are not taken from the capsules.
        from_.__dlpack__(stream=stream)
        to.__dlpack__(stream=stream)
    operator.multiply_on_card(k, _address(from_), _address(to), alpha, beta)
    if to is not out:
        out[...] = to[:, 0] if is_vector else to[:, :k]
    return out


def _card_of(x: Any) -> int:
    device = getattr(x, "__dlpack_device__", None)
    if not hasattr(x, "__cuda_array_interface__") or device is None:
        raise TypeError("arrays on a card need __cuda_array_interface__ and __dlpack__")
    return int(device()[1])


def _check(name: str, x: Any, dtype: np.dtype[Any], rows: int) -> None:
    given = x.__cuda_array_interface__["typestr"]
    if given != dtype.str:
        raise TypeError(f"{name} has the type {given}; on a card it must have the type of A, {dtype.str}")
    if len(x.shape) not in (1, 2) or x.shape[0] != rows:
        raise ValueError(f"{name} has the shape {tuple(x.shape)}; it must have {rows} rows and one or two dimensions")


def _address(x: Any) -> int:
    return int(x.__cuda_array_interface__["data"][0])


def _packed(x: Any, k: int, pitch: int, has_values: bool) -> Any:
    """``x`` if its rows are packed at the pitch of the card's kernels, else a padded copy."""
    interface = x.__cuda_array_interface__
    size = int(interface["typestr"][2:])
    strides = interface.get("strides")
    packed = (k * size, size)[: len(x.shape)] if len(x.shape) == 2 else (size,)
    if pitch == k and strides in (None, packed) and _address(x) % _ALIGNMENT == 0:
        return x
    copy = _empty_like(x, (x.shape[0], pitch))
    copy[...] = 0
    if has_values:
        copy[:, :k] = x.reshape(x.shape[0], k)
    return copy


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
