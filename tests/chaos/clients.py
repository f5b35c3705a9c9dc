"""Clients of a chaos run: they create and cancel timers and jobs throughout, and remember what they were told."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tickwork.client import ApiClient, ApiRefused, ApiUnreachable

TEAM = "chaos"
HANDLER = "effect"
RETRY = {"max_attempts": 30, "base_s": 1, "cap_s": 5}
"""Workers are killed all the time: a run must not end dead for that."""
GIVES_UP_AFTER_S = 240.0
LEAVES_AFTER_S = 8.0
"""While a part is broken: what is not answered by then is owed, and asked for again when the part is whole."""

BATCH_MAX = 8
BATCH_MAX_BROKEN = 2
"""Of a request, timers: where a shard is broken, most requests of eight would be left for later, and the load too."""
JOBS_MAX = 5
CATCHES_UP_S = 60.0
"""Jobs are kept until their chains have had the time to catch up: one that is deleted owes nothing."""


@dataclass(slots=True)
class Told:
    """What the service has acknowledged."""

    created: dict[str, str] = field(default_factory=dict)
    """Run id of each timer by its id."""
    cancelled: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    unanswered: int = 0
    """Requests given up without an answer: they may have taken effect or not."""
    left: int = 0
    """Requests that had no answer while a part was broken, and were repeated when it was whole."""
    unmade: int = 0
    """Entries of batches that were answered as not made, and asked for again at the end."""
    refused: list[str] = field(default_factory=list)


class Client(threading.Thread, ABC):
    """One client. It repeats a request until it is answered, as the API allows."""

    def __init__(
        self, name: str, url: str, seed: int, told: Told, stopping: threading.Event, pools: Sequence[str] = ("default",)
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._api = ApiClient(url, auth="none")
        self._rng = random.Random(f"{seed}|{name}")
        self.told, self._stopping, self._pools = told, stopping, pools
        self._requests = 0
        self.batch_max = BATCH_MAX
        self.is_patient = True
        """Nothing is broken for long: what does not answer is asked until it does."""
        self._owed: list[tuple[str, str, object]] = []

    def target(self) -> dict[str, str]:
        """The pools in turn."""
        return {"pool": self._pools[self._requests % len(self._pools)], "handler": HANDLER}

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer, or None after giving up, leaving it for later, or being refused."""
        patient = self.is_patient
        deadline_s = time.monotonic() + (GIVES_UP_AFTER_S if patient else LEAVES_AFTER_S)
        while time.monotonic() < deadline_s:
            try:
                return self._api.call(method, path, body, timeout_s=10.0)
            except ApiUnreachable:
                time.sleep(0.2)
            except ApiRefused as refusal:
                if refusal.status not in (404, 409):
                    self.told.refused.append(f"{method} {path}: {refusal.status} {refusal}")
                return None
        if patient:
            self.told.unanswered += 1
        else:
            self._owed.append((method, path, body))
        return None

    def settle(self) -> None:
        """Ask for all that is owed, now that every part is whole."""
        self.is_patient = True
        for method, path, body in self._owed:
            self.told.left += 1
            answer = self.call(method, path, body)
            if answer is not None:
                self.note(method, answer)

    @abstractmethod
    def note(self, method: str, answer: Any) -> None:
        """Remember what was acknowledged."""


class TimerClient(Client):
    def run(self) -> None:
        rng = self._rng
        while not self._stopping.is_set():
            self._requests += 1
            timers = [
                {
                    "team": TEAM,
                    "delay_s": rng.choice((0, 1, 3, 10, 30)) + rng.random(),
                    "target": self.target(),
                    "payload": {"work_s": rng.choice((0, 0, 0, 0.05, 0.5))},
                    "lease_s": 30,
                    "retry_policy": RETRY,
                    "client_key": f"{self.name}-{self._requests}-{n}",
                }
                for n in range(rng.randint(1, self.batch_max))
            ]
            answer = self.call("POST", "/timers:batch", {"timers": timers})
            if answer is not None:
                self.note("POST", answer)
                self._ask_again(timers, answer["timers"])
            self._stopping.wait(rng.uniform(0.05, 0.8))
            for one in _made(answer or {}):
                if rng.random() < 0.15 and (found := self.call("DELETE", f"/timers/{one['timer_id']}")) is not None:
                    self.note("DELETE", found)
        if self._owed:
            self.settle()

    def _ask_again(self, timers: list[dict[str, Any]], answers: list[dict[str, Any]]) -> None:
        """Leave for later what a batch was not made of (207): its shard was throttled, say."""
        left = [timer for timer, answer in zip(timers, answers, strict=True) if "timer_id" not in answer]
        if left:
            self._owed.append(("POST", "/timers:batch", {"timers": left}))

    def note(self, method: str, answer: Any) -> None:
        if method == "POST":
            made = _made(answer)
            self.told.created |= {one["timer_id"]: one["run_id"] for one in made}
            self.told.unmade += len(answer["timers"]) - len(made)
        else:
            assert answer["status"] == "cancelled", answer
            self.told.cancelled.add(answer["timer_id"])


def _made(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The timers of a batch that are there."""
    return [one for one in answer.get("timers", ()) if "timer_id" in one]


class JobClient(Client):
    def run(self) -> None:
        rng = self._rng
        alive: list[str] = []
        while not self._stopping.is_set():
            if len(alive) > JOBS_MAX and not self.is_patient:  # they are kept, and are not to become more and more load
                self._stopping.wait(1)
                continue
            self._requests += 1
            body = {
                "team": TEAM,
                "name": f"{self.target()['pool']}-{self.name}-{self._requests}",
                "schedule": {"rate": f"{rng.choice((2, 5, 10))} seconds"},
                "target": self.target(),
                "payload": {"work_s": 0},
                "lease_s": 30,
                "tolerance_s": 0,
                "exact_reason": "chaos",
                "retry_policy": RETRY,
                "catch_up": {"policy": "all"},
                "overlap": "allow",  # each occurrence is to run, however long the one before was held up
            }
            answer = self.call("POST", "/jobs", body)
            if answer is not None:
                self.note("POST", answer)
                alive.append(answer["job_id"])
            self._stopping.wait(rng.uniform(3, 8))
            if len(alive) > JOBS_MAX and self.is_patient:
                self.call("DELETE", f"/jobs/{alive.pop(rng.randrange(len(alive)))}")
        if not self.is_patient:
            self.settle()
            time.sleep(CATCHES_UP_S)
        for job_id in sorted(self.told.jobs):
            self.call("DELETE", f"/jobs/{job_id}")

    def note(self, method: str, answer: Any) -> None:
        if method == "POST":
            self.told.jobs.add(answer["job_id"])
