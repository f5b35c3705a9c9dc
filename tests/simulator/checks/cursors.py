"""Checks on slices: cursor-honest, one-owner-effect (of a slice).

A pending item that the cursors have passed must have been sent, or be in the care of the call that wrote it and that
has not answered yet. Passed: it lies behind `done`, or behind the place that a window has noted in the minute after,
not in the part of an outage's backlog that is still to be served, and not in what a set-aside row has still to serve.
When that call answers, it must have been sent; when it died, it is the reconciler's, and the liveness phase sees to it
that it is found.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulator.checks.by_hand import is_by_hand
from tests.simulator.places import slice_of
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS, LEASES, SET_ASIDE, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_CURSORS = ("token", "closing", "done", "audited")
_HELD = ("owner", "lease_until_ms", "closing", "done", "late_from", "late_until", "late_at")


_SEND_MS = 2_000
"""How long a send is tried again before the lease is looked at."""
_PASSING = ("done", "late_from", "late_until", "late_at", "live_until", "live_at")


@dataclass(frozen=True, slots=True)
class Unsent:
    """A pending item that was not sent since it became pending. `fenced`: written under its own slice's lease."""

    ref: str
    second: int
    writer: Process
    fenced: bool
    pool: str
    """Its own, for a one-shot; '' for the occurrence of a job, and for a retry."""
    group: str | None = None
    """Its own; None: it points at a run, which has it."""


class CursorChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._unsent: dict[str, dict[str, Unsent]] = defaultdict(dict)
        self._puts: Counter[tuple[Process, str]] = Counter()
        """How many items of a job a process has put: one that follows a chain puts several."""
        self._granted: dict[tuple[Process, str], int] = {}
        """The last lease of each process on each slice: a write by the right of it may come late, when the process
        serves another slice already. Nothing is wrong with it while nobody else has taken the slice."""

    def item_changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        if after is None:
            if before is not None:
                self._unsent[slice_of(self._world, before["pk"])].pop(f"{before['pk']}|{before['sk']}", None)
            return
        ref, slice_id = f"{after['pk']}|{after['sk']}", slice_of(self._world, after["pk"])
        if after["status"] != "pending":
            self._unsent[slice_id].pop(ref, None)
            self._check_spent(process, after)
            return
        if before is not None and before["status"] == "pending":
            return
        lease = self._lease(slice_id)
        fenced = slice_id in process.tokens
        pool = str(after["work"]["pool"]) if "work" in after else ""
        group = None if "run_ref" in after else str(after.get("group", ""))
        unsent = Unsent(ref, int(after["sk"][:10]), process, fenced, pool, group)
        self._unsent[slice_id][ref] = unsent
        self._puts[process, job_of(ref)] += 1
        if lease is not None and unsent.second <= lease["audited_day"]:
            self._world.beyond.add(ref)
        if lease is not None and self._is_passed(unsent, lease):
            self._put_behind(unsent)

    def _check_spent(self, process: Process, item: Item) -> None:
        """A look is spent when its run was sent, or has ended."""
        about = str(item.get("run_ref", ""))
        if (
            not _is_look(item)
            or about not in self._unsent[slice_of(self._world, about)]
            or self._waits_to_be_mended(about)
        ):
            return
        if not self._is_looked_at(about):
            raise Violation("cursor-honest", f"{process.name} spent the look at {about}, which was not sent")

    def of(self, process: Process) -> list[Unsent]:
        """What a process has written and nobody has sent yet."""
        return [one for some in self._unsent.values() for one in some.values() if one.writer is process]

    def forsaken(self, slice_id: str, first: int, last: int) -> list[str]:
        """What lies behind the cursors in some seconds, unsent, and nobody is at it any more."""
        lease = self._lease(slice_id)
        return [
            one.ref
            for one in self._unsent[slice_id].values()
            if lease is not None and first <= one.second <= last and one.writer.state != "running"
            if self._is_passed(one, lease) and not self._waits_to_be_mended(one.ref)
            if not self._is_looked_at(one.ref)
        ]

    def vanished(self, item: Item) -> None:
        """An item was taken out past every rule."""
        self._unsent[slice_of(self._world, item["pk"])].pop(f"{item['pk']}|{item['sk']}", None)

    def lease_changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        if after is None:
            raise Violation("cursor-honest", f"{process.name} deleted the lease {before}")
        if before is None:
            self._advanced(process, after)
            return
        for name in _CURSORS:
            if after[name] < before[name]:
                invariant = "one-owner-effect" if name == "token" else "cursor-honest"
                raise Violation(invariant, f"{process.name} moved {name} of {after['slice']} back")
        slice_id = after["slice"]
        if after["token"] > before["token"]:
            self._forget_slices(process)
            process.tokens[slice_id] = self._granted[process, slice_id] = after["token"]
        elif any(after[name] != before[name] for name in _HELD):
            granted = self._granted.get((process, slice_id), 0)
            if granted != before["token"]:
                what = f"{process.name} (token {granted}) moved {slice_id}, which is at token {before['token']}"
                raise Violation("one-owner-effect", what)
        if after["done"] > after["closing"]:
            raise Violation("cursor-honest", f"{process.name} moved done of {slice_id} beyond closing")
        if any(after.get(name) != before.get(name) for name in _PASSING):
            self._advanced(process, after)

    def row_changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        """What a set-aside row covers no longer must have been sent; and only who holds the slice touches its rows."""
        row = after or before
        assert row is not None
        lease = self._world.tables.standing(LEASES, {"slice": row["slice"]})
        assert lease is not None, row
        if self._granted.get((process, row["slice"]), 0) != lease["token"]:  # also when it serves another by now
            raise Violation("one-owner-effect", f"{process.name} changed the row {row['who']} of {row['slice']}")
        self._world.seen["row written" if after else "row deleted"] += 1
        if str(row["who"]).startswith("team#"):
            how = "written" if before is None else "deleted" if after is None else "served in part or wider"
            self._world.seen[f"row of a team {how}"] += 1
        self._advanced(process, lease)

    def sent(self, ref: str) -> None:
        unsent = self._unsent[slice_of(self._world, ref)].pop(ref, None)
        if unsent is not None:
            unsent.writer.owed.discard(ref)

    def trusted(self, process: Process, by: str) -> None:
        """A window sends by the right of its lease, and no longer than that lasts by its own clock (F4). Nothing is
        lost by it: it may be paused within the call, or deceived by a clock that stood still with it."""
        slice_id, _, token = by.rpartition("#")
        lease = self._world.tables.standing(LEASES, {"slice": slice_id})
        since_ms = self._world.kernel.now_ms - process.stood_until_ms
        stood_still = not since_ms or process.is_deceived
        stood_still |= (
            process.stood_in.startswith("send") and since_ms <= _SEND_MS
        )  # in an earlier try of this very send
        if lease is None or stood_still or "clock_jump" in self._world.classes:
            return
        is_standing = lease["token"] == int(token)  # else somebody has it whose clock is ahead, and that is no wrong
        if is_standing and process.now_ms() > lease["lease_until_ms"] > 0:
            until_ms = lease["lease_until_ms"]
            raise Violation(
                "one-owner-effect", f"{process.name} sent by the right of {by}, which was over at {until_ms}"
            )

    def answered(self, process: Process) -> None:
        for ref in sorted(process.owed):
            slice_id = slice_of(self._world, ref)
            unsent, lease = self._unsent[slice_id].get(ref), self._lease(slice_id)
            if unsent is None or lease is None or self._waits_to_be_mended(ref) or self._is_looked_at(ref):
                continue
            if self._is_passed(unsent, lease):  # else a row has it, since it could not be fired
                raise Violation("cursor-honest", f"{process.name} answered, and {ref} behind the cursor was not sent")
        process.owed.clear()

    def answered_for(self, process: Process, earlier: Sequence[Process]) -> None:
        """The caller repeats what nobody answered, and now has an answer: what the tries that died have written is as
        good as if the first had come to its end. (What its chain has left behind already is the audit's: whoever asks
        again sees what is next.)"""
        dead = {one for one in earlier if one is not process and one.state not in ("running", "ended")}
        for slice_id, unsent in self._unsent.items() if dead else ():
            lease = self._lease(slice_id)
            for one in unsent.values():
                if one.writer not in dead or lease is None or not self._is_passed(one, lease):
                    continue
                is_first = self._puts[one.writer, job_of(one.ref)] == 1
                is_seen_to = self._waits_to_be_mended(one.ref) or self._is_looked_at(one.ref)
                if is_first and not is_seen_to and not self._is_stepped(one.ref):
                    what = f"{process.name} answered, and {one.ref} of {one.writer.name} behind the cursor was not sent"
                    raise Violation("cursor-honest", what)

    def _is_stepped(self, ref: str) -> bool:
        """Whether it is an occurrence of a job, and not its next any more."""
        _, team, name, nominal, *_ = ref.partition("|")[2].split("#")
        job = self._world.tables.standing(JOBS, {"job_id": f"{team}:{name}"})
        is_of_chain = "retry" not in ref and not is_by_hand(ref)
        return is_of_chain and job is not None and job["next_scheduled_at_ms"] != int(nominal) * SECOND_MS

    def _waits_to_be_mended(self, ref: str) -> bool:
        """Whether its job or a calendar of it cannot be read: asking again is no help, the audit parks it."""
        pk, _, sk = ref.partition("|")
        item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk}) or {}
        if "run_ref" in item:  # a retry goes by the job of its run
            pk, _, sk = str(item["run_ref"]).partition("|")
            item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk}) or item
        garbled = [part for part in self._world.parts if part.name.startswith("garbled")]
        return any(part.touches(self._world, ref, item) for part in garbled)

    def _advanced(self, process: Process, lease: Item) -> None:
        for unsent in list(self._unsent[lease["slice"]].values()):
            if self._is_passed(unsent, lease):
                self._passed(unsent, f"{process.name} advanced to {lease['done']} {lease['late_at']}")

    def _put_behind(self, unsent: Unsent) -> None:
        """A scanner that is the creator of an item behind its own cursor (a chain whose jitter has shrunk) fires it
        before it moves the cursor; should it die, the next one meets the occurrence before it, and sees to this one."""
        if unsent.fenced:
            unsent.writer.owed.add(unsent.ref)
        else:
            self._passed(unsent, f"{unsent.writer.name} put it behind the cursor")

    def _is_looked_at(self, ref: str) -> bool:
        """Whether a run that has waited until its job was free, and whose message is missing, is found by a look."""
        items = self._world.tables.items(TIMERS)
        return any(item.get("run_ref") == ref and item["status"] == "pending" for item in items if _is_look(item))

    def _passed(self, unsent: Unsent, how: str) -> None:
        if self._is_looked_at(unsent.ref):
            return
        is_answered = unsent.writer.state == "ended" and not self._waits_to_be_mended(unsent.ref)
        if unsent.fenced or is_answered:
            what = f"{unsent.ref} of {unsent.writer.name} is pending and was not sent; {how}"
            raise Violation("cursor-honest", what)
        if unsent.writer.state == "running":
            unsent.writer.owed.add(unsent.ref)
        else:
            self._world.seen["orphan"] += 1

    def _is_passed(self, unsent: Unsent, lease: Item) -> bool:
        if not _is_behind(unsent, lease) or self._world.checks.groups.is_gone(unsent.ref):
            return False
        rows = self._world.tables.items(SET_ASIDE)
        return not any(_is_aside(unsent, row) for row in rows if row["slice"] == lease["slice"])

    @staticmethod
    def _forget_slices(process: Process) -> None:
        """A scanner serves one slice after the other: only the last lease is a fence."""
        for name in [name for name in process.tokens if "|" not in name]:
            del process.tokens[name]

    def _lease(self, slice_id: str) -> Item | None:
        return self._world.tables.standing(LEASES, {"slice": slice_id})


