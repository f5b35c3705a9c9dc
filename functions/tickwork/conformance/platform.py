"""The platform as a worker sees it: one queue, the calls for workers, and a journal of all that was asked.

Knows no HTTP. Each run has a script of answers, so that a scenario can decline, fail, or be away.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

QUEUE_VISIBILITY_S = 2.0
RECEIVE_MAX = 10
AWAY = "away"
"""In a script: answer the whole call with 503."""

type Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that was asked of the platform. `ref` is "" for a call that names no run."""

    at_s: float
    kind: str
    ref: str = ""
    facts: Entry = field(default_factory=dict)


@dataclass(slots=True)
class Scripted:
    """A run and the answers its calls get, in turn; the last of a list is given again and again."""

    ref: str
    body: Entry
    raw: str | None = None
    """A text to send instead of the body."""
    start: list[Any] = field(default_factory=list)
    heartbeat: list[Any] = field(default_factory=list)
    complete: list[Any] = field(default_factory=list)
    token: int = 0
    attempt: int = 0
    leased_until_s: float = 0.0
    bound_s: float = float("inf")
    """No lease lasts longer than this from its start, whatever is asked for."""
    stop_at_s: float = float("inf")
    ended: bool = False
    visible_at_s: float = 0.0
    deleted: bool = False
    receipt: str = ""

    @property
    def text(self) -> str:
        return self.raw if self.raw is not None else json.dumps(self.body)

    def next_answer(self, call: str, usual: Any) -> Any:
        script: list[Any] = getattr(self, call)
        if not script:
            return usual
        answer = script.pop(0) if len(script) > 1 else script[0]
        return usual if answer is None else answer


class Away(Exception):
    """The call is answered with 503."""


class Platform:
    """Thread-safe. `over_http` says that runs are leased over HTTP: then the queue stays out of sight."""

    def __init__(self, report_url: str = "") -> None:
        self.report_url = report_url
        self.runs: dict[str, Scripted] = {}
        self.events: list[Event] = []
        self.waiting = 0
        """Long polls that are out."""
        self._changed = threading.Condition()

    # --- for scenarios --------------------------------------------------------------------------------------------

    def send(self, scripted: Scripted) -> Scripted:
        with self._changed:
            self.runs[scripted.ref] = scripted
            self._changed.notify_all()
        return scripted

    def note(self, kind: str, ref: str = "", /, **facts: Any) -> None:
        with self._changed:
            self.events.append(Event(time.monotonic(), kind, ref, facts))
            self._changed.notify_all()

    def of(self, kind: str, ref: str | None = None) -> list[Event]:
        with self._changed:
            return [event for event in self.events if event.kind == kind and ref in (None, event.ref)]

    def until(self, wanted: Callable[[], bool], within_s: float) -> bool:
        """Wait for a change that makes it so."""
        deadline_s = time.monotonic() + within_s
        with self._changed:
            while not wanted():
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, 0.05))
            return True

    # --- the queue ------------------------------------------------------------------------------------------------

    def receive(self, most: int, wait_s: float, is_open: Callable[[], bool]) -> list[tuple[str, str, str]]:
        """(id, receipt, text) of visible messages. `is_open`: whether whoever asked still listens."""
        taken = self._poll(min(most, RECEIVE_MAX), wait_s, is_open, lambda run, now_s: run.visible_at_s <= now_s)
        for run in taken:
            self.note("receive", run.ref, receipt=run.receipt)
        return [(run.ref, run.receipt, run.text) for run in taken]

    def _poll(
        self, most: int, wait_s: float, is_open: Callable[[], bool], ready: Callable[[Scripted, float], bool]
    ) -> list[Scripted]:
        deadline_s = time.monotonic() + wait_s
        with self._changed:
            self.waiting += 1
            try:
                while is_open():
                    now_s = time.monotonic()
                    taken = [run for run in self.runs.values() if not run.deleted and ready(run, now_s)][:most]
                    if taken or now_s >= deadline_s:
                        break
                    self._changed.wait(0.05)
                else:
                    return []
                for run in taken:
                    run.visible_at_s = now_s + QUEUE_VISIBILITY_S
                    run.receipt = uuid.uuid4().hex
                return taken
            finally:
                self.waiting -= 1

    def show(self, receipt: str, seconds: float) -> bool:
        run = self._by_receipt(receipt)
        if run is None:
            return False
        run.visible_at_s = time.monotonic() + seconds
        self.note("show", run.ref, seconds=seconds)
        return True

    def delete(self, receipt: str) -> bool:
        run = self._by_receipt(receipt)
        if run is None:
            return False
        run.deleted = True
        self.note("delete", run.ref)
        return True

    def _by_receipt(self, receipt: str) -> Scripted | None:
        with self._changed:
            return next((run for run in self.runs.values() if receipt and run.receipt == receipt), None)

    # --- the API --------------------------------------------------------------------------------------------------

    def start(self, worker: str, entry: Entry) -> Entry:
        run = self.runs[entry["ref"]]
        self.note("start", run.ref, worker=worker, **entry)
        return _answer(run, "start", lambda: _grant(run, float(entry.get("lease_s", 60))))

    def lease(
        self,
        most: int,
        lease_s: float,
        wait_s: float,
        is_open: Callable[[], bool],
        handlers: list[str] | None = None,
    ) -> list[Entry]:
        """`handlers`: those of the worker, when it says."""

        def ready(run: Scripted, now_s: float) -> bool:
            is_known = handlers is None or run.body.get("handler") in handlers
            return is_known and not run.ended and run.leased_until_s <= now_s

        leased = []
        for run in self._poll(most, wait_s, is_open, ready):
            granted = _grant(run, lease_s)
            self.note("start", run.ref, lease_s=lease_s)
            leased.append({**run.body, **granted, "payload": run.body.get("payload"), "receipt": run.receipt})
        return leased

    def heartbeat(self, entry: Entry) -> Entry:
        run = self.runs[entry["ref"]]
        self.note("heartbeat", run.ref, **entry)

        def extend() -> Entry:
            if entry["token"] != run.token or run.ended:
                return {"accepted": False, "reason": "stale_token", "discard": run.ended}
            return {"accepted": True, **_lease(run, float(entry["lease_s"]))}

        return _answer(run, "heartbeat", extend)

    def complete(self, entry: Entry) -> Entry:
        run = self.runs[entry["ref"]]
        self.note("complete", run.ref, **entry)

        def end() -> Entry:
            if entry["token"] != run.token or run.ended:
                return {"accepted": False, "reason": "stale_token", "discard": run.ended}
            run.ended = True
            self.note("accepted", run.ref, outcome=entry["outcome"])
            return {"accepted": True, "status": entry["outcome"]}

        return _answer(run, "complete", end)

    def release(self, entry: Entry) -> Entry:
        run = self.runs[entry["ref"]]
        self.note("release", run.ref, **entry)
        if entry["token"] != run.token or run.ended:
            return {"accepted": False, "reason": "stale_token", "discard": run.ended}
        run.leased_until_s = min(run.leased_until_s, time.monotonic() + float(entry.get("stops_in_s", 0)))
        return {"accepted": True, "status": "running"}


