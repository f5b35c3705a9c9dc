"""The characters of an expression, whatever its dialect.

Owns: splitting at ASCII spaces and tabs, the length, and what to say about any other character.
Refuses to know: what the parts mean.
Protects: digits and spaces of other scripts, which `int()` and `str.split()` take, are refused by name.
"""

from __future__ import annotations

import unicodedata

from tickwork.core.schedule.limits import EXPRESSION_LENGTH_MAX
from tickwork.core.schedule.refusal import ScheduleRefused


def split(text: object) -> list[str]:
    """The parts of the text between ASCII spaces and tabs, with every other character checked."""
    if not isinstance(text, str):
        raise refuse_cron("bad_type", f"cron is a text, not {type(text).__name__}", 'write it as "0 2 * * *"')
    text = text.strip(" \t\r\n")
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise refuse_cron(
            "too_long", f"the expression has {len(text)} characters", f"use at most {EXPRESSION_LENGTH_MAX}"
        )
    for position, char in enumerate(text, start=1):
        if not (char.isascii() and (char.isprintable() or char == "\t")):
            raise _foreign_character(char, position)
    return text.replace("\t", " ").split()


def _foreign_character(char: str, position: int) -> ScheduleRefused:
    name = unicodedata.name(char, f"U+{ord(char):04X}")
    if unicodedata.category(char) == "Nd":
        reason, remedy = "non_ascii_digit", f"write the ASCII digit {unicodedata.digit(char)}"
    elif unicodedata.category(char) in ("Zs", "Cc", "Zl", "Zp", "Cf"):
        reason, remedy = "non_ascii_space", "retype the expression with plain spaces on one line"
    elif unicodedata.category(char) == "Pd" or char == "\u2212":
        reason, remedy = "non_ascii_character", "write a plain hyphen (-)"
    elif "ASTERISK" in name or char == "\u00d7":
        reason, remedy = "non_ascii_character", "write a plain asterisk (*)"
    else:
        reason, remedy = "non_ascii_character", "use ASCII characters only"
    return refuse_cron(reason, f"character {position} is {name}", remedy)


def refuse_cron(reason: str, detail: str, remedy: str, proposal: str | None = None) -> ScheduleRefused:
    """The refusal of a whole expression."""
    return ScheduleRefused(reason, detail, field="cron", remedy=remedy, proposal=proposal)
