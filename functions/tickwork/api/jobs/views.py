"""Jobs as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_type_hints

from tickwork.api.jobs.answers import (
    CatchUpShown,
    JobShown,
    LastShown,
    NextShown,
    PauseShown,
    PoliciesShown,
    SkipShown,
)
from tickwork.api.masks import work_view
from tickwork.api.paused_view import ScopePauseShown
from tickwork.core.instants import SECOND_MS, iso, iso_ms
from tickwork.core.jobs.defaults import POLICIES, following
from tickwork.core.jobs.definitions import ACTIVE, CatchUp, Definition, Job
from tickwork.core.jobs.overlap import BUFFER_ALL
from tickwork.core.jobs.pauses import Pause, pause_in_force
from tickwork.core.jobs.skips import Skip
from tickwork.core.ledger.items import without_defaults

PAUSED = "paused"
TEXTS = tuple(
    name
    for name, kind in get_type_hints(Definition).items()
    if kind is str and name in JobShown.__annotations__ and name not in ("team", "name")
)
"""Texts of a definition that are shown where they are given: a new one needs no line here."""


def job_view(job: Job, now_ms: int, *, sees_payload: bool, over: Sequence[ScopePauseShown] = ()) -> JobShown:
    """A job as it stands now. `over`: the pauses of what it lies in."""
    is_paused = job.status == ACTIVE and (bool(over) or pause_in_force(job.pauses, now_ms) is not None)
    # By a cast, for a type checker lets no TypedDict be unpacked into one with more fields.
    view = cast(
        "JobShown",
        {
            "job_id": job.job_id,
            "team": job.team,
            "name": job.name,
            "version": job.version,
            "status": PAUSED if is_paused else job.status,
            "schedule": dict(job.schedule),
            **work_view(job.work, sees_payload=sees_payload),
            "tolerance_s": job.tolerance_s,
            "catch_up": catch_up_shown(job.catch_up),
            "policies": policies_shown(job),
            "created_at": iso_ms(job.created_at_ms),
            "next": _next(job),
            "last": _last(job),
        },
    )
    view.update(cast("JobShown", {name: text for name in TEXTS if (text := getattr(job, name))}))
    if job.tags:
        view["tags"] = list(job.tags)
    if job.max_silence_s:
        view["max_silence_s"] = job.max_silence_s
    if job.min_duration_s:
        view["min_duration_s"] = job.min_duration_s
    if job.defaults_pin is not None:
        view["defaults_version"] = job.defaults_pin
    if job.pauses:
        view["pauses"] = [_pause(pause) for pause in job.pauses]
    if over and job.status == ACTIVE:
        view["paused_by"] = list(over)
        # Among its own too: clients of before look there for why a job is paused.
        shown: list[PauseShown] = [
            {"by": one["by"], "reason": one["reason"], "from": one["from"], "until": one["until"]} for one in over
        ]
        view["pauses"] = view.get("pauses", []) + shown
    if job.skips:
        view["skips"] = [_skip(skip) for skip in job.skips]
    if job.reason:
        view["reason"] = job.reason
    if job.overlap == BUFFER_ALL:
        view["buffer_max"] = job.buffered_max
        if job.buffer_age_s:
            view["buffer_age_s"] = job.buffer_age_s
    if job.buffer is not None:
        first, count = job.buffer.first, job.buffer.count
        view["buffered"] = {"run_id": first.run_id, "scheduled_at": iso(first.scheduled_at_ms), "count": count}
    return view


def policies_shown(job: Job) -> PoliciesShown:
    """Whose each policy is, of a job as it is by the defaults that it goes by."""
    follows = following(job.as_stored(), job.defaults_base)
    shown = {name: f"default@{job.goes_by}" if name in follows else "own" for name in POLICIES}
    return cast("PoliciesShown", shown)


def catch_up_shown(catch_up: CatchUp) -> CatchUpShown:
    return cast("CatchUpShown", {"policy": catch_up.policy, **without_defaults(catch_up)})


def _next(job: Job) -> NextShown | None:
    if job.next is None:
        return None
    upcoming: NextShown = {"scheduled_at": iso(job.next.scheduled_at_ms), "fire_at": iso(job.next.fire_at_ms)}
    if job.work.start_within_s:
        upcoming["start_by"] = iso(job.next.fire_at_ms + job.work.start_within_s * SECOND_MS)
    return upcoming


def _last(job: Job) -> LastShown | None:
    if not job.last:
        return None
    last: LastShown = {
        "run_id": job.last["run_id"],
        "status": job.last["status"],
        "scheduled_at": iso(job.last["scheduled_at_ms"]),
        "ended_at": iso_ms(job.last["ended_at_ms"]),
    }
    if "took_ms" in job.last:
        last["took_s"] = round(job.last["took_ms"] / SECOND_MS, 3)
    return last


def _skip(skip: Skip) -> SkipShown:
    view: SkipShown = {"scheduled_at": iso(skip.at_ms), "by": skip.by, "reason": skip.reason}
    return view | {"undone_by": skip.undone_by} if skip.undone_by else view


def _pause(pause: Pause) -> PauseShown:
    view: PauseShown = {"by": pause.by, "reason": pause.reason, "from": iso_ms(pause.from_ms), "until": None}
    if pause.until_ms:
        view["until"] = iso_ms(pause.until_ms)
    if pause.resumed_by:
        view["resumed_by"] = pause.resumed_by
    if pause.parks:
        view["at_resume"] = pause.at_resume
    return view
