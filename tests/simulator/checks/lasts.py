"""Checks on what a job says of its last run (O3): it is one of its own, has ended, and has ended so."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tickwork.core.instants import iso
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_ENDED = frozenset({"succeeded", "dead", "cancelled", "expired", "skipped"})


class LastChecks:
    def __init__(self, world: World) -> None:
        self._world = world

    def changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        """Somebody has noted how a run has ended."""
        last = (after or {}).get("last")
        if after is None or not last or last == (before or {}).get("last"):
            return
        job_id, scheduled_at_ms = after["job_id"], last["scheduled_at_ms"]
        run_id = hashlib.sha256(f"{job_id}|{iso(scheduled_at_ms)}".encode()).hexdigest()[:32]
        if last["run_id"] != run_id or after["last_scheduled_at_ms"] != scheduled_at_ms:
            raise Violation("last-truthful", f"{process.name} noted {last} as the last of {job_id}, which is {run_id}")
        runs = [item for item in self._world.tables.items(TIMERS) if _is_of(item, job_id, scheduled_at_ms)]
        if any(item.get("replays") or "run_ref" in item for item in runs) or not runs:
            return  # it goes on, or its record has gone
        if last["status"] not in {item["status"] for item in runs} & _ENDED:
            found = [item["status"] for item in runs]
            raise Violation("last-truthful", f"{process.name} noted {last} as the last of {job_id}: it is {found}")
        if last.get("took_ms", 0) < 0 or ("took_ms" in last) != (last["status"] == "succeeded"):
            raise Violation("last-truthful", f"{process.name} noted {last} as the last of {job_id}")


def _is_of(item: Item, job_id: str, scheduled_at_ms: int) -> bool:
    """Whether an item is the occurrence itself, and no run that somebody asked for."""
    is_run = item.get("job_id") == job_id and item.get("scheduled_at_ms") == scheduled_at_ms
    return is_run and str(item["sk"]).count("#") == 3
