"""Who spends the CPU: the emulator, the functions that it runs, the workers, this process. Linux only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
EMULATOR, FUNCTIONS, WORKERS, LOAD = PARTS = ("emulator", "functions", "workers", "load generator")

type Seconds = dict[str, float]


@dataclass(frozen=True, slots=True)
class Process:
    """CPU of a process itself, and of the children that it has seen end."""

    parent: int
    own_s: float
    reaped_s: float

    @classmethod
    def from_stat(cls, text: str) -> Process:
        """From /proc/<pid>/stat: the command's name stands in brackets, and may hold any character."""
        fields = text.rpartition(")")[2].split()
        user, system, reaped_user, reaped_system = (int(field) / TICKS_PER_S for field in fields[11:15])
        return cls(int(fields[1]), user + system, reaped_user + reaped_system)


def spent(processes: dict[int, Process], endpoint: int, workers: Sequence[int], me: int) -> Seconds:
    """By part. A function's process is a descendant of the endpoint's; one that has ended is in what that reaped."""
    below = _descendants(processes, endpoint)
    functions = sum(processes[pid].own_s + processes[pid].reaped_s for pid in below)
    return {
        EMULATOR: processes[endpoint].own_s,
        FUNCTIONS: functions + processes[endpoint].reaped_s,
        WORKERS: sum(processes[pid].own_s for pid in workers if pid in processes),
        LOAD: processes[me].own_s,
    }


def _descendants(processes: dict[int, Process], root: int) -> set[int]:
    found: set[int] = set()
    level = {root}
    while level:
        level = {pid for pid, process in processes.items() if process.parent in level} - found
        found |= level
    return found


def all_processes() -> dict[int, Process]:
    """Those that are there now; one that ends while it is read is left out."""
    found: dict[int, Process] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = Process.from_stat((folder / "stat").read_text())
            except OSError:
                continue
    return found


def less(after: Seconds, before: Seconds) -> Seconds:
    return {part: after[part] - before[part] for part in PARTS}
