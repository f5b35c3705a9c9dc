"""One scenario's platform and worker process, and what was found amiss."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tickwork.conformance.endpoint import serve
from tickwork.conformance.platform import Platform, Scripted, ready_message

STARTS_WITHIN_S = 20.0
"""Until a worker has asked for work: a slow machine, a slow runtime."""
ACTS_WITHIN_S = 8.0
"""Until a worker that runs has done what it must."""
ENDS_WITHIN_S = 25.0

ASKS_FOR_WORK = "the worker asks for work"
SQS, LEASE, LAMBDA = "sqs", "lease", "lambda"


_OF_MESSAGE = ("lease_s", "handler", "attempt", "retry_ref")


class Failed(AssertionError):
    """The worker broke a rule."""


class Bench:
    """Starts the worker at the first `begin`, ends it with the block."""

    def __init__(self, command: str, mode: str, port: int, log: Path) -> None:
        self.mode, self.platform = mode, Platform()
        self._command, self._log_path = command, log
        self._server = serve(self.platform, port)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait(10)
        if self._log is not None:
            self._log.close()
        self._server.shutdown()
        self._server.server_close()

    # --- what a scenario does ----------------------------------------------------------------------------------------

    def send(self, *, work_s: float = 0.0, then: str = "succeed", **options: Any) -> Scripted:
        """Put a run of the job `conformance` into the queue. Options: answers, `bound_s`, `lease_s`, `raw`, ..."""
        self._count += 1
        ref = f"main#0000#29746040|30#conformance#job#{self._count}"
        payload = {"report": self.platform.report_url, "work_s": work_s, "then": then}
        changes = {name: options.pop(name) for name in _OF_MESSAGE if name in options}
        return self.platform.send(Scripted(ref, ready_message(ref, payload, **changes), **options))

    def begin(self) -> None:
        """Start the worker and wait until it asks for work."""
        port = self._server.server_port
        url = f"http://127.0.0.1:{port}"
        environ = {
            "TICKWORK_API_URL": url,
            "TICKWORK_AUTH": "none",
            "TICKWORK_POOL": "conformance",
            "TICKWORK_PREFIX": "conformance",
            "TICKWORK_QUEUE_URL": f"{url}/000000000000/conformance",
            "TICKWORK_LEASE_S": "3",
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
        }
        self._log = self._log_path.open("ab")
        self._process = _start(self._command, environ, self._log)
        self.until(lambda: self._asks_for_work() or self._has_ended(), STARTS_WITHIN_S)
        self.check(self._asks_for_work(), ASKS_FOR_WORK)

    def _asks_for_work(self) -> bool:
        return self.platform.waiting > 0 or bool(self.platform.of("receive")) or bool(self.platform.of("start"))

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def terminate(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def exit_code(self) -> int | None:
        """Wait for the worker's end; None when it does not come."""
        assert self._process is not None
        try:
            return self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            return None

    def until(self, wanted: Callable[[], bool], within_s: float = ACTS_WITHIN_S) -> bool:
        return self.platform.until(wanted, within_s)

    def rest(self, seconds: float) -> None:
        """Time in which something forbidden could happen."""
        time.sleep(seconds)

    # --- what it may ask ---------------------------------------------------------------------------------------------

    def seen(self, kind: str, run: Scripted) -> int:
        return len(self.platform.of(kind, run.ref))

    def check(self, holds: bool, rule: str) -> None:
        if not holds:
            raise Failed(rule)

    def wait_for(self, kind: str, run: Scripted, rule: str, count: int = 1, within_s: float = ACTS_WITHIN_S) -> None:
        self.check(self.until(lambda: self.seen(kind, run) >= count, within_s), rule)

    def never(self, kind: str, run: Scripted, rule: str) -> None:
        self.check(self.seen(kind, run) == 0, rule)

    def in_order(self, run: Scripted, *kinds: str) -> None:
        """The last of each kind came in this order."""
        times = []
        for kind in kinds:
            events = self.platform.of(kind, run.ref)
            self.check(bool(events), f"there is a {kind!r}")
            times.append(events[-1].at_s)
        self.check(times == sorted(times), f"in this order: {', then '.join(kinds)}")

    def journal(self) -> list[str]:
        """For the report of a failure."""
        begin_s = self.platform.events[0].at_s if self.platform.events else 0.0
        return [
            f"{event.at_s - begin_s:7.3f} s  {event.kind:10} {event.ref[-12:]:14} {event.facts}"
            for event in self.platform.events
        ]


def _start(command: str, environ: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(shlex.split(command), env={**os.environ, **environ}, stdout=log, stderr=log)
