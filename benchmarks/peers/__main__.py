"""Peers side by side: the same one-shots due in one second, once in peace and once with kill -9 in mid-drain.

`make bench-peers`. Each peer as its manual sets it up, on this machine: APScheduler 3 with SQLite, Celery with Redis
(tasks with an ETA), tickwork's own processes on the embedded endpoint (an emulator: at most some 350 writes a second).
Killed is what decides when a timer runs (tickwork: windows and worker; APScheduler: its process; Celery: its worker),
when a third has run; it is started again after three seconds. Lost: has not run within the watch after that.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path

from benchmarks.peers.embedded import Machine

ROOT = Path(__file__).resolve().parents[2]
DOWN_S = 3
STALLED_S = 20
"""Nothing more has run for so long: what is missing is lost, or comes too late to count."""
WATCH_S = 150


class Peer(ABC):
    """Something that runs timers. `effects` is the file its jobs append to."""

    name = ""

    def __init__(self, folder: Path, python: Path, port: int) -> None:
        self.effects = folder / "effects.txt"
        self.python, self.port, self.folder = python, port, folder
        self.environ = os.environ | {"EFFECTS": str(self.effects), "PYTHONPATH": f"{ROOT}:{ROOT / 'functions'}"}
        self.processes: list[subprocess.Popen[bytes]] = []

    def spawn(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log.txt").open("ab") as log:
            return subprocess.Popen(command, env=self.environ, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    @abstractmethod
    def prepare(self) -> None: ...

    @abstractmethod
    def fill(self, count: int, due_ms: int) -> None: ...

    @abstractmethod
    def start(self) -> None: ...

    def kill(self) -> None:
        """kill -9 of our own process groups."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)
        self.processes = []

    def close(self) -> None:
        self.kill()


class APScheduler(Peer):
    name = "APScheduler 3, SQLite"

    def prepare(self) -> None:
        pass

    def fill(self, count: int, due_ms: int) -> None:
        command = [str(self.python), "-m", "benchmarks.peers.aps", "fill", str(count), str(due_ms)]
        subprocess.run(command, env=self.environ, cwd=ROOT, check=True)

    def start(self) -> None:
        self.processes = [self.spawn(str(self.python), "-m", "benchmarks.peers.aps", "run")]


class Celery(Peer):
    name = "Celery, Redis"

    def prepare(self) -> None:
        self.environ["BROKER"] = f"redis://127.0.0.1:{self.port + 5}/0"
        self._redis = self.spawn(
            "redis-server", "--port", str(self.port + 5), "--bind", "127.0.0.1", "--dir", str(self.folder)
        )
        time.sleep(1)

    def fill(self, count: int, due_ms: int) -> None:
        command = [str(self.python), "-m", "benchmarks.peers.celery_app", "fill", str(count), str(due_ms)]
        subprocess.run(command, env=self.environ, cwd=ROOT, check=True)

    def start(self) -> None:
        app = (
            "-m",
            "celery",
            "-A",
            "benchmarks.peers.celery_app",
            "worker",
            "--concurrency",
            "10",
            "--loglevel",
            "WARNING",
        )
        self.processes = [self.spawn(str(self.python), *app)]

    def close(self) -> None:
        super().close()
        self._redis.kill()
        self._redis.wait(10)


class Tickwork(Peer):
    name = "tickwork, embedded"

    def prepare(self) -> None:
        self._machine = Machine(self.folder, self.port, worker="benchmarks/peers/worker.py:app")
        self._machine.environ["EFFECTS"] = str(self.effects)
        self._machine.start(only=("api",))

    def fill(self, count: int, due_ms: int) -> None:
        lead_s = due_ms // 1_000 - int(time.time())
        self._machine.create(count, lead_s, handler="effect")

    def start(self) -> None:
        self._machine.start_children("windows", "worker")

    def kill(self) -> None:
        self._machine.kill_children("windows", "worker")

    def close(self) -> None:
        self._machine.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timers", type=int, default=5_000)
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-peers" / "bin" / "python")
    parser.add_argument("--port", type=int, default=4820)
    parser.add_argument("--lead", type=int, default=40, help="seconds from the first create to the due second")
    chosen = parser.parse_args()
    print(
        "| peer | create /s | drain s | lag p50 / p99 s | CPU ms a timer | after kill -9: lost | doubled | last one s |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for kind in (APScheduler, Celery, Tickwork):
        cells = []
        for killed in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                peer = kind(Path(folder), chosen.python, chosen.port)
                try:
                    cells += play(peer, chosen.timers, chosen.lead, killed=killed)
                finally:
                    peer.close()
        print(f"| {kind.name} | {' | '.join(cells)} |", flush=True)


def play(peer: Peer, count: int, lead_s: int, *, killed: bool) -> list[str]:
    peer.prepare()
    due_ms = (int(time.time()) + lead_s) * 1_000
    began = time.monotonic()
    peer.fill(count, due_ms)
    created_s = time.monotonic() - began
    peer.start()
    time.sleep(max(0.0, due_ms / 1_000 - time.time()))
    cpu = _cpu_s()
    if killed:
        _wait(peer, count // 3)
        peer.kill()
        time.sleep(DOWN_S)
        peer.start()
    _wait(peer, count)
    lines = _lines(peer)
    ran = Counter(line[0] for line in lines)
    lags = sorted((int(line[2]) - due_ms) / 1_000 for line in lines)
    last_s = lags[-1] if lags else 0
    if killed:
        return [str(count - len(ran)), str(sum(n - 1 for n in ran.values())), f"{last_s:.1f}"]
    p50, p99 = (lags[min(len(lags) - 1, int(len(lags) * q))] for q in (0.5, 0.99))
    cpu_ms = (_cpu_s() - cpu) / count * 1_000
    return [f"{count / created_s:.0f}", f"{last_s:.1f}", f"{p50:.1f} / {p99:.1f}", f"{cpu_ms:.1f}"]


def _wait(peer: Peer, count: int) -> None:
    until_s, seen, since_s = time.monotonic() + WATCH_S, -1, time.monotonic()
    while time.monotonic() < until_s:
        ran = len({line[0] for line in _lines(peer)})
        if ran >= count or time.monotonic() - since_s > STALLED_S + DOWN_S + (70 if isinstance(peer, Tickwork) else 0):
            return
        if ran != seen:
            seen, since_s = ran, time.monotonic()
        time.sleep(0.2)


def _lines(peer: Peer) -> list[list[str]]:
    if not peer.effects.exists():
        return []
    return [line.split() for line in peer.effects.read_text().splitlines()]


def _cpu_s() -> float:
    """CPU seconds of every living descendant of this process, and of this process's ended children."""
    tick = os.sysconf("SC_CLK_TCK")
    stats = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            stats[int(folder.name)] = (int(fields[1]), sum(int(n) for n in fields[11:15]) / tick)
    ours, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, (parent, _) in stats.items() if parent in ours} - ours
        ours |= more
        grown = bool(more)
    return sum(stats[pid][1] for pid in ours if pid in stats and pid != os.getpid())


if __name__ == "__main__":
    sys.exit(main())
