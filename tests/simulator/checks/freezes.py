"""Check of hard calendars: nothing starts in what they exclude, however late it is and whichever attempt it is."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.simulator.checks.by_hand import is_by_hand
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_SLACK_MS = SECOND_MS
"""Beside the skew of clocks: freezes end on whole seconds, and so do the items that wait for it."""


type _Version = tuple[bool, list[tuple[int, int]]]
"""Whether it is hard, and what it then excludes."""


class FreezeChecks:
    """`_versions`: of the calendar of each team, what it excludes, and since when that stands. (Written out again: the
    simulated calendars are of ranges in UTC.)"""

    def __init__(self, world: World) -> None:
        self._world = world
        self._versions: dict[str, list[tuple[int, _Version]]] = defaultdict(list)

    def calendar_changed(self, after: Item | None) -> None:
        if after is not None and "team" in after:
            spec = after["spec"] if after["spec"].get("hard") else {}
            ranges = [(_instant(one["from"]), _instant(one["to"], is_end=True)) for one in spec.get("ranges", ())]
            version = bool(after["spec"].get("hard")), ranges
            self._versions[after["team"]].append((self._world.kernel.now_ms, version))

    def put(self, process: Process, before: Item | None, after: Item | None) -> None:
        """An occurrence of a job is put, by every version of its calendar that whoever put it can have read hard: its
        item says so, or no start asks."""
        if after is None or after["status"] != "pending" or (before or {}).get("status") == "pending":
            return
        job = self._world.tables.standing(JOBS, {"job_id": after.get("job_id", "")}) or {}
        if "run_ref" in after or not isinstance(job.get("schedule"), dict) or not job["schedule"].get("calendars"):
            return
        if is_by_hand(after["sk"]) or job["job_id"] in self._world.garbled:
            return
        read = self._read(process, str(job["team"]), self._world.kernel.now_ms)
        if read and all(is_hard for is_hard, _ in read) and not after.get("hard"):
            raise Violation("hard-freeze", f"{process.name} put {after['sk']}, which does not say that it is hard")

    def _read(self, process: Process, team: str, last_ms: int) -> list[_Version]:
        """The versions of a team's calendar that a process can have read."""
        standing = self._versions[team]
        ends_ms = [at_ms for at_ms, _ in standing[1:]] + [last_ms]
        return [one for (_, one), end_ms in zip(standing, ends_ms, strict=True) if end_ms >= process.began_true_ms]

    def started(self, process: Process, ref: str, run: Item) -> None:
        """An attempt has started: not in a freeze, by any version of its calendar that its start can have read."""
        job = self._world.tables.standing(JOBS, {"job_id": run.get("job_id", "")}) or {}
        if run.get("put_off"):
            self._world.seen["started after a freeze"] += 1
        if not isinstance(job.get("schedule"), dict) or not job["schedule"].get("calendars"):
            return
        if job["job_id"] in self._world.garbled or self._world.checks.told.changes.get(job["job_id"]):
            return  # it may have named none when it was read
        slack_ms = self._world.faults.skew_max_ms + _SLACK_MS
        first_ms, last_ms = process.began_true_ms - slack_ms, self._world.kernel.now_ms + slack_ms
        read = self._read(process, str(job["team"]), last_ms)
        if read and all(any(low <= first_ms and last_ms < high for low, high in ranges) for _, ranges in read):
            raise Violation("hard-freeze", f"{process.name} started {ref} in a freeze of its job")


def _instant(text: str, *, is_end: bool = False) -> int:
    """A local time of a range in UTC; a day that is its end is in it."""
    at_ms = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_MS
    return at_ms + 86_400 * SECOND_MS if is_end and "T" not in text else at_ms
