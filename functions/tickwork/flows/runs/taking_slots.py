"""Taking the slots a start needs, and getting back those of attempts that lapsed (F11).

Protects one-attempt-running: a slot is never taken from an attempt that could still be running. A lapsed one is
ended first, under its own token, with its retry, exactly as the next start would have ended it. A start that gets no
slot takes a place among those who wait (core/runs/waiters), and one that finds a free slot leaves it to those before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tickwork.core.errors import InvariantViolated, WorldError
from tickwork.core.ids import stable_hash
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import is_wait_place, line_range, parse_ref
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import RESOURCES, TIMERS
from tickwork.core.ledger.work import Resource, Work
from tickwork.core.ledger.writes import Write
from tickwork.core.runs import endings, slots, waiters
from tickwork.core.runs.attempts import Declined, Try
from tickwork.core.runs.slots import Grab, Slot
from tickwork.core.runs.waiters import Waiter
from tickwork.flows.ledger.commit import COMMIT_TRIES_MAX, commit, pause_ms
from tickwork.flows.ledger.reading import pages, read_many, read_run
from tickwork.flows.runs import finishing, waking
from tickwork.flows.runs.finishing import Ended
from tickwork.ports import Ports

SLOTS_PAGE = 500
HOLDERS_READ_MAX = 25
"""Holders whose leases one start looks at, from a place that its claim chooses: many starts see them all."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A resource as it stands: the slots that are held, also beyond the limit, and the oldest that wait for one."""

    resource: Resource
    me: Waiter
    slots: tuple[Slot, ...]
    waiters: tuple[Waiter, ...]
    is_whole: bool
    """Whether these are all that wait."""

    def free_count(self) -> int:
        return slots.free_count(self.resource, self.slots, self.me.ref)

    def mine(self) -> Waiter | None:
        return next((waiter for waiter in self.waiters if waiter.place == self.me.place), None)


def take_slots(ports: Ports, run: Run, work: Work, decision: Try, claim: str) -> Try | Declined:
    """The start with a slot of each resource it needs; declined when one of them has none to give."""
    grabs: list[Grab] = []
    waited: list[Write] = []
    for resource in work.resources:
        me = waiters.waiter_of(run, resource.name, work.pool)
        line = _look(ports, me, resource)
        is_waiting = line.mine() is not None
        grab = _find_slot(ports, line, claim)
        if grab is None:
            grab, is_waiting = _wait_in_line(ports, line, claim), True
        if grab is None:
            _wait_here_only(ports, run, work, resource)
            ports.signals.count("runs.no_slot_total", team=run.key.team)
            return Declined(slots.NO_SLOT, discard=False, retry_after_ms=_wait_ms(ports, run, line, claim))
        grabs.append(grab)
        waited += [waiters.leave(me)] if is_waiting else []
    taken = slots.with_slots(run, decision, grabs, ports.clock.now_ms())
    return replace(taken, writes=(*taken.writes, *waited))


def _look(ports: Ports, me: Waiter, resource: Resource) -> _Line:
    """The slots and the oldest waiters, mostly in one query."""
    held: list[Slot] = []
    waiting: list[Waiter] = []
    first, last = line_range()
    limit = min(SLOTS_PAGE, resource.max_concurrency + 1 + waiters.LOOKED_AT_MAX)
    for page in pages(ports, RESOURCES, me.resource, first, last, limit=limit):
        held += [Slot.from_item(item) for item in page.items if "holder" in item]
        waiting += [Waiter.from_item(item) for item in page.items if is_wait_place(item["slot"])]
        if page.more is not None and len(waiting) >= waiters.LOOKED_AT_MAX:
            return _Line(resource, me, tuple(held), tuple(waiting), is_whole=False)
    return _Line(resource, me, tuple(held), tuple(waiting), is_whole=True)


def _find_slot(ports: Ports, line: _Line, claim: str) -> Grab | None:
    """A slot that the run may take: none that is kept for those who wait longer."""
    ahead = waiters.ahead_of(line.me.place, line.waiters, ports.clock.now_ms())
    grab = slots.choose(line.resource, line.slots, line.me.ref, claim, ahead)
    if grab is not None or line.free_count() or not line.slots:
        return grab
    return _recovered(ports, line, ahead, claim)


def _recovered(ports: Ports, line: _Line, ahead: int, claim: str) -> Grab | None:
    """A slot whose holder is gone, when it is this run's to take: not one beyond a limit that has shrunk, and not while
    somebody waits longer, who is woken by the end of the holder, or here."""
    grab = _recover_slot(ports, line.resource, line.slots, claim)
    if grab is None:
        return None
    limit = line.resource.max_concurrency
    others = sum(1 for slot in line.slots if slot.number != grab.number and slot.holder != line.me.ref)
    if not ahead and grab.number < limit and others < limit:
        if grab.standing is None:
            waking.wake_oldest(ports, [line.me.resource])  # where one holder has died others may have: the next looks
        return grab
    if grab.standing is not None:
        commit(ports, slots.sweep(line.me.resource, grab))
        waking.wake_oldest(ports, [line.me.resource])
    return None


