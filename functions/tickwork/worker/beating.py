"""Heartbeats: keep the leases of what runs, and stop what has lost its own.

Protects W3, W11 and W14. One thread does nothing else; no call it makes waits longer than a fraction of a lease, and
what it tells the queue is handed to another thread, so that neither a busy job nor a slow queue can starve it. A
second thread makes no call at all: it stops what has outlasted its lease while the first one waits for an answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from tickwork.client import ApiRefused, ApiUnreachable
from tickwork.worker.answers import UNDECIDED, entries_of
from tickwork.worker.clock import WorkerClock
from tickwork.worker.context import LeaseLost, RunCancelled
from tickwork.worker.delivery import Delivery

log = logging.getLogger("tickwork.worker")

LOOK_S = 0.25
"""How often the thread looks whose turn it is: well under a third of the shortest lease."""
FAILED_BEATS_MAX = 2
"""After two failed heartbeats the attempt is given up (spec W3): at two thirds of the lease, while it still holds."""
BEATS_PER_CALL_MAX = 25
CALL_S_MAX = 5.0
BEAT_S_MIN = 0.5
"""Between two heartbeats: of an attempt that nears `max_duration_s` less and less is left, and no beat lengthens it."""


class BeatApi(Protocol):
    def post(self, path: str, body: object, *, repeat: bool = True, timeout_s: float = ...) -> Any: ...


class Heartbeats:
    """Beats for the deliveries that `running` returns; `hold` is told which leases were extended."""

    def __init__(
        self,
        api: BeatApi,
        running: Callable[[], Iterable[Delivery]],
        hold: Callable[[Sequence[Delivery]], object],
        clock: WorkerClock,
    ) -> None:
        self._api, self._running, self._hold, self._clock = api, running, hold, clock

    def beat_until(self, done: threading.Event) -> None:
        while not self._clock.wait(done, LOOK_S):
            try:
                self.step()
            except Exception:
                # Without heartbeats every run of this worker would be lost: never let the thread end.
                log.exception("heartbeat step failed")

    def watch_until(self, done: threading.Event) -> None:
        """Give up what has outlasted its lease, also while a heartbeat waits for its answer."""
        while not self._clock.wait(done, LOOK_S):
            try:
                self.give_up_outlasted()
            except Exception:
                log.exception("lease ends not looked at")  # the next look comes soon: never let the thread end

    def give_up_outlasted(self) -> None:
        """Stop the runs whose lease is over by our own clock: it was not extended, cannot be extended any more, or
        the process or the machine stood still."""
        now_s = self._clock.now_s()
        for delivery in self._running():
            if now_s >= delivery.lease_ends_s and not delivery.stop.is_lost:
                _stop(delivery, "the lease's time is over")

    def step(self) -> None:
        """Beat for every lease of which a third has passed; give up those whose time is over by our own clock."""
        self.give_up_outlasted()
        now_s = self._clock.now_s()
        held = [delivery for delivery in self._running() if not delivery.stop.is_lost]
        due = [d for d in held if now_s - d.beaten_at_s >= max(BEAT_S_MIN, d.trust_s / 3)]
        due.sort(key=lambda delivery: delivery.lease_ends_s)
        for begin in range(0, len(due), BEATS_PER_CALL_MAX):
            self._beat(due[begin : begin + BEATS_PER_CALL_MAX])

    def _beat(self, due: Sequence[Delivery]) -> None:
        asked_at_s = self._clock.now_s()
        body = {"runs": [_entry(delivery) for delivery in due]}
        timeout_s = min(CALL_S_MAX, min(d.lease_s for d in due) / 6)
        try:
            answer = self._api.post("/runs:heartbeat", body, repeat=False, timeout_s=timeout_s)
            answers = entries_of(answer, len(due))
        except (ApiUnreachable, ApiRefused) as error:
            log.warning("heartbeat failed", extra={"facts": {"runs": len(due), "error": str(error)}})
            answers = [{"reason": "busy"}] * len(due)
        for delivery, answer in zip(due, answers, strict=True):
            _take(delivery, answer, asked_at_s)
        extended = [one for one in due if not (one.failed_beats or one.stop.is_lost or one.is_given_back)]
        if extended:
            self._hold(extended)


def _entry(delivery: Delivery) -> dict[str, Any]:
    entry = {"ref": delivery.ref, "token": delivery.token, "lease_s": delivery.lease_s}
    return entry | ({"receipt": delivery.lease_receipt} if delivery.lease_receipt else {})


def _take(delivery: Delivery, answer: dict[str, Any], asked_at_s: float) -> None:
    reason = answer.get("reason")
    if answer.get("cancel") or reason == "cancelled":
        delivery.call.stop(RunCancelled)
    if answer.get("accepted"):
        delivery.extend(answer, asked_at_s)
    else:
        delivery.beaten_at_s = asked_at_s
        delivery.failed_beats += 1
        if not (reason in UNDECIDED or reason == "cancelled") or delivery.failed_beats >= FAILED_BEATS_MAX:
            _stop(delivery, str(reason))


def _stop(delivery: Delivery, reason: str) -> None:
    delivery.call.stop(LeaseLost)
    log.warning("lease lost", extra={"facts": delivery.names | {"reason": reason}})
