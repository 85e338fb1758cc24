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
    """``alpha * A @ x + beta * out`` with ``x`` and ``out`` where they are; ``out`` is an array of the library of ``x``."""
    rows, cols = shape
    card = _card_of(x)
    facts = _checked("x", x, dtype, cols)
    is_vector = len(facts["shape"]) == 1
    k = 1 if is_vector else int(facts["shape"][1])
    if out is None:
        out = _empty_like(x, (rows,) if is_vector else (rows, k))
        out_facts = out.__cuda_array_interface__
    else:
        out_card = _card_of(out)
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
    from_, from_address = _packed(x, facts, k, pitch, True)
    to, to_address = _packed(out, out_facts, k, pitch, beta != 0.0)
    stream = operator.card_stream(k)
    if stream is not None:
        # The library lets the stream wait for its current one; the arrays themselves are not taken from the capsules.
        from_.__dlpack__(stream=stream)
        if type(to) is not type(from_):
            to.__dlpack__(stream=stream)
    operator.multiply_on_card(k, from_address, to_address, alpha, beta)
    if to is not out:
        out[...] = to[:, 0] if is_vector else to[:, :k]
    return out


def _card_of(x: Any) -> int:
    device = getattr(x, "__dlpack_device__", None)
    if device is None or not hasattr(type(x), "__cuda_array_interface__"):
        raise TypeError("arrays on a card need __cuda_array_interface__ and __dlpack__")
    return int(device()[1])


def _checked(name: str, x: Any, dtype: np.dtype[Any], rows: int) -> dict[str, Any]:
    """The array's ``__cuda_array_interface__``, which takes libraries microseconds to make."""
    facts: dict[str, Any] = x.__cuda_array_interface__
    if facts["typestr"] != dtype.str:
        raise TypeError(f"{name} has the type {facts['typestr']}; on a card it must have the type of A, {dtype.str}")
    shape = tuple(facts["shape"])
    if len(shape) not in (1, 2) or shape[0] != rows:
        raise ValueError(f"{name} has the shape {shape}; it must have {rows} rows and one or two dimensions")
    return facts


def _packed(x: Any, facts: dict[str, Any], k: int, pitch: int, has_values: bool) -> tuple[Any, int]:
    """``x`` if its rows are packed at the pitch of the card's kernels, else a padded copy; and the address."""
    size = int(facts["typestr"][2:])
    strides, shape, address = facts.get("strides"), facts["shape"], int(facts["data"][0])
    packed = (k * size, size) if len(shape) == 2 else (size,)
    if pitch == k and strides in (None, packed) and address % _ALIGNMENT == 0:
        return x, address
    copy = _empty_like(x, (shape[0], pitch))
    copy[...] = 0
    if has_values:
        copy[:, :k] = x.reshape(shape[0], k)
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
