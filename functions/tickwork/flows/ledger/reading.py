"""The one room that reads the ledger: a job, a run, pages of a partition, and the calendars that jobs name.

Reads are strongly consistent. An item that is there and cannot be read raises `Unreadable`; what is not there is
None, and each caller says what that means for him.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from tickwork.core.errors import BadSchedule, WorldError
from tickwork.core.ids import job_id_of
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.occurrences import named_calendars
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import CALENDARS, JOBS, TIMERS, Table
from tickwork.core.ledger.values import mapping, text, whole
from tickwork.core.ledger.writes import Item
from tickwork.core.schedule import Calendar, parse_calendar
from tickwork.flows.ledger import platform_defaults
from tickwork.flows.ledger.placing import placed
from tickwork.ports import Page, Ports


def read_run(ports: Ports, key: LedgerKey) -> Run | None:
    """The run of an occurrence as it stands."""
    item = ports.store.get(TIMERS, key.as_item())
    return None if item is None else Run.from_item(item)


def read_status(ports: Ports, key: LedgerKey) -> str | None:
    """The status of a ledger item, also of one that only a newer version can read."""
    item = ports.store.get(TIMERS, key.as_item())
    return None if item is None else str(item["status"])


def read_many(ports: Ports, table: Table, keys: Sequence[Item]) -> list[Item | None]:
    """Items in the order of their keys, None where there is none. No key, no call."""
    return ports.store.get_many(table, keys) if keys else []


def read_job(ports: Ports, job_id: str) -> Job | None:
    """The job, deleted ones included, without its calendars: for what does not ask when it is due."""
    item = ports.store.get(JOBS, {"job_id": job_id})
    return None if item is None else job_from(item)


def read_job_to_plan(ports: Ports, job_id: str) -> Job | None:
    """The job as whoever computes an occurrence needs it (`to_plan`)."""
    job = read_job(ports, job_id)
    return None if job is None else to_plan(ports, job)


def to_plan(ports: Ports, job: Job) -> Job:
    """With the calendars that its schedule names, and as it is by the platform's defaults that it goes by."""
    return platform_defaults.applied(ports, with_calendars(ports, [job]))[0]


def read_jobs_to_plan(
    ports: Ports, job_ids: Iterable[str], unreadable: Callable[[str, Unreadable | WorldError], None]
) -> dict[str, Job]:
    """Jobs as they are planned with (`to_plan`), by id, in one read for all. What cannot be read is told, job by job,
    and left out; so are, when the calendars cannot be read at all, the jobs that name one."""
    jobs: list[Job] = []
    for item in read_many(ports, JOBS, [{"job_id": job_id} for job_id in sorted(set(job_ids))]):
        if item is None:
            continue
        try:
            jobs.append(job_from(item))
        except Unreadable as error:
            unreadable(str(item["job_id"]), error)
    found: dict[str, Item] = {}
    busy: WorldError | None = None
    try:
        found = _calendar_items(ports, (id_ for job in jobs for id_ in _calendar_ids(job)))
    except WorldError as error:
        busy = error
    equipped: dict[str, Job] = {}
    for job in placed(ports, jobs):
        if busy is not None and _calendar_ids(job):
            unreadable(job.job_id, busy)
            continue
        try:
            equipped[job.job_id] = _equipped(job, found)
        except Unreadable as error:
            unreadable(job.job_id, error)
    return {job.job_id: job for job in platform_defaults.applied(ports, [*equipped.values()])}


def job_from(item: Item) -> Job:
    """The job of an item. Whatever shape it has, it costs this job only: it is Unreadable, and raises nothing else."""
    return _readable(f"job {item.get('job_id')!r}", lambda: _with_known_calendars(Job.from_item(item)))


def _with_known_calendars(job: Job) -> Job:
    named_calendars(job)
    return job


