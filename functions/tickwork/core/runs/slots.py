"""Concurrency tags: a resource of N slots, each slot a row that at most one attempt holds (F11).

Never more than N: slots are numbered 0 to N-1, a row is put only where there is none (or over one that nobody can
be holding), in the same transaction as the start, and deleted in the same transaction as the attempt's end. There
is no counter that a crash could leave wrong. A holder that was killed keeps its slot until its lease lapses; then
whoever finds no slot ends that attempt first (one-attempt-running), and that frees it. When N shrinks, holders beyond
it count as well: they end as they would, and nothing starts until there are less than the new N. Who waits for a slot
is in `waiters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tickwork.core.ids import stable_hash
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Record, Spelling, spelled
from tickwork.core.ledger.keys import parse_ref, parse_slot_name, slot_name, slot_number
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import RESOURCES
from tickwork.core.ledger.work import Resource
from tickwork.core.ledger.writes import Absent, Condition, Delete, Is, Put, Update, Write, all_of, any_of
from tickwork.core.runs.attempts import Try
from tickwork.core.runs.endings import slot_place

NO_SLOT = "no_slot"
WAIT_S_MIN, WAIT_S_MAX = 2, 300
"""A start that finds no slot is tried again after a tenth of the run's age, within these, and not before those ahead of
it: it is woken when it is its turn, and asks by itself only in case that nobody has woken it."""
WAIT_S_EACH = 4
"""For each that waits longer. Only the first few need to notice that a holder has died: nobody ends it for them."""


_NUMBER = Spelling(
    ("slot",), lambda number: {"slot": f"{number:04d}"}, lambda item: slot_number(item["slot"]), is_required=True
)


def _ref(value: str) -> str:
    parse_ref(value)
    return value


@dataclass(frozen=True, slots=True)
class Slot(Record):
    """A slot that is held: by which run, at which token, since when."""

    DERIVED: ClassVar[tuple[str, ...]] = ("resource",)

    number: int = field(metadata=spelled(_NUMBER))
    holder: str = field(metadata={"read": _ref})
    token: int
    taken_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Grab:
    """A slot to take: its number, and the row that stands there (None: there is none)."""

    resource: Resource
    number: int
    standing: Slot | None = None


def choose(resource: Resource, standing: Sequence[Slot], run_ref: str, claim: str, ahead: int) -> Grab | None:
    """The run's own slot (of an attempt that lapsed), else a free one, when there are more than are kept for those
    `ahead`. Which of them is a hash of the claim, so that starts at one instant seldom want the same."""
    for slot in standing:
        if slot.holder == run_ref and slot.number < resource.max_concurrency:
            return Grab(resource, slot.number, slot)
    if free_count(resource, standing, run_ref) <= ahead:
        return None
    free = _free(resource, standing)
    return Grab(resource, free[stable_hash(claim) % len(free)])


def free_count(resource: Resource, standing: Sequence[Slot], run_ref: str) -> int:
    """How many more may start. What the run itself holds (of an attempt that lapsed) it gives up."""
    others = sum(1 for slot in standing if slot.holder != run_ref)
    return max(0, min(len(_free(resource, standing)), resource.max_concurrency - others))


def _free(resource: Resource, standing: Sequence[Slot]) -> list[int]:
    taken = {slot.number for slot in standing}
    return [number for number in range(resource.max_concurrency) if number not in taken]


def with_slots(run: Run, decision: Try, grabs: Sequence[Grab], now_ms: int) -> Try:
    """The start, and the slots it needs, as one transaction."""
    start, *others = decision.writes
    assert isinstance(start, Update), "a start is an update of the run"
    names = [slot_name(grab.resource.name, grab.number) for grab in grabs]
    puts = [_take(run, int(start.set["token"]), grab, name, now_ms) for grab, name in zip(grabs, names, strict=True)]
    places = [slot_place(run, name) for name in names]
    others = [write for write in others if not (isinstance(write, Delete) and write.key in places)]
    removed = tuple(name for name in start.remove if name != "slots")
    update = replace(start, set={**start.set, "slots": names}, remove=removed)
    return Try((update, *others, *puts))


def _take(run: Run, token: int, grab: Grab, name: str, now_ms: int) -> Write:
    condition: Condition = Absent()
    if grab.standing is not None:
        same = all_of(Is("holder", grab.standing.holder), Is("token", grab.standing.token))
        condition = any_of(Absent(), same)  # gone meanwhile is as good
    slot = Slot(grab.number, run.key.ref, token, now_ms)
    return Put(RESOURCES, slot_place(run, name) | slot.to_item(), condition)


def sweep(resource: str, grab: Grab) -> Write:
    """Take away the row (of a resource by its partition key) of a slot that nobody can be holding."""
    assert grab.standing is not None, "an orphan stands in its slot"
    key = {"resource": resource, "slot": parse_slot_name(slot_name("", grab.number))[1]}
    return Delete(RESOURCES, key, all_of(Is("holder", grab.standing.holder), Is("token", grab.standing.token)))


def is_orphan(slot: Slot, holder: Run | None) -> bool:
    """Whether nobody can be holding the slot: its run is gone, or is not running with its token. (A slot is freed
    with its attempt, so this is repair.)"""
    return holder is None or holder.status != lifecycle.RUNNING or holder.token != slot.token


def wait_ms(run: Run, ahead: int, claim: str, now_ms: int) -> int:
    """How long until a start that found no slot should be tried again, with so many ahead of it."""
    age_s = max(0, now_ms - run.key.fire_at_ms) // SECOND_MS
    whole_ms = min(max(age_s // 10, WAIT_S_MIN + ahead * WAIT_S_EACH), WAIT_S_MAX) * SECOND_MS
    return whole_ms + stable_hash(claim) % whole_ms
