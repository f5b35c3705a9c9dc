"""Texts of others: cut and cleaned so that every store, queue and reader on their way takes them.

Owns which characters travel. SQS carries what XML 1.0 allows, UTF-8 no half of a surrogate pair (Python makes one of
each byte of a file name that is not UTF-8). Protects that a failure that is told becomes a recorded one (W13), and
that a payload arrives as it was sent.
"""

from __future__ import annotations

import re

_UNCARRIED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""All that is no `Char` of XML 1.0 (its section 2.2)."""


def cleaned(text: str, chars_max: int) -> str:
    """A text that can be stored and sent, of so many characters at most. What cannot be is shown as its escape."""
    return _escaped(text[:chars_max])[:chars_max]


def carriable(json_text: str) -> str:
    """JSON text that says the same and can be sent through SQS. Outside of its strings JSON has only plain ASCII."""
    return _escaped(json_text)


def is_carried(text: str) -> bool:
    """Whether SQS takes a body with this text in it."""
    return _UNCARRIED.search(text) is None


def _escaped(text: str) -> str:
    return _UNCARRIED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