def _readable[T](what: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except Unreadable:
        raise
    except Exception as error:  # a stored shape can be wrong in any way, and nothing here calls a port
        raise Unreadable(f"{what}: {error!r}") from error


def job_of_hard(ports: Ports, run: Run) -> Job | None:
    """The job of a run that calendars may keep from starting, with its calendars. None: no calendar has a say, or the
    job is gone. Unreadable where what they exclude cannot be told."""
    return read_job_to_plan(ports, run.key.job_id) if run.hard and run.is_of_job else None


def pages(
    ports: Ports, table: Table, partition: str, first: str, last: str, *, limit: int, after: str | None = None
) -> Iterator[Page]:
    """The pages of a range of one partition, in key order, read as they are asked for. A page may be short, or empty,
    and not be the last: only `more` says that."""
    more = after
    while True:
        page = ports.store.query(table, partition, first, last, limit=limit, after=more)
        yield page
        more = page.more
        if more is None:
            return


def scan_pages(ports: Ports, table: Table, *, limit: int) -> Iterator[list[Item]]:
    """The pages of a whole table, in no order."""
    position: Item | None = None
    while True:
        items, position = ports.store.scan(table, limit=limit, after=position)
        yield items
        if position is None:
            return


# --- calendars ------------------------------------------------------------------------------------------------


def resolve(ports: Ports, team: str, names: Iterable[str]) -> dict[str, Calendar]:
    """Calendars by the names a team's schedule uses: `name` is the team's own, `other-team:name` another's. A name
    that stands for nothing is left out, and refused when an occurrence is asked for."""
    wanted = {name: _calendar_id(team, name) for name in names}
    found = _read_calendars(ports, wanted.values())
    return {name: replace(found[id_], name=name) for name, id_ in wanted.items() if id_ in found}


def calendars_changed_ms(ports: Ports, job: Job, since: Mapping[str, int]) -> int:
    """When the first of these versions of a job's calendars came about; 0: there are none, or nobody knows of one."""
    keys: list[Item] = [
        {"calendar_id": f"{_calendar_id(job.team, name)}@{version}"} for name, version in sorted(since.items())
    ]
    changed = [item.get("changed_at_ms") if item else None for item in read_many(ports, CALENDARS, keys)]
    known = [at_ms for at_ms in changed if isinstance(at_ms, int)]
    return min(known) if known and len(known) == len(changed) else 0


def with_calendars(ports: Ports, jobs: Sequence[Job]) -> list[Job]:
    """The jobs with the calendars their schedules name, in one read for all, and with where they are placed. Most name
    none, and cost nothing."""
    found = _calendar_items(ports, (id_ for job in jobs for id_ in _calendar_ids(job)))
    return [_equipped(job, found) for job in placed(ports, jobs)]


def _equipped(job: Job, found: Mapping[str, Item]) -> Job:
    wanted = {name: _calendar_id(job.team, name) for name in named_calendars(job)}
    own = {name: replace(_calendar_from(found[id_]), name=name) for name, id_ in wanted.items() if id_ in found}
    return replace(job, calendars=own) if own else job


def _calendar_from(item: Item) -> Calendar:
    """A stored calendar, which may be of another version: Unreadable when this one makes no sense of it."""
    return _readable(f"calendar {item.get('calendar_id')!r}", lambda: read_calendar(item))


def _calendar_ids(job: Job) -> list[str]:
    return [_calendar_id(job.team, name) for name in named_calendars(job)]


def _calendar_id(team: str, name: str) -> str:
    return name if ":" in name else job_id_of(team, name)


def _read_calendars(ports: Ports, calendar_ids: Iterable[str]) -> dict[str, Calendar]:
    found: dict[str, Calendar] = {}
    for id_, item in _calendar_items(ports, calendar_ids).items():
        with suppress(BadSchedule, Unreadable):  # as if it were not there: who names it is refused, and nobody else
            found[id_] = read_calendar(item)
    return found


def _calendar_items(ports: Ports, calendar_ids: Iterable[str]) -> dict[str, Item]:
    unique = sorted(set(calendar_ids))
    items = read_many(ports, CALENDARS, [{"calendar_id": id_} for id_ in unique])
    return {str(item["calendar_id"]): item for item in items if item is not None}


def read_calendar(item: Item) -> Calendar:
    """A calendar from its item. ScheduleRefused for content that this version does not know: what it excludes is not
    guessed at. Unreadable when the item is none."""
    try:
        return parse_calendar({**mapping(item["spec"]), "name": text(item["name"]), "version": whole(item["version"])})
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise Unreadable(f"calendar {item.get('calendar_id')!r}: {error!r}") from error
