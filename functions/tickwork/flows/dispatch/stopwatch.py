"""Where the time of a window goes, step by step, for its log line. Measures only: nothing is decided by it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tickwork.ports import Clock

ANNOUNCE, QUERY, TRANSACT, SEND, ADVANCE = STEPS = ("announce", "query", "transact", "send", "advance")
"""The order of a window (design 3). `transact` is all between the read and the send: definitions, decisions, next
occurrences; `send` takes in the ticks of those that are near."""


@dataclass(slots=True)
class Stopwatch:
    """Each `lap` charges the time since the one before to a step, so that the steps add up to the whole."""

    clock: Clock
    began_at_ms: int
    """By the wall clock, to be laid beside the fire times."""
    lapped_ms: int
    spent_ms: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STEPS, 0))

    @classmethod
    def started(cls, clock: Clock) -> Stopwatch:
        return cls(clock, clock.now_ms(), clock.monotonic_ms())

    def lap(self, step: str) -> None:
        now_ms = self.clock.monotonic_ms()
        self.spent_ms[step] += now_ms - self.lapped_ms
        self.lapped_ms = now_ms

    @property
    def whole_ms(self) -> int:
        return sum(self.spent_ms.values())

    def facts(self) -> dict[str, int]:
        """`began_at_ms`, and `<step>_ms` of each step."""
        return {"began_at_ms": self.began_at_ms} | {f"{step}_ms": spent for step, spent in self.spent_ms.items()}
