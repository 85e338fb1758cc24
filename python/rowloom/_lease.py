"""Arrays that an operator uses in place are read-only while it lives."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_lock = threading.Lock()
#: By identity, the arrays that were writeable when they were locked, and the number of their leases.
_locked: dict[int, tuple[Array, int]] = {}
#: The arrays of leases that were dropped and not handled yet.
_dropped: deque[list[Array]] = deque()


def _new_lock_in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock_in_child)


def chain(array: Array) -> list[Array]:
    """An array, the array that it is a view of, and so on."""
    import numpy as np

    arrays = [array]
    while isinstance(arrays[-1].base, np.ndarray):
        arrays.append(arrays[-1].base)
    return arrays


def belongs_to_numpy(array: Array) -> bool:
    """Whether NumPy has allocated the memory, so that no other library can write to it."""
    return bool(chain(array)[-1].flags.owndata)


class Lease:
    """Locks arrays, and the arrays that they are views of, against writing until the lease is dropped."""

    __slots__ = ("_arrays",)

    def __init__(self, *arrays: Array) -> None:
        self._arrays: list[Array] = []
        with _lock:
            for array in arrays:
                for one in chain(array):
                    self._lock_one(one)
        _unlock_dropped()

    def _lock_one(self, array: Array) -> None:
        held, leases = _locked.get(id(array), (array, 0))
        if leases == 0 and not array.flags.writeable:
            return
        array.flags.writeable = False
        _locked[id(array)] = (held, leases + 1)
        self._arrays.append(array)

    def __del__(self) -> None:
        # The garbage collector may call this while the same thread holds the lock, so it never waits for the lock.
        _dropped.append(self._arrays)
        _unlock_dropped()


def _unlock_dropped() -> None:
    while _dropped:
        if not _lock.acquire(blocking=False):
            return  # The holder calls this function, or its loop, after it has released the lock.
        try:
            while _dropped:
                _unlock(_dropped.popleft())
        finally:
            _lock.release()


def _unlock(arrays: list[Array]) -> None:
    # A view can be made writeable only if the array below it is, so the last of each chain is the first.
    for array in reversed(arrays):
        held, leases = _locked[id(array)]
        if leases > 1:
            _locked[id(array)] = (held, leases - 1)
            continue
        del _locked[id(array)]
        try:
            array.flags.writeable = True
        except ValueError:
            pass  # The array below is locked by another lease; this view stays read-only.
