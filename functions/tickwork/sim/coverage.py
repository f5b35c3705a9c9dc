"""The outcomes that a corpus must have seen: a run that never met one has shown nothing about it."""

from __future__ import annotations

from collections.abc import Mapping

REQUIRED: tuple[str, ...] = ()


def missing(seen: Mapping[str, int]) -> list[str]:
    """The required outcomes that were not seen."""
    return [name for name in REQUIRED if not seen.get(name)]
