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
from typing import Any

from tickwork.core.access.pools import is_teams
from tickwork.core.errors import AlreadyExists, Conflict, InvalidField, NotFound, TooMany, VersionConflict
from tickwork.core.instants import second_of
from tickwork.core.jobs import backfills
from tickwork.core.jobs.backfills import (
    EXPECTED_MAX,
    NEWEST_FIRST,
    OCCURRENCES_MAX,
    PAGE,
    REDONE,
    Backfill,
)
from tickwork.core.jobs.changes import as_read
from tickwork.core.jobs.definitions import DELETED, Job
from tickwork.core.ledger import kinds, lanes
from tickwork.core.ledger.tables import JOBS, TEAMS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Absent, Check, Committed, Delete, Is, Put
from tickwork.core.schedule import schedule_from_spec
from tickwork.flows.access import pools
from tickwork.flows.ledger import groups, reading
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.payloads import keep_own, keep_page
from tickwork.flows.ledger.reading import pages
from tickwork.flows.runs import backfilling
from tickwork.flows.runs.backfill_listing import LIST_KEPT_S, became, begun, estimated, instants_between
from tickwork.ports import Ports

TOKEN_ABOVE = 100
"""Runs from which on a backfill needs the token of its dry run."""
GOING_ON_MAX, KEPT_MAX = 5, 20
"""Backfills of a job: that are to launch something yet, and that are kept with those that are over."""
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
    lane: str = ""
    """The lane of its runs; empty: bulk, where the job's pool has that lane, and else as the job runs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What it comes to: the job as it was read, the instants to run, in their order, and how many there are of each
    outcome. `token` names just this list. Of a range (`is_range`) the instants are not known yet, the numbers are what
    samples say, and the token names what was asked for."""

    job: Job
    instants: tuple[int, ...]
    outcomes: dict[str, int]
    token: str
    count: int
    is_range: bool = False


def plan(ports: Ports, wanted: Wanted) -> Plan:
    """Count. NotFound, or InvalidField for a range that has not passed, or of too many instants."""
    job = reading.read_job_to_plan(ports, wanted.job_id)
    if job is None or job.status == DELETED:
        raise NotFound(
            f"there is no job {wanted.job_id!r}", field="job_id", remedy="list the team's jobs with GET /jobs?team="
        )
    groups.refuse_cancelled(ports, job)
    _check_range(wanted, ports.clock.now_ms())
    schedule = schedule_from_spec(job.schedule)
    every = instants_between(schedule, job.calendars, wanted.from_ms, wanted.until_ms, OCCURRENCES_MAX + 1)
    if len(every) > OCCURRENCES_MAX:
        return _plan_range(ports, job, wanted)
    what = became(ports, job, every)
    chosen = [at_ms for at_ms in every if what[at_ms] in REDONE[wanted.outcomes]]
    if wanted.order == NEWEST_FIRST:
        chosen.reverse()
    return Plan(job, tuple(chosen), backfills.counted(list(what.values())), _token(wanted, chosen), len(chosen))


def _plan_range(ports: Ports, job: Job, wanted: Wanted) -> Plan:
    """Of more than are listed at once, by samples: which they are is found piece by piece, when their turn comes."""
    found = estimated(ports, job, wanted.from_ms, wanted.until_ms, wanted.outcomes)
    if found.count > EXPECTED_MAX:
        raise InvalidField(
            f"it is some {found.count:,} runs", field="until", remedy=f"{EXPECTED_MAX:,} are the most: make several"
        )
    said = [wanted.from_ms, wanted.until_ms, job.schedule, wanted.job_id, wanted.outcomes, wanted.order]
    token = f"range-{hashlib.sha256(json.dumps([*said, wanted.concurrency, wanted.lane]).encode()).hexdigest()[:16]}"
    return Plan(job, (), found.outcomes, token, found.count, is_range=True)


def _check_range(wanted: Wanted, now_ms: int) -> None:
    if wanted.from_ms >= wanted.until_ms:
        raise InvalidField("it is not after `since`", field="until", remedy="give a range of time, its end excluded")
    if wanted.until_ms > now_ms:
        raise InvalidField(
            "it has not passed", field="until", remedy="a backfill is of what was due: give an earlier end"
        )


def _token(wanted: Wanted, instants: Sequence[int]) -> str:
    said: list[Any] = [wanted.job_id, wanted.outcomes, wanted.order, wanted.concurrency, list(instants)]
    said += [wanted.lane] if wanted.lane else []
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
        backfill = replace(backfill, work=_in_lane(ports, planned.job, wanted.lane))
        if planned.is_range:
            backfill = begun(backfill, planned.job, planned.count)
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
    count = planned.count
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
        count=0 if planned.is_range else planned.count,
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
        epoch=planned.job.epoch,
    )


def _in_lane(ports: Ports, job: Job, lane: str) -> Work:
    """What the runs do, in a lane of the job's pool. Bulk is what backfills are; where the pool has no lane for that,
    and nobody asked for one, they go where the job's runs go."""
    work, wanted = job.work, lane or lanes.P2
    pool = lanes.pool_of(lanes.plain_pool(work.pool, work.lane), wanted)
    is_there = pool in ports.layout.pools or (
        is_teams(pool) and pools.may_aim(ports, job.team, pool, ports.clock.now_ms())
    )
    if is_there and not work.url:
        return replace(work, pool=pool, lane=wanted if lanes.is_lanes(wanted) else "")
    if lane:
        raise InvalidField(
            f"the pool of the job has no lane {lane}", field="lane", remedy="leave it out, or have the lane's pool made"
        )
    return work


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
    places = [pages(ports, TEAMS, place, first, last, limit=2 * KEPT_MAX) for place in backfills.PLACES]
    every = [Backfill.from_item(item) for found in places for page in found for item in page.items]
    return sorted(every, key=lambda one: -one.created_at_ms)
