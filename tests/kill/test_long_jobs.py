"""In real time: a job of three leases with heartbeats is one copy; with its heartbeats cut off it is stopped."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import urllib3

from tests.kill.world import LEASE_S, Book, machine_with
from tests.support.machine import Machine, eventually, free_port
from tickwork.client import ApiClient
from tickwork.local.processes import Child

WORK_S = 3 * LEASE_S + 5


@contextmanager
def cutting_proxy(api: str) -> Iterator[tuple[str, list[str]]]:
    """Passes every call on to the API but heartbeats, which get no better answer than 503. Yields its URL, and the
    refs of the runs that were started through it."""
    refs: list[str] = []
    pool = urllib3.PoolManager(retries=False)

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, data = 503, b"{}"
            if self.path == "/runs:start":
                refs.extend(run["ref"] for run in json.loads(body)["runs"])
            if self.path != "/runs:heartbeat":
                answer = pool.request("POST", api + self.path, body=body, headers={"Content-Type": "application/json"})
                status, data = answer.status, answer.data
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", free_port()), Proxy) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", refs
        server.shutdown()


def long_timer(machine: Machine, pool: str) -> str:
    timer = machine.api.post(
        "/timers",
        {
            "team": "payments",
            "delay_s": 3,
            "target": {"pool": pool, "handler": "long"},
            "payload": {"before_s": WORK_S},
            "lease_s": LEASE_S,
            "client_key": f"long-{pool}",
        },
    )
    return str(timer["timer_id"])


def test_three_leases_are_one_copy_and_a_run_cut_off_is_stopped(tmp_path: Path, book: Book) -> None:
    with machine_with(tmp_path, book, workers=1) as (machine, team), cutting_proxy(machine.api.url) as (proxy, refs):
        steady = team[0]
        arguments = [*steady.arguments[:-3], "default", *steady.arguments[-2:]]
        environ = dict(steady.environ) | {"TICKWORK_API_URL": proxy}
        cut = Child("cut", arguments, environ, tmp_path / "cut.log")
        machine.children.append(cut)
        cut.start()
        steady_id, cut_id = long_timer(machine, "payments"), long_timer(machine, "default")
        steady_run, cut_run = (str(machine.api.get(f"/timers/{one}")["run_id"]) for one in (steady_id, cut_id))

        ended = "SELECT attempt, how FROM ended WHERE run_id = %s ORDER BY attempt"
        eventually(lambda: book.rows(ended, cut_run), bool, within_s=LEASE_S + 30)
        began_s = time.monotonic()
        assert book.rows(ended, cut_run) == [(1, "LeaseLost")]
        history = machine.api.get(f"/timers/{cut_id}")
        assert (history["status"], history["attempt"]) == ("running", 1), "stopped while its lease still held"
        assert cut.process is not None
        cut.process.kill()

        # Another worker gets the run, with a token that beats the first: what that one says late is refused.
        rescuer = Child("rescuer", arguments, steady.environ, tmp_path / "rescuer.log")
        machine.children.append(rescuer)
        rescuer.start()
        second = eventually(
            lambda: machine.api.get(f"/timers/{cut_id}"), lambda run: run["attempt"] == 2, within_s=LEASE_S + 20
        )
        rescued_s = time.monotonic() - began_s
        late = ApiClient(machine.api.url, auth="none").post(
            "/runs:complete", {"runs": [{"ref": refs[0], "token": 1, "outcome": "succeeded"}]}
        )["runs"][0]
        assert (late["accepted"], late["reason"]) == (False, "stale_token")
        assert second["token"] == 2
        assert [attempt["outcome"] for attempt in second["attempts"]] == ["lost"]

        done = eventually(
            lambda: machine.api.get(f"/timers/{steady_id}"), lambda run: run["ended_at"], within_s=WORK_S + 30
        )
        begun = book.rows("SELECT attempt FROM begun WHERE run_id = %s", steady_run)
        print(
            f"\n{WORK_S} s of work on a lease of {LEASE_S} s: status {done['status']}, attempts {done['attempt']},"
            f" begun {len(begun)} time(s)\n  cut off: LeaseLost, the next attempt"
            f" {rescued_s:.0f} s later, the late completion refused as stale_token"
        )
        assert (done["status"], done["attempt"], done["attempts"]) == ("succeeded", 1, [])
        assert begun == [(1,)]
