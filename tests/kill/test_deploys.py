"""Workers are told to stop at the worst moments, with and without an API: effects once, and no deploy uses up an
attempt.

KILL_RUNS sizes it: CI has a sample; `make kill-test` (2,000) has many deploys, and an outage longer than a lease.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kill.deploying import ANY, COMPLETE, HEARTBEAT, Proxy, deploy, outage, proxies, started_again, waits_s
from tests.kill.world import LEASE_S, Book, machine_with
from tests.support.machine import Machine, eventually
from tickwork.core.runs.endings import INTERRUPTIONS_MAX
from tickwork.local.processes import Child

RUNS = int(os.environ.get("KILL_RUNS", "200"))
SEED = int(os.environ.get("KILL_SEED", "1"))
IS_FULL = RUNS >= 1_000
ROUNDS = RUNS // 100 if IS_FULL else 1
WORKERS = 3
GRACE_S = "1"
MOMENTS = ((COMPLETE, 10.0), (HEARTBEAT, 12.0), *(((COMPLETE, 10.0), (ANY, 0.0)) if IS_FULL else ()))
"""Which call a worker is at when it is told to stop, and how long such a call is waited for. At the end of its grace it
is told so by each of them: a job runs, and the grace is short."""
POLL_S = 10
"""A worker's long poll: who polls when a message becomes visible gets it at once."""
LATER_S = 5 + POLL_S
QUICK, LONG, DEAF = {"before_s": 0.2}, {"before_s": 14.0}, {"before_s": 7.5}
"""Seconds of work: between a grace and nothing; more than a third of a lease, so that a heartbeat is seen; and what
outlasts grace and cleaning up together without ever looking."""


@contextmanager
def stage(folder: Path, book: Book) -> Iterator[tuple[Machine, list[Child], list[Proxy]]]:
    with machine_with(folder, book, WORKERS) as (machine, workers), proxies(machine.api.url, workers) as found:
        for worker in workers:
            worker.arguments = (*worker.arguments, "--grace", GRACE_S)
            assert worker.process is not None
            worker.process.kill()
            worker.process.wait(10)
            worker.start()
        yield machine, workers, found


def timers(
    machine: Machine, handler: str, payload: dict[str, Any], count: int, over_s: float, attempts: int = 1
) -> dict[str, str]:
    """timer_id -> run_id. Mostly one attempt is all they have: what a deploy uses up, kills."""
    at = datetime.now(UTC) + timedelta(seconds=3)
    key = f"{handler}-{time.monotonic()}"
    wanted = [
        {
            "team": "payments",
            "at": (at + timedelta(seconds=over_s * n / count)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "target": {"pool": "payments", "handler": handler},
            "payload": payload,
            "lease_s": LEASE_S,
            "retry_policy": {"max_attempts": attempts},
            "client_key": f"{key}-{n}",
        }
        for n in range(count)
    ]
    created = machine.api.post("/timers:batch", {"timers": wanted})["timers"]
    return {one["timer_id"]: one["run_id"] for one in created}


def ended(machine: Machine, ids: dict[str, str], within_s: float) -> list[dict[str, Any]]:
    return eventually(
        lambda: [machine.api.get(f"/timers/{one}") for one in ids],
        lambda found: all(run["ended_at"] for run in found),
        within_s=within_s,
        every_s=1,
    )


def check_effects(book: Book, ids: dict[str, str]) -> None:
    booked = Counter(run_id for (run_id,) in book.rows("SELECT run_id FROM booked"))
    assert {run_id: booked[run_id] for run_id in ids.values()} == dict.fromkeys(ids.values(), 1)


def test_deploys_use_up_no_attempt(tmp_path: Path, book: Book) -> None:
    chance = random.Random(SEED)
    with stage(tmp_path, book) as (machine, _, found):
        ids: dict[str, str] = {}
        began_s = time.monotonic()
        codes: Counter[int] = Counter()
        moments: Counter[str] = Counter()
        for _ in range(ROUNDS):
            ids |= timers(machine, "steps", QUICK, 20, over_s=15)
            ids |= timers(machine, "steps", LONG, 2, over_s=1)
            ids |= timers(machine, "deaf", DEAF, 2, over_s=1)
            eventually(lambda: book.count("begun"), bool, within_s=60)
            for moment, within_s in MOMENTS:
                came, code = deploy(found, moment, within_s, chance)
                moments[(moment or "any time") if came or not moment else f"not seen: {moment}"] += 1
                codes[code] += 1
            stopped = chance.choice(found)
            with outage(found):  # shorter than a lease, and a worker is told to stop in it
                time.sleep(1)
                stopped.stop_worker()
                time.sleep(8)
            codes[started_again(stopped)] += 1
        runs = ended(machine, ids, within_s=120)
        outcomes = Counter(attempt["outcome"] for run in runs for attempt in run["attempts"])
        given, later = waits_s(found[0].taken, "given"), waits_s(found[0].taken, "later")
        print(
            f"\n{len(ids)} runs in {time.monotonic() - began_s:.0f} s, {sum(codes.values())} deploys, at"
            f" {dict(moments)},"
            f" exit codes {dict(codes)}"
            f"\n  attempts beyond the first {dict(outcomes)}; handed back {len(given)}, taken within"
            f" {max(given, default=0):.1f} s; by processes with a job that did not stop {len(later)}, within"
            f" {max(later, default=0):.1f} s"
        )
        # Some deploys wait for a heartbeat, which only long runs have: one of these may be hit more often than is left
        # uncounted, and has but one attempt. That ends it, and nothing else does.
        hunted = {run["timer_id"] for run in runs if run["attempt"] > INTERRUPTIONS_MAX and run["status"] == "dead"}
        assert all(run["reason"] == "interrupted" for run in runs if run["timer_id"] in hunted)
        assert len(hunted) <= len(ids) // 100
        check_effects(book, {timer_id: run_id for timer_id, run_id in ids.items() if timer_id not in hunted})
        assert Counter(run["status"] for run in runs if run["timer_id"] not in hunted) == {
            "succeeded": len(ids) - len(hunted)
        }
        assert set(outcomes) == {"interrupted"}, "nothing lapsed, and nothing failed"
        assert given
        assert max(given) <= POLL_S
        assert max(later, default=0) <= LATER_S
        assert set(codes) <= {0, 1, -signal.SIGTERM}, "the last: told before it listened, when it had nothing yet"


@pytest.mark.skipif(not IS_FULL, reason="takes some minutes: `make kill-test`")
def test_an_outage_longer_than_a_lease_costs_an_attempt_and_no_effect(tmp_path: Path, book: Book) -> None:
    with stage(tmp_path, book) as (machine, _, found):
        ids = timers(machine, "book", {"before_s": 0.5, "after_s": 4.0}, 30, over_s=4, attempts=10)
        eventually(lambda: book.count("begun"), lambda begun: begun >= 10, within_s=60)
        with outage(found):
            time.sleep(5)
            for proxy in found[:2]:
                proxy.stop_worker()
            time.sleep(LEASE_S + 10)
        for proxy in found[:2]:
            started_again(proxy)
        runs = ended(machine, ids, within_s=180)
        outcomes = Counter(attempt["outcome"] for run in runs for attempt in run["attempts"])
        print(f"\nan outage of {LEASE_S + 15} s: attempts beyond the first {dict(outcomes)}")
        check_effects(book, ids)
        assert outcomes["lost"] > 0, "nothing was lost: nothing was tested"
        assert set(outcomes) <= {"lost", "interrupted"}
        assert Counter(run["status"] for run in runs) == {"succeeded": len(ids)}
