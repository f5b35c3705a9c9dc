"""JSON as a person writes it on the command line or into a file.

Owns its reading. Refuses to know what it is for. Protects: no key is read that another one beside it overrides unseen.
"""

from __future__ import annotations

import json
from typing import Any


def loads(text: str) -> Any:
    """The value of a text. ValueError for what is no JSON, or has one key twice in an object: the last would win."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice in one object; write it once")
        found[key] = value
    return found
