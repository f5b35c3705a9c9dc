"""Deploys at the worst moments: SIGTERM at chosen ones of a worker's calls, and an API that is away.

Between each worker and the API stands a proxy that sees what it asks, and answers 503 while there is an outage.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import urllib3

from tests.support.machine import free_port
from tickwork.local.processes import Child

ENDS_WITHIN_S = 60.0
HELD_S = 0.3
"""How long a call is kept on its way when a signal is sent because of it."""
COMPLETE, HEARTBEAT, ANY = "/runs:complete", "/runs:heartbeat", ""


@dataclass
class Proxy:
    """What a worker's calls pass. `watch` names a path: the next call to it sends SIGTERM, and is held for a moment."""

    api: str
    url: str = ""
    is_away: bool = False
    watch: str | None = None
    worker: Child | None = None
    sent_at_s: float = 0.0
    taken: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """By ref: when it was released (`given`) and started (`begun`), by the clock of this process."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def saw(self, path: str) -> bool:
        """A call is here; whether it is the one that is watched for. Its worker has then been told to stop."""
        with self.lock:
            if self.watch is None or not path.startswith(self.watch):
                return False
            self.watch = None
        self.stop_worker()
        return True

    def stop_worker(self) -> None:
        process = self.worker.process if self.worker is not None else None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            self.sent_at_s = time.monotonic()

    def note(self, path: str, asked: Any, answered: Any) -> None:
        for one, answer in zip(asked.get("runs", ()), answered.get("runs", ()), strict=False):
            if path == "/runs:release" and answer.get("accepted"):
                kind = "later" if one.get("stops_in_s") else "given"
            elif path == "/runs:start" and answer.get("granted"):
                kind = "begun"
            else:
                continue
            self.taken.setdefault(one["ref"], []).append((kind, time.monotonic()))


@contextmanager
def proxies(api: str, workers: Sequence[Child]) -> Iterator[list[Proxy]]:
    """A proxy for each worker, which asks the API through it when it is started. They share what they have seen."""
    shared: dict[str, list[tuple[str, float]]] = {}
    with ExitStack() as stack:
        found = [stack.enter_context(_serving(Proxy(api, worker=worker, taken=shared))) for worker in workers]
        for worker, proxy in zip(workers, found, strict=True):
            worker.environ = {**worker.environ, "TICKWORK_API_URL": proxy.url}
        yield found


@contextmanager
def _serving(proxy: Proxy) -> Iterator[Proxy]:
    pool = urllib3.PoolManager(retries=False, maxsize=16)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if proxy.saw(self.path):
                time.sleep(HELD_S)
            if proxy.is_away:
                self._answer(503, b"{}")
                return
            url, kind = proxy.api + self.path, {"Content-Type": "application/json"}
            answer = pool.request("POST", url, body=body, headers=kind, timeout=60.0)
            if answer.status == 200:
                proxy.note(self.path, json.loads(body), json.loads(answer.data))
            self._answer(answer.status, answer.data)

        def _answer(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", free_port()), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy.url = f"http://127.0.0.1:{server.server_port}"
        yield proxy
        server.shutdown()


def deploy(found: Sequence[Proxy], moment: str, within_s: float, chance: random.Random) -> tuple[bool, int]:
    """Stop one of the workers at a moment of its calls, wait for its end, start it again. Says whether the moment came,
    and the exit code."""
    proxy = _stopped_at(found, moment, within_s) if moment else None
    came = proxy is not None
    if proxy is None:
        time.sleep(chance.uniform(0.1, 1.0))
        proxy = chance.choice(list(found))
        proxy.stop_worker()
    return came, started_again(proxy)


def started_again(proxy: Proxy) -> int:
    """Wait for the end of a worker that was told to stop, and start it again; its exit code."""
    worker = proxy.worker
    assert worker is not None
    assert worker.process is not None
    code = worker.process.wait(ENDS_WITHIN_S)
    worker.start()
    return code


def _stopped_at(found: Sequence[Proxy], moment: str, within_s: float) -> Proxy | None:
    """The first whose worker makes such a call; None when none does in time."""
    for proxy in found:
        proxy.watch = moment
    deadline_s = time.monotonic() + within_s
    caught: list[Proxy] = []
    while not caught and time.monotonic() < deadline_s:
        time.sleep(0.005)
        caught = [proxy for proxy in found if proxy.watch is None]
    for proxy in found:
        proxy.watch = None
    for late in caught[1:]:  # two at one moment: both are deployed
        assert late.worker is not None
        assert late.worker.process is not None
        late.worker.process.wait(ENDS_WITHIN_S)
        late.worker.start()
    return caught[0] if caught else None


@contextmanager
def outage(all_of: Sequence[Proxy]) -> Iterator[None]:
    """The API answers nobody but 503."""
    for proxy in all_of:
        proxy.is_away = True
    try:
        yield
    finally:
        for proxy in all_of:
            proxy.is_away = False


def waits_s(taken: dict[str, list[tuple[str, float]]], kind: str) -> list[float]:
    """How long each run that was handed back lay until somebody began it again."""
    found = []
    for events in taken.values():
        ordered = sorted(events, key=lambda event: event[1])
        for (name, at_s), (following, next_s) in pairwise(ordered):
            if name == kind and following == "begun":
                found.append(next_s - at_s)
    return found
