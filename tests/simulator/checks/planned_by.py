"""Checks on which version of the platform's defaults an occurrence is planned by: one that was in force for its job
while the process that planned it ran; and it keeps that (W13). Who could not read them may plan as a job is stored."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tickwork.core.ledger.tables import TEAMS, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change

_BASE = 1
"""Jobs here are registered when there are versions."""
_KNOWN_MS = 120_000
"""A host trusts what it has read for 30 s of its monotonic clock, which may stand still."""
_BORN_OVER = (None, "cancelled")


class PlannedByChecks:
    """`_in_force`: since when, and for what part of the jobs, the newest version is in force."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._in_force: list[tuple[int, int, int]] = [(0, _BASE, 0)]

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """After a transaction."""
        for table, before, after in changes:
            if table is TEAMS and after is not None and after["team"] == "platform-defaults":
                newest = len(after["versions"]) - 1
                percent = after["versions"][newest].get("percent", 0)
                self._in_force.append((self._world.kernel.now_ms, newest, percent))
            elif table is TIMERS and after is not None and "job_id" in after and "work" not in after:
                self._check(process, before, after)

    def _check(self, process: Process, before: Item | None, after: Item) -> None:
        found = after.get("defaults", _BASE)
        if before is not None and before["status"] not in _BORN_OVER and before["status"] != "pending":
            if found != before.get("defaults", _BASE):
                raise Violation("planned-by", f"{process.name} has {after['sk']} go by defaults {found} from now on")
            return
        if after["status"] != "pending" or (before or {}).get("status") == "pending":
            return
        known_ms = _KNOWN_MS if self._world.layout.others else 0  # there hosts remember what they have read
        allowed = self._since(process.began_true_ms - known_ms, after["job_id"])
        if process.met_failure:
            allowed.add(_BASE)
        if found not in allowed:
            raise Violation("planned-by", f"{process.name} planned {after['sk']} by {found}, and not by {allowed}")

    def _since(self, began_ms: int, job_id: str) -> set[int]:
        """The versions that were in force for a job at some time since."""
        part = int.from_bytes(hashlib.sha256(f"defaults|{job_id}".encode()).digest()[:8]) % 100
        found = set()
        for index, (_, newest, percent) in enumerate(self._in_force):
            is_over = index + 1 < len(self._in_force) and self._in_force[index + 1][0] < began_ms
            if not is_over:
                found.add(newest if part < percent else _BASE)
        return found
