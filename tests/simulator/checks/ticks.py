"""Checks on ticks (bounded-lag): what is due brings one, what a lease notes as sent was sent, and one that a scanner
gives up has been served.

Lag itself can be judged in few seeds only, for most faults cost some. What is promised of ticks holds under all of
them: a fault may lose or delay a tick, and nobody may then say that it is on its way.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulator.places import shards_of, slice_ids, slice_of
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import slice_key
from tickwork.core.ledger.tables import LEASES, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.queue import SimSender
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.checks.cursors import Unsent
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.queue import Message

# Written out again, not imported: a checker that reads what it checks would believe a wrong one.
_AHEAD_S = 180
"""How far ahead a ticker looks, before it rounds up to a whole minute."""
_UNREAD_EVERY_S = 10
"""A shard that cannot be read ahead has a tick this often."""
_AGAIN_MS = 2_000
"""A tick that comes back and is due is looked at again after this (one second, where nothing says more)."""
_MINUTE_S = 60


@dataclass(slots=True)
class _Claim:
    """A ticker has announced that it looks ahead in a slice: from then on it answers for what is pending there. `found`
    maps the place of each such item to its second; `is_issued`: it has said that their ticks were sent."""

    slice_id: str
    found: dict[tuple[str, str], int]
    is_issued: bool = False


@dataclass(slots=True)
class _Work:
    """What a process has done: its claims as a ticker, the tokens it took as a scanner."""

    claims: list[_Claim] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    stood: dict[str, str] = field(default_factory=dict)
    """By slice where its backlog stood when it was taken."""
    passed: dict[str, int] = field(default_factory=dict)
    """By slice a second that passed before anybody had looked at it."""


class TickChecks:
    """`_sent`: by slice the seconds for which a queue has taken a tick, whatever has become of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sent: dict[str, set[int]] = defaultdict(set)
        self._work: dict[Process, _Work] = defaultdict(_Work)

    def sent(self, body: str) -> None:
        tick = json.loads(body)
        self._sent[slice_key(tick["cell"], tick["slice"])].add(tick["second"])

    # --- what leases say --------------------------------------------------------------------------------------

    def lease_changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        if before is None or after is None:
            return
        slice_id = after["slice"]
        if after["token"] > before["token"]:
            self._work[process].taken[slice_id] = after["token"]
            self._work[process].stood[slice_id] = after["late_at"] if after["late_until"] else ""
        self._check_noted(process, slice_id, before, after)
        if after["ticking"] > before["ticking"]:
            self._claimed(process, slice_id, before, after)
        if after["ticked"] > before["ticked"]:
            self._check_issued(process, slice_id)

    def _check_noted(self, process: Process, slice_id: str, before: Item, after: Item) -> None:
        """Creators send no tick for a second that is noted: it must have one."""
        if before["tick_map"] == after["tick_map"] and before["tick_base"] == after["tick_base"]:
            return
        untrue = sorted(_noted(after) - _noted(before) - self._sent[slice_id])
        if untrue:
            what = f"{process.name} noted ticks for {untrue[:5]} of {after['slice']}, which were never sent"
            raise Violation("bounded-lag", what)

    def _claimed(self, process: Process, slice_id: str, before: Item, after: Item) -> None:
        first = max(before["ticked"], process.latest_ms() // SECOND_MS) + 1
        shards = shards_of(process, slice_id)
        found = {
            (item["pk"], item["sk"]): int(item["sk"][:10])
            for item in self._world.tables.items(TIMERS)
            if item["status"] == "pending" and item["pk"].rpartition("#")[0] in shards
        }
        found = {place: second for place, second in found.items() if first <= second <= after["ticking"]}
        self._work[process].claims.append(_Claim(slice_id, found))
        self._work[process].passed[slice_id] = self._passed_unseen(process, slice_id, before)

    def _passed_unseen(self, process: Process, slice_id: str, lease: Item) -> int:
        """A second of something pending that has come before any ticker had looked at it; 0: there is none."""
        shards = shards_of(process, slice_id)
        low, high = max(lease["ticked"], lease["done"]), process.earliest_ms() // SECOND_MS - 2
        items = (item for item in self._world.tables.items(TIMERS) if item["status"] == "pending")
        seconds = [int(item["sk"][:10]) for item in items if item["pk"].rpartition("#")[0] in shards]
        return min((second for second in seconds if low < second <= high), default=0)

    def _check_issued(self, process: Process, slice_id: str) -> None:
        """Issued up to here: what it was to find has its tick, or (its shard could not be read) one soon after."""
        for claim in self._work[process].claims:
            if claim.slice_id == slice_id and not claim.is_issued:
                claim.is_issued = True
                self._check_claim(process, claim, _UNREAD_EVERY_S if process.met_failure else 0)

    def _check_claim(self, process: Process, claim: _Claim, within_s: int) -> None:
        for (pk, sk), second in claim.found.items():
            item = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})
            if item is None or item["status"] != "pending" or self._has_tick(claim.slice_id, second, within_s):
                continue
            what = f"{process.name} issued the ticks of slice {claim.slice_id}, and none for {pk}|{sk}"
            raise Violation("bounded-lag", what)

    def _has_tick(self, slice_id: str, second: int, within_s: int = 0) -> bool:
        sent = self._sent[slice_id]
        return any(one in sent for one in range(second, second + within_s + 1))

    # --- who answers ------------------------------------------------------------------------------------------

    def answered(self, process: Process, unsent: Iterable[Unsent]) -> None:
        """A process says that all is well: as a ticker, with every slice; as a creator, with what it has written."""
        if process.kind == "ticker":
            for claim in self._work[process].claims:
                if claim.is_issued:
                    self._check_claim(process, claim, 0)
            self._check_slices(process)
            self._check_woken(process)
        if _has_failed(process):
            return  # it is made up for by the next minute's
        for one in unsent:
            self._check_brought(process, one)

    def _check_woken(self, process: Process) -> None:
        """What came before any ticker had looked at it does not wait for the end of a minute."""
        for slice_id, second in self._work[process].passed.items():
            within_s = process.latest_ms() // SECOND_MS + 1 - second
            if second and not self._has_tick(slice_id, second, within_s):
                what = f"{process.name} came after {second} of {slice_id}, and woke no window for it"
                raise Violation("bounded-lag", what)

    def _check_slices(self, process: Process) -> None:
        """No slice was left out: this ticker, or another one meanwhile, has announced that it looks ahead."""
        now_s = (process.earliest_ms() - 2 * self._world.faults.skew_max_ms) // SECOND_MS
        needed = (now_s + _AHEAD_S) // _MINUTE_S * _MINUTE_S + _MINUTE_S - 1
        for slice_id in slice_ids(process, self._world):
            lease = self._world.tables.standing(LEASES, {"slice": slice_id})
            if lease is None or lease["ticking"] < needed:
                raise Violation("bounded-lag", f"{process.name} answered, and has not looked ahead in {slice_id}")

    def _check_brought(self, process: Process, unsent: Unsent) -> None:
        """Whoever writes an item within what tickers have looked at brings its tick."""
        slice_id = slice_of(self._world, unsent.ref)
        lease = self._world.tables.standing(LEASES, {"slice": slice_id})
        if lease is None or not max(lease["closing"], process.latest_ms() // SECOND_MS) < unsent.second:
            return
        if self._world.checks.rows.may_step(lease["slice"], unsent.ref):
            return  # its chain's step is tried again, and sees to it then
        unread_s = _UNREAD_EVERY_S if self._world.seen["ticker_slice_failed"] else 0  # then that ticker sees to it
        if unsent.second <= lease["ticked"] and not self._has_tick(slice_id, unsent.second, unread_s):
            raise Violation("bounded-lag", f"{process.name} answered, and {unsent.ref} has no tick")

    # --- what becomes of ticks --------------------------------------------------------------------------------

    def served(
        self, process: Process, messages: list[Message], again: frozenset[str], received: dict[int, tuple[int, int]]
    ) -> None:
        """A scanner has served a batch of ticks: `again` are those that it wants to come once more; `received` says how
        often each had come, and until when that hid it. One that still lies hidden as it was could not be hidden anew,
        and one that has come once more is another scanner's."""
        if not again and not _has_failed(process):
            self._check_tries(process)
            self._check_goes_on(process)
        for message in messages:
            tick = self._read(process, message.body)
            if tick is None:
                continue
            slice_id, second = tick
            if str(message.id) not in again:
                self._check_given_up(process, slice_id, second)
            elif message.receives == received[message.id][0] and message.visible_at_ms != received[message.id][1]:
                self._check_hidden(process, message, second)

    def _read(self, process: Process, body: str) -> tuple[str, int] | None:
        """A tick of ours; None for anything else."""
        try:
            tick = json.loads(body)
            slice_id, second = slice_key(tick["cell"], tick["slice"]), tick["second"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return (slice_id, second) if slice_id in slice_ids(process, self._world) else None

    def _check_given_up(self, process: Process, slice_id: str, second: int) -> None:
        """Its second is served; or somebody else has taken the slice over meanwhile, and serves it."""
        lease = self._world.tables.standing(LEASES, {"slice": slice_id})
        if lease is None or lease["done"] >= second:
            return
        if lease["token"] <= self._work[process].taken.get(slice_id, lease["token"]):
            what = f"{process.name} gave up a tick for {second} of {slice_id}, whose cursor is at {lease['done']}"
            raise Violation("bounded-lag", what)

    def _check_tries(self, process: Process) -> None:
        """A window that has set when its slice's rows are tried next has sent the tick for it."""
        for slice_id, second in self._world.checks.rows.tries_of(process).items():
            lease = self._world.tables.standing(LEASES, {"slice": slice_id}) or {}
            is_mine = lease.get("token") == self._work[process].taken.get(slice_id)
            late_s = max(0, process.latest_ms() // SECOND_MS + 1 - second)
            if second and is_mine and not self._has_tick(slice_id, second, late_s):
                raise Violation("isolation", f"{process.name}: the next try of {slice_id}, at {second}, has no tick")

    def _check_goes_on(self, process: Process) -> None:
        """A window that leaves some of a backlog has called the next one (F8)."""
        for slice_id, token in self._work[process].taken.items():
            lease = self._world.tables.standing(LEASES, {"slice": slice_id}) or {}
            if lease.get("token") != token or not lease["late_until"]:
                continue
            stood_at = self._work[process].stood[slice_id]
            has_time = process.stood_until_ms < process.began_true_ms and "small_budget" not in self._world.classes
            has_time &= not process.ports.layout.shards_before  # then its minute is served from the beginning each time
            if stood_at and stood_at == lease["late_at"] and has_time and not process.met_failure:
                raise Violation(
                    "bounded-lag", f"{process.name} left the backlog of {slice_id} where it was, at {stood_at}"
                )
            first = min(lease["done"], process.earliest_ms() // SECOND_MS) + 1
            if not self._has_tick(slice_id, first, process.latest_ms() // SECOND_MS + 2 - first):
                raise Violation(
                    "bounded-lag", f"{process.name} left a backlog of {slice_id}, and no tick goes on with it"
                )

    def _check_hidden(self, process: Process, message: Message, second: int) -> None:
        """It comes when it is due, or soon."""
        wait_ms = max(_AGAIN_MS, second * SECOND_MS - process.earliest_ms()) + SECOND_MS
        if message.visible_at_ms > self._world.kernel.now_ms + wait_ms:
            late_ms = message.visible_at_ms - self._world.kernel.now_ms
            what = f"{process.name} has the tick for {second} wait for {late_ms} ms, and {wait_ms} would do"
            raise Violation("bounded-lag", what)


def _has_failed(process: Process) -> bool:
    """Whether it was told of a failure on the way, or of ticks that the queue did not take."""
    sender = process.ports.sender
    return process.gave_up or (isinstance(sender, SimSender) and sender.ticks_failed > 0)


def _noted(lease: Item) -> set[int]:
    bits, base = int(lease["tick_map"] or "0", 16), lease["tick_base"]
    return {base + offset for offset in range(bits.bit_length()) if bits >> offset & 1}
