"""Plans of products."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from . import _rowloom
from ._inputs import number_of_columns


@dataclass(frozen=True)
class Plan:
    """The plan of products with a number of columns; ``str(plan)`` has its decisions in words."""

    #: The whole plan, as ``rowloom plan --save`` writes it.
    data: dict[str, Any]
    #: The decisions in words, each as ``topic: words``: devices, kernels, reasons and predicted times.
    reasons: list[str]
    #: The names of its kernels.
    kernels: list[str]

    @classmethod
    def of(cls, native: _rowloom.Operator, k: int) -> Plan:
        """The plan of an operator for products with ``k`` columns."""
        data, reasons, kernels = native.plan(number_of_columns(k))
        return cls(json.loads(data), reasons, kernels)

    @property
    def k(self) -> int:
        """Columns of X and Y."""
        return int(self.data["k"])

    @property
    def predicted_seconds(self) -> float:
        """The predicted duration of a product."""
        return float(self.data["predicted_s"])

    @property
    def devices(self) -> list[str]:
        """The devices that compute."""
        return [device["name"] for device in self.data["devices"] if device["computes"]]

    def __str__(self) -> str:
        return "\n".join(self.reasons)
