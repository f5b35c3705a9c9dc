"""Timers as the API shows them."""

from __future__ import annotations

from typing import cast

from tickwork.api.masks import work_view
from tickwork.api.runs.views import run_view
from tickwork.api.timers.answers import TimerShown
from tickwork.core.ledger.records import Run
from tickwork.flows.audit.history import RunView


def timer_view(run: Run, status: str | None = None, *, sees_payload: bool) -> TimerShown:
    """A one-shot: the same ledger item is its timer and its run."""
    view = run_view(RunView(run, status or run.status))
    what: dict[str, object] = dict(work_view(run.work, sees_payload=sees_payload)) if run.work else {}
    what |= {name: by for name in ("created_by", "cancelled_by", "group") if (by := getattr(run, name))}
    return cast("TimerShown", {**view, "timer_id": run.key.job_id, **what})
