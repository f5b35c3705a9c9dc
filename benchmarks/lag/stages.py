"""What the records of a load say: the stages of each run, their percentiles, what was lost, whether a rate was held.

Plain arithmetic over plain values, in milliseconds; where they come from is the business of `stack.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.percentiles import percentile
from tickwork.core.ledger.records import Run

LAG_P99_MAX_MS = 1_500
"""The objective for a steady rate on this stack."""
GROWTH_MAX_MS = 1_000
"""By more than this the last third of a load may not start later than its first: else it falls behind."""
MARGIN_MIN_MS = 1_000
"""A timer that was created later than this before it was due says nothing about firing."""

FIRE_LAG, START_LAG = "due to dispatched", "due to started"
WINDOW_STEPS = ("announce", "query", "transact", "send", "advance")
STAGES = (
    "due to window begun",
    *(f"window: {step}" for step in WINDOW_STEPS),
    "dispatched to received",
    "received to started",
    "started to ended",
    FIRE_LAG,
    START_LAG,
)

type Facts = Mapping[str, int]
"""Of a window's log line: `began_at_ms` and the `<step>_ms`."""


def stages_of(run: Run, window: Facts | None, received_at_ms: int | None) -> dict[str, int]:
    """The stages of an ended run. Those of a window are missing for a run that its creator sent (the window had passed
    it), those of the receipt where the worker left no note."""
    found = {
        FIRE_LAG: run.dispatched_at_ms - run.key.fire_at_ms,
        START_LAG: run.started_at_ms - run.key.fire_at_ms,
        "started to ended": run.ended_at_ms - run.started_at_ms,
    }
    if window is not None:
        found["due to window begun"] = window["began_at_ms"] - run.key.fire_at_ms
        found |= {f"window: {step}": window[f"{step}_ms"] for step in WINDOW_STEPS}
    if received_at_ms is not None:
        found["dispatched to received"] = received_at_ms - run.dispatched_at_ms
        found["received to started"] = run.started_at_ms - received_at_ms
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """A load: what was created, and the runs that ended, each with its stages, in the order they were due."""

    created: int
    refused: int
    """Timers whose creation failed: nobody was promised anything."""
    margin_ms: int
    """From the answer of the latest creation to its due second, at least."""
    last_due_ms: int
    ended: Sequence[Run]
    stages: Sequence[Mapping[str, int]]

    @property
    def lost(self) -> int:
        return self.created - len(self.ended)

    @property
    def again(self) -> int:
        return sum(1 for run in self.ended if run.attempt > 1)

    @property
    def drained_ms(self) -> int:
        """From the last due second until the last run had ended."""
        return max((run.ended_at_ms for run in self.ended), default=self.last_due_ms) - self.last_due_ms

    def of(self, stage: str) -> list[int]:
        return [stages[stage] for stages in self.stages if stage in stages]


def measured(
    fire_at_ms: Iterable[int],
    runs: Iterable[Run],
    windows: Mapping[str, Facts],
    received: Mapping[str, int],
    *,
    refused: int,
    margin_ms: int,
) -> Measured:
    """`windows` by slice and token (a run's `dispatched_by`), `received` by run id."""
    due = list(fire_at_ms)
    ended = sorted((run for run in runs if run.ended), key=lambda run: (run.key.fire_at_ms, run.started_at_ms))
    stages = [stages_of(run, windows.get(run.dispatched_by), received.get(run.run_id)) for run in ended]
    return Measured(len(due), refused, margin_ms, max(due, default=0), ended, stages)


def why_not_held(load: Measured) -> str:
    """What speaks against a steady rate; empty when it was held."""
    if load.lost:
        return f"{load.lost} had not ended"
    if load.refused:
        return f"the creation of {load.refused} was refused"
    if load.margin_ms < MARGIN_MIN_MS:
        return f"creation fell behind: {load.margin_ms / 1_000:.1f} s before the due second"
    lag_ms = percentile(load.of(FIRE_LAG), 99)
    if lag_ms > LAG_P99_MAX_MS:
        return f"99th percentile of the fire lag {lag_ms / 1_000:.2f} s"
    starts = load.of(START_LAG)
    third = max(1, len(starts) // 3)
    growth_ms = median(starts[-third:]) - median(starts[:third])
    if growth_ms > GROWTH_MAX_MS:
        return f"the backlog grew: the last third started {growth_ms / 1_000:.1f} s later than the first"
    return ""


def rows(name: str, load: Measured) -> list[str]:
    """A table row for each stage that was seen, in seconds."""
    return [
        f"| {name} | {stage} | {len(values)} | {median(values) / 1_000:.2f} | {percentile(values, 99) / 1_000:.2f} "
        f"| {max(values) / 1_000:.2f} |"
        for stage in STAGES
        if (values := load.of(stage))
    ]
