"""Percentiles as every benchmark here states them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil


def percentile(values: Sequence[int], percent: int) -> int:
    """Nearest rank: a value that was measured, and the worst one when there are few. 100: the worst."""
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]