def _wait_in_line(ports: Ports, line: _Line, claim: str) -> Grab | None:
    """Take the place among those who wait, then look once more: a slot that was freed before that has woken somebody
    else, or nobody. None: there is none to take, and who is to have a free one has been sent for."""
    if not _is_enlisted(ports, line):
        commit(ports, waiters.enlist(line.me, ports.clock.now_ms()))
        line = _look(ports, line.me, line.resource)
        ahead = waiters.ahead_of(line.me.place, line.waiters, ports.clock.now_ms())
        grab = slots.choose(line.resource, line.slots, line.me.ref, claim, ahead)
        if grab is not None:
            return grab
    if line.free_count() > waiters.under_way(line.waiters, ports.clock.now_ms()):
        waking.wake_oldest(ports, [line.me.resource])
    return None


def _is_enlisted(ports: Ports, line: _Line) -> bool:
    """Whether its row is there and says that it waits."""
    mine = line.mine()
    if mine is None and not line.is_whole:
        item = ports.store.get(RESOURCES, line.me.key())
        mine = None if item is None else Waiter.from_item(item)
    return mine is not None and not mine.woken_at_ms


def _wait_here_only(ports: Ports, run: Run, work: Work, resource: Resource) -> None:
    """A run that needs several resources waits where it was refused last: elsewhere it would only seem not to come."""
    for other in (waiters.waiter_of(run, one.name, work.pool) for one in work.resources if one != resource):
        if ports.store.get(RESOURCES, other.key()) is not None:
            commit(ports, waiters.leave(other))


def _wait_ms(ports: Ports, run: Run, line: _Line, claim: str) -> int:
    """How long until it should be tried again. Waking is what brings it; this is for when nobody wakes."""
    if line.free_count():
        return waiters.COMES_WITHIN_MS  # then those for whom the slot is kept have come, or are passed over
    ahead = sum(1 for waiter in line.waiters if waiter.place < line.me.place)
    return slots.wait_ms(run, ahead, claim, ports.clock.now_ms())


def _recover_slot(ports: Ports, resource: Resource, standing: Sequence[Slot], claim: str) -> Grab | None:
    """A slot whose holder is gone. An attempt whose lease has lapsed is ended, and that frees its slot."""
    offset = stable_hash(claim) % len(standing)
    looked_at = [*standing[offset:], *standing[:offset]][:HOLDERS_READ_MAX]
    refs = list(dict.fromkeys(slot.holder for slot in looked_at))
    items = read_many(ports, TIMERS, [parse_ref(ref).as_item() for ref in refs])
    holders = {ref: None if item is None else Run.from_item(item) for ref, item in zip(refs, items, strict=True)}
    for slot in looked_at:
        holder = holders[slot.holder]
        if holder is None or slots.is_orphan(slot, holder):
            return Grab(resource, slot.number, slot)
        if holder.lease_until_ms <= ports.clock.now_ms() and _end_lapsed(ports, holder):
            return Grab(resource, slot.number)
    return None


def _end_lapsed(ports: Ports, holder: Run) -> bool:
    assert holder.status == lifecycle.RUNNING
    try:
        ended = finishing.end_attempt(ports, holder, endings.lapsed(holder))
    except WorldError:
        ended = None
    if ended is None:  # busy; or refused, which an earlier try of ours may have caused, its reply lost
        ended = _see_to_ended(ports, holder)
    if ended is None:
        return False
    if not holder.is_handed_back:
        ports.signals.count("worker.lease_expired_while_running_total")
    ports.signals.log("slots_recovered", ref=holder.key.ref, slots=list(holder.slots))
    return True


def _see_to_ended(ports: Ports, holder: Run) -> Ended | None:
    """The attempt may have been ended, and its retry not be on its way: the service was busy between the two, or did
    not say. Whoever repeats this start finds the slot free and knows nothing of that run: its retry is seen to here
    (no-lost-timer)."""
    for tries in range(1, COMMIT_TRIES_MAX + 1):
        try:
            run = read_run(ports, holder.key)
            if run is None or endings.recorded_outcome(run, holder.token) is None:
                return None
            return finishing.see_to_retry(ports, run)
        except WorldError:
            if tries == COMMIT_TRIES_MAX:
                raise
            ports.clock.sleep_ms(pause_ms(tries))
    raise InvariantViolated("unreachable: the last try either returns or raises")
