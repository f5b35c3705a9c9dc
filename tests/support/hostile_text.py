"""Texts that do harm where they are taken for more than text: markup, orders to a terminal, forged rows."""

from __future__ import annotations

from typing import Any

from tickwork.local.plain import ORDERS

MARKUP = ("[/]", "[/x]", "[bold", "[link=http://x]y[/link]", "[red]", ":boom:", "\\[", "%s {0} {x}")
ESCAPES = (
    "\x1b[2J\x1b[H",  # clear the screen
    "\x1b]0;owned\x07",  # title of the window
    "\x1b]52;c;cm0gLXJm\x07",  # the clipboard
    "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",  # a link
    "\x9b31m\x90q\x9c",  # the same orders in one byte
    "\x1bP+q\x1b\\",
    "\r$ rm -rf",
    "\b\b\b\x7f",
    "\x00",
)
ROWS = ("\npayments:forged  succeeded", "\r\nok", "\u2028ok", "\u2029ok", "\x0bok", "\x0cok", "\x85ok", "\x1eok")
DIRECTION = ("\u202etxt.exe", "\u2066a\u2069", "\u200fא", "\u200b\ufeff", "\U000e0041", "\ud800")
CORPUS = (*MARKUP, *ESCAPES, *ROWS, *DIRECTION)
ALL_AT_ONCE = "".join(CORPUS)


def poisoned(value: Any, text: str) -> Any:
    """A JSON value with the text behind each of its strings, but for the cursor, which is no text for a person."""
    if isinstance(value, str):
        return value + text
    if isinstance(value, dict):
        return {key: inner if key == "cursor" else poisoned(inner, text) for key, inner in value.items()}
    return [poisoned(inner, text) for inner in value] if isinstance(value, list) else value


def orders_in(shown: str) -> list[str]:
    """What is in an output that a terminal would obey. The line's own end is none."""
    import unicodedata

    return [char for char in shown if unicodedata.category(char) in ORDERS and char != "\n"]
