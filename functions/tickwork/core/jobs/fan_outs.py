"""A fan-out: one timer for each line of a file, or of a generator, spread over a window of time.

Owns when each line is due, and the key under which its timer is created. Both follow from the number of the line alone,
so that whoever repeats a line names the same timer (one-run). Refuses to know who creates them, and how fast.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tickwork.core.instants import SECOND_MS

LINES_MAX: Final = 20_000_000
"""Of one fan-out: what this was measured and thought for (benchmarks/RESULTS.md)."""

WINDOW_MAX_MS: Final = 366 * 86_400 * SECOND_MS

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Window:
    """Over what a fan-out is spread. `lines`: how many there are; 0: nobody knows yet."""

    start_ms: int
    length_ms: int
    lines: int = 0

    def due_ms(self, line: int) -> int:
        """When a line, counted from 0, is due: in whole seconds, from the start on and before the end."""
        return self.start_ms + offset_ms(line, self.lines, self.length_ms) // SECOND_MS * SECOND_MS


def offset_ms(line: int, lines: int, length_ms: int) -> int:
    """How far into a window a line is due.

    Of a known number in their order, each second as many as any other, give or take one. While the number is not known
    each goes into the largest gap that those before it have left (van der Corput's sequence): any first n of them are
    spread evenly, and a line that is added moves no other. A line behind the last that was counted is due at the end.
    """
    if line < 0 or length_ms < 0:
        raise ValueError(f"line {line} of a window of {length_ms} ms: neither may be negative")
    if not length_ms:
        return 0
    if lines:
        return min(line, lines - 1) * length_ms // lines
    return _reversed(line) * length_ms >> _BITS


def _reversed(line: int) -> int:
    """The bits of a number in the other order, as a fraction of 2**32."""
    return int(f"{line % (1 << _BITS):0{_BITS}b}"[::-1], 2)


def key_of(fan_out_id: str, line: int) -> str:
    """The client key of a line's timer."""
    return f"fan-out~{fan_out_id}~{line}"


def is_id(text: str) -> bool:
    """Whether it may name a fan-out."""
    return _ID.fullmatch(text) is not None
