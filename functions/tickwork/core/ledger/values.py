"""Single values as they are stored: a number, a text, a flag, a mapping, a list; ValueError for what is not one."""

from __future__ import annotations

from typing import Any

WHOLE_MAX = 10**13
"""Beyond every number that is stored, instants in milliseconds included: this one is in the year 2286."""

SECONDS_MAX = 10**9
"""Of a duration: added to any instant it stays below `WHOLE_MAX`."""


def whole(value: Any) -> int:
    """A number."""
    if value.__class__ is int and 0 <= value <= WHOLE_MAX:
        return value
    raise ValueError(f"{str(value)[:40]!r} is no whole number up to {WHOLE_MAX}")


def seconds(value: Any) -> int:
    """A duration in seconds."""
    if value.__class__ is int and 0 <= value <= SECONDS_MAX:
        return value
    raise ValueError(f"{str(value)[:40]!r} is no duration in seconds")


def text(value: Any) -> str:
    """A text."""
    if value.__class__ is str:
        return value
    raise ValueError(f"{str(value)[:40]!r} is no text")


def flag(value: Any) -> bool:
    """True or false."""
    if value.__class__ is bool:
        return value
    raise ValueError(f"{str(value)[:40]!r} is neither true nor false")


def mapping(value: Any) -> dict[str, Any]:
    """A mapping from names."""
    if isinstance(value, dict):
        return value
    raise ValueError(f"{str(value)[:40]!r} is no mapping")


def listed(value: Any) -> list[Any] | tuple[Any, ...]:
    """A list."""
    if isinstance(value, list | tuple):
        return value
    raise ValueError(f"{str(value)[:40]!r} is no list")
