"""A pause of a scope, as answers of several chapters show it."""

from __future__ import annotations

from typing import TypedDict, cast

from tickwork.api.answers import Moment, Second
from tickwork.core.instants import iso, iso_ms
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.pauses import kept_at, pause_in_force
from tickwork.core.jobs.scopes import Paused, PausedScope, Scope, is_pausable
from tickwork.core.ledger.records import Run
from tickwork.flows.jobs.resuming import Starting
from tickwork.flows.ledger.paused import shown_paused
from tickwork.flows.ledger.reading import read_job
from tickwork.ports import Ports

ScopePauseShown = TypedDict(
    "ScopePauseShown",
    {
        "kind": str,
        "name": str,
        "owner": str,
        "by": str,
        "reason": str,
        "from": Moment,
        "until": Moment | None,
        "at_resume": str,
    },
)
"""A pause in force of a scope. `kind`: `team`, `group`, `pool` or `cell`; `owner`: the team that answers for it.
`at_resume`: what becomes of the occurrences of jobs that it covers, `skip`, `latest` or `all`; timers wait until it is
over."""


class StartShown(TypedDict):
    """An occurrence that starts."""

    occurrence: str
    """A timer's id, or `job_id@scheduled_at`."""
    scheduled_at: Second


class StartsShown(TypedDict):
    """What the end of a pause starts, and nothing else does."""

    count: int
    at_least: bool
    """There may be more than one answer can count."""
    first: list[StartShown]
    """Up to a hundred of them."""


def starts_view(found: Starting) -> StartsShown:
    first: list[StartShown] = [
        {"occurrence": key.occurrence, "scheduled_at": iso(key.scheduled_at_ms)} for key in found.first
    ]
    return {"count": found.count, "at_least": found.at_least, "first": first}


def scope_pause_view(one: PausedScope, now_ms: int) -> ScopePauseShown | None:
    """The pause of a scope that is in force."""
    pause = pause_in_force(one.pauses, now_ms)
    if pause is None:
        return None
    return {
        "kind": one.scope.kind,
        "name": one.scope.name,
        "owner": one.scope.owner,
        "by": pause.by,
        "reason": pause.reason,
        "from": iso_ms(pause.from_ms),
        "until": iso_ms(pause.until_ms) if pause.until_ms else None,
        "at_resume": pause.at_resume,
    }


def paused_over(ports: Ports, job: Job) -> Paused:
    """What is paused in the cell of a job."""
    cell = job.next.cell if job.next is not None else ""
    return shown_paused(ports).in_cell(cell or ports.layout.home)


def pauses_over(ports: Ports, job: Job) -> list[ScopePauseShown]:
    """The pauses in force of what a job lies in."""
    now_ms, scopes = ports.clock.now_ms(), paused_over(ports, job).scopes
    over = (one for one in scopes if one.scope.covers(job.team, job.work.pool, job.group))
    return [shown for one in over if (shown := scope_pause_view(one, now_ms)) is not None]


def with_pause[Shown](ports: Ports, run: Run, shown: Shown) -> Shown:
    """What is shown of a run, with the pause that keeps it."""
    pause = pause_of(ports, run)
    return shown if pause is None else cast("Shown", {**cast("dict[str, object]", shown), "paused_by": pause})


def pause_of(ports: Ports, run: Run) -> ScopePauseShown | None:
    """The pause that keeps a run from its first start: of its job, or of what it lies in. A run that is to come may be
    caught by one yet, and is kept by none."""
    now_ms = ports.clock.now_ms()
    if run.ended or run.attempt or not is_pausable(run.key.kind) or run.key.scheduled_at_ms > now_ms:
        return None
    job = read_job(ports, run.key.job_id) if run.is_recurring else None
    if job is not None and (own := kept_at(job.pauses, run.key.scheduled_at_ms)) is not None:
        shown = scope_pause_view(PausedScope(Scope(job.team, "job", job.name), (own,)), now_ms)
        if shown is not None:
            return shown
    work = run.work or (job.work if job is not None else None)
    scopes = shown_paused(ports).in_cell(run.key.cell).scopes
    group = job.group if job is not None else run.group
    over = (one for one in scopes if one.scope.covers(run.key.team, work.pool if work is not None else "", group))
    return next((shown for one in over if (shown := scope_pause_view(one, now_ms)) is not None), None)
