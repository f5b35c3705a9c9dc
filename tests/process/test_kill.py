"""kill -9 of the API, the windows and the worker in the middle of firing: nothing is lost, nothing starts twice."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.machine import Machine, eventually

TIMERS = 500
BATCH = 100


def test_500_due_timers_survive_a_kill_in_the_middle_of_firing(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        machine.start()
        timer_ids = create_timers(machine, due_in_s=12)

        eventually(lambda: effects(machine), lambda found: len(found) >= TIMERS // 5, within_s=60, every_s=0.05)
        machine.kill()
        before = len(effects(machine))
        assert before < TIMERS, "all had run before the kill: nothing was tested"
        machine.start()

        runs = eventually(
            lambda: finished(machine, timer_ids), lambda found: len(found) == TIMERS, within_s=150, every_s=1
        )

        statuses = Counter(run["status"] for run in runs.values())
        starts = Counter(run_id for run_id, _, _ in effects(machine))
        lost = sum(1 for run in runs.values() for attempt in run["attempts"] if attempt["outcome"] == "lost")
        print(f"\nkilled after {before} effects; runs {dict(statuses)}, attempts lost {lost}")
        assert statuses == {"succeeded": TIMERS}
        assert len({run["run_id"] for run in runs.values()}) == TIMERS, "one run each"
        assert set(starts) == {run["run_id"] for run in runs.values()}
        for run in runs.values():
            # Its code ran once for each attempt that reached it: a duplicate message died at start.
            assert 1 <= starts[run["run_id"]] <= run["attempt"], run
            assert run["attempt"] == 1 + len([a for a in run["attempts"] if a["outcome"] == "lost"]), run
        assert_no_token_used_twice(machine)


def create_timers(machine: Machine, due_in_s: int) -> list[str]:
    at = datetime.now(UTC) + timedelta(seconds=due_in_s)
    target = {"pool": "payments", "handler": "effect"}
    body = {"team": "payments", "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "target": target, "lease_s": 30}
    ids: list[str] = []
    for begin in range(0, TIMERS, BATCH):
        timers = [body | {"client_key": f"kill-{begin + i}"} for i in range(BATCH)]
        ids += [one["timer_id"] for one in machine.api.post("/timers:batch", {"timers": timers})["timers"]]
    assert time.time() < at.timestamp(), "creating took longer than planned: raise due_in_s"
    return ids


def effects(machine: Machine) -> list[tuple[str, int, int]]:
    if not machine.effects.exists():
        return []
    with closing(sqlite3.connect(machine.effects, timeout=30)) as found:
        try:
            return found.execute("SELECT run_id, attempt, token FROM effects").fetchall()
        except sqlite3.OperationalError:
            return []


def finished(machine: Machine, timer_ids: list[str]) -> dict[str, dict[str, Any]]:
    wanted = set(timer_ids)
    runs: dict[str, dict[str, Any]] = {}
    cursor = None
    while True:
        page = machine.api.get("/runs", team="payments", limit=200, cursor=cursor, since=an_hour_ago())
        runs |= {run["job_id"]: run for run in page["runs"] if run["job_id"] in wanted}
        cursor = page["cursor"]
        if cursor is None:
            return {timer_id: run for timer_id, run in runs.items() if run["ended_at"]}


def an_hour_ago() -> str:
    return (datetime.now(UTC) - timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")


def assert_no_token_used_twice(machine: Machine) -> None:
    twice = [key for key, n in Counter((run_id, token) for run_id, _, token in effects(machine)).items() if n > 1]
    assert not twice, twice