def _is_look(item: Item) -> bool:
    return str(item["sk"]).endswith("#look")


def job_of(ref: str) -> str:
    """The job, or the one-shot, of an item."""
    return ":".join(ref.partition("|")[2].split("#")[1:3])


def _is_behind(unsent: Unsent, lease: Item) -> bool:
    """Whether the cursors have passed an item. (Written out again: this is what is to be checked.)"""
    if unsent.second > lease["done"]:
        return bool(unsent.second <= lease.get("live_until", 0) and _place(unsent.ref) <= lease.get("live_at", ""))
    if not lease["late_from"] <= unsent.second <= lease["late_until"]:
        return True
    return _place(unsent.ref) <= str(lease["late_at"])


def _is_aside(unsent: Unsent, row: Item) -> bool:
    """Whether a set-aside row has still to serve an item. (Written out again.)"""
    kind, _, name = str(row["who"]).partition("#")
    _, shard, _, _, team, job, *_ = unsent.ref.replace("|", "#").split("#")
    if kind == "shard" and int(shard) != int(name):
        return False
    if kind == "job" and f"{team}:{job}" != name:
        return False
    if kind == "pool" and unsent.pool not in ("", name):
        return False
    if kind == "pause":
        owner, what, of = name.split("#")
        if what == "group" and (team != owner or unsent.group not in (None, of)):
            return False
        if (what == "team" and team != of) or (what == "pool" and unsent.pool not in ("", of)):
            return False
    if kind == "team":
        _, _, sk = unsent.ref.partition("|")
        at = f"{unsent.second:010d}#{shard}#{sk}"
        return team == name and row["begin"] <= unsent.second <= row["until"] and at > str(row["at"])
    return row["begin"] <= unsent.second <= row["until"] and _place(unsent.ref) > str(row["place"])


def _place(ref: str) -> str:
    pk, _, sk = ref.partition("|")
    _, shard, bucket = pk.split("#")
    return f"{bucket}#{shard}#{sk}"
