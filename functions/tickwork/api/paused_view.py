"""A pause of a scope, as answers of several chapters show it."""

from __future__ import annotations

from typing import TypedDict

from tickwork.api.answers import Moment, Second
from tickwork.core.instants import iso, iso_ms
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.pauses import pause_in_force
from tickwork.core.jobs.scopes import Paused, PausedScope
from tickwork.flows.jobs.resuming import Starting
from tickwork.flows.ledger.paused import shown_paused
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
