"""Threads of the production worker as greenlets of a simulated process: what `threading`, `queue` and the executor are
to it, over virtual time.

Nothing runs beside anything else: a thread goes on until it parks. Each call of these first looks whether its process
is dead; so the death of one thread is the death of all, and nothing of a worker happens after its crash.
"""

from __future__ import annotations

import queue as real_queue
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from tickwork.testing.process import CRASHED, Crashed, Process
from tickwork.worker import beating, completing, context, lambdas, process, shutting_down, sources, stopping
from tickwork.worker.clock import WorkerClock
from tickwork.worker.context import StopJob

if TYPE_CHECKING:
    from tests.simulator.world import World

_FOREVER_MS = 7 * 86_400_000


def current() -> Process:
    """The simulated process that is running now. Dead ones go no further."""
    here: Process = getcurrent().process
    if here.state == CRASHED or here.world.kernel.stopped:
        raise Crashed
    return here


def wait(waiters: list[Callable[[], None]], seconds: float | None) -> bool:
    """Wait for somebody, at most so long; a signal that was sent to this thread strikes here."""
    here = current()
    duration_ms = _FOREVER_MS if seconds is None else max(0, int(seconds * 1_000))
    called = here.world.kernel.wait(waiters, duration_ms)
    current()
    strike()
    return called


def strike() -> None:
    """Raise what was sent to this thread, as a bytecode of it would meet it."""
    here = getcurrent()
    signal: type[StopJob] | None = getattr(here, "signal", None)
    if signal is not None:
        here.signal = None
        raise signal("simulated")


class Event:
    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for wake in self._waiters:
            wake()

    def wait(self, seconds: float | None = None) -> bool:
        if not self._is_set:
            wait(self._waiters, seconds)
        return self._is_set


class Semaphore:
    def __init__(self, value: int = 1) -> None:
        self._value = value
        self._waiters: list[Callable[[], None]] = []

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        if not self._value and blocking:
            wait(self._waiters, timeout)
        if not self._value:
            return False
        self._value -= 1
        return True

    def release(self) -> None:
        self._value += 1
        for wake in self._waiters:
            wake()


class RLock:
    """Owned by a thread, which may take it again."""

    def __init__(self) -> None:
        self._owner: object = None
        self._depth = 0
        self._waiters: list[Callable[[], None]] = []

    def acquire(self, blocking: bool = True) -> bool:
        here = getcurrent()
        while self._owner not in (None, here):
            if not blocking:
                return False
            wait(self._waiters, None)
        self._owner = here
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            for wake in self._waiters:
                wake()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Thread:
    def __init__(self, target: Callable[..., object], args: tuple[object, ...] = (), **_: object) -> None:
        self._run: Callable[[], object] = partial(target, *args)
        self._over = Event()

    def start(self) -> None:
        def body() -> None:
            try:
                self._run()
            finally:
                self._over.set()

        current().thread(body)

    def join(self, timeout: float | None = None) -> None:
        self._over.wait(timeout)


class ThreadPoolExecutor:
    """So many threads at most; what waits for one goes in its order."""

    def __init__(self, max_workers: int, **_: object) -> None:
        self._free = Semaphore(max_workers)
        self._running = 0
        self._waiters: list[Callable[[], None]] = []
        self._cancelled = False

    def submit(self, function: Callable[..., object], *args: object) -> None:
        self._running += 1

        def body() -> None:
            self._free.acquire()
            try:
                if not self._cancelled:
                    function(*args)
            finally:
                self._running -= 1
                self._free.release()
                for wake in self._waiters:
                    wake()

        current().thread(body)

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        self._cancelled = cancel_futures
        while wait and self._running:
            _wait(self._waiters, None)


_wait = wait


class Timer:
    """A function that is called in another thread after a while, unless that is cancelled before."""

    def __init__(self, interval: float, function: Callable[..., object], args: tuple[object, ...] = ()) -> None:
        self.daemon = False
        self._interval, self._function, self._args = interval, function, args
        self._cancelled = Event()

    def start(self) -> None:
        current().thread(self._body)

    def cancel(self) -> None:
        self._cancelled.set()

    def _body(self) -> None:
        if not self._cancelled.wait(self._interval):
            self._function(*self._args)


class SimpleQueue:
    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiters: list[Callable[[], None]] = []

    def put(self, item: object) -> None:
        self._items.append(item)
        for wake in self._waiters:
            wake()

    def get(self) -> Any:
        while not self._items:
            wait(self._waiters, None)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise real_queue.Empty
        return self._items.popleft()


def _send(thread_id: int, signal: type[StopJob] | None) -> None:
    """A signal into a thread: it strikes at its next wait. None takes back what has not struck."""
    thread = _THREADS.get(thread_id)
    if thread is not None:
        thread.signal = signal


_THREADS: dict[int, Any] = {}


def _get_ident() -> int:
    here = getcurrent()
    _THREADS[id(here)] = here
    return id(here)


class SimWorkerClock(WorkerClock):
    """The worker's clock in its simulated process."""

    def now_s(self) -> float:
        return current().monotonic_ms() / 1_000

    def wait(self, event: Any, seconds: float) -> bool:
        current()
        return bool(event.wait(seconds))

    def unique(self) -> str:
        return current().ports.ids.unique()


THREADING = SimpleNamespace(
    Event=Event, Semaphore=Semaphore, RLock=RLock, Lock=RLock, Thread=Thread, Timer=Timer, get_ident=_get_ident
)
QUEUE = SimpleNamespace(SimpleQueue=SimpleQueue, Empty=real_queue.Empty)

_THREADED = (process, beating, completing, context, lambdas, shutting_down, sources, stopping)
_MAPPED: tuple[tuple[Any, str, object], ...] = (
    *((module, "threading", THREADING) for module in _THREADED),
    (completing, "queue", QUEUE),
    (process, "ThreadPoolExecutor", ThreadPoolExecutor),
    (sources, "ThreadPoolExecutor", ThreadPoolExecutor),
    (lambdas, "WorkerClock", SimWorkerClock),
    (stopping, "_set_async", _send),
)


@contextmanager
def mapped_threads(world: World) -> Iterator[None]:
    """The worker's modules with these in place of threads, where a world has the production worker in it."""
    if not world.has_real_workers:
        yield
        return
    standing = [(module, name, getattr(module, name)) for module, name, _ in _MAPPED]
    logs = process.log
    was_disabled, logs.disabled = logs.disabled, True  # its lines are about the simulated jobs' failures
    for module, name, mapped in _MAPPED:
        setattr(module, name, mapped)
    try:
        yield
    finally:
        logs.disabled = was_disabled
        _THREADS.clear()
        for module, name, original in standing:
            setattr(module, name, original)
