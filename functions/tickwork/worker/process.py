"""The worker process: take only what can start, run, heartbeat, complete, and only then delete.

Protects W1 to W4, and W12 with `shutting_down`. A crash at any point leaves the message in the queue (it comes back
when its visibility ends) and the lease in the ledger (it lapses): the run is delivered again as the next attempt.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tickwork.client import ApiClient
from tickwork.worker.app import App
from tickwork.worker.beating import Heartbeats
from tickwork.worker.calling import INTERRUPTED, call_job
from tickwork.worker.clock import WorkerClock
from tickwork.worker.completing import Completer
from tickwork.worker.delivery import Delivery
from tickwork.worker.handing_back import hand_back
from tickwork.worker.shutting_down import ShuttingDown
from tickwork.worker.sources import BATCH_MAX, Source

log = logging.getLogger("tickwork.worker")

SLOT_LOOK_S = 0.5
TAKE_S_MAX = 30.0
"""Of the poll that is out when a shutdown begins, and the start of what it brings: longer it is not waited for."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How many runs at once; at a shutdown, how long they get to end by themselves, and then to clean up."""

    concurrency: int = 8
    grace_s: float = 20.0
    clean_up_s: float = 5.0


class Worker:
    """Calls the functions of an App for the runs of a source. `run` blocks until `stop` was called."""

    def __init__(
        self,
        app: App,
        source: Source,
        api: ApiClient,
        options: WorkerOptions,
        stopping: threading.Event,
        clock: WorkerClock | None = None,
    ) -> None:
        self._app, self._source, self._api, self._options = app, source, api, options
        self._stopping, self._clock = stopping, clock or WorkerClock()
        self._hurry = threading.Event()
        self._stopped_at_s: float | None = None
        self._failure: Exception | None = None
        self._slots = threading.Semaphore(options.concurrency)
        self._active: set[Delivery] = set()
        self._active_lock = threading.Lock()
        self._stopped_early: list[Delivery] = []
        self._beats = Heartbeats(api, self.active, source.hold, self._clock)
        self._completer = Completer(api, source.drop, self._let_go, self._clock, self._hurry)
        self._end = ShuttingDown(self.active, self._take_stopped, self._hand_back, self._let_go, self._clock)

    def active(self) -> list[Delivery]:
        """The runs this worker holds a lease of."""
        with self._active_lock:
            return list(self._active)

    def stop(self) -> None:
        """Begin a clean shutdown: take nothing more, let what runs finish. Callable from a signal handler."""
        if self._stopped_at_s is None:
            self._stopped_at_s = self._clock.now_s()
        self._stopping.set()

    def run(self) -> bool:
        """Work until stopped. False when jobs did not stop: their runs have been handed back, and the process must end
        within `shutting_down.EXIT_S`."""
        beats_done = threading.Event()
        keepers = [
            threading.Thread(target=keep, args=(beats_done,), name=name, daemon=True)
            for name, keep in (("heartbeats", self._beats.beat_until), ("lease ends", self._beats.watch_until))
        ]
        for keeper in keepers:
            keeper.start()
        self._completer.start()
        pool = ThreadPoolExecutor(self._options.concurrency, thread_name_prefix="job")
        log.info("worker started", extra={"facts": {"handlers": self._app.names}})
        taker = threading.Thread(target=self._take_all, args=(pool.submit,), name="take", daemon=True)
        taker.start()
        try:
            self._stopping.wait()
        finally:
            self._stopping.set()
            stopped_at_s = self._clock.now_s() if self._stopped_at_s is None else self._stopped_at_s
            grace_ends_s = stopped_at_s + self._options.grace_s
            self._end.drain(grace_ends_s, self._options.clean_up_s)
            taker.join(TAKE_S_MAX)
            self._end.drain(grace_ends_s, self._options.clean_up_s)  # what its last poll has started
            pool.shutdown(wait=False, cancel_futures=True)
            self._hurry.set()
            self._completer.stop(timeout_s=1.0)
            beats_done.set()
            for keeper in keepers:
                keeper.join(timeout=1.0)
            self._end.hand_back_the_rest()
            given_up = self.active()
            if not given_up:
                self._source.close()
            log.info("worker stopped", extra={"facts": {"given_up": len(given_up)}})
        if self._failure is not None:
            raise self._failure
        return not given_up

    def _take_all(self, submit: Callable[..., object]) -> None:
        """Take runs until the worker is to stop. In a thread of its own: a long poll must not put off the end of the
        grace of what runs."""
        try:
            while not self._stopping.is_set():
                self.take_and_run(submit)
        except Exception as error:  # noqa: BLE001 - `run` raises it when what runs has ended
            self._failure = error
        finally:
            self._stopping.set()

    def take_and_run(self, submit: Callable[..., object]) -> None:
        """One turn: wait for a free slot, take as many runs as there are free ones, hand them to threads."""
        free = self._free_slots()
        granted: list[Delivery] = []
        try:
            granted = self._source.take(free) if free else []
        finally:
            for _ in range(free - len(granted)):
                self._slots.release()
        with self._active_lock:
            self._active.update(granted)
        for delivery in granted:
            submit(self.work_off, delivery)

    def work_off(self, delivery: Delivery) -> None:
        """One attempt, from its function's call to the report of its outcome."""
        outcome = None
        self._beats.give_up_outlasted()  # a start that was answered too late is not begun
        try:
            outcome = call_job(self._app, delivery)
        finally:
            if outcome is None:
                self._let_go(delivery)
            elif outcome.outcome == INTERRUPTED:
                with self._active_lock:
                    self._stopped_early.append(delivery)
            else:
                self._completer.put(delivery, outcome)

    def _free_slots(self) -> int:
        """Never receive what cannot start: its visibility would run while it waits."""
        if not self._slots.acquire(timeout=SLOT_LOOK_S):
            return 0
        taken = 1
        while taken < BATCH_MAX and self._slots.acquire(blocking=False):
            taken += 1
        return taken

    def _let_go(self, delivery: Delivery) -> None:
        with self._active_lock:
            self._active.discard(delivery)
        self._slots.release()

    def _take_stopped(self) -> list[Delivery]:
        with self._active_lock:
            stopped, self._stopped_early = self._stopped_early, []
        return stopped

    def _hand_back(self, deliveries: list[Delivery], stops_in_s: int) -> list[Delivery]:
        return hand_back(self._api, self._source, deliveries, stops_in_s)


def worker_name() -> str:
    """Who holds a lease, as the history shows it."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
