"""Runs as the API shows them."""

from __future__ import annotations

from typing import Any, cast

from tickwork.api.runs.answers import AskedForShown, AttemptShown, PutOffShown, ReplayShown, RunShown, RunsPage
from tickwork.core.instants import SECOND_MS, iso, iso_ms
from tickwork.core.ledger.kinds import word_of
from tickwork.core.ledger.lifecycle import WAITING
from tickwork.core.ledger.messages import occurrence_id_of
from tickwork.core.ledger.records import Run
from tickwork.flows.audit.history import RunView
from tickwork.flows.ledger.merging import Shown


def runs_page(page: Shown[Any, RunView], cursor: str | None, reached: str | None) -> RunsPage:
    """A page of a list of runs."""
    runs = [run_view(one) for one in page.found]
    return {"runs": runs, "cursor": cursor, "bounded": page.bounded, "reached": reached}


def run_view(view: RunView) -> RunShown:
    run = view.run
    fire_at_ms = run.key.fire_at_ms
    free_at_ms = max(fire_at_ms, run.released_at_ms)  # until then it had to wait for another run
    answer: RunShown = {
        "run_id": run.run_id,
        "ref": run.key.ref,
        "occurrence": run.key.occurrence,
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
        "lease_until": _when(run.lease_until_ms),
        "lag_s": _seconds(run.dispatched_first_at_ms - free_at_ms) if run.dispatched_first_at_ms else None,
        "start_lag_s": _seconds(run.started_first_at_ms - free_at_ms) if run.started_first_at_ms else None,
        "retry_lag_s": _retry_lag_s(run),
        "retry_at": _when(run.retry_at_ms) if run.status == WAITING else None,
        "cancel_requested": run.cancel_requested or None,
        "reason": run.reason or None,
        "attempts": [_attempt(record) for record in run.attempts],
    }
    if run.key.kind:
        answer |= _asked_for(run)
    if run.start_by_ms:
        answer["start_by"] = iso(run.start_by_ms)
    if run.defaults is not None:
        answer["defaults_version"] = run.defaults
    if view.overlong:
        answer["overlong"] = {"running_s": view.overlong.running_s, "usual_s": view.overlong.usual_s}
    if run.held_by:
        answer["held_by"] = {
            "run_id": run.held_by["run_id"],
            "occurrence": run.held_by["occurrence"],
            "status": run.held_by["status"],
        }
    if run.released_at_ms:
        answer["released_at"] = iso_ms(run.released_at_ms)
    if run.replaced_by:
        answer["replaced_by"] = run.replaced_by
    if run.put_off:
        answer["put_off"] = [_put_off(record) for record in run.put_off]
    if run.replays:
        answer["replays"] = [_replay(record) for record in run.replays]
    return answer


def _asked_for(run: Run) -> RunShown:
    """What a run says beside the rest that somebody asked for."""
    asked: AskedForShown = {"by": run.created_by, "reason": run.because}
    if run.beside:
        asked["overlap"] = "allow"
    more = {"kind": word_of(run.key.kind), "occurrence_id": occurrence_id_of(run.key), "asked_for": asked}
    return cast("RunShown", more)


def _attempt(record: Any) -> AttemptShown:
    attempt: AttemptShown = {
        "attempt": record["attempt"],
        "token": record["token"],
        "worker": record["worker"],
        "started_at": iso_ms(record["started_at_ms"]),
        "ended_at": iso_ms(record["ended_at_ms"]),
        "outcome": record["outcome"],
        "error": record["error"],
    }
    if "error_class" in record:
        attempt["error_class"] = record["error_class"]
    return attempt


def _put_off(record: Any) -> PutOffShown:
    return {
        "attempt": record["attempt"],
        "calendar": record["calendar"],
        "since": iso_ms(record["since_ms"]),
        "until": iso(record["until_ms"]),
    }


def _replay(record: Any) -> ReplayShown:
    replay: ReplayShown = {
        "by": record["by"],
        "reason": record["reason"],
        "at": iso_ms(record["at_ms"]),
        "after_attempt": record["after_attempt"],
        "died_of": record["died_of"],
    }
    if "definition" in record:
        replay["definition"] = record["definition"]
    return replay


def _retry_lag_s(run: Run) -> float | None:
    """The start of the last attempt behind the time its retry was due; None when it was none, or took a lapsed lease
    over at once."""
    is_retry = run.attempt > 1 and 0 < run.retry_at_ms <= run.started_at_ms and run.status != WAITING
    return _seconds(run.started_at_ms - run.retry_at_ms) if is_retry else None


def _when(instant_ms: int) -> str | None:
    return iso(instant_ms) if instant_ms else None


def _seconds(duration_ms: int) -> float:
    return round(duration_ms / SECOND_MS, 3)
