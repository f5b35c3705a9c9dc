"""A tethered process ends with the one that started it, also where the kernel does not tell it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machine import eventually

CHILD = """
import pathlib, signal, sys, time
deaf, place = sys.argv[1] == "deaf", pathlib.Path(sys.argv[2])
if deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
place.write_text("up")
time.sleep(600)
"""
PARENT = """
import subprocess, sys, time, os
tether = [sys.executable, "-m", "tickwork.local.tether", str(os.getpid()), "0.5"]
print(subprocess.Popen([*tether, *sys.argv[1:]]).pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("kind", ["hears", "deaf"])
def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path, kind: str) -> None:
    (tmp_path / "tethered_child.py").write_text(CHILD)
    place = tmp_path / "place"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, "tethered_child", kind, str(place)],
        stdout=subprocess.PIPE,
        env=environ,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    eventually(place.exists, bool, within_s=30)
    parent.kill()
    parent.communicate()
    try:
        eventually(lambda: _runs(child), lambda runs: not runs, within_s=20)
    finally:
        if _runs(child):
            os.kill(child, signal.SIGKILL)


def _runs(pid: int) -> bool:
    """One that has ended and that nobody has asked about does not run."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
