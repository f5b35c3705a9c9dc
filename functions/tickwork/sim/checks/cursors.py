"""Checks on slices: cursor-honest, one-owner-effect (of a slice).

A pending item that `done` has passed must have been sent, or be in the care of the call that wrote it and that has
not answered yet. When that call answers, it must have been sent; when it died, it is the reconciler's, and the
liveness phase sees to it that it is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tickwork.core.keys import slice_key
from tickwork.core.tables import LEASES
from tickwork.core.writes import Item
from tickwork.sim.violation import Violation

if TYPE_CHECKING:
    from tickwork.sim.process import Process
    from tickwork.sim.world import World

_CURSORS = ("token", "closing", "done", "audited")
_HELD = ("owner", "lease_until_ms", "closing", "done", "late_until", "late_at")


@dataclass(frozen=True, slots=True)
class _Unsent:
    """A pending item that was not sent since it became pending. `fenced`: written under its own slice's lease."""

    ref: str
    second: int
    writer: Process
    fenced: bool


class CursorChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._unsent: dict[int, dict[str, _Unsent]] = {n: {} for n in range(world.shape.slices)}

    def item_changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        if after is None:
            return
        ref, slice_no = f"{after['pk']}|{after['sk']}", self._slice_of(after["pk"])
        if after["status"] != "pending":
            self._unsent[slice_no].pop(ref, None)
            return
        if before is not None and before["status"] == "pending":
            return
        lease = self._lease(slice_no)
        fenced = slice_key(self._world.cell, slice_no) in process.tokens
        unsent = _Unsent(ref, int(after["sk"][:10]), process, fenced)
        self._unsent[slice_no][ref] = unsent
        if lease is not None and unsent.second <= lease["done"] and not _awaits(lease, ref):
            self._passed(unsent, f"{process.name} put it behind the cursor")

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
        if before["late_until"] and after["late_at"] < before["late_at"]:
            raise Violation("cursor-honest", f"{process.name} moved the backlog of {after['slice']} back")
        slice_id = after["slice"]
        if after["token"] > before["token"]:
            self._forget_slices(process)
            process.tokens[slice_id] = after["token"]
        elif any(after[name] != before[name] for name in _HELD):
            granted = process.tokens.get(slice_id, 0)
            if granted != before["token"]:
                what = f"{process.name} (token {granted}) moved {slice_id}, which is at token {before['token']}"
                raise Violation("one-owner-effect", what)
        if any(after[name] != before[name] for name in ("done", "late_until", "late_at")):
            self._world.seen["backlog opened"] += after["late_until"] > before["late_until"] == 0
            self._world.seen["backlog closed"] += after["late_until"] == 0 < before["late_until"]
            self._advanced(process, after)

    def sent(self, ref: str) -> None:
        unsent = self._unsent[self._slice_of(ref)].pop(ref, None)
        if unsent is not None:
            unsent.writer.owed.discard(ref)

    def answered(self, process: Process) -> None:
        for ref in sorted(process.owed):
            if ref in self._unsent[self._slice_of(ref)]:
                raise Violation("cursor-honest", f"{process.name} answered, and {ref} behind the cursor was not sent")
        process.owed.clear()

    def _advanced(self, process: Process, lease: Item) -> None:
        for unsent in list(self._unsent[int(lease["slice"].rpartition("#")[2])].values()):
            if unsent.second <= lease["done"] and not _awaits(lease, unsent.ref):
                self._passed(unsent, f"{process.name} advanced to {lease['done']} (backlog {lease['late_at']!r})")

    def _passed(self, unsent: _Unsent, how: str) -> None:
        if unsent.fenced or unsent.writer.state == "ended":
            what = f"{unsent.ref} of {unsent.writer.name} is pending and was not sent; {how}"
            raise Violation("cursor-honest", what)
        if unsent.writer.state == "running":
            unsent.writer.owed.add(unsent.ref)
        else:
            self._world.seen["orphan"] += 1

    @staticmethod
    def _forget_slices(process: Process) -> None:
        """A scanner serves one slice after the other: only the last lease is a fence."""
        for name in [name for name in process.tokens if "|" not in name]:
            del process.tokens[name]

    def _slice_of(self, key: str) -> int:
        return int(key.split("#", 2)[1]) % self._world.shape.slices

    def _lease(self, slice_no: int) -> Item | None:
        return self._world.tables.standing(LEASES, {"slice": slice_key(self._world.cell, slice_no)})


def _awaits(lease: Item, ref: str) -> bool:
    """Whether an item lies in the part of its slice's backlog that is still to be served."""
    pk, _, sk = ref.partition("|")
    _, shard, bucket = pk.split("#")
    is_within = lease["late_from"] <= int(sk[:10]) <= lease["late_until"]
    return bool(is_within and f"{bucket}#{shard}#{sk}" > lease["late_at"])
