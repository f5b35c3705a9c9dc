"""How records become items and back: derived from their fields, so that none is written and never read."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

from tickwork.core.errors import TickworkError
from tickwork.core.ledger.writes import Item


class Unreadable(TickworkError):
    """A stored item that this version cannot read."""


@cache
def _defaults_of(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((f.name, f.default) for f in fields(kind))


def without_defaults(record: Any) -> Item:
    """The attributes of a flat record that differ from their defaults: small items are cheap items."""
    defaults = _defaults_of(record.__class__)
    return {name: value for name, default in defaults if (value := getattr(record, name)) != default}
