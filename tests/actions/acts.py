"""What somebody does: the requests of each action, as a client makes them, and what its repeat must have in common with
the first answer. An action that is not built has no requests, and says what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.actions.states import AFTER, DUE_MS, JOB_BODY, TIMER_BODY, Prepare, Setting
from tests.actions.world import Body
from tests.scenarios.stage import NOW_MS
from tickwork.core.instants import iso

MOVED: Final = {"rate": "45 minutes", "anchor": iso(NOW_MS)}
"""Due at 45, 90 and 135 minutes, and never when the job was due before."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: Body | None = None


def nothing(_: Setting) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    how: str
    """The request, as a person knows it."""
    requests: Callable[[Setting], list[Request]]
    same: tuple[str, ...] = ()
    """What the answer to a repeat has in common with the first answer."""
    prepare: Prepare = nothing
    not_yet: str = ""
    """Of an action that is not built: what to do until it is."""
    words: tuple[str, ...] = field(default=())
    """Of such a one: what its route would have in its path."""


def _job(
    method: str, more: str = "", body: Callable[[Setting], Body] | None = None
) -> Callable[[Setting], list[Request]]:
    return lambda at: [Request(method, f"/jobs/{at.subject}{more}", body(at) if body else None)]


def pause(setting: Setting) -> None:
    setting.world.must("POST", f"/jobs/{setting.subject}/pause", _PAUSE)


def _cancel(at: Setting) -> list[Request]:
    named: dict[str, Any] = {"ref": at.ref} if at.is_timer else {"job_id": at.subject, "scheduled_at": iso(DUE_MS)}
    return [Request("POST", "/runs:cancel", {"runs": [named], "reason": "not today"})]


def _recreate(at: Setting) -> list[Request]:
    return [Request("DELETE", f"/jobs/{at.subject}"), Request("POST", "/jobs", JOB_BODY | {"payload": AFTER})]


def _replay(at: Setting) -> list[Request]:
    body = {"team": "shop", "runs": [at.ref], "by": "ann", "reason": "mended"}
    return [Request("POST", "/dead-letters:replay", body)]


def _none(_: Setting) -> list[Request]:
    return []


_PAUSE = {"by": "ann", "reason": "stocktaking"}

CREATE_AGAIN = Action(
    "create again", "`POST /jobs` with the same content", lambda _: [Request("POST", "/jobs", JOB_BODY)], ("version",)
)
CHANGE = Action(
    "change what it does",
    "`PATCH /jobs/{id}` with another payload",
    _job("PATCH", body=lambda at: {"version": at.version, "payload": AFTER}),
    ("version",),
)
MOVE = Action(
    "change when it is due",
    "`PATCH /jobs/{id}` with another schedule",
    _job("PATCH", body=lambda at: {"version": at.version, "schedule": MOVED}),
    ("version",),
)
PAUSE = Action("pause", "`POST /jobs/{id}/pause`", _job("POST", "/pause", lambda _: _PAUSE), ("version", "pauses"))
RESUME = Action(
    "resume",
    "`POST /jobs/{id}/resume` of a job that was paused a moment before",
    _job("POST", "/resume", lambda _: {"by": "bob"}),
    ("version", "pauses", "changed"),
    prepare=pause,
)
SKIP = Action(
    "skip", "one coming occurrence", _none, not_yet="not yet: see docs/api.md, and tests/unit/jobs/test_skipping.py"
)
"""It is built (decision 153); its row of fates, with a kill at each call, is not."""
CANCEL = Action("cancel", "`POST /runs:cancel` by its nominal time", _cancel, ("runs",))
DELETE = Action("delete", "`DELETE /jobs/{id}`", _job("DELETE"), ("job_id", "deleted"))
RECREATE = Action(
    "re-create", "`DELETE /jobs/{id}`, then `POST /jobs` with another payload", _recreate, ("job_id", "version")
)
REPLAY = Action("replay", "`POST /dead-letters:replay` by its ref", _replay, ("replayed", "matched"))
RUN_NOW = Action(
    "run now",
    "a run beside the schedule",
    _none,
    not_yet="not yet: see docs/api.md, and tests/unit/runs/test_asking.py",  # built (decision 152), its row is not
)

TIMER_AGAIN = Action(
    "create again",
    "`POST /timers` with the same content and `client_key`",
    lambda _: [Request("POST", "/timers", TIMER_BODY)],
    ("timer_id", "run_id", "scheduled_at"),
)
TIMER_DELETE = Action(
    "delete", "`DELETE /timers/{id}`", lambda at: [Request("DELETE", f"/timers/{at.subject}")], ("timer_id", "status")
)
TIMER_CANCEL = Action("cancel", "`POST /runs:cancel` by its ref", _cancel, ("runs",))
TIMER_REPLAY = Action("replay", "`POST /dead-letters:replay` by its ref", _replay, ("replayed", "matched"))
