"""JSON in the one spelling of what it says: the order of keys and the writing of numbers mean nothing.

Owns when two JSON values are the same to whoever reads them. Texts stay as they are; lists keep their order.
"""

from __future__ import annotations

import json


def canonical(value: object) -> str:
    """JSON text in one order of keys and one spelling of each number."""
    return canonical_text(json.dumps(value))


def canonical_text(text: str) -> str:
    """The same of what is JSON text already. What is none is returned as it is: it says what it says."""
    try:
        return json.dumps(json.loads(text, parse_float=_number), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text


def _number(digits: str) -> int | float:
    """1.0 and 1e0 are 1: whoever passes a request on may write it in either way."""
    number = float(digits)
    return int(number) if number.is_integer() else number
