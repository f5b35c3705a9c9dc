"""Making a backfill: which instants of a range a job is to run again, counted first, and then written down.

Protects that what is made is what was counted: the list is fixed when it is made, and a large one needs the token of
its dry run, which names just that list. The pages of the list stand before the backfill that points to them; a crash
between leaves pages that expire. A repeat, known by its client key, is answered with the first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tickwork.core.errors import AlreadyExists, Conflict, InvalidField, NotFound, TooMany, VersionConflict
from tickwork.core.instants import iso, second_of
from tickwork.core.jobs import backfills
from tickwork.core.jobs.backfills import (
    FAILED,
    LIVE,
    NEWEST_FIRST,
    NONE,
    OCCURRENCES_MAX,
    PAGE,
    REDONE,
    SUCCEEDED,
    Backfill,
)
from tickwork.core.jobs.changes import as_read
from tickwork.core.jobs.definitions import ACTIVE, DELETED, Job
from tickwork.core.ledger import kinds, lifecycle
from tickwork.core.ledger.keys import parse_ledger_key
from tickwork.core.ledger.tables import BY_JOB, JOBS, TEAMS, TIMERS
from tickwork.core.ledger.writes import Absent, Check, Committed, Delete, Is, Item, Put
from tickwork.core.schedule import next_after, schedule_from_spec
from tickwork.flows.access import pools
from tickwork.flows.ledger import reading
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.payloads import keep_own, keep_page
from tickwork.flows.ledger.reading import pages, read_many
from tickwork.flows.runs import backfilling
from tickwork.ports import Ports

TOKEN_ABOVE = 100
"""Runs from which on a backfill needs the token of its dry run."""
GOING_ON_MAX, KEPT_MAX = 5, 20
"""Backfills of a job: that are to launch something yet, and that are kept with those that are over."""
LIST_KEPT_S = 400 * 86_400
"""A backfill that somebody pauses for longer has lost its list, and ends."""
_ROWS, _ROWS_MAX = 1_000, 30_000
"""Runs of the range that are looked at: of each instant the scheduled one, and what backfills have made of it."""
TRIES_MAX = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """A backfill that somebody wants: of the instants from `from_ms` to before `until_ms` those of which what became is
    to be redone (`REDONE`)."""

    job_id: str
    from_ms: int
    until_ms: int
    outcomes: str
    order: str
    concurrency: int
    by: str
    reason: str
    client_key: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What it comes to: the job as it was read, the instants to run, in their order, and how many there are of each
    outcome. `token` names just this list."""

    job: Job
    instants: tuple[int, ...]
    outcomes: dict[str, int]
    token: str


def plan(ports: Ports, wanted: Wanted) -> Plan:
    """Count. NotFound, or InvalidField for a range that has not passed, or of too many instants."""
    job = reading.read_job_to_plan(ports, wanted.job_id)
    if job is None or job.status == DELETED:
        raise NotFound(
            f"there is no job {wanted.job_id!r}", field="job_id", remedy="list the team's jobs with GET /jobs?team="
        )
    _check_range(wanted, ports.clock.now_ms())
    every = _instants_of(job, wanted)
    became = _what_became(ports, wanted, every) | dict.fromkeys(_to_come(job, every), LIVE)
    chosen = [at_ms for at_ms in every if became[at_ms] in REDONE[wanted.outcomes]]
    if wanted.order == NEWEST_FIRST:
        chosen.reverse()
    return Plan(job, tuple(chosen), backfills.counted(list(became.values())), _token(wanted, chosen))


def _check_range(wanted: Wanted, now_ms: int) -> None:
    if wanted.from_ms >= wanted.until_ms:
        raise InvalidField("it is not after `since`", field="until", remedy="give a range of time, its end excluded")
    if wanted.until_ms > now_ms:
        raise InvalidField(
            "it has not passed", field="until", remedy="a backfill is of what was due: give an earlier end"
        )


