"""Checks on what the audits leave open (F16): nothing that has not ended is beyond their sight, they look again when
they promised to, and a run expires only when its message has waited for a worker as long as a queue keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.elements import DEADLINES
from tests.simulator.places import shards_of
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import LEASES, PASSES, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change

# Written out again, not imported; in days of the audits, which some worlds have shorter.
_LOOKS_DAYS = (2, 4, 8, 12)
_EXPIRES_DAYS = 13
_SENT_ONLY_NOW_DAYS = 2
"""Of an outage this long the runs wait only since they were sent."""
_UNENDED = frozenset({"pending", "running", "waiting", "buffered"})
_MINUTE_S = 60
_SOON_S_MAX = 80 * 60
_DEADLINE_S_MAX = 110
"""From the begin of a minute to the latest deadline of what is due in it."""


class SightChecks:
    def __init__(self, world: World) -> None:
        self._world = world

    def passed(self, process: Process, slice_id: str, begin: int, end: int) -> None:
        """The last audit has passed some seconds of a minute, and has left no row for it: then all there has ended."""
        if open_ones := self._unended(process, slice_id, begin, end):
            what = f"{process.name} passed {open_ones[0]} in its last audit, and left no row for it"
            raise Violation("every-end-recorded", what)

    def _check_kept(self, process: Process, changes: tuple[Change, ...]) -> None:
        """A row that takes the place of another is about the same wait: since when that is, and how often it could not
        be finished, stays known."""
        gone = {(was["pass"], was["bucket"]): was for was in _rows(changes, gone=True)}
        for now in _rows(changes, gone=False):
            was = gone.get((now["pass"], now["bucket"]))
            if was is None:
                continue
            if now["since_s"] != was["since_s"]:
                late_s = now["since_s"] - was["since_s"]
                raise Violation("every-end-recorded", f"{process.name} forgot {late_s} s of what {was} waits for")
            if now["tries"] not in (0, was["tries"] + 1):
                raise Violation("every-end-recorded", f"{process.name} forgot the tries of {was}: {now['tries']}")

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """A row is closed only when all that it is about has ended, or the last audit is still to come there."""
        self._check_kept(process, changes)
        standing = {(row["pass"], row["bucket"]) for row in self._world.tables.items(PASSES) if "bucket" in row}
        for table, was, now in changes:
            if table is not PASSES or was is None or now is not None or "bucket" not in was:
                continue
            if (was["pass"], was["bucket"]) in standing:
                continue
            begin = was["bucket"] * _MINUTE_S
            lease = self._world.tables.standing(LEASES, {"slice": was["pass"]}) or {}
            end = min(begin + _MINUTE_S - 1, lease.get("audited_day", 0))
            if open_ones := self._unended(process, was["pass"], begin, end):
                what = f"{process.name} closed the row of a minute that holds {open_ones[0]}"
                raise Violation("every-end-recorded", what)

    def _unended(self, process: Process, slice_id: str, begin: int, end: int) -> list[str]:
        """What has not ended there, and has not moved since the process began."""
        shards, changed_ms = shards_of(process, slice_id), self._world.checks.ledger.changed_ms
        found: list[str] = []
        for item in self._world.tables.items(TIMERS):
            ref = f"{item['pk']}|{item['sk']}"
            is_there = begin <= int(item["sk"][:10]) <= end and item["pk"].rpartition("#")[0] in shards
            is_open = item["status"] in _UNENDED and changed_ms.get(ref, 0) < process.began_true_ms
            if is_there and is_open and not self._world.checks.groups.is_gone(ref):
                found.append(ref)
        return found

    def row_changed(self, process: Process, after: Item | None) -> None:
        """It names the next of its looks, by the time that it is about: the distances do not grow without end."""
        if after is None or "bucket" not in after:
            return
        day_s, latest_s = self._world.day_s, process.latest_ms() // SECOND_MS
        looks = {after["since_s"] + days * day_s for days in _LOOKS_DAYS}
        longest_s = _SOON_S_MAX if after["tries"] else day_s
        if DEADLINES in self._world.shape.elements:
            longest_s = max(longest_s, _DEADLINE_S_MAX)  # or at the first deadline of what the minute holds
        if after["look_at_s"] not in looks and after["look_at_s"] > latest_s + longest_s:
            late_s = after["look_at_s"] - latest_s
            raise Violation("every-end-recorded", f"{process.name} looks at {after} in {late_s} s, a day has {day_s}")

    def expired(self, process: Process, ref: str, run: Item) -> None:
        """A run has ended because nobody came for it: its time, and since it was sent, is long enough ago."""
        day_ms = self._world.day_s * SECOND_MS
        since_ms = int(run["sk"][:10]) * SECOND_MS
        if not self._world.seen["row written"]:  # what is set aside is sent later than it was first passed
            sent_ms = self._world.checks.lags.first_sent_ms.get(ref, since_ms)
            skew_ms = 2 * self._world.faults.skew_max_ms
            since_ms = max(since_ms, sent_ms - _SENT_ONLY_NOW_DAYS * day_ms - _MINUTE_S * SECOND_MS - skew_ms)
        waited_ms = process.latest_ms() - since_ms
        if waited_ms < _EXPIRES_DAYS * day_ms:
            raise Violation("no-lost-timer", f"{process.name} gave {ref} up, which had waited for {waited_ms} ms")
        if not str(run.get("reason", "")).startswith("no worker"):
            raise Violation("every-end-recorded", f"{process.name} gave {ref} up: {run.get('reason')}")


def _rows(changes: tuple[Change, ...], *, gone: bool) -> list[Item]:
    """The rows of open buckets that went, or came, in a transaction."""
    found = [was if gone else now for table, was, now in changes if table is PASSES and (was is None) != (now is None)]
    return [row for row in found if row is not None and "bucket" in row]
