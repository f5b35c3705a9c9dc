"""What a change has changed: field by field, before and after, short enough for an entry.

Refuses to know what the fields mean. Protects that an entry stays small, and that no credential of a known form is in
it: texts are compared as they are, and told masked and cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tickwork.core.access.masking import masked
from tickwork.core.texts import cleaned

FIELDS_MAX = 60
"""A job that says everything has some forty."""
TEXT_CHARS_MAX = 200
MASKED_CHARS_MAX = 10_000
"""Looked at for credentials: one that begins in what is told is known by what stands in so many, however long it is."""
PARTS_MAX = 25
"""Of a list: a calendar may have thousands of dates."""
LEVELS_MAX = 6

type Changes = dict[str, list[Any]]
"""Each field that differs, with what it said before and what it says after; None: nothing. Of two lists: what is only
in the first, and what is only in the second."""


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Changes:
    old, new = flat(before or {}), flat(after or {})
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    found = {name: _pair(old.get(name), new.get(name)) for name in names[:FIELDS_MAX]}
    if len(names) > FIELDS_MAX:
        found["..."] = [None, f"{len(names) - FIELDS_MAX} more fields"]
    return found


def flat(item: Mapping[str, Any], within: str = "", levels: int = LEVELS_MAX) -> dict[str, Any]:
    """A mapping of mappings as one of dotted names. What is empty says nothing."""
    found: dict[str, Any] = {}
    for name, value in item.items():
        if isinstance(value, Mapping) and value and levels > 1:
            found |= flat(value, f"{within}{name}.", levels - 1)
        elif value != {}:
            found[f"{within}{name}"] = value
    return found


def _pair(old: Any, new: Any) -> list[Any]:
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return [told([one for one in old if one not in new]), told([one for one in new if one not in old])]
    return [told(old), told(new)]


def told(value: Any, levels: int = LEVELS_MAX) -> Any:
    """A value as an entry has it."""
    if isinstance(value, str):
        return _text(value)
    if levels == 0:
        return "..."
    if isinstance(value, Mapping):
        found = {_text(str(name)): told(one, levels - 1) for name, one in [*value.items()][:PARTS_MAX]}
        return found | ({"...": f"{len(value) - PARTS_MAX} more"} if len(value) > PARTS_MAX else {})
    if isinstance(value, list | tuple):
        more = [f"... {len(value) - PARTS_MAX} more"] if len(value) > PARTS_MAX else []
        return [told(one, levels - 1) for one in value[:PARTS_MAX]] + more
    # What an item of ours never holds, as a fraction, somebody has put there by hand; no store takes it from us.
    return value if value is None or isinstance(value, bool | int) else _text(str(value))


def _text(text: str) -> str:
    shown = cleaned(masked(text[:MASKED_CHARS_MAX]), TEXT_CHARS_MAX + 1)
    return shown if len(shown) <= TEXT_CHARS_MAX else f"{shown[: TEXT_CHARS_MAX - 3]}..."
