"""Callers that go through an index or a list: they find what they act on as people do, by a job and a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.checks.told import Ask
from tests.simulator.clients import request
from tests.simulator.shape import TEAMS
from tickwork.core.errors import CallerError
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.tables import JOBS
from tickwork.flows.audit import history
from tickwork.flows.jobs import calendars, registering
from tickwork.flows.runs import cancelling, dead_letters, naming
from tickwork.flows.runs.dead_letters import Order, Wanted

if TYPE_CHECKING:
    from tests.simulator.elements import CalendarPlan
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_PAGE = 2
_PAGES_MAX = 60
_LOOK_BACK_MS = 180_000


def read_something(world: World) -> None:
    """Somebody looks at a list, or cancels, or replays, what it shows."""
    act = world.rng.choice((cancel_by_time, list_jobs, list_runs, replay_listed))
    act(world)


def cancel_by_time(world: World) -> None:
    """Somebody cancels the coming occurrence of a job, by its nominal time as the job shows it."""
    jobs = [job for job in world.tables.items(JOBS) if job.get("next_scheduled_at_ms")]
    jobs = [job for job in jobs if job["job_id"] not in world.poisoned]
    if not jobs:
        return
    job = world.rng.choice(sorted(jobs, key=lambda one: str(one["job_id"])))
    job_id, scheduled_at_ms = str(job["job_id"]), int(job["next_scheduled_at_ms"])
    ask = Ask(world.kernel.now_ms)

    def call(process: Process) -> None:
        key = naming.find_run(process.ports, job_id, scheduled_at_ms)
        cancelled = cancelling.cancel_run(process.ports, key, "not then")
        world.seen["run cancelled by time"] += 1
        if cancelled.status == lifecycle.CANCELLED and world.holds("cancelled_by_time"):
            ask.acked_ms = min(ask.acked_ms, world.kernel.now_ms)
            world.checks.told.cancellations[job_id, scheduled_at_ms] = ask

    request(world, call, again=True)


def list_jobs(world: World) -> None:
    """Page through a team's jobs: each is shown once."""
    team = world.rng.choice(TEAMS)

    def call(process: Process) -> None:
        shown: list[str] = []
        after: str | None = None
        for _ in range(_PAGES_MAX):
            jobs, after = registering.list_jobs(process.ports, team, limit=_PAGE, after=after)
            shown += [job.job_id for job in jobs]
            if after is None:
                break
        world.expect("paging", len(set(shown)) == len(shown), f"a job was listed twice: {shown}")
        world.seen["jobs listed"] += bool(shown)
        calendars.list_calendars(process.ports, team, limit=_PAGE, after=None)

    request(world, call, again=False)


def list_runs(world: World) -> None:
    """Read a job's history."""
    jobs = sorted(str(job["job_id"]) for job in world.tables.items(JOBS) if job["job_id"] not in world.poisoned)
    if not jobs:
        return
    job_id = world.rng.choice(jobs)

    def call(process: Process) -> None:
        try:
            history.job_runs(process.ports, job_id, limit=_PAGE, after=None)
            since_ms = process.now_ms() - _LOOK_BACK_MS
            wanted = history.Filter(team=job_id.partition(":")[0], since_ms=since_ms)
            history.list_runs(process.ports, wanted, limit=_PAGE, after=None)
        except CallerError as error:
            world.seen[f"told {type(error).__name__}"] += 1
            return
        world.seen["runs listed"] += 1

    request(world, call, again=False)


def replay_listed(world: World) -> None:
    """Replay what the list of dead letters shows."""
    team = world.rng.choice(TEAMS)

    def call(process: Process) -> None:
        runs = dead_letters.list_dead(process.ports, team, Wanted(), limit=_PAGE, after=None).found
        order = Order("ops", "it is mended", 1, process.now_ms())
        for replayed in dead_letters.replay_runs(process.ports, [run.key for run in runs], order):
            world.seen[f"replay {replayed.refusal or 'ordered'}"] += 1
        world.seen["dead letters listed"] += bool(runs)

    request(world, call, again=False)


def put_calendar(world: World, plan: CalendarPlan, name: str) -> None:
    """Make a calendar, or replace the version that stands."""

    def call(process: Process) -> None:
        try:
            version = int(calendars.get_calendar(process.ports, f"{plan.team}:{name}")["version"])
        except CallerError:
            version = 0
        calendars.put_calendar(process.ports, plan.team, name, plan.spec, version or None)
        world.seen["calendar changed" if version else "calendar created"] += 1

    request(world, call, again=True)
