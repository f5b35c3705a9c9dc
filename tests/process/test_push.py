"""`tickwork serve push` against the embedded endpoint: a run with a URL reaches a receiver on this machine, signed."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.machine import SETTINGS, Machine, eventually, free_port
from tickwork.core.runs.pushes import team_secret
from tickwork.local.processes import Child

EXAMPLE = Path(__file__).parents[2] / "examples" / "push_receiver.py"
PUSHING = replace(SETTINGS, pools="default,push", push_private=True)
NEW, OLD = "n" * 64, "o" * 64
SECRETS = {"TICKWORK_PUSH_SECRETS": f"{NEW},{OLD}"}


def example() -> Any:
    spec = importlib.util.spec_from_file_location("push_receiver", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def receiver(statuses: list[int], got: list[tuple[dict[str, str], bytes]]) -> Iterator[str]:
    """Answers with these statuses, one after the other, then with 204."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((dict(self.headers.items()), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses.pop(0) if statuses else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def test_a_run_is_pushed_signed_and_again_after_a_failure(tmp_path: Path) -> None:
    got: list[tuple[dict[str, str], bytes]] = []
    with Machine(tmp_path, PUSHING) as machine, receiver([503], got) as url:
        pusher = Child("pusher", ("serve", "push", "--threads", "2"), {**SECRETS}, tmp_path / "push.log")
        machine.children = [*machine.children[:2], pusher]
        machine.start()
        timer = machine.api.post("/timers", {
            "team": "payments", "delay_s": 1, "payload": {"order": 7}, "target": {"url": url},
            "retry_policy": {"base_s": 1, "cap_s": 1},
        })  # fmt: skip
        path = f"/timers/{timer['timer_id']}"
        run = eventually(lambda: machine.api.get(path), lambda found: found["status"] == "succeeded", within_s=60)
        assert pusher.process is not None
        pusher.process.send_signal(signal.SIGTERM)
        assert pusher.process.wait(30) == 0, (tmp_path / "push.log").read_text()

    assert run["attempt"] == len(got) == 2
    is_genuine = example().is_genuine
    for attempt, (headers, body) in enumerate(got, 1):
        assert (headers["Idempotency-Key"], headers["Tickwork-Attempt"]) == (run["run_id"], str(attempt))
        assert json.loads(body)["payload"] == {"order": 7}
        for master in (NEW, OLD):
            assert is_genuine(team_secret(master, "payments"), headers, body, time.time())
        assert not is_genuine(team_secret(NEW, "shipping"), headers, body, time.time())
        assert not is_genuine(team_secret(NEW, "payments"), headers, body + b" ", time.time())
        assert not is_genuine(team_secret(NEW, "payments"), headers, body, time.time() + 3_600)


def test_a_pusher_that_can_not_push_says_why_and_does_not_start() -> None:
    refusals = {
        "TICKWORK_POOLS": {"TICKWORK_POOLS": "default", **SECRETS},
        "TICKWORK_PUSH_SECRETS": {"TICKWORK_POOLS": "default,push"},
    }
    for named, environ in refusals.items():
        done = subprocess.run(
            [sys.executable, "-m", "tickwork.cli.main", "serve", "push"],
            env={"PYTHONPATH": ":".join(sys.path), "AWS_DEFAULT_REGION": "us-east-1", **environ},
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.startswith(f"Error: {named}"), done.stderr