def _instants_of(job: Job, wanted: Wanted) -> list[int]:
    """The instants that the job's schedule has in the range."""
    schedule = schedule_from_spec(job.schedule)
    found: list[int] = []
    at_ms = next_after(schedule, wanted.from_ms - 1, job.calendars)
    while at_ms is not None and at_ms < wanted.until_ms:
        if len(found) >= OCCURRENCES_MAX:
            raise InvalidField(
                f"the range has more than {OCCURRENCES_MAX:,} occurrences",
                field="until",
                remedy=f"make several: one that ends at {iso(at_ms)}, and the next from there",
            )
        found.append(at_ms)
        at_ms = next_after(schedule, at_ms, job.calendars)
    return found


def _to_come(job: Job, instants: Sequence[int]) -> list[int]:
    """Of some instants those that the job's chain has still to come to: after an outage, or when a pause that has them
    wait is over, it runs them itself, or skips them."""
    if job.status != ACTIVE or job.next is None:
        return []
    return [at_ms for at_ms in instants if at_ms >= job.next.scheduled_at_ms]


def _what_became(ports: Ports, wanted: Wanted, instants: Sequence[int]) -> dict[int, str]:
    """What became of each instant: by its scheduled run, and what backfills have made of it since."""
    statuses: dict[int, set[str]] = {at_ms: set() for at_ms in instants}
    position: Item | None = None
    between = (wanted.from_ms, wanted.until_ms - 1)
    for _ in range(_ROWS_MAX // _ROWS):
        rows, position = ports.store.query_index(
            TIMERS, BY_JOB, wanted.job_id, limit=_ROWS, after=position, descending=True, between=between
        )
        keys = [parse_ledger_key(str(row["pk"]), str(row["sk"])) for row in rows]
        keys = [key for key in keys if key.scheduled_at_ms in statuses and kinds.word_of(key.kind) != kinds.MANUAL]
        for key, item in zip(keys, read_many(ports, TIMERS, [key.as_item() for key in keys]), strict=True):
            if item is not None:
                statuses[key.scheduled_at_ms].add(str(item["status"]))
        if position is None:
            return {at_ms: _outcome(found) for at_ms, found in statuses.items()}
    raise InvalidField(
        f"the range has more than {_ROWS_MAX:,} runs", field="until", remedy="make several, of shorter ranges"
    )


def _outcome(statuses: set[str]) -> str:
    if statuses - lifecycle.ENDED:
        return LIVE
    if lifecycle.SUCCEEDED in statuses:
        return SUCCEEDED
    return FAILED if statuses & {lifecycle.DEAD, lifecycle.EXPIRED} else NONE


def _token(wanted: Wanted, instants: Sequence[int]) -> str:
    said = [wanted.job_id, wanted.outcomes, wanted.order, wanted.concurrency, list(instants)]
    return f"{len(instants)}-{hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]}"


def made_before(ports: Ports, wanted: Wanted) -> Backfill | None:
    """What the same request has made before; AlreadyExists when its client key is another's."""
    if not wanted.client_key:
        return None
    standing = backfilling.read_backfill(ports, backfills.place(wanted.job_id, _unique_of(wanted)))
    if standing is None:
        return None
    if standing.fingerprint != wanted.fingerprint:
        raise AlreadyExists(
            f"client_key {wanted.client_key!r} was used for another backfill of {wanted.job_id}",
            field="client_key",
            remedy="use a new client_key for a new backfill, or repeat the first request unchanged",
        )
    backfilling.advance(ports, standing.key())
    return standing


def _unique_of(wanted: Wanted) -> str:
    return hashlib.sha256(f"{wanted.job_id}|{wanted.client_key}".encode()).hexdigest()[: kinds.UNIQUE_DIGITS]


def make(ports: Ports, wanted: Wanted, token: str = "") -> Backfill:
    """Make it, and launch its first runs. What `plan` raises; InvalidField without the token where one is needed or
    nothing is to be run, VersionConflict where the list is not what its token names."""
    unique = _unique_of(wanted) if wanted.client_key else hashlib.sha256(ports.ids.unique().encode()).hexdigest()
    for _ in range(TRIES_MAX):
        planned = plan(ports, wanted)
        _check_token(planned, token)
        _make_room(ports, wanted.job_id)
        backfill = _composed(wanted, planned, unique[: kinds.UNIQUE_DIGITS], ports.clock.now_ms())
        if not pools.may_aim(ports, planned.job.team, backfill.work.pool, ports.clock.now_ms()):
            raise InvalidField("the pool of its job is closed", field="job_id", remedy="give the job another pool")
        _write_list(ports, backfill, planned.instants)
        backfill = _with_own_payload(ports, backfill)
        unchanged = Check(JOBS, planned.job.key(), as_read(planned.job))
        is_made = isinstance(commit(ports, Put(TEAMS, backfill.to_item(), Absent()), unchanged), Committed)
        if is_made or backfilling.read_backfill(ports, backfill.key()) is not None:
            backfilling.advance(ports, backfill.key())
            return backfilling.read_backfill(ports, backfill.key()) or backfill
    raise Conflict(f"job {wanted.job_id} was changed {TRIES_MAX} times meanwhile")


def _check_token(planned: Plan, token: str) -> None:
    count = len(planned.instants)
    if not count:
        raise InvalidField("nothing in the range is to be run", field="outcomes", remedy="see what the dry run counts")
    if count > TOKEN_ABOVE and not token:
        raise InvalidField(
            f"it is {count:,} runs, and from {TOKEN_ABOVE + 1} on the token of the dry run is needed",
            field="token",
            remedy="ask with `dry_run` first, and send the token of that",
        )
    if token and token != planned.token:
        raise VersionConflict(
            f"what is to be run is not what was counted: it is {count:,} runs now",
            field="token",
            remedy="count again, and send the token of that",
        )


def _composed(wanted: Wanted, planned: Plan, unique: str, now_ms: int) -> Backfill:
    return Backfill(
        wanted.job_id,
        unique,
        planned.token.rpartition("-")[2],
        planned.job.work,
        count=len(planned.instants),
        concurrency=wanted.concurrency,
        outcomes=wanted.outcomes,
        order=wanted.order,
        from_ms=wanted.from_ms,
        until_ms=wanted.until_ms,
        by=wanted.by,
        because=wanted.reason,
        fingerprint=wanted.fingerprint,
        created_at_ms=now_ms,
        hard=planned.job.is_hard,
        group=planned.job.group,
    )


def _write_list(ports: Ports, backfill: Backfill, instants: Sequence[int]) -> None:
    expires_at_s = second_of(ports.clock.now_ms()) + LIST_KEPT_S
    for begin in range(0, len(instants), PAGE):
        seconds = [second_of(at_ms) for at_ms in instants[begin : begin + PAGE]]
        keep_page(ports, backfill.page_id(begin), seconds, expires_at_s)


def _with_own_payload(ports: Ports, backfill: Backfill) -> Backfill:
    """It may go on for as long as its list is kept, whatever becomes of its job, and the last run's record lives on."""
    expires_at_s = second_of(ports.clock.now_ms()) + LIST_KEPT_S + ports.layout.retention_s
    owner_id = f"{backfill.job_id}#{backfill.kind}"
    return replace(backfill, work=keep_own(ports, backfill.work, owner_id, expires_at_s))


def _make_room(ports: Ports, job_id: str) -> None:
    """Forget the oldest of those that are over; TooMany while too many are not."""
    found = list_of(ports, job_id)
    if sum(1 for one in found if not one.is_over) >= GOING_ON_MAX:
        raise TooMany(
            f"{GOING_ON_MAX} backfills of {job_id} are not over", field="job_id", remedy="wait for one, or cancel it"
        )
    for old in sorted((one for one in found if one.is_over), key=lambda one: one.created_at_ms)[: 1 - KEPT_MAX]:
        commit(ports, Delete(TEAMS, old.key(), Is("rev", old.rev)))


def list_of(ports: Ports, job_id: str) -> list[Backfill]:
    """A job's backfills, the newest first."""
    first, last = backfills.of_job(job_id)
    found = [page.items for page in pages(ports, TEAMS, backfills.BACKFILLS, first, last, limit=2 * KEPT_MAX)]
    every = [Backfill.from_item(item) for items in found for item in items]
    return sorted(every, key=lambda one: -one.created_at_ms)
