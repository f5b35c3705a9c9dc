"""50 runs at once that may be five at a time, worked off over HTTP; a worker that holds three slots is killed -9."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from tests.support.machine import Machine, eventually

RUNS, LIMIT, KILLED = 50, 5, 3
LEASE_S = 30  # of the lease worker
LEASE_WORKER = Path(__file__).parents[1] / "support" / "lease_worker.py"


def test_never_more_than_five_at_a_time_also_after_a_holder_of_three_is_killed(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        machine.children = machine.children[:2]  # the API and the windows: the workers are ours
        machine.start()
        database = tmp_path / "work.sqlite"
        timer = {
            "team": "shop",
            "delay_s": 0,
            "target": {"pool": "payments", "handler": "report"},
            "retry_policy": {"base_s": 1},
            "resources": [{"name": "reporting-db", "max_concurrency": LIMIT}],
        }
        timers = machine.api.post("/timers:batch", {"timers": [timer] * RUNS}, repeat=False)["timers"]
        victim = _worker(machine, database, most=KILLED, work_s=0)
        workers = []
        try:
            eventually(lambda: len(_work(database)), lambda begun: begun == KILLED, within_s=30)
            victim.kill()
            killed_at_s = time.time()
            workers = [_worker(machine, database, most=1, work_s=0.8) for _ in range(8)]
            found = eventually(
                lambda: [machine.api.get(f"/timers/{one['timer_id']}") for one in timers if one],
                lambda runs: all(run["status"] == "succeeded" for run in runs),
                within_s=180,
                every_s=2,
            )
        finally:
            for process in (victim, *workers):
                process.kill()
                process.wait(10)
        work = _work(database)
        # What the victim had begun holds its slot until its lease ends, dead or not.
        peak = _peak([(began, ended or began + LEASE_S - 1) for _, _, _, began, ended in work])
        lost = [run for run in found if [attempt["outcome"] for attempt in run["attempts"]] == ["lost"]]
        print(f"\n{len(work)} attempts, at most {peak} at a time, {len(lost)} lost, {time.time() - killed_at_s:.0f} s")
        assert peak <= LIMIT
        assert len(lost) == KILLED
        assert len(work) == RUNS + KILLED
        ended = [run_id for run_id, _, _, _, at_s in work if at_s is not None]
        assert sorted(ended) == sorted(run["run_id"] for run in found), "each ran to its end once"


def _worker(machine: Machine, database: Path, *, most: int, work_s: float) -> subprocess.Popen[bytes]:
    arguments = [machine.api.url, "payments", str(database), str(most), str(work_s)]
    return subprocess.Popen([sys.executable, "-P", str(LEASE_WORKER), *arguments])


def _work(database: Path) -> list[tuple[str, int, str, float, float | None]]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database, timeout=30)) as work:
        if not work.execute("SELECT name FROM sqlite_master WHERE name = 'work'").fetchall():
            return []
        return work.execute("SELECT run_id, attempt, worker, began, ended FROM work").fetchall()


def _peak(spans: list[tuple[float, float]]) -> int:
    """The most spans that were open at once."""
    edges = sorted([(began, 1) for began, _ in spans] + [(ended, -1) for _, ended in spans])
    open_now, peak = 0, 0
    for _, change in edges:
        open_now += change
        peak = max(peak, open_now)
    return peak
