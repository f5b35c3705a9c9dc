"""`make chaos MINUTES=5`: tickwork's real parts behind a proxy that injects faults, killed at random, under load.

It ends with a report, and with status 0 only if nothing was lost and no run has two completed attempts. With
`--broken` some part fails every call for all of the minutes, after a stretch without that, and whoever it does not
touch must be on time.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.chaos.broken import Broken, neighbours, touched
from tests.chaos.clients import BATCH_MAX_BROKEN, Client, JobClient, TimerClient, Told
from tests.chaos.lags import gather, on_time
from tests.chaos.parts import SETTINGS, Stack, draw_rules
from tickwork.aws.wiring import dynamodb_client
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.store.dynamodb import DynamoStore

SETTLES_WITHIN_S = 720.0
"""The audit looks at a second five minutes after it; a run whose worker died waits out its lease first."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="of the faults and the kills (default: new each time)")
    parser.add_argument("--proxy-python", type=Path, default=Path(".venv-chaos/bin/python"))
    parser.add_argument("--base-port", type=int, default=0, help="three ports from here on (default: free ones)")
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument(
        "--broken",
        type=Broken.read,
        action="append",
        default=[],
        help="pool:NAME, table:NAME or shard:NUMBER",
    )
    parser.add_argument("--before", type=float, default=5.0, help="minutes until the part breaks, to compare with")
    parser.add_argument("--folder", type=Path, help="where state and logs are kept (default: a temporary one)")
    chosen = parser.parse_args()
    seed = chosen.seed if chosen.seed is not None else time.time_ns() // 1_000_000_000
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="tickwork-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"chaos for {chosen.minutes} minutes, seed {seed}, logs in {folder}", flush=True)
    pools = ("default", "bulk") if chosen.broken else ("default",)
    with Stack(folder, chosen.proxy_python.absolute(), chosen.base_port, pools) as stack:
        stretches = [Stretch(chosen.before * 60), Stretch(chosen.minutes * 60, chosen.broken)]
        told = disturb(stack, stretches[not chosen.broken :], seed, chosen.clients, pools)
        settled_s = settle(stack, told)
        held = judge(stack, told, settled_s)
        return held or (judge_lags(*stretches) if chosen.broken else 0)


@dataclass(slots=True)
class Stretch:
    """A part of a run, in which some parts are broken, or none."""

    seconds: float
    broken: Sequence[Broken] = ()
    began_ms: int = 0
    ended_ms: int = 0


def disturb(
    stack: Stack, stretches: Sequence[Stretch], seed: int, clients_count: int, pools: Sequence[str] = ("default",)
) -> Told:
    """Clients at work, faults that change, kills at random; and stretch by stretch what is broken."""
    told, stopping = Told(), threading.Event()
    about = (stack.api.url, seed, told, stopping, pools)
    clients: list[Client] = [TimerClient(f"t{n}", *about) for n in range(clients_count)]
    clients.append(JobClient("j0", *about))
    for client in clients:
        client.batch_max = BATCH_MAX_BROKEN if any(stretch.broken for stretch in stretches) else client.batch_max
        client.start()
    try:
        for stretch in stretches:
            _live_through(stack, stretch, clients, seed, period_s=stretches[0].seconds)
    finally:
        stack.proxy.set_rules([])
        stopping.set()
    stack.revive()
    for client in clients:
        client.join(300)
        assert not client.is_alive(), f"client {client.name} does not end"
    return told


def _live_through(stack: Stack, stretch: Stretch, clients: Sequence[Client], seed: int, period_s: float) -> None:
    """The same faults and kills each period, drawn anew from the seed: so a stretch can be held against the first."""
    ends_s = time.monotonic() + stretch.seconds
    broken = [rule for part in stretch.broken for rule in part.rules(SETTINGS)]
    for client in clients:
        client.is_patient = not broken
    stretch.began_ms = time.time_ns() // 1_000_000
    print(f"broken: {', '.join(map(str, stretch.broken)) or 'nothing'}", flush=True)
    while time.monotonic() < ends_s:
        _weather(stack, broken, random.Random(seed), min(ends_s, time.monotonic() + period_s))
    stretch.ended_ms = time.time_ns() // 1_000_000


