"""What somebody does: the requests of each action, as a client makes them, and what its repeat must have in common with
the first answer. ELSEWHERE names the changing routes that are no action on an occurrence, and what tries them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.actions.states import AFTER, DUE_MS, JOB_BODY, TIMER_BODY, Prepare, Setting
from tests.actions.world import Body
from tests.scenarios.stage import NOW_MS
from tickwork.core.instants import SECOND_MS, iso

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
    group: str = ""
    """The label with which the job, or the timer, was created."""


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


def skip(setting: Setting) -> None:
    """Where it is not too late for that."""
    setting.world.ask("POST", f"/jobs/{setting.subject}/skip", _SKIP)


def _backfill(at: Setting) -> list[Request]:
    """What was due in its second, whatever became of it."""
    span = {"since": iso(DUE_MS), "until": iso(DUE_MS + SECOND_MS)} | {"outcomes": "all", "reason": "a bug"}
    return [Request("POST", f"/jobs/{at.subject}/backfills", span | {"client_key": "again"})]


_PAUSE = {"by": "ann", "reason": "stocktaking"}
_SKIP = {"scheduled_at": iso(DUE_MS), "by": "ann", "reason": "the bank is closed"}

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
    "skip it", "`POST /jobs/{id}/skip` by its nominal time", _job("POST", "/skip", lambda _: _SKIP), ("skips",)
)
UNSKIP = Action(
    "take the skip back",
    "`POST /jobs/{id}/unskip` of one that was skipped a moment before",
    _job("POST", "/unskip", lambda _: {"scheduled_at": iso(DUE_MS), "by": "bob"}),
    ("version", "skips", "changed"),
    prepare=skip,
)
CANCEL = Action("cancel", "`POST /runs:cancel` by its nominal time", _cancel, ("runs",))
DELETE = Action("delete", "`DELETE /jobs/{id}`", _job("DELETE"), ("job_id", "deleted"))
RECREATE = Action(
    "re-create", "`DELETE /jobs/{id}`, then `POST /jobs` with another payload", _recreate, ("job_id", "version")
)
REPLAY = Action("replay", "`POST /dead-letters:replay` by its ref", _replay, ("replayed", "matched"))
RUN_NOW = Action(
    "run now",
    "`POST /jobs/{id}/run` with a `client_key`",
    _job("POST", "/run", lambda _: {"by": "ann", "reason": "a file came late", "client_key": "late"}),
    ("run_id", "ref"),
)
BACKFILL = Action(
    "backfill",
    "`POST /jobs/{id}/backfills` of its time, `outcomes: all`, with a `client_key`",
    _backfill,
    ("backfill_id", "matched"),
)

CANCEL_GROUP = Action(
    "cancel its group",
    "`POST /groups:cancel` of the label that it bears",
    lambda _: [Request("POST", "/groups:cancel", {"team": "shop", "group": "month-end", "reason": "called off"})],
    ("team", "group"),
    group="month-end",
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

ACTIONS: Final = (
    CREATE_AGAIN, CHANGE, MOVE, PAUSE, RESUME, SKIP, UNSKIP, CANCEL, DELETE, RECREATE, REPLAY, RUN_NOW, BACKFILL,
    CANCEL_GROUP,
    TIMER_AGAIN, TIMER_DELETE, TIMER_CANCEL, TIMER_REPLAY,
)  # fmt: skip

ELSEWHERE: Final[Mapping[str, str]] = {
    "/pauses": "tests/unit/api/test_pauses.py, tests/unit/dispatch/test_scoped_pauses.py, and the simulator",
    "/pauses:resume": "tests/unit/api/test_pauses.py, tests/unit/dispatch/test_scoped_pauses.py, and the simulator",
    "/backfills/{backfill_id}/pause": "tests/unit/runs/test_backfills.py",
    "/backfills/{backfill_id}/resume": "tests/unit/runs/test_backfills.py",
    "/backfills/{backfill_id}/cancel": "tests/unit/runs/test_backfills.py",
    "/incidents/{job_id}/acknowledge": "tests/unit/watch: it is about silence, and starts and ends nothing",
    "/timers:batch": "the random sequences",
    "/timers:cancel": "test_audit.py",
    "/runs:start": "workers in every cell",
    "/runs:heartbeat": "workers in every cell",
    "/runs:complete": "workers in every cell",
    "/runs:release": "the random sequences",
    "/runs:unhandled": "tests/unit/runs/test_unhandled.py",
    "/pools/{pool}:lease": "workers in every cell",
    "/schedules:preview": "changes nothing",
    "/defaults:plan": "changes nothing",
}
"""Changing routes about jobs, timers and runs that have no row of their own, by path: what tries them."""

PLATFORM: Final = ("/teams", "/calendars", "/keys", "/placement", "/defaults")
"""Where routes begin that are about no occurrence: test_audit.py and their own tests kill those."""
