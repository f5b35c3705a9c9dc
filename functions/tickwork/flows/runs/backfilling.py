"""Moving a backfill on: what of its runs has ended is counted, and as many are launched as there is room for.

Whoever ends a run of it does so, so that a free place is taken at once; so does whoever makes or resumes it; and the
reconciler, for the time when one of those has died. Each step is one transaction, the place in the list with the runs
that it launches, on condition that nobody has moved it since it was read: a crash repeats nothing, and two who come at
once launch nothing twice. Then the creator's rule (no-lost-timer).
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.errors import WorldError
from tickwork.core.ids import split_job_id
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs import backfills
from tickwork.core.jobs.backfills import CANCELLED, PLACES, Backfill
from tickwork.core.jobs.definitions import DELETED
from tickwork.core.ledger import kinds, lifecycle
from tickwork.core.ledger.epochs import Label
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.tables import TEAMS, TIMERS
from tickwork.core.ledger.writes import Committed, Item
from tickwork.flows.dispatch import creating
from tickwork.flows.ledger import groups
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.payloads import read_page
from tickwork.flows.ledger.placing import spread_of
from tickwork.flows.ledger.reading import read_job, read_many
from tickwork.flows.runs.backfill_listing import JOB_GONE, with_next_piece
from tickwork.ports import Ports

STEPS_MAX = 12
"""Of one call: a refused step means that another was faster, and one that launches is followed by another."""

GONE, LEFT = "gone", "left"
"""How a run ended whose record has expired; and what is counted of one that a cancelled backfill lets go on."""


def read_backfill(ports: Ports, place: Item) -> Backfill | None:
    """A backfill, wherever it lies: one whose list is made piece by piece lies apart."""
    for partition in sorted(PLACES, key=lambda one: one != place["cell"]):
        item = ports.store.get(TEAMS, {**place, "cell": partition})
        if item is not None:
            return Backfill.from_item(item)
    return None


def advance_after(ports: Ports, key: LedgerKey, *, is_repeat: bool = False) -> None:
    """After a run of a backfill has ended. What cannot be read or written fails nobody: the reconciler comes by. What
    is launched and cannot be seen to does, as for every creator: who tells of the end repeats it. In a repeat what
    cannot be read may be what was launched, and fails it once more."""
    _, _, unique = kinds.own(key.kind).partition(".")
    place = backfills.place(key.job_id, unique)
    launched: list[LedgerKey] = []
    owed: WorldError | None = None
    try:
        _steps(ports, place, launched)
    except (WorldError, Unreadable) as error:
        ports.signals.log("backfill_left", backfill=str(place["team"]), error=repr(error))
        owed = error if is_repeat and isinstance(error, WorldError) else None
    creating.follow_up(ports, launched)
    if owed is not None:
        raise owed


def advance(ports: Ports, place: Item, *, again: bool = True) -> None:
    """Count and launch until there is nothing to do, and see to what is launched. `again`: it may be a repeat."""
    launched: list[LedgerKey] = []
    try:
        _steps(ports, place, launched, again=again)
    finally:
        creating.follow_up(ports, launched)


def _steps(ports: Ports, place: Item, launched: list[LedgerKey], *, again: bool = True) -> None:
    """`launched` gets what is to be seen to: also when a step fails behind one that has launched something. Where there
    is nothing to do for a repeat, the first try may have launched what nobody has seen to."""
    for number in range(STEPS_MAX):
        backfill = read_backfill(ports, place)
        if backfill is None or not backfill.is_going_on:
            return
        if not _step(ports, backfill, launched):
            launched += pending_of(ports, backfill) if again and not number else []
            return


def pending_of(ports: Ports, backfill: Backfill) -> list[LedgerKey]:
    """Its runs that were launched and not started."""
    keys = [parse_ref(ref) for ref in backfill.live]
    found = read_many(ports, TIMERS, [key.as_item() for key in keys])
    pairs = zip(keys, found, strict=True)
    return [key for key, item in pairs if item is not None and item["status"] == lifecycle.PENDING]


def _step(ports: Ports, backfill: Backfill, launched: list[LedgerKey]) -> bool:
    """Whether there may be more to do."""
    now_ms = ports.clock.now_ms()
    moved = backfills.settled(backfill, ended_of(ports, backfill), now_ms)
    if moved.wants_piece:
        listed = with_next_piece(ports, moved)
        if isinstance(listed, str):
            listed = _ended_for(moved, listed, now_ms)
        moved = backfills.settled(listed, {}, now_ms)
    room = backfills.room(moved)
    if room and (why := _why_not(ports, moved)):
        moved, room = _ended_for(moved, why, now_ms), 0
    instants = _instants(ports, moved, room) if room else []
    if room and not instants:
        moved = _ended_for(moved, "its list has expired", now_ms)
    team, _ = split_job_id(backfill.job_id)
    spread = spread_of(ports, team, backfill.work.lane)
    moved, runs = backfills.launched(moved, instants, spread, now_ms)
    if moved == backfill:
        return False
    creating.prepare_slices(ports, [run.key for run in runs])
    launched += [run.key for run in runs]  # also where the reply is lost: what is not there is not seen to
    if not isinstance(commit(ports, moved.moved_from(backfill), *backfills.puts(runs)), Committed):
        return True
    if moved.status != backfill.status:
        ports.signals.log("backfill_ended", backfill=moved.backfill_id, status=moved.status, ended=dict(moved.ended))
    return bool(runs) or moved.wants_piece


def _why_not(ports: Ports, backfill: Backfill) -> str:
    job = read_job(ports, backfill.job_id)
    if job is None or job.status == DELETED:
        return JOB_GONE
    label = Label(job.team, backfill.group)
    group = groups.read_groups(ports, [label]).get(label)
    return group.why if group is not None and group.has_cancelled(backfill.epoch) else ""


def _ended_for(backfill: Backfill, why: str, now_ms: int) -> Backfill:
    return replace(backfill, status=CANCELLED, stopped_by="service", stopped_because=why, ended_at_ms=now_ms)


def ended_of(ports: Ports, backfill: Backfill) -> dict[str, str]:
    """Of its live runs those that have ended, by ref, each with its status."""
    found = read_many(ports, TIMERS, [parse_ref(ref).as_item() for ref in backfill.live])
    pairs = zip(backfill.live, found, strict=True)
    statuses = {ref: GONE if item is None else str(item["status"]) for ref, item in pairs}
    return {ref: status for ref, status in statuses.items() if status == GONE or status in lifecycle.ENDED}


def _instants(ports: Ports, backfill: Backfill, room: int) -> list[int]:
    """The next instants of its list: up to the end of the page that the first stands in."""
    begin = backfill.begin_in_page()
    seconds = read_page(ports, backfill.page_id(backfill.position))[begin : begin + room]
    return [second * SECOND_MS for second in seconds]
