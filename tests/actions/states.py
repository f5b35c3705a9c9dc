"""How far an occurrence has come when somebody does something: each state is built by requests, windows and workers.

The job is due every 70 minutes, the timer at the same instant as the job's first occurrence. Most states are a world to
act in; `due` is a moment inside of a window, between what it has read and what it does about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.actions.world import Body, Held, World, is_send, is_step
from tests.scenarios.stage import NOW_MS
from tickwork.core.instants import MINUTE_MS, SECOND_MS, iso

EVERY_MS: Final = 70 * MINUTE_MS
DUE_MS: Final = NOW_MS + EVERY_MS
"""The occurrence that the table is about."""
NEXT_MS: Final = DUE_MS + EVERY_MS
"""The one after it."""
END_MS: Final = NEXT_MS + 3 * MINUTE_MS

BEFORE, AFTER = {"is": "before"}, {"is": "after"}
"""Payloads: of the definition as it was, and of what it is changed to."""

JOB: Final = "shop:nightly"
_WORK: Final[dict[str, Any]] = {
    "team": "shop",
    "target": {"pool": "default", "handler": "nightly"},
    "payload": BEFORE,
    "retry_policy": {"max_attempts": 3, "base_s": 30, "jitter_percent": 0},
}
_EVERY: Final = {"rate": "70 minutes", "anchor": iso(NOW_MS - EVERY_MS)}
JOB_BODY: Final = _WORK | {"name": "nightly", "schedule": _EVERY, "tolerance_s": 0}
TIMER_BODY: Final = _WORK | {"at": iso(DUE_MS), "client_key": "invoice-7"}


@dataclass(slots=True)
class Setting:
    """A world in which the occurrence is in a state, and who it is."""

    world: World
    is_timer: bool
    subject: str
    """The job's id, or the timer's."""
    version: int = 1
    ref: str = ""
    run_id: str = ""
    held: Held | None = None
    """The run, while a worker has it."""
    starts_before: int = 0
    """How many attempts had started when somebody acted."""
    acted_ms: int = 0

    def run(self) -> dict[str, Any]:
        """The occurrence as the API shows it."""
        return next(one for one in self.runs() if one["ref"] == self.ref)

    def runs(self) -> list[dict[str, Any]]:
        shown = self.world.must("GET", f"/jobs/{self.subject}/runs", limit="100")["runs"]
        return [dict(one) for one in shown]


type Prepare = Callable[[Setting], None]
type Act = Callable[[Setting], None]


@dataclass(frozen=True, slots=True)
class State:
    name: str
    means: str
    reach: Callable[[Setting], None]
    at_ms: int
    is_inside_window: bool = False

    def enter(self, setting: Setting, act: Act) -> None:
        """Act in this state; the setting is one that `built` has made."""
        if not self.is_inside_window:
            act(setting)
            return
        scanner = setting.world.process()
        scanner.before(is_send if setting.is_timer else is_step, lambda: act(setting))
        setting.world.at_ms = self.at_ms
        scanner.window()


def built(state: State, prepare: Prepare, *, is_timer: bool, more: Body | None = None) -> Setting:
    """The occurrence in a state, after what has to be so before somebody acts. `more`: what it is created with beside
    what it always has."""
    world = World()
    world.at_ms += SECOND_MS
    if is_timer:
        subject = world.must("POST", "/timers", TIMER_BODY | (more or {}))["timer_id"]
    else:
        subject = world.must("POST", "/jobs", JOB_BODY | (more or {}))["job_id"]
    setting = Setting(world, is_timer, subject)
    pending = setting.runs()[0] if is_timer else next(one for one in setting.runs() if one["status"] == "pending")
    setting.ref, setting.run_id = pending["ref"], pending["run_id"]
    world.go_to(min(state.at_ms, DUE_MS - 30 * SECOND_MS))
    if state.is_inside_window:
        prepare(setting)
    world.go_to(min(state.at_ms, DUE_MS - SECOND_MS))
    if state.at_ms > DUE_MS and not state.is_inside_window:
        world.go_to(state.at_ms)
    state.reach(setting)
    if not state.is_inside_window:
        prepare(setting)
    if not is_timer:
        setting.version = world.must("GET", f"/jobs/{subject}")["version"]
    setting.starts_before = len(world.worked.starts)
    return setting


def copy_of(setting: Setting) -> Setting:
    world = setting.world.copy()
    return Setting(
        world,
        setting.is_timer,
        setting.subject,
        setting.version,
        setting.ref,
        setting.run_id,
        setting.held,
        setting.starts_before,
    )


def _as_it_is(_: Setting) -> None:
    pass


def _lease(setting: Setting) -> None:
    (setting.held,) = setting.world.take()


def _end(outcome: str, **more: Any) -> Callable[[Setting], None]:
    def reach(setting: Setting) -> None:
        _lease(setting)
        assert setting.held is not None
        setting.world.complete(setting.held, outcome, **more)
        setting.held = None

    return reach


_PASSED_MS = DUE_MS + SECOND_MS

PENDING = State("pending", "due in more than an hour", _as_it_is, NOW_MS + 5 * MINUTE_MS)
NEAR = State("near", "due in a minute: its tick is on its way", _as_it_is, DUE_MS - MINUTE_MS)
DUE = State("due", "a window has read it, and has not yet dispatched it", _as_it_is, _PASSED_MS, is_inside_window=True)
QUEUED = State("queued", "its message is in the ready queue", _as_it_is, _PASSED_MS)
RUNNING = State("running", "a worker holds its lease; its attempt then fails", _lease, _PASSED_MS)
WAITING = State("waiting", "an attempt has failed, a retry is to come", _end("failed", error="boom"), _PASSED_MS)
SUCCEEDED = State("succeeded", "it has ended well", _end("succeeded"), _PASSED_MS)
DEAD = State("dead", "it has failed for good", _end("failed_permanent", error="boom"), _PASSED_MS)

STATES: Final = (PENDING, NEAR, DUE, QUEUED, RUNNING, WAITING, SUCCEEDED, DEAD)
