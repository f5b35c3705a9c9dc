"""The timers of a load. It is named; its timers are `<name>-<number>`.

Every peer's program makes a load when called as `create <name> <count> <due_ms> <rate>`, and prints how many seconds
that took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """`count` timers: all due at `due_ms`, or `rate` of them in each second from there on."""

    name: str
    count: int
    due_ms: int
    rate: int = 0

    def timers(self) -> list[tuple[str, int]]:
        """Name and due instant of each."""
        step = self.rate or self.count
        return [(f"{self.name}-{i}", self.due_ms + i // step * 1_000) for i in range(self.count)]

    def arguments(self) -> list[str]:
        return ["create", self.name, str(self.count), str(self.due_ms), str(self.rate)]


def create_load(create: Callable[[Sequence[tuple[str, int]]], object], per_call: int = 1) -> None:
    """Make the load that the command line names, `per_call` timers a call."""
    name, count, due_ms, rate = sys.argv[2:]
    timers = Load(name, int(count), int(due_ms), int(rate)).timers()
    began = time.monotonic()
    for begin in range(0, len(timers), per_call):
        create(timers[begin : begin + per_call])
    print(time.monotonic() - began)
