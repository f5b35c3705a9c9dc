"""What a run of the reconciler found, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.ports import Ports


@dataclass(slots=True)
class Repairs:
    """What a run found. `without_next` is the metric `scheduler.definitions_without_next_timer`; `failed` counts the
    slices, buckets and definitions that the store was too busy for; `unfinished` the passes that ran out of time, and
    go on with the next run where they stopped."""

    jobs_checked: int = 0
    without_next: int = 0
    overdue: int = 0
    unparked: int = 0
    replanned: int = 0
    unsent: int = 0
    audited: int = 0
    resent: int = 0
    retries_restored: int = 0
    expired: int = 0
    left_open: int = 0
    sealed: int = 0
    failed: int = 0
    unfinished: int = 0


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a pass has to stop, by the monotonic clock."""

    ports: Ports
    at_ms: int

    @property
    def is_over(self) -> bool:
        return self.ports.clock.monotonic_ms() >= self.at_ms


def deadline_in(ports: Ports, duration_ms: int) -> Deadline:
    return Deadline(ports, ports.clock.monotonic_ms() + duration_ms)
