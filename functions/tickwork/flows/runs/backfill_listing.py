"""Which instants a backfill runs: those that the schedule has in a range, and what became of each.

Up to `OCCURRENCES_MAX` are listed when the backfill is made. More are listed piece by piece, by whoever takes the step
that has run out of them: a piece is kept under the hash of what it says, before the backfill points to it, so that two
who list at once do not write into each other's, and a crash leaves a page that expires (154, 171). Of such a range a
dry run looks at samples.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tickwork.core.errors import CallerError, InvalidField
from tickwork.core.instants import second_of
from tickwork.core.jobs import backfills
from tickwork.core.jobs.backfills import FAILED, LIVE, NEWEST_FIRST, NONE, REDONE, SUCCEEDED, Backfill
from tickwork.core.jobs.definitions import ACTIVE, DELETED, Job
from tickwork.core.ledger import kinds, lifecycle
from tickwork.core.ledger.keys import parse_ledger_key
from tickwork.core.ledger.tables import BY_JOB, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.core.schedule import Schedule, next_after, prev_before, schedule_from_spec
from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.flows.ledger import reading
from tickwork.flows.ledger.payloads import keep_page
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

LIST_KEPT_S = 400 * 86_400
"""A backfill that somebody pauses for longer has lost its list, and ends."""
PIECE = 2_000
"""Instants that are looked through for a piece: a second's work, in the call of a worker that has ended a run."""
SAMPLES, OF_A_SAMPLE = 10, 200
"""Of a dry run of a range: how many places are looked at, and how many instants at each."""
_ROWS, _ROWS_MAX = 1_000, 30_000
"""Runs of the range that are looked at: of each instant the scheduled one, and what backfills have made of it."""

JOB_GONE = "its job was deleted"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a range comes to, as samples say: of each outcome, and of those to be run."""

    outcomes: dict[str, int]
    count: int


def instants_between(
    schedule: Schedule, calendars: Mapping[str, Calendar], from_ms: int, until_ms: int, limit: int
) -> list[int]:
    """The first instants that a schedule has from one on, and before another."""
    found: list[int] = []
    at_ms = next_after(schedule, from_ms - 1, calendars)
    while at_ms is not None and at_ms < until_ms and len(found) < limit:
        found.append(at_ms)
        at_ms = next_after(schedule, at_ms, calendars)
    return found


def _instants_before(
    schedule: Schedule, calendars: Mapping[str, Calendar], from_ms: int, until_ms: int, limit: int
) -> list[int]:
    """The last ones, from the last on."""
    found: list[int] = []
    at_ms = prev_before(schedule, until_ms, calendars)
    while at_ms is not None and at_ms >= from_ms and len(found) < limit:
        found.append(at_ms)
        at_ms = prev_before(schedule, at_ms, calendars)
    return found


def became(ports: Ports, job: Job, instants: Sequence[int]) -> dict[int, str]:
    """What became of each instant: by its scheduled run, and what backfills have made of it since."""
    if not instants:
        return {}
    return _outcomes(ports, job.job_id, instants) | dict.fromkeys(_to_come(job, instants), LIVE)


def _to_come(job: Job, instants: Sequence[int]) -> list[int]:
    """Of some instants those that the job's chain has still to come to: after an outage, or when a pause that has them
    wait is over, it runs them itself, or skips them."""
    if job.status != ACTIVE or job.next is None:
        return []
    return [at_ms for at_ms in instants if at_ms >= job.next.scheduled_at_ms]


def _outcomes(ports: Ports, job_id: str, instants: Sequence[int]) -> dict[int, str]:
    statuses: dict[int, set[str]] = {at_ms: set() for at_ms in instants}
    position: Item | None = None
    between = (min(instants), max(instants))
    for _ in range(_ROWS_MAX // _ROWS):
        rows, position = ports.store.query_index(
            TIMERS, BY_JOB, job_id, limit=_ROWS, after=position, descending=True, between=between
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


def estimated(ports: Ports, job: Job, from_ms: int, until_ms: int, outcomes: str) -> Estimate:
    """What a range comes to, without listing it: its tenths are looked at from their beginnings on, and what is found
    stands for the rest of each."""
    schedule = schedule_from_spec(job.schedule)
    total = dict.fromkeys((NONE, FAILED, SUCCEEDED, LIVE), 0.0)
    for number in range(SAMPLES):
        begin, end = (from_ms + (until_ms - from_ms) * n // SAMPLES for n in (number, number + 1))
        found = instants_between(schedule, job.calendars, begin, end, OF_A_SAMPLE)
        is_whole = len(found) < OF_A_SAMPLE
        # Of n that were found in a span, the last ends it: n - 1 distances lie in it.
        scale = 1.0 if is_whole else (end - begin) / (found[-1] - begin) * (len(found) - 1) / len(found)
        for outcome in became(ports, job, found).values():
            total[outcome] += scale
    counted = {outcome: round(count) for outcome, count in total.items()}
    return Estimate(counted, sum(counted[outcome] for outcome in REDONE[outcomes]))


def with_next_piece(ports: Ports, backfill: Backfill) -> Backfill | str:
    """A backfill of a range with the next piece of its list, which is written; or why there is none."""
    job = reading.read_job_to_plan(ports, backfill.job_id)
    if job is None or job.status == DELETED:
        return JOB_GONE
    try:
        found, listed_ms = _looked_through(backfill, job)
        outcomes = became(ports, job, found)
    except CallerError as error:  # of a schedule, or a calendar, that is not there any more
        return str(error.detail)[:160]
    chosen = [second_of(at_ms) for at_ms in found if outcomes[at_ms] in REDONE[backfill.outcomes]]
    list_id = hashlib.sha256(json.dumps(chosen).encode()).hexdigest()[:16]
    listed = backfills.with_piece(backfill, list_id, len(chosen), listed_ms)
    if chosen:
        keep_page(ports, listed.page_id(listed.position), chosen, second_of(ports.clock.now_ms()) + LIST_KEPT_S)
    return listed


def _looked_through(backfill: Backfill, job: Job) -> tuple[list[int], int]:
    """The next instants of a range, in its order, and how far it is listed then."""
    schedule = schedule_from_spec(dict(backfill.schedule))
    if backfill.order == NEWEST_FIRST:
        found = _instants_before(schedule, job.calendars, backfill.from_ms, backfill.listed_ms, PIECE)
        return found, found[-1] if len(found) == PIECE else backfill.from_ms
    found = instants_between(schedule, job.calendars, backfill.listed_ms, backfill.until_ms, PIECE)
    return found, found[-1] + 1 if len(found) == PIECE else backfill.until_ms


def begun(backfill: Backfill, job: Job, expected: int) -> Backfill:
    """A backfill as one of a range: nothing of it is listed yet."""
    first_ms = backfill.until_ms if backfill.order == NEWEST_FIRST else backfill.from_ms
    return replace(backfill, schedule=job.schedule, listed_ms=first_ms, expected=expected)
