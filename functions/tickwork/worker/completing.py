"""Completes: report outcomes until they are accepted, and only then let go of the message.

Outcomes go out at once when a sender is free, and together when none is: batching costs no latency. What is not
accepted is tried again as long as its lease holds, and meanwhile keeps no sender from the others. Protects the order
of W2 (delete after complete), W3 (nothing is completed for a lost lease, also not a late one) and W13 (of a report
that is refused, the bare outcome is told).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.worker.answers import INVALID, OF_THE_ENTRY, UNDECIDED, entries_of
from tickwork.worker.app import PERMANENT
from tickwork.worker.calling import CANCELLED, Outcome
from tickwork.worker.clock import WorkerClock
from tickwork.worker.delivery import Delivery

log = logging.getLogger("tickwork.worker")

COMPLETES_PER_CALL_MAX = 25
SENDERS = 3
PAUSE_S = 1.0
"""Before what was not accepted is tried again."""
REPORT_S_MAX = 3_600
"""Of an outcome whose lease goes on: heartbeats that are accepted beside completions that never are mean a broken API,
and the worker's slots are wanted."""

type Ended = tuple[Delivery, Outcome]


class Completer:
    """`drop` is told whose message is of no more use; `done` is called for each delivery in the end, come what may."""

    def __init__(
        self,
        api: ApiClient,
        drop: Callable[[Sequence[Delivery]], object],
        done: Callable[[Delivery], object],
        clock: WorkerClock,
        hurry: threading.Event,
    ) -> None:
        self._api, self._drop, self._done, self._clock, self._hurry = api, drop, done, clock, hurry
        self._ended: queue.SimpleQueue[Ended | None] = queue.SimpleQueue()
        self._senders = [
            threading.Thread(target=self._send_all, name=f"complete-{i}", daemon=True) for i in range(SENDERS)
        ]

    def start(self) -> None:
        for sender in self._senders:
            sender.start()

    def put(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery.ended_at_s = self._clock.now_s()
        self._ended.put((delivery, outcome))

    def stop(self, timeout_s: float) -> None:
        for _ in self._senders:
            self._ended.put(None)
        for sender in self._senders:
            sender.join(timeout_s)

    def _send_all(self) -> None:
        while (first := self._ended.get()) is not None:
            self.work_off(self._gather(first))

    def work_off(self, batch: Sequence[Ended]) -> None:
        """One call; what it leaves is put back, behind those that have ended since."""
        left: list[Ended] = []
        try:
            left = [] if self._hurry.is_set() else self._held(self._send_once(self._held(batch)))
        except Exception:
            log.exception("complete failed")
            left = self._held(batch)  # whatever was amiss: as long as its lease holds, an outcome is told
        finally:
            again = {id(delivery) for delivery, _ in left}
            for delivery, _ in batch:
                if id(delivery) not in again:
                    self._done(delivery)
        if left:
            self._clock.wait(self._hurry, PAUSE_S)
            for ended in left:
                self._ended.put(ended)

    def _gather(self, first: Ended) -> list[Ended]:
        """What else has ended while every sender was busy, or is to be tried again."""
        batch = [first]
        while len(batch) < COMPLETES_PER_CALL_MAX:
            try:
                ended = self._ended.get_nowait()
            except queue.Empty:
                break
            if ended is None:
                self._ended.put(None)  # another sender's sign to stop
                break
            batch.append(ended)
        return batch

    def send(self, batch: Sequence[Ended]) -> None:
        """Report until each outcome was accepted or refused, or its lease is gone."""
        left = self._held(batch)
        while left:
            try:
                left = self._send_once(left)
            except Exception:
                log.exception("complete failed")  # as above: nothing that is amiss here loses an outcome
            left = self._held(left)
            if left:
                self._clock.wait(self._hurry, PAUSE_S)

    def _held(self, batch: Sequence[Ended]) -> list[Ended]:
        """Those that may be reported (still): their leases hold."""
        now_s = self._clock.now_s()
        held = []
        for delivery, outcome in batch:
            is_held = not delivery.stop.is_lost and now_s < delivery.lease_ends_s
            if is_held and now_s - (delivery.ended_at_s or now_s) < REPORT_S_MAX:
                held.append((delivery, outcome))
            else:
                log.error("complete given up", extra={"facts": delivery.names})
        return held

    def _send_once(self, batch: Sequence[Ended]) -> list[Ended]:
        """One call; what is to be tried again."""
        if not batch:
            return []
        try:
            answer = self._api.post("/runs:complete", {"runs": [_entry(*ended) for ended in batch]})
            answers = entries_of(answer, len(batch))
        except ApiRefused as error:
            return self._refused(batch, error)
        except ApiUnreachable as error:
            log.warning("complete failed", extra={"facts": {"runs": len(batch), "error": str(error)}})
            return list(batch)
        return self._sort(batch, answers)

    def _refused(self, batch: Sequence[Ended], error: ApiRefused) -> list[Ended]:
        """The whole call was refused. For what it says: one by one, so that one entry does not keep its neighbours from
        ending. For another reason, such as credentials that are about to change: again."""
        if error.status not in OF_THE_ENTRY:
            log.error("complete refused", extra={"facts": {"runs": len(batch), "error": str(error)}})
            return list(batch)
        if len(batch) > 1:
            return [again for ended in batch for again in self._send_once([ended])]
        return self._say_less(*batch[0], str(error))

    def _say_less(self, delivery: Delivery, outcome: Outcome, why: str) -> list[Ended]:
        """An entry that is refused for what it says: a failure that is told has to become a recorded one."""
        log.error("complete refused", extra={"facts": delivery.names | {"error": why}})
        if outcome.outcome == CANCELLED:
            # An API of an older version does not know this outcome; failing for good is the nearest.
            return self._send_once([(delivery, Outcome(PERMANENT, outcome.error))])
        return self._send_once([(delivery, outcome.bare)]) if outcome != outcome.bare else []

    def _sort(self, batch: Sequence[Ended], answers: Sequence[dict[str, Any]]) -> list[Ended]:
        over, again = [], []
        for (delivery, outcome), answer in zip(batch, answers, strict=True):
            if answer.get("accepted"):
                log.info("run ended", extra={"facts": delivery.names | {"outcome": outcome.outcome}})
                over.append(delivery)
            elif answer.get("reason") in UNDECIDED:
                again.append((delivery, outcome))
            elif answer.get("reason") == INVALID:
                again += self._say_less(delivery, outcome, str(answer.get("detail")))
            else:
                log.warning("complete refused", extra={"facts": delivery.names | {"reason": answer.get("reason")}})
                if answer.get("discard"):
                    over.append(delivery)
        if over:
            self._drop(over)
        return again


def _entry(delivery: Delivery, outcome: Outcome) -> dict[str, Any]:
    entry = {"ref": delivery.ref, "token": delivery.token, "outcome": outcome.outcome, "error": outcome.error}
    optional = {
        "error_class": outcome.error_class,
        "retry_after_s": outcome.retry_after_s,
        "receipt": delivery.lease_receipt,
    }
    return entry | {name: value for name, value in optional.items() if value}