def _weather(stack: Stack, broken: list[dict[str, Any]], rng: random.Random, ends_s: float) -> None:
    weather_until_s = 0.0
    while time.monotonic() < ends_s:
        if time.monotonic() > weather_until_s:
            stack.proxy.set_rules([*broken, *draw_rules(rng)])
            weather_until_s = time.monotonic() + rng.uniform(10, 30)
        time.sleep(rng.uniform(1, 6))
        print(f"  killed {stack.kill_one(rng)}", flush=True)
        stack.revive()


def settle(stack: Stack, told: Told) -> float:
    """Faults are over: wait until everything that was accepted has ended. How long that took."""
    began_s = time.monotonic()
    while (took_s := time.monotonic() - began_s) < SETTLES_WITHIN_S:
        stack.revive()
        left = [run for run in ledger() if not run.ended]
        if not left:
            break
        print(f"  {took_s:.0f} s after the faults: {len(left)} runs have not ended", flush=True)
        time.sleep(10)
    return took_s


def ledger() -> list[Run]:
    """Every run in the ledger, read past the proxy."""
    store = DynamoStore(dynamodb_client(), SETTINGS.prefix, lambda: "")
    found: list[Run] = []
    position: Item | None = None
    while True:
        items, position = store.scan(TIMERS, limit=1_000, after=position)
        found += [Run.from_item(item) for item in items if "run_ref" not in item]
        if position is None:
            return found


def judge(stack: Stack, told: Told, settled_s: float) -> int:
    runs = {run.key.ref: run for run in ledger()}
    by_timer = {run.key.job_id: run for run in runs.values() if not run.is_recurring}
    statuses = Counter(run.status for run in runs.values())
    lost = [timer for timer in told.created if timer not in by_timer or not by_timer[timer].ended]
    lost += [run.key.ref for run in runs.values() if not run.ended and run.key.job_id not in told.created]
    gaps = missing_occurrences(list(runs.values()))
    rows = effects(stack)
    reached = Counter(run_id for run_id, _, _ in rows)
    again = sum(count - 1 for count in reached.values())
    same_attempt = [key for key, count in Counter((run_id, token) for run_id, _, token in rows).items() if count > 1]
    started_cancelled = [timer for timer in told.cancelled if told.created[timer] in reached]
    resurrected = [timer for timer in told.cancelled if by_timer[timer].status != "cancelled"]
    counts = counted(stack)
    completed = completions(stack)
    twice = [run_id for run_id, tokens in completed.items() if len(tokens) > 1]
    seen, faults = stack.proxy.fired()
    unexplained = [run.key.ref for run in runs.values() if run.status == "succeeded" and run.run_id not in reached]
    figures = {
        "timers created (acknowledged)": len(told.created),
        "jobs created (acknowledged)": len(told.jobs),
        "timers cancelled (acknowledged)": len(told.cancelled),
        "requests given up without an answer": told.unanswered,
        "requests repeated when the broken part was whole": told.left,
        "entries of batches not made, and asked for again": told.unmade,
        "runs in the ledger": len(runs),
        "dispatched (started at least once)": sum(run.attempt > 0 for run in runs.values()),
        "succeeded": statuses["succeeded"],
        "ended otherwise": {name: count for name, count in statuses.items() if name != "succeeded"},
        "attempts lost, recorded": sum(a["outcome"] == "lost" for run in runs.values() for a in run.attempts),
        "LOST": len(lost) + len(gaps),
        "messages that died at start": {name: n for name, n in sorted(counts.items()) if name.startswith("start ")},
        "executions beyond the first (each after a recorded loss)": again,
        "DUPLICATES THAT REACHED A WORKER (one attempt, twice)": len(same_attempt),
        "RUNS WITH TWO COMPLETED ATTEMPTS": len(twice),
        "CANCELLED, YET RAN": len(started_cancelled) + len(resurrected),
        "stale tokens rejected": counts["scheduler.dispatch_rejected_stale_token_total"],
        "slice owners changed": counts["scheduler.slice_owner_changes_total"],
        "commits tried again": counts["store.commit_retried_total"],
        "set aside": counts["scheduler.set_aside_total"],
        "calls through the proxy": seen,
        "faults injected": dict(faults),
        "kill -9": {part.name: part.kills for part in stack.parts},
        "settled after": f"{settled_s:.0f} s",
        "unexpected refusals": told.refused[:5],
    }
    for name, value in figures.items():
        print(f"{name:58} {value}")
    for what, found in (("lost", lost), ("gap", gaps), ("twice", twice), ("no effect", unexplained)):
        for one in found[:10]:
            print(f"  {what}: {one}")
    tracebacks = sum(part.log.read_text(errors="replace").count('"traceback"') for part in stack.parts)
    print(f"{'tracebacks in the logs':58} {tracebacks}")
    wrong = lost or gaps or same_attempt or twice or started_cancelled or resurrected or unexplained or told.refused
    print("it did NOT hold" if wrong else "it held")
    return int(bool(wrong))