def _grant(run: Scripted, lease_s: float) -> Entry:
    run.token += 1
    run.attempt += 1
    run.stop_at_s = time.monotonic() + run.bound_s
    return {
        "granted": True,
        "token": run.token,
        "attempt": run.attempt,
        **_lease(run, lease_s),
        "new_in_a_later_version": {"ignore": "it"},
    }


def _lease(run: Scripted, lease_s: float) -> Entry:
    """Extend a lease, and say how long it lasts. The wall-clock time is of another day: no worker may go by it."""
    now_s = time.monotonic()
    run.leased_until_s = min(now_s + lease_s, run.stop_at_s)
    left_ms = max(0, int((run.leased_until_s - now_s) * 1000))
    return {"lease_until": "2026-11-30T02:01:00.000Z", "lease_ms": left_ms}


def _answer(run: Scripted, call: str, usual: Callable[[], Entry]) -> Entry:
    answer = run.next_answer(call, None)
    if answer == AWAY:
        raise Away
    return usual() if answer is None else answer


def ready_message(ref: str, payload: Entry, **changes: Any) -> Entry:
    """A message as the platform sends it, with a field that no worker knows."""
    return {
        "v": 1,
        "ref": ref,
        "run_id": hashlib.sha256(ref.encode()).hexdigest()[:32],
        "job_id": "conformance:job",
        "scheduled_at": "2026-11-30T02:00:00Z",
        "fire_at": "2026-11-30T02:00:05Z",
        "attempt": 1,
        "handler": "conformance",
        "lease_s": 60,
        "dispatched_at_ms": 1_796_004_005_120,
        "dispatched_by": "main#0#9",
        "payload": payload,
        "new_in_a_later_version": [1, 2, 3],
    } | changes
