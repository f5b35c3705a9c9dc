"""Finding a run by one of its names: job and nominal time, a retry's ref, or a run_id of a job that is known.

The ledger has no index of run ids, which are hashes: one would cost each life a write unit. A job's runs are found by
job, so its run_id is looked for among their times.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.errors import BadSchedule, NotFound
from tickwork.core.ids import parse_one_shot_name, split_job_id
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs import occurrences
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key, parse_ref
from tickwork.core.ledger.kinds import own, points
from tickwork.core.ledger.tables import BY_JOB, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger.placing import places_of, spread_of
from tickwork.flows.ledger.reading import read_job_to_plan, read_many, read_status
from tickwork.flows.runs import timers
from tickwork.ports import Ports

SAME_INSTANT_MAX = 100
"""Items of one nominal instant that are looked at: one for each time its job was deleted and made anew before it, and
one for each run that somebody has asked for in its second."""

RUN_ID_ROWS, RUN_ID_PAGES_MAX = 1_000, 10
"""Of a job's runs among which a run_id is looked for: ten thousand, the newest first, at some 25 read units a page."""


def find_run(ports: Ports, job_id: str, scheduled_at_ms: int | None, kind: str = "") -> LedgerKey:
    """The place of a job's run by its nominal instant (and its kind, where it was asked for), or of a one-shot's by
    its id alone. NotFound without one."""
    _, name = split_job_id(job_id)
    if kind and scheduled_at_ms is not None:
        return _asked_for(ports, job_id, scheduled_at_ms, kind)
    one_shot = parse_one_shot_name(name)
    if scheduled_at_ms is None or (one_shot is not None and one_shot[2] * SECOND_MS == scheduled_at_ms):
        return timers.timer_place(job_id)
    return place_by_job(ports, job_id, scheduled_at_ms) or _place_by_index(ports, job_id, scheduled_at_ms)


def place_by_job(ports: Ports, job_id: str, scheduled_at_ms: int) -> LedgerKey | None:
    """Where the job itself says its run is: its pending occurrence, or one it has fired since its last change. Read
    consistently, while the index may not yet know of an item that a change has moved (cancelled-stays)."""
    try:
        job = read_job_to_plan(ports, job_id)
        if job is None:
            return None
        upcoming = job.next_key(ports.layout.home)
        if upcoming is not None and upcoming.scheduled_at_ms == scheduled_at_ms:
            return upcoming
        if job.fired_through_ms < scheduled_at_ms:
            return None
        planned = occurrences.following(job, scheduled_at_ms - 1, ports.layout.shards)
    except (BadSchedule, Unreadable):
        return None
    if planned is None or planned.scheduled_at_ms != scheduled_at_ms:
        return None
    for place in places_of(ports, job_id, job.occurrence_key(ports.layout.home, planned)):
        if read_status(ports, place) not in (None, lifecycle.CANCELLED):
            return place
    return None


def _asked_for(ports: Ports, job_id: str, scheduled_at_ms: int, kind: str) -> LedgerKey:
    """A run that somebody has asked for: where it is put, so that it is found at once; else by the index."""
    for place in places_of(ports, f"{job_id}|{kind}", asked_for_key(ports, job_id, scheduled_at_ms, kind)):
        if read_status(ports, place) is not None:
            return place
    found = next((key for key in _at_instant(ports, job_id, scheduled_at_ms) if key.kind == kind), None)
    if found is None:
        raise _no_run(job_id)
    return found


def asked_for_key(ports: Ports, job_id: str, at_ms: int, kind: str, lane: str = "") -> LedgerKey:
    """The place of a run that is asked for at an instant: by its own hash, for a job's runs may be many at once; in the
    cell of its job's lane. (Who looks for one asks all cells.)"""
    team, name = split_job_id(job_id)
    spread = spread_of(ports, team, lane)
    return LedgerKey(spread.name, spread.shard_of(f"{job_id}|{kind}"), at_ms, team, name, at_ms, kind)


def _at_instant(ports: Ports, job_id: str, scheduled_at_ms: int) -> list[LedgerKey]:
    """All that the index has of a job's nominal instant."""
    position = {"job_id": job_id, "scheduled_at_ms": scheduled_at_ms + 1, "pk": " ", "sk": " "}
    rows, _ = ports.store.query_index(TIMERS, BY_JOB, job_id, limit=SAME_INSTANT_MAX, after=position, descending=True)
    keys = [parse_ledger_key(str(row["pk"]), str(row["sk"])) for row in rows]
    return [key for key in keys if key.scheduled_at_ms == scheduled_at_ms]


def _no_run(job_id: str) -> NotFound:
    return NotFound(
        f"job {job_id!r} has no run of that time",
        field="scheduled_at",
        remedy="give the nominal time of one of its runs (GET /jobs/{id}/runs shows them)",
    )


def _place_by_index(ports: Ports, job_id: str, scheduled_at_ms: int) -> LedgerKey:
    places: list[Item] = [key.as_item() for key in _at_instant(ports, job_id, scheduled_at_ms) if not key.kind]
    if not places:
        raise _no_run(job_id)
    # A job that was deleted and made anew with another tolerance leaves a cancelled item beside the one that counts.
    found = [item for item in read_many(ports, TIMERS, places) if item is not None]
    live = [item for item in found if item["status"] != lifecycle.CANCELLED]
    place = next(iter(live or found), places[0])
    return parse_ledger_key(str(place["pk"]), str(place["sk"]))


def run_of_ref(ports: Ports, key: LedgerKey) -> LedgerKey:
    """The place of a run, given its own or that of one of its retries. NotFound when that retry is gone."""
    if not points(key.kind):
        return key
    item = ports.store.get(TIMERS, key.as_item())
    if item is None or "run_ref" not in item:
        raise NotFound(
            "there is no such retry (any more)", field="ref", remedy=f"give the run itself: {_without_retry(key)}"
        )
    return parse_ref(str(item["run_ref"]))


def _without_retry(key: LedgerKey) -> str:
    """The run that a retry's key is of, as a person names it."""
    return replace(key, kind=own(key.kind)).occurrence


def find_run_id(ports: Ports, job_id: str, run_id: str) -> LedgerKey:
    """The place of the run of a job that has this id. NotFound when none of its newest runs has it."""
    _, name = split_job_id(job_id)
    if parse_one_shot_name(name) is not None:
        key = timers.timer_place(job_id)
        if key.run_id == run_id:
            return key
        raise NotFound(f"timer {job_id!r} has another run_id", field="run", remedy="check the id")
    position: Item | None = None
    for _ in range(RUN_ID_PAGES_MAX):
        rows, position = ports.store.query_index(
            TIMERS, BY_JOB, job_id, limit=RUN_ID_ROWS, after=position, descending=True
        )
        keys = (parse_ledger_key(str(row["pk"]), str(row["sk"])) for row in rows)
        found = next((key for key in keys if key.run_id == run_id), None)
        if found is not None:
            return found if found.kind else find_run(ports, job_id, found.scheduled_at_ms)
        if position is None:
            break
    raise NotFound(
        f"none of the {RUN_ID_ROWS * RUN_ID_PAGES_MAX:,} newest runs of job {job_id!r} has this run_id",
        field="run",
        remedy="check the job and the id; ended runs are kept for the retention time",
    )
