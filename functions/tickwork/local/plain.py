"""Foreign text made fit for a terminal: what is shown is text, and never an order to the terminal.

Reasons, names, errors and payloads are whatever somebody sent. A terminal obeys escape codes in them, a line break
forges a row, and a mark of direction turns the rest of the line around. Owns which characters are shown by their
number; knows no terminal. The one place where this is decided: all that is printed goes through it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

ORDERS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories of what is no visible sign: controls, marks of format and of direction, halves of pairs, what no
font has, separators of lines."""


def plain(text: str) -> str:
    r"""One line of text, in which each order stands as its number: `\x1b`, `\n`, `\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_numbered(char) if unicodedata.category(char) in ORDERS else char for char in text)


def plain_lines(text: str) -> str:
    """The same for a message of our own that has lines of its own: foreign text in it is to be made plain before."""
    return "\n".join(plain(line) for line in text.split("\n"))


def plain_json(value: object, *, indent: int | None = None, default: Callable[[Any], object] | None = None) -> str:
    """JSON that says the same to a program, and gives a terminal no orders."""
    text = json.dumps(value, indent=indent, default=default, ensure_ascii=False)
    return "\n".join(_json_line(line) for line in text.split("\n"))


def _json_line(line: str) -> str:
    """Outside its strings JSON has no such characters; inside, each may be written as its number."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(json.dumps(char)[1:-1] if unicodedata.category(char) in ORDERS else char for char in line)


def _numbered(char: str) -> str:
    """As Python writes it; a tab and the like by their letters."""
    return char.encode("unicode_escape").decode("ascii")