def judge_lags(before: Stretch, meanwhile: Stretch) -> int:
    """Those that the broken parts touch are shown, the others judged."""
    runs, parts = ledger(), meanwhile.broken
    others = [run for run in runs if not touched(run, parts)]
    groups = {
        "touched": [run for run in runs if touched(run, parts)],
        "others": others,
        "others of a broken shard's slice": [run for run in others if neighbours(run.key, parts, SETTINGS.slices)],
    }
    print("lags in seconds (median, 19 of 20, 99 of 100), before / meanwhile:")
    wrong: list[str] = []
    for name, some in groups.items():
        if not some:
            continue
        was, became = (gather(some, one.began_ms, one.ended_ms) for one in (before, meanwhile))
        print(f"  {name}\n    before    {was.shown()}\n    meanwhile {became.shown()}")
        if name != "touched":
            wrong += [f"{name}: {what}" for what in on_time(was, became)]
    for what in wrong:
        print(f"  late: {what}")
    print("the others were NOT on time" if wrong else "the others were on time")
    return int(bool(wrong))


def missing_occurrences(runs: list[Run]) -> list[str]:
    """Occurrences of a job between its first and its last that have no item: the chain would have been broken."""
    nominal: dict[str, list[int]] = {}
    for run in runs:
        if run.is_recurring:
            nominal.setdefault(run.key.job_id, []).append(run.key.scheduled_at_ms)
    gaps = []
    for job_id, times in nominal.items():
        times.sort()
        steps = [later - earlier for earlier, later in pairwise(times)]
        gaps += [f"{job_id} after {at}" for at, step in zip(times, steps, strict=False) if step != min(steps)]
    return gaps


def effects(stack: Stack) -> list[tuple[str, int, int]]:
    if not stack.effects.exists():
        return []
    with closing(sqlite3.connect(stack.effects, timeout=30)) as found:
        return found.execute("SELECT run_id, attempt, token FROM effects").fetchall()


def lines(path: Path) -> list[dict[str, object]]:
    found = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            continue  # cut off by a kill
        if isinstance(one, dict):
            found.append(one)
    return found


def counted(stack: Stack) -> Counter[str]:
    """The counters of all processes; duplicates that died at start by their reason."""
    counts: Counter[str] = Counter()
    for part in stack.parts:
        for line in lines(part.log):
            if line.get("action") == "count":
                metric, n = str(line["metric"]), int(str(line["n"]))
                counts[f"start {line['reason']}" if metric == "runs.duplicate_total" else metric] += n
    return counts


def completions(stack: Stack) -> dict[str, set[str]]:
    """The attempts of each run whose success the service has accepted, by what the workers were told."""
    found: dict[str, set[str]] = {}
    for part in stack.parts:
        if not part.name.startswith("worker"):
            continue
        for line in lines(part.log):
            if line.get("action") == "run ended" and line.get("outcome") == "succeeded":
                found.setdefault(str(line["run_id"]), set()).add(str(line["attempt"]))
    return found


if __name__ == "__main__":
    sys.exit(main())
