"""`tickwork dev`: a first run within 90 s, Ctrl-C ends it cleanly, the state survives, what came due is caught up."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.machine import eventually, free_port
from tickwork.client import ApiClient, ApiRefused

ROOT = Path(__file__).parents[2]


class DevSession:
    def __init__(self, state: Path, *options: str) -> None:
        self.port, self.state, self._options = free_port(), state, options
        self.api = ApiClient(f"http://127.0.0.1:{self.port}", auth="none")
        self._log = state.parent / f"session-{self.port}.log"

    def __enter__(self) -> DevSession:
        arguments = ["--port", str(self.port), "--endpoint-port", str(free_port()), "--state", str(self.state)]
        arguments += self._options
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tickwork.cli.main", "dev", "--demo", *arguments],
                cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self.began_s = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(60) == 0, self._log.read_text()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ends_by_itself(self) -> bool:
        return self._process.wait(60) == 0

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


def test_a_state_that_was_cut_off_is_no_reason_to_begin_without_jobs(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with DevSession(state) as first:
        eventually(first.text, lambda text: "ready after" in text, within_s=90)
    tables = state / "aws" / "dynamodb.json"
    whole = tables.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", None):
        tables.unlink() if damaged is None else tables.write_bytes(damaged)
        refused = subprocess.run(
            [sys.executable, "-m", "tickwork.cli.main", "dev", "--demo", "--state", str(state),
             "--port", str(free_port()), "--endpoint-port", str(free_port())],
            cwd=ROOT, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert refused.returncode == 1
        assert "are not overwritten: put a copy of its state in place, or move the folder away" in refused.stderr
        assert (tables.read_bytes() if tables.exists() else None) == damaged
    tables.write_bytes(whole)
    with DevSession(state) as last:
        eventually(last.text, lambda text: "ready after" in text, within_s=90)
        assert len(last.api.get("/jobs", team="payments")["jobs"]) == 2


def test_a_session_is_ended_from_elsewhere(tmp_path: Path) -> None:
    with DevSession(tmp_path / "state") as session:
        eventually(session.text, lambda text: "ready after" in text, within_s=90)
        told = subprocess.run(
            [sys.executable, "-m", "tickwork.cli.main", "dev", "--stop", "--state", str(session.state)],
            cwd=ROOT, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        assert f"pid {session.pid}) has ended" in told.stdout
        assert session.ends_by_itself()


def test_a_session_with_walls_runs_its_demo_and_prints_keys_that_hold_in_the_next_one(tmp_path: Path) -> None:
    with DevSession(tmp_path / "state", "--auth") as first:
        eventually(first.text, lambda text: " succeeded " in text, within_s=90)
        keys = dict(re.findall(r"(\w+) +of \w+ +(tw_\w+)", first.text()))
        assert keys.keys() == {"platform", "viewer", "worker", "operator", "owner"}
        assert not re.search(r"tw_\w", "".join(log.read_text() for log in (tmp_path / "state" / "logs").iterdir()))
        with pytest.raises(ApiRefused) as nobody:
            first.api.get("/runs")
        assert nobody.value.status == 401
    with DevSession(tmp_path / "state", "--auth") as second:
        eventually(second.text, lambda text: "not shown again" in text, within_s=90)
        assert not re.search(r"tw_\w", second.text()), "the hint names the shape, tw_..., and no key"
        viewer = ApiClient(second.api.url, api_key=keys["viewer"])
        assert viewer.get("/jobs/payments:rate-feed")["team"] == "payments"
        with pytest.raises(ApiRefused) as forbidden:
            viewer.delete("/jobs/payments:rate-feed")
        assert forbidden.value.status == 403
