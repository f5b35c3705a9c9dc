"""What the answers have promised, and whether what then happens keeps it. A small model of jobs, pauses, cancellations
and runs, fed with what clients were told and asked about every message and every start.

Knows nothing of how the service decides. A promise that is not kept is `Broken`, with its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.actions.world import Body, Held
from tickwork.core.instants import SECOND_MS, parse_iso
from tickwork.core.ledger import kinds

TEAM: Final = "shop"
MARGIN_MS: Final = SECOND_MS
"""Between an instant and what happens at that very instant, either order is right."""


class Broken(BaseException):
    """A promise was not kept. No handler may take it for an error of its own."""

    def __init__(self, promise: str, what: object) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise


def hold(kept: object, promise: str, what: object) -> None:
    if not kept:
        raise Broken(promise, what)


@dataclass(frozen=True, slots=True)
class Definition:
    """What a job or timer says. `mark` is its payload's, and no other definition's."""

    mark: int
    handler: str
    lease_s: int
    max_attempts: int
    base_s: int
    schedule: str = ""
    """JSON, of a job."""
    max_lateness_s: int = 0
    text: str = ""
    """In its payload: a long one is kept apart, an odd one has characters that no queue carries."""

    @property
    def payload(self) -> Body:
        return {"mark": self.mark} | ({"text": self.text} if self.text else {})

    @property
    def ends(self) -> bool:
        """Whether there may come a time when it has no occurrence left."""
        return '"at"' in self.schedule or '"end"' in self.schedule

    def parts(self) -> Body:
        """What a request may say of it."""
        parts: Body = {
            "target": {"pool": "default", "handler": self.handler},
            "payload": self.payload,
            "lease_s": self.lease_s,
            "retry_policy": {"max_attempts": self.max_attempts, "base_s": self.base_s, "jitter_percent": 0},
        }
        if self.schedule:
            parts |= {"schedule": json.loads(self.schedule), "tolerance_s": 0, "exact_reason": "it is a test"}
            bound = {"max_lateness_s": self.max_lateness_s} if self.max_lateness_s else {}
            parts["catch_up"] = {"policy": "all"} | bound
        return parts


@dataclass(slots=True)
class Job:
    """A job as the answers have told it. `epoch` counts what was done to it."""

    name: str
    definition: Definition | None = None
    version: int | None = None
    """None: not known, for an answer was lost."""
    history: list[tuple[int, Definition | None]] = field(default_factory=list)
    pauses: list[tuple[int, int, str]] = field(default_factory=list)
    """From, until (0: open), in whose words."""
    resumed_by: str = ""
    """Who has ended the last pause."""
    epoch: int = 0
    is_known: bool = False
    """Whether it was ever registered."""
    skips: set[int] = field(default_factory=set)
    """Nominal instants that are left out."""
    lost: set[int] = field(default_factory=set)
    """Marks of payloads that have vanished: whoever sends one again restores it, which is a change."""
    cancelled: dict[str, str] = field(default_factory=dict)
    """Runs that were cancelled before they had started, with why. A job that is made anew knows nothing of them."""
    is_unsettled: bool = False
    """Something was done to it by a process that died: what that was to see to waits for a repeat, or for the audit."""

    @property
    def id(self) -> str:
        return f"{TEAM}:{self.name}"

    def becomes(self, definition: Definition | None, at_ms: int, version: int | None) -> None:
        if definition is None or self.definition is None:
            self.pauses, self.resumed_by, self.cancelled, self.skips = [], "", {}, set()
        self.definition, self.version = definition, version
        self.history.append((at_ms, definition))
        self.is_known = True
        self.epoch += 1

    def definitions_in(self, first_ms: int, last_ms: int) -> set[int]:
        """The marks of the definitions in force at some time of a span, its ends included."""
        marks = set()
        for index, (since_ms, definition) in enumerate(self.history):
            until_ms = self.history[index + 1][0] if index + 1 < len(self.history) else last_ms
            if definition is not None and since_ms <= last_ms and until_ms >= first_ms:
                marks.add(definition.mark)
        return marks

    def is_paused_at(self, at_ms: int) -> bool:
        """Surely: not only at the edge of a pause."""
        return any(
            since_ms + MARGIN_MS <= at_ms and (not until_ms or at_ms + MARGIN_MS <= until_ms)
            for since_ms, until_ms, _ in self.pauses
        )

    def skip(self, at_ms: int) -> None:
        self.skips.add(at_ms)
        self.epoch += 1

    def unskip(self, at_ms: int) -> None:
        self.skips.discard(at_ms)
        self.epoch += 1

    def open_pause(self, now_ms: int) -> tuple[int, int, str] | None:
        return next((one for one in reversed(self.pauses) if not one[1] or one[1] > now_ms), None)

    def pause(self, now_ms: int, until_ms: int, words: str) -> bool:
        """Whether that changes anything."""
        standing = self.open_pause(now_ms)
        if standing is not None and standing[1:] == (until_ms, words):
            return False
        self.end_pause(now_ms)
        self.pauses.append((now_ms, until_ms, words))
        self.resumed_by = ""
        self.epoch += 1
        return True

    def resume(self, now_ms: int, by: str) -> bool:
        """Whether that changes anything."""
        if not self.end_pause(now_ms):
            return False
        self.resumed_by = by
        return True

    def end_pause(self, now_ms: int) -> bool:
        standing = self.open_pause(now_ms)
        if standing is None:
            return False
        self.pauses[self.pauses.index(standing)] = (standing[0], now_ms, standing[2])
        self.epoch += 1
        return True


@dataclass(slots=True)
class Occurrence:
    """A run, as its messages and starts have shown it."""

    first: Body
    """Its first message."""
    first_ms: int
    attempts: list[int] = field(default_factory=list)
    counted: int = 0
    """Attempts that its policy counts: since the last replay, and not those that were handed back."""
    was_handed_back: bool = False


class Promises:
    """What was promised, and what has been seen."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.definitions: dict[int, Definition] = {}
        self.runs: dict[str, Occurrence] = {}
        self.stopped: dict[str, str] = {}
        """Runs that nothing may start any more, with why."""
        self.timers: dict[str, Definition] = {}
        """By id."""
        self.backfills: dict[str, int] = {}
        """By id, how many runs each is to make."""
        self.ended_backfills: set[str] = set()
        """Those whose cancellation was acknowledged."""
        self.forgotten: set[str] = set()
        """Timers whose records have expired."""
        self.seen: dict[str, int] = {}
        self.killed_ms = 0
        """When a window was last killed."""
        self._deferred: list[Callable[[], None]] | None = None

    def note(self, what: str) -> None:
        self.seen[what] = self.seen.get(what, 0) + 1

    def job(self, name: str) -> Job:
        return self.jobs.setdefault(name, Job(name))

    def job_of(self, job_id: str) -> Job | None:
        return self.jobs.get(job_id.partition(":")[2])

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """While a request is served nobody knows yet what it does: what is seen meanwhile is judged by that, too."""
        self._deferred = []
        yield
        deferred, self._deferred = self._deferred, None
        for check in deferred:
            check()

    def _when_known(self, check: Callable[[], None]) -> None:
        if self._deferred is None:
            check()
        else:
            self._deferred.append(check)

    # --- what is seen -----------------------------------------------------------------------------------------

    def message(self, body: Body, now_ms: int) -> None:
        """A message has left for the ready queue."""
        run_id, job = body["run_id"], self.job_of(body["job_id"])
        known = self.runs.get(run_id)
        if known is None:
            self.runs[run_id] = Occurrence(body, now_ms)
            if job is not None:
                self._when_known(lambda: self._first_of_job(job, body, now_ms))
            return
        same = {
            name: (known.first.get(name), body.get(name)) for name in ("handler", "lease_s", "payload", "payload_id")
        }
        differs = {name: both for name, both in same.items() if both[0] != both[1]}
        hold(not differs, "what-is-dispatched-is-fixed", f"{body['job_id']} {body['scheduled_at']}: {differs}")

    def _first_of_job(self, job: Job, body: Body, now_ms: int) -> None:
        due_ms, is_scheduled = parse_iso(body["scheduled_at"]), "kind" not in body
        if is_scheduled:
            hold(not job.is_paused_at(due_ms), "a-pause-stops-starts", f"{job.id} {body['scheduled_at']}")
            hold(due_ms not in job.skips, "a-skip-stops-its-run", f"{job.id} {body['scheduled_at']}")
        in_force = job.definitions_in(min(due_ms, now_ms), now_ms)
        hold(in_force, "deleted-stays", f"{job.id} {body['scheduled_at']}")
        if not is_scheduled or job.is_unsettled or self.killed_ms >= parse_iso(body["fire_at"]):
            return  # decided in time, by a process that died before it had sent it
        lateness = [self.definitions[mark].max_lateness_s for mark in in_force]
        if all(lateness):
            late_ms = now_ms - parse_iso(body["fire_at"])
            hold(
                late_ms <= max(lateness) * SECOND_MS + MARGIN_MS, "not-later-than-it-may-be", f"{job.id}: {late_ms} ms"
            )

    def start(self, held: Held, now_ms: int) -> None:
        """A worker was given a run."""
        job_id, told = str(held.told["job_id"]), held.told
        why = self.why_stopped(held.run_id, job_id)
        hold(not why, "cancelled-stays", f"{job_id} {told['scheduled_at']}: {why}")
        hold(not self._is_of_ended(held), "cancelled-stays", f"{held.ref} of a cancelled backfill")
        run = self.runs.get(held.run_id)
        hold(run is not None, "dispatched-before-started", job_id)
        assert run is not None
        hold(told["attempt"] not in run.attempts, "one-attempt-once", f"{job_id} {told['attempt']}")
        run.attempts.append(told["attempt"])
        run.counted += 1
        payload = held.payload
        hold(isinstance(payload, dict) and payload.get("mark") in self.definitions, "no-payload-is-lost", told)
        definition = self.definitions[payload["mark"]]
        shown = (told["handler"], told["lease_s"], payload)
        hold(
            shown == (definition.handler, definition.lease_s, definition.payload),
            "a-definition-is-one",
            f"{job_id}: {shown} of {definition}",
        )
        self._when_known(lambda: self._right_definition(job_id, run, definition))

    def _is_of_ended(self, held: Held) -> bool:
        """Whether it is a first start of a backfill that was cancelled."""
        _, is_one, unique = held.ref.partition(f"#{kinds.BACKFILL}.")
        backfill_id = f"{held.told['job_id']}~{unique.partition('.')[0]}"
        return bool(is_one) and backfill_id in self.ended_backfills and not self.runs[held.run_id].attempts

    def _right_definition(self, job_id: str, run: Occurrence, definition: Definition) -> None:
        if job_id in self.timers:
            hold(self.timers[job_id] == definition, "a-timer-is-what-was-asked", job_id)
        job = self.job_of(job_id)
        if job is None:
            return
        due_ms = parse_iso(run.first["scheduled_at"])
        allowed = job.definitions_in(min(due_ms, run.first_ms), run.first_ms)
        what = f"{job_id} {run.first['scheduled_at']} did {definition.mark}, of {sorted(allowed)}"
        hold(definition.mark in allowed, "a-change-is-what-runs", what)

    # --- what is told -----------------------------------------------------------------------------------------

    def cancelled(self, run_id: str, job_id: str, why: str) -> None:
        job = self.job_of(job_id)
        if job is not None:
            job.epoch += 1
        has_started = run_id in self.runs and self.runs[run_id].attempts
        (self.stopped if job is None or has_started else job.cancelled).setdefault(run_id, why)

    def why_stopped(self, run_id: str, job_id: str) -> str:
        """Why nothing may start a run any more; empty when it may."""
        job = self.job_of(job_id)
        return self.stopped.get(run_id) or (job.cancelled.get(run_id, "") if job is not None else "")

    def failed(self, held: Held, answer: Body, now_ms: int, wait_s: float, *, permanent: bool) -> None:
        """A worker has told a failure."""
        hold(answer["accepted"], "a-failure-told-is-recorded", answer)
        run = self.runs[held.run_id]
        definition = self.definitions[held.told["payload"]["mark"]]
        if self.why_stopped(held.run_id, held.told["job_id"]):
            hold(answer["status"] == "cancelled", "cancelled-stays", answer)
            return
        is_last = permanent or run.counted >= definition.max_attempts
        wanted = "dead" if is_last else "waiting"
        what = f"{held.told['job_id']} attempt {held.told['attempt']} of {definition}: {answer}"
        hold(answer["status"] == wanted, "policies-are-of-the-first-message", what)
        if not is_last and not run.was_handed_back:
            exact_ms = max(min(definition.base_s << run.counted, 3_600), wait_s) * SECOND_MS
            late_ms = parse_iso(answer["retry_at"]) - now_ms - exact_ms
            hold(0 <= late_ms <= MARGIN_MS, "policies-are-of-the-first-message", f"{what}: {late_ms} ms")

    def replayed(self, run_id: str) -> None:
        self.runs[run_id].counted = 0

    def handed_back(self, run_id: str) -> None:
        self.runs[run_id].counted -= 1
        self.runs[run_id].was_handed_back = True
