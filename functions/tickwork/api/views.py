"""Jobs, timers and runs as the API shows them."""

from __future__ import annotations

from typing import Any

from tickwork.api.requests import catch_up_shown, when
from tickwork.api.work import shown
from tickwork.core.instants import SECOND_MS, iso, iso_ms
from tickwork.core.jobs.definitions import ACTIVE, Job
from tickwork.core.jobs.pauses import Pause, pause_in_force
from tickwork.core.ledger.lifecycle import WAITING
from tickwork.core.ledger.records import Run
from tickwork.flows.audit.history import RunView

PAUSED = "paused"


def job_view(job: Job, now_ms: int) -> dict[str, Any]:
    """A job as it stands now: `paused` is the status of an active one while a pause is in force."""
    is_paused = job.status == ACTIVE and pause_in_force(job.pauses, now_ms) is not None
    return {
        "job_id": job.job_id,
        "team": job.team,
        "name": job.name,
        "version": job.version,
        "status": PAUSED if is_paused else job.status,
        "schedule": dict(job.schedule),
        **shown(job.work),
        "tolerance_s": job.tolerance_s,
        **({"exact_reason": job.exact_reason} if job.exact_reason else {}),
        "catch_up": catch_up_shown(job.catch_up),
        "created_at": iso_ms(job.created_at_ms),
        "next": job.next and {"scheduled_at": iso(job.next.scheduled_at_ms), "fire_at": iso(job.next.fire_at_ms)},
        "last": job.last
        and {
            "run_id": job.last["run_id"],
            "status": job.last["status"],
            "scheduled_at": iso(job.last["scheduled_at_ms"]),
            "ended_at": iso_ms(job.last["ended_at_ms"]),
        },
        **({"pauses": [_pause(pause) for pause in job.pauses]} if job.pauses else {}),
        **({"reason": job.reason} if job.reason else {}),
    }


def _pause(pause: Pause) -> dict[str, Any]:
    view = {"by": pause.by, "reason": pause.reason, "from": iso_ms(pause.from_ms), "until": None}
    if pause.until_ms:
        view["until"] = iso_ms(pause.until_ms)
    return view | ({"resumed_by": pause.resumed_by} if pause.resumed_by else {})


def timer_view(run: Run, status: str | None = None) -> dict[str, Any]:
    """A one-shot: the same ledger item is its timer and its run."""
    view = run_view(RunView(run, status or run.status))
    view["timer_id"] = view["job_id"]
    return view | (shown(run.work) if run.work else {})


def run_view(view: RunView) -> dict[str, Any]:
    """`lag_s`: dispatch behind the fire time; `start_lag_s`: the start of the last attempt behind it."""
    run = view.run
    fire_at_ms = run.key.fire_at_ms
    return {
        "run_id": run.run_id,
        "ref": run.key.ref,
        "job_id": run.key.job_id,
        "team": run.key.team,
        "scheduled_at": iso(run.key.scheduled_at_ms),
        "fire_at": iso(fire_at_ms),
        "status": view.status,
        "attempt": run.attempt,
        "token": run.token,
        "worker": run.worker or None,
        "dispatched_at": iso_ms(run.dispatched_at_ms) if run.dispatched_at_ms else None,
        "dispatched_by": run.dispatched_by or None,
        "started_at": iso_ms(run.started_at_ms) if run.started_at_ms else None,
        "ended_at": iso_ms(run.ended_at_ms) if run.ended_at_ms else None,
        "lease_until": when(run.lease_until_ms),
        "lag_s": _seconds(run.dispatched_at_ms - fire_at_ms) if run.dispatched_at_ms else None,
        "start_lag_s": _seconds(run.started_at_ms - fire_at_ms) if run.started_at_ms else None,
        "retry_at": when(run.retry_at_ms) if run.status == WAITING else None,
        "cancel_requested": run.cancel_requested or None,
        "reason": run.reason or None,
        "attempts": [_attempt(record) for record in run.attempts],
        **({"replays": [_replay(record) for record in run.replays]} if run.replays else {}),
    }


def _attempt(record: Any) -> dict[str, Any]:
    return {
        "attempt": record["attempt"],
        "token": record["token"],
        "worker": record["worker"],
        "started_at": iso_ms(record["started_at_ms"]),
        "ended_at": iso_ms(record["ended_at_ms"]),
        "outcome": record["outcome"],
        "error": record["error"],
        **({"error_class": record["error_class"]} if "error_class" in record else {}),
    }


def _replay(record: Any) -> dict[str, Any]:
    return {
        "by": record["by"],
        "reason": record["reason"],
        "at": iso_ms(record["at_ms"]),
        "after_attempt": record["after_attempt"],
        "died_of": record["died_of"],
    }


def _seconds(duration_ms: int) -> float:
    return round(duration_ms / SECOND_MS, 3)
