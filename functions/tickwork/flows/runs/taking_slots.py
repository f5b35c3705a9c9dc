"""Taking the slots a start needs, and getting back those of attempts that lapsed (F11).

Protects one-attempt-running: a slot is never taken from an attempt that could still be running. A lapsed one is
ended first, under its own token, with its retry, exactly as the next start would have ended it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.core.errors import InvariantViolated, WorldError
from tickwork.core.ids import stable_hash
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import parse_ref, resource_key, slot_range
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import RESOURCES, TIMERS
from tickwork.core.ledger.work import Resource, Work
from tickwork.core.runs import endings, slots
from tickwork.core.runs.attempts import Declined, Try
from tickwork.core.runs.slots import Grab, Slot
from tickwork.flows.ledger.commit import COMMIT_TRIES_MAX, pause_ms
from tickwork.flows.ledger.reading import pages, read_many, read_run
from tickwork.flows.runs import finishing
from tickwork.flows.runs.finishing import Ended
from tickwork.ports import Ports

SLOTS_PAGE = 500
HOLDERS_READ_MAX = 25
"""Holders whose leases one start looks at, from a place that its claim chooses: many starts see them all."""


def take_slots(ports: Ports, run: Run, work: Work, decision: Try, claim: str) -> Try | Declined:
    """The start with a slot of each resource it needs; declined when one of them has none."""
    grabs = []
    for resource in work.resources:
        grab = _find_slot(ports, run, resource, claim)
        if grab is None:
            ports.signals.count("runs.no_slot_total", team=run.key.team)
            wait_ms = slots.wait_ms(run, claim, ports.clock.now_ms())
            return Declined(slots.NO_SLOT, discard=False, retry_after_ms=wait_ms)
        grabs.append(grab)
    return slots.with_slots(run, decision, grabs, ports.clock.now_ms())


def _find_slot(ports: Ports, run: Run, resource: Resource, claim: str) -> Grab | None:
    standing = _standing(ports, run.key.team, resource)
    grab = slots.choose(resource, standing, run.key.ref, claim)
    return grab or _recover_slot(ports, resource, standing, claim)


def _standing(ports: Ports, team: str, resource: Resource) -> list[Slot]:
    """The slots that are held, of the first `max_concurrency`."""
    first, last = slot_range(resource.max_concurrency)
    found = pages(ports, RESOURCES, resource_key(team, resource.name), first, last, limit=SLOTS_PAGE)
    return [Slot.from_item(item) for page in found for item in page.items]


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
        ended = _see_to_ended(ports, holder)
    if ended is None:
        return False
    ports.signals.count("worker.lease_expired_while_running_total")
    ports.signals.log("slots_recovered", ref=holder.key.ref, slots=list(holder.slots))
    return True


def _see_to_ended(ports: Ports, holder: Run) -> Ended | None:
    """The service was busy somewhere between the end of the attempt and its retry's way. Whoever repeats this start
    finds the slot free and knows nothing of that run: its retry is seen to here (no-lost-timer)."""
    for tries in range(1, COMMIT_TRIES_MAX + 1):
        ports.clock.sleep_ms(pause_ms(tries))
        try:
            run = read_run(ports, holder.key)
            if run is None or endings.recorded_outcome(run, holder.token) is None:
                return None
            return finishing.see_to_retry(ports, run)
        except WorldError:
            if tries == COMMIT_TRIES_MAX:
                raise
    raise InvariantViolated("unreachable: the last try either returns or raises")
