"""One contestant: its own processes, those it leans on (Redis, the emulator), and what they have used."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lag.cpu import all_processes
from benchmarks.peers.load import Load

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer runs: a folder of its own, the first of its ports, how many jobs it may run at once."""

    folder: Path
    port: int
    slots: int


class Peer(ABC):
    name: str
    creates_per_s: int
    """A low guess: how far ahead a load is due goes by it."""
    recovers_within_s: int
    """After a kill -9: by its documents or its source, what has not run by then is not going to."""
    victims: tuple[str, ...] = ("scheduler",)
    only_killed = False
    """A variant of another peer, of which only the kill tells something."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.effects = place.folder / "effects.txt"
        self.environ = {"EFFECTS": str(self.effects), "PYTHONPATH": f"{ROOT}:{ROOT / 'functions'}"}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @abstractmethod
    def programs(self) -> dict[str, list[str]]:
        """The command of each of its own processes."""

    @abstractmethod
    def creator(self) -> list[str]:
        """The command that makes a load, without the load."""

    @abstractmethod
    def start_service(self) -> int:
        """Start what it leans on; its process id, 0 for none."""

    @abstractmethod
    def stop_service(self) -> None: ...

    def start(self) -> None:
        self._service_pid = self.start_service()
        self.start_programs(*self.programs())

    def start_programs(self, *names: str) -> None:
        for name in names:
            self._processes[name] = self.spawn(name, self.programs()[name])

    def spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.place.folder / f"{name}.log").open("ab") as log:
            environ = os.environ | self.environ
            return subprocess.Popen(command, env=environ, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def create(self, load: Load) -> float:
        """Seconds that creating took, without the start of the creating process."""
        command = [*self.creator(), *load.arguments()]
        made = subprocess.run(command, env=os.environ | self.environ, cwd=ROOT, check=True, stdout=subprocess.PIPE)
        return float(made.stdout)

    def kill(self, *names: str) -> None:
        """kill -9 of our own process groups, by pid."""
        for name in names:
            process = self._processes[name]
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)

    def stop(self) -> None:
        self.kill(*self._processes)
        self.stop_service()

    def lines(self) -> list[str]:
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def dispatched(self) -> int:
        """How many have left the scheduler. Where it runs the jobs itself: how many have run."""
        return len(self.lines())

    def held(self) -> int:
        """Lost within the watch, but held by the service, which gives them back later."""
        return 0

    def cpu_s(self) -> tuple[float, float]:
        """So far: of its own processes and its creators; of what it leans on."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = cpu_of(process.pid for process in self._processes.values() if process.poll() is None)
        return ended.ru_utime + ended.ru_stime + own, cpu_of([self._service_pid])


def cpu_of(roots: Iterable[int]) -> float:
    """CPU seconds of these processes, of all that descend from them, and of those of their children that have ended."""
    processes = all_processes()
    family = set(roots) & processes.keys()
    while more := {pid for pid, process in processes.items() if process.parent in family} - family:
        family |= more
    return sum(processes[pid].own_s + processes[pid].reaped_s for pid in family)
