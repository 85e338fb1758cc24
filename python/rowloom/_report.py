"""Reports of products."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault from which a product recovered; its result is right."""

    device: str
    task: str
    error: str
    #: The devices that computed instead; ``None`` if nothing had to be computed again.
    recovered_on: str | None


@dataclass(frozen=True)
class Report:
    """The times of one product.

    ``seconds`` is the duration of the product without conversions of X and Y. ``devices`` has the seconds that each device
    computed; devices that computed nothing are left out.
    """

    seconds: float
    devices: dict[str, float]
    faults: tuple[Fault, ...]
