"""The previous version deployed by CDK onto the local endpoint, upgraded to this one by an update of its stack, and
rolled back by another: under load, with the workers exchanged after the functions and before them. Nothing accepted is
lost.

`make upgrade-test DEPLOYED=1`. The endpoint replaces all functions within a second or two, where AWS takes minutes:
both versions side by side are tested by the other test of this folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import urllib3
from localstack.deployment import Credentials, Deployment

from tests.e2e.caller import Caller
from tests.e2e.scenario import await_ticker
from tests.support.machine import eventually
from tests.upgrade.versions import ENDS_WITHIN_S, previous_commit, sources_of, why_not_there
from tickwork.local.endpoint import Endpoint

WORKER = Path(__file__).with_name("worker_app.py")
STAGE_S = 20.0
PERIOD_S = 10
TARGET = {"pool": "default", "handler": "note"}
SETTLES_WITHIN_S = 240
"""A retry after a function was exchanged under it, and a run whose worker was asked to end."""


@dataclass
class Load:
    """Creates timers without a pause, and remembers which were accepted. What is not answered, or with a server error,
    is asked for again with the same key."""

    client: Caller
    accepted: list[str] = field(default_factory=list)
    unanswered: int = 0
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        number = 0
        while not self.ending.wait(1):
            number += 1
            wanted = [
                {"team": "up", "delay_s": delay_s, "target": TARGET, "client_key": f"{number}-{delay_s}"}
                for delay_s in (1, 5, 30)
            ]
            self.accepted += [one["timer_id"] for one in self._create({"timers": wanted})]

    def _create(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        for _ in range(120):
            try:
                status, answer = self.client.call("POST", "/timers:batch", body)
            except (urllib3.exceptions.HTTPError, json.JSONDecodeError):
                status, answer = 0, {}
            if 200 <= status < 300:
                return list(answer["timers"])
            assert status == 0 or status >= 500, f"{status}: {answer}"
            self.unanswered += 1
            time.sleep(0.5)
        raise AssertionError("the API has not answered for a minute")


class Workers:
    """Processes of either version, ended as an orchestrator ends them: asked, and killed when they take too long."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self.killed = 0

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.wait(5)

    def start(self, version: Deployment, role: Credentials) -> subprocess.Popen[bytes]:
        environ = version.environ(role) | {"TICKWORK_API_URL": version.api_url, "TICKWORK_AUTH": "iam"}
        command = [
            "-m",
            "tickwork.cli.main",
            "worker",
            f"{WORKER}:app",
            "--pool",
            "default",
            "--prefix",
            "tickwork-dev",
        ]
        with (self._folder / f"worker-{len(self._running)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                env=environ | {"NOTES": str(self._folder / "notes")},
                cwd=version.root,
                stdout=log,
                stderr=log,
            )
        self._running.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.poll() is None, "it has ended by itself"
        process.terminate()
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            self.killed += 1


@contextmanager
def under(load: Load) -> Iterator[None]:
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield
    finally:
        load.ending.set()
        thread.join(90)


@pytest.mark.skipif(not os.environ.get("UPGRADE_DEPLOYED"), reason="five minutes: `make upgrade-test DEPLOYED=1`")
@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here, and the CDK's command line needs it")
@pytest.mark.timeout(1_500)
def test_a_deployed_stack_is_upgraded_and_rolled_back_under_load_and_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = previous_commit()
    if why := why_not_there(commit):
        pytest.skip(why)
    with Endpoint(roles_enforced=True, log=tmp_path / "endpoint.log") as endpoint, Workers(tmp_path) as workers:
        old = Deployment(endpoint.url, made(tmp_path / "old"), root=sources_of(commit, tmp_path / "previous"))
        new = Deployment(endpoint.url, made(tmp_path / "new"))
        new.synthesize()
        old.deploy()
        old.repair()
        before = tables_of(old)
        client = Caller(old.api_url, old.role_with("client"))
        role = old.role_with("worker-default")
        await_ticker(old)
        job = {"team": "up", "name": "steady", "schedule": {"rate": f"{PERIOD_S} seconds"}, "target": TARGET}
        client.ok("POST", "/jobs", {**job, "catch_up": {"policy": "all"}, "overlap": "allow"})
        load = Load(client)
        with under(load):
            first = workers.start(old, role)
            time.sleep(STAGE_S)
            change_to(new)
            assert new.outputs["ApiUrl"] == old.outputs["ApiUrl"], "an upgrade keeps the API's address"
            second = workers.start(new, role)
            workers.end(first)
            time.sleep(STAGE_S)
            come = tables_of(new) - before
            workers.start(old, role)
            workers.end(second)
            change_to(old)
            time.sleep(STAGE_S)
        accepted = list(dict.fromkeys(load.accepted))
        statuses = eventually(
            lambda: Counter(client.ok("GET", f"/timers/{timer_id}")["status"] for timer_id in accepted),
            lambda found: found.keys() == {"succeeded"},
            within_s=SETTLES_WITHIN_S,
            every_s=5,
        )
        runs = client.ok("GET", "/jobs/up:steady/runs?limit=100")["runs"]
        assert {run["status"] for run in runs[4:]} == {"succeeded"}
        assert len({run["scheduled_at"] for run in runs}) == len(runs)
        assert len(accepted) > STAGE_S, "next to nothing was accepted: nothing was tested"
        assert tables_of(old) == before, (
            "in an environment that does not keep its data, what only the newer one has goes"
        )
    notes = (tmp_path / "notes").read_text(encoding="utf-8").split()
    with capsys.disabled():
        print(f"\n{len(accepted)} timers accepted, {statuses['succeeded']} succeeded, 0 lost")
        print(f"{load.unanswered} calls repeated, {workers.killed} workers killed", end="; ")
        print(f"{len(notes) - len(set(notes))} of {len(notes)} effects doubled")
        print(f"came with the upgrade, went with the roll-back: {', '.join(sorted(come))}; {new.took_s}, {old.took_s}")


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def change_to(version: Deployment) -> None:
    """Another version over what stands there."""
    version.update()
    version.repair()


def tables_of(deployment: Deployment) -> set[str]:
    return set(deployment.client("dynamodb").list_tables()["TableNames"])
