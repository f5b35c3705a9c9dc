"""Workers without AWS credentials, against the real API: the SDK's and the one in Node."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.machine import WORKER, Machine, eventually
from tickwork.local.processes import Child

NODE = shutil.which("node")
NODE_WORKER = Path(__file__).parents[2] / "examples" / "node-worker" / "worker.mjs"
TIMERS = 30


def sdk(machine: Machine, folder: Path) -> subprocess.Popen[bytes]:
    environ = {"TICKWORK_API_URL": machine.api.url, "EFFECTS": str(machine.effects)}
    child = Child("sdk", ("worker", f"{WORKER}:app", "--pool", "default", "--lease"), environ, folder / "sdk.log")
    child.start()
    assert child.process is not None
    return child.process


def node(machine: Machine, folder: Path) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "TICKWORK_API_URL": machine.api.url, "TICKWORK_POOL": "default"}
    with (folder / "node.log").open("ab") as log:
        return subprocess.Popen([str(NODE), str(NODE_WORKER)], env=environ, stdout=log, stderr=log)


@pytest.mark.parametrize(
    ("start", "handler"),
    [
        (sdk, "effect"),
        pytest.param(node, "rate-feed", marks=pytest.mark.skipif(NODE is None, reason="needs Node")),
    ],
    ids=["the SDK's worker", "the Node worker"],
)
def test_it_works_off_timers_and_ends_cleanly(
    tmp_path: Path, start: Callable[[Machine, Path], subprocess.Popen[bytes]], handler: str
) -> None:
    with Machine(tmp_path) as machine:
        machine.children = machine.children[:2]
        machine.start()
        worker = start(machine, tmp_path)
        try:
            target = {"pool": "default", "handler": handler}
            timers = [
                {"team": "payments", "delay_s": 2 + i % 5, "target": target, "client_key": f"h-{i}"}
                for i in range(TIMERS)
            ]
            ids = [one["timer_id"] for one in machine.api.post("/timers:batch", {"timers": timers})["timers"]]
            eventually(
                lambda: [machine.api.get(f"/timers/{one}")["status"] for one in ids],
                lambda statuses: set(statuses) == {"succeeded"},
                within_s=60,
                every_s=1,
            )
            assert {machine.api.get(f"/timers/{one}")["attempt"] for one in ids} == {1}
        finally:
            worker.send_signal(signal.SIGTERM)
            code = worker.wait(30)
        assert code == 0, "it ended cleanly"
