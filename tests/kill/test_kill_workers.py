"""Workers killed -9 at random, deliveries doubled: each effect exactly once, and the history adds up.

KILL_RUNS and KILL_SEED size it; `make kill-test` asks for 2,000 runs.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.kill.world import CONCURRENCY, LEASE_S, Book, machine_with
from tests.support.machine import Machine, eventually
from tickwork.local.processes import Child

RUNS = int(os.environ.get("KILL_RUNS", "200"))
SEED = int(os.environ.get("KILL_SEED", "1"))
WORKERS = 4
BATCH = 100
KILL_EVERY_S = (1.0, 3.0)
KILL_UNTIL = 0.97
"""Of the effects: what was lost at the end is then waited for in peace."""
WORK_S = 0.6
"""At most so long before the effect, and as long after it: kills hit both."""
ATTEMPTS_MAX = 30
"""A run may be unlucky many times; giving up is not what is tested here."""


class Kills:
    """Kills one worker after the other at random moments, and starts it again."""

    def __init__(self, workers: list[Child], seed: int) -> None:
        self._workers, self._random = workers, random.Random(seed)
        self.count = 0
        self._next_s = 0.0

    def look(self, done: int) -> None:
        """Kill one if its time has come."""
        if time.monotonic() < self._next_s or done > RUNS * KILL_UNTIL:
            return
        victim = self._random.choice(self._workers)
        if victim.process is not None and victim.is_running:
            victim.process.kill()
            victim.process.wait(10)
            self.count += 1
        victim.start()
        self._next_s = time.monotonic() + self._random.uniform(*KILL_EVERY_S)


def create_timers(machine: Machine, count: int, due_in_s: float) -> dict[str, str]:
    """timer_id -> run_id, all due within 20 s from then on."""
    at = datetime.now(UTC) + timedelta(seconds=due_in_s)
    chance = random.Random(SEED)
    ids: dict[str, str] = {}
    for begin in range(0, count, BATCH):
        timers = [
            {
                "team": "payments",
                "at": (at + timedelta(seconds=chance.randrange(20))).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "target": {"pool": "payments", "handler": "book"},
                "payload": {"before_s": chance.uniform(0, WORK_S), "after_s": chance.uniform(0, WORK_S)},
                "lease_s": LEASE_S,
                "retry_policy": {"max_attempts": ATTEMPTS_MAX},
                "client_key": f"kill-{i}",
            }
            for i in range(begin, min(begin + BATCH, count))
        ]
        created = machine.api.post("/timers:batch", {"timers": timers})["timers"]
        ids |= {one["timer_id"]: one["run_id"] for one in created}
    return ids


def histories(machine: Machine, ids: dict[str, str]) -> dict[str, dict[str, Any]]:
    """run_id -> its history, for every run of the test."""
    found: dict[str, dict[str, Any]] = {}
    cursor = None
    since = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = set(ids)
    for _ in range(10_000):
        page = machine.api.get("/runs", team="payments", limit=200, cursor=cursor, since=since)
        found |= {run["run_id"]: run for run in page["runs"] if run["job_id"] in wanted}
        cursor = page["cursor"]
        if cursor is None:
            break
    return found


def test_each_effect_happens_exactly_once_whoever_is_killed(tmp_path: Path, book: Book) -> None:
    with machine_with(tmp_path, book, WORKERS) as (machine, workers):
        ids = create_timers(machine, RUNS, due_in_s=5 + RUNS / 100)
        wanted = set(ids.values())
        assert len(wanted) == RUNS
        eventually(lambda: book.count("begun"), bool, within_s=60 + RUNS / 20)

        kills, began_s = Kills(workers, SEED), time.monotonic()

        def booked_meanwhile() -> int:
            done = book.count("booked")
            kills.look(done)
            return done

        eventually(booked_meanwhile, lambda done: done >= RUNS, within_s=120 + RUNS / 4, every_s=0.2)
        for worker in workers:
            if not worker.is_running:
                worker.start()
        runs = eventually(
            lambda: histories(machine, ids),
            lambda found: len(found) == RUNS and all(run["ended_at"] for run in found.values()),
            within_s=180,
            every_s=2,
        )
        took_s = time.monotonic() - began_s

        begun = Counter(run_id for (run_id,) in book.rows("SELECT run_id FROM begun"))
        booked = Counter(run_id for (run_id,) in book.rows("SELECT run_id FROM booked"))
        outcomes = Counter(attempt["outcome"] for run in runs.values() for attempt in run["attempts"])
        attempts = sum(run["attempt"] for run in runs.values())
        print(
            f"\n{RUNS} runs, {WORKERS} workers x {CONCURRENCY}, seed {SEED}: {kills.count} kills in {took_s:.0f} s"
            f"\n  attempts {attempts}, of which lost {outcomes['lost']}; job code began {sum(begun.values())} times"
            f"\n  effects {sum(booked.values())}, of {len(booked)} runs;"
            f" repeated harmlessly {book.count('spared')} times"
            f"\n  {dict(Counter(run['status'] for run in runs.values()))}; most attempts of one run"
            f" {max(run['attempt'] for run in runs.values())}"
        )
        assert kills.count > 0
        assert outcomes["lost"] > 0, "nothing was lost: nothing was tested"
        assert booked == Counter(dict.fromkeys(wanted, 1)), "each effect exactly once"
        assert Counter(run["status"] for run in runs.values()) == {"succeeded": RUNS}
        for run in runs.values():
            lost = [attempt for attempt in run["attempts"] if attempt["outcome"] == "lost"]
            assert len(lost) == len(run["attempts"]) == run["attempt"] - 1, run
            assert 1 <= begun[run["run_id"]] <= run["attempt"], run
        twice = book.rows("SELECT run_id, token FROM begun GROUP BY 1, 2 HAVING count(*) > 1")
        assert twice == [], "a doubled delivery died at start: no token began twice"
        assert outcomes["lost"] <= kills.count * CONCURRENCY
