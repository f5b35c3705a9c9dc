"""`tickwork dev`: a first run within 90 s, Ctrl-C ends it cleanly, the state survives, what came due is caught up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.machine import eventually, free_port
from tickwork.client import ApiClient

ROOT = Path(__file__).parents[2]


class DevSession:
    def __init__(self, state: Path) -> None:
        self.port, self.state = free_port(), state
        self.api = ApiClient(f"http://127.0.0.1:{self.port}", auth="none")
        self._log = state.parent / f"session-{self.port}.log"

    def __enter__(self) -> DevSession:
        arguments = ["--port", str(self.port), "--endpoint-port", str(free_port()), "--state", str(self.state)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tickwork.cli.main", "dev", *arguments],
                cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self.began_s = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(60) == 0, self._log.read_text()

    def text(self) -> str:
        return self._log.read_text()


def test_a_session_runs_its_demo_and_the_next_one_catches_up(tmp_path: Path) -> None:
    with DevSession(tmp_path / "state") as first:
        eventually(first.text, lambda text: " succeeded " in text, within_s=90)
        print(f"\nfirst succeeded run after {time.monotonic() - first.began_s:.1f} s")
        timer = first.api.post("/timers", {
            "team": "payments", "delay_s": 8, "payload": {"seat": "99Z"},
            "target": {"pool": "payments", "handler": "hold-expired"},
        })  # fmt: skip
        assert timer["status"] == "pending"
    time.sleep(max(0.0, first.began_s + 12 - time.monotonic()))

    with DevSession(tmp_path / "state") as second:
        eventually(second.text, lambda text: "ready after" in text, within_s=60)
        print(f"second start ready after {time.monotonic() - second.began_s:.1f} s")
        path = f"/timers/{timer['timer_id']}"
        run = eventually(lambda: second.api.get(path), lambda found: found["status"] == "succeeded", within_s=60)
        assert run["attempt"] == 1
        assert run["run_id"] == timer["run_id"]
        jobs = {job["name"]: job["version"] for job in second.api.get("/jobs", team="payments")["jobs"]}
        assert jobs == {"nightly-settlement": 1, "rate-feed": 1}, "registering the demo again changed nothing"
