"""Checks on the ledger audit (F16): its cursors pass a minute only when all of it was read and mended, or leave a row
that has it read again.

The audit is the net below every other promise: what it passes unseen, nobody looks at any more.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.simulator.places import shards_of
from tickwork.core.ledger.tables import PASSES, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_CURSORS = ("audited", "audited_hour", "audited_day")
_MINUTE_S = 60
_CLOCKS_S = 2
"""By so much clocks may differ (F15)."""
_LAPSED_MS = 120_000
"""Written out again: so long after its lease an attempt has neither a worker nor a message."""


class LedgerAuditChecks:
    """`_read`: by process the ranges of partitions that it has read to their ends."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._woken: dict[Process, set[str]] = defaultdict(set)
        self._refused: set[str] = set()
        self._read: dict[Process, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))

    def read(self, process: Process, partition: str, first: str, last: str) -> None:
        """A query has come to the end of its range."""
        if process.kind == "reconciler":
            self._read[process][partition].append((int(first[:10]), int(last[:10])))

    def lease_changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        if before is None and after is not None:
            for cursor in _CURSORS:  # a creator whose clock is a little late puts its item before the first second
                if after[cursor] > after["done"] - _CLOCKS_S:
                    raise Violation(
                        "no-lost-timer", f"{process.name} made {after['slice']}, whose {cursor} begins late"
                    )
        if before is None or after is None:
            return
        for cursor in _CURSORS:
            if after[cursor] > before[cursor]:
                self._check_passed(process, str(after["slice"]), cursor, before[cursor] + 1, after[cursor])

    def _check_passed(self, process: Process, slice_id: str, cursor: str, first: int, last: int) -> None:
        left = {
            row["bucket"] for row in self._world.tables.items(PASSES) if row.get("pass") == slice_id and "bucket" in row
        }
        for bucket in range(first // _MINUTE_S, last // _MINUTE_S + 1):
            if bucket in left:
                continue
            begin, end = max(first, bucket * _MINUTE_S), min(last, bucket * _MINUTE_S + _MINUTE_S - 1)
            for shard in sorted(shards_of(process, slice_id)):
                partition = f"{shard}#{bucket:08d}"
                if not any(low <= begin and end <= high for low, high in self._read[process][partition]):
                    what = f"{process.name} moved {cursor} of {slice_id} past {partition}, which it had not read"
                    raise Violation("every-end-recorded", what)
            self._check_mended(process, slice_id, cursor, begin, end)
            if cursor == _CURSORS[-1]:
                self._world.checks.sight.passed(process, slice_id, begin, end)

    def _check_mended(self, process: Process, slice_id: str, cursor: str, begin: int, end: int) -> None:
        """Nothing that should have been sent is left unsent there, but by who is still at it."""
        forsaken = self._world.checks.cursors.forsaken(slice_id, begin, end)
        if forsaken:
            what = f"{process.name} moved {cursor} past {forsaken[0]}, which nobody has sent"
            raise Violation("every-end-recorded", what)
        shards = shards_of(process, slice_id)
        for item in self._world.tables.items(TIMERS):
            if begin <= int(item["sk"][:10]) <= end and item["pk"].rpartition("#")[0] in shards:
                self._check_woken(process, item)

    def _check_woken(self, process: Process, item: Item) -> None:
        """A run whose worker is gone for long, and with it its message, has been given a new one; one whose retry is
        gone, its retry (F16)."""
        ref, was_ms = f"{item['pk']}|{item['sk']}", process.began_true_ms
        if self._world.checks.ledger.changed_ms.get(ref, was_ms) >= was_ms or not self._is_readable(item):
            return
        due_ms = process.earliest_ms() - 1_000
        is_lapsed = item["status"] == "running" and item["lease_until_ms"] + _LAPSED_MS < due_ms
        if is_lapsed and ref not in self._woken[process] | self._refused:
            raise Violation("no-lost-timer", f"{process.name} passed {ref}, whose worker is gone, and woke nobody")

    def _is_readable(self, item: Item) -> bool:
        """Whether what it is to do can be known."""
        if "work" in item:
            return True
        return item.get("job_id") not in self._world.garbled and bool(self._world.work_of(item.get("job_id", "")))

    def sent(self, process: Process, message: dict[str, Any]) -> None:
        """A message has left."""
        if message["dispatched_by"] == "audit":
            self._woken[process].add(message["ref"])

    def refused(self, message: dict[str, Any]) -> None:
        """The queue will never take it: that is told, and nobody can wake the run."""
        self._refused.add(message["ref"])
