"""Fair shares at the design scale: a team with a million timers due at once beside one with a hundred a minute.

`make bench-fairness` (`QUICK=1`: an eighth of the slices, at the same load each). The production flows in virtual time,
as in `loads`; what it prints depends on the seed alone. `as before` is the same with windows that fire whatever they
read, in the order of its keys.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.percentiles import percentile
from benchmarks.scale.loads import MIDNIGHT_MS, PER_CALL, WORK
from benchmarks.scale.queues import Message
from benchmarks.scale.world import Deployment, Load, ScaleWorld
from tickwork.core.access.teams import Team
from tickwork.core.dispatch import shares
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Anyway, Put
from tickwork.flows.runs.timers import NewTimer

HERD, SMALL_PER_MIN = 1_000_000, 100
BEFORE_S, LEAD_S = 10, 150
"""The small team begins so long before the herd; all is created so long before that."""
AFTER_S = 60
"""The small team goes on so long after the herd is due, and the world a while longer."""
FEW_WORKERS = 400
"""Of 4,000, each with ten messages: fewer than the scanners could keep busy."""
WEIGHTS: Mapping[str, int] = {"three": 3, "two": 2, "one": 1}
AS_BEFORE_MS = 10**9
"""A window that may take so long fires what it reads."""


@dataclass(frozen=True, slots=True)
class Lags:
    """Of a team: from due to queued, from due to started, in milliseconds, in the order they came."""

    queued: Sequence[int]
    started: Sequence[int]


class SharedWorld(ScaleWorld):
    """A load of several teams, measured by team. `order`: (sending window, team) of each message, as it came."""

    def __init__(self, load: Load, deployment: Deployment, *, seed: int = 1) -> None:
        super().__init__(load, deployment, seed=seed)
        self.order: list[tuple[str, str]] = []

    def weigh(self, weights: Mapping[str, int]) -> None:
        for team, weight in weights.items():
            item = Team(team=team, contact="bench", weight=weight).to_item()
            self.tables.commit([Put(TEAMS, item, Anyway("a measurement"))])

    def _came_in(self, message: Message) -> None:
        super()._came_in(message)
        self.order.append((str(message.content["dispatched_by"]), parse_ref(message.content["ref"]).team))

    def _note(self, lags: dict[str, list[int]], message: Message) -> None:
        key = parse_ref(message.content["ref"])
        lags[key.team].append(self.kernel.now_ms - key.fire_at_ms)

    def lags(self) -> dict[str, Lags]:
        return {team: Lags(self.dispatched[team], self.begun[team]) for team in sorted(self.dispatched)}


# --- loads --------------------------------------------------------------------------------------------------------


def herds(counts: Mapping[str, int], small_per_min: int, *, run_for_s: int = 180) -> Load:
    """Herds of teams, due at midnight, and a small team that has so many a minute due before and after it."""
    start_ms = MIDNIGHT_MS - (LEAD_S + BEFORE_S) * SECOND_MS
    small = [
        MIDNIGHT_MS + offset_ms
        for offset_ms in range(-BEFORE_S * SECOND_MS, AFTER_S * SECOND_MS, MINUTE_MS // max(1, small_per_min))
        if small_per_min
    ]
    timers = [NewTimer("small", due_ms // SECOND_MS * SECOND_MS, WORK) for due_ms in small]
    for team, count in counts.items():
        timers += [NewTimer(team, MIDNIGHT_MS, WORK)] * count
    calls = [tuple(timers[n : n + PER_CALL]) for n in range(0, len(timers), PER_CALL)]
    over_ms = (LEAD_S - 60) * SECOND_MS
    creates = tuple((start_ms + 2_000 + n * over_ms // len(calls), call) for n, call in enumerate(calls))
    return Load("herds", start_ms, MIDNIGHT_MS + run_for_s * SECOND_MS, creates)


@contextmanager
def sharing(*, on: bool) -> Iterator[None]:
    """Windows that share and name crowds to the queue, or as they were before there were shares."""
    standing = shares.ALONE_MS, shares.CROWD_ITEMS_MIN
    if not on:
        shares.ALONE_MS, shares.CROWD_ITEMS_MIN = AS_BEFORE_MS, HERD
    try:
        yield
    finally:
        shares.ALONE_MS, shares.CROWD_ITEMS_MIN = standing


def run(
    counts: Mapping[str, int],
    small_per_min: int,
    deployment: Deployment,
    *,
    seed: int = 1,
    on: bool = True,
    weights: Mapping[str, int] | None = None,
) -> SharedWorld:
    """A load, run. Of a share of the slices the herds are that share of theirs; the small team is what it is."""
    own = {team: round(count * deployment.share) for team, count in counts.items()}
    gc.disable()  # a world lives until its end
    try:
        with sharing(on=on):
            world = SharedWorld(herds(own, small_per_min), deployment, seed=seed)
            world.weigh(weights or {})
            world.run()
    finally:
        gc.enable()
    assert sum(len(one.queued) for one in world.lags().values()) >= sum(own.values()), "not all were sent"
    return world


def parts(world: SharedWorld, teams: Sequence[str]) -> dict[str, float]:
    """What each team got while all wanted more, beside what the last of them got: in each slice, from its second window
    on (what is fired as it is read has no weight) until the first team had all of its own there."""
    by_slice: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for by, team in world.order:
        by_slice[by.rpartition("#")[0]].append((by, team))
    got: dict[str, int] = dict.fromkeys(teams, 0)
    for sent in by_slice.values():
        last = {team: place for place, (_, team) in enumerate(sent)}
        for by, team in sent[: min(last[team] for team in teams)]:
            got[team] += by != sent[0][0]
    return {team: got[team] / got[teams[-1]] for team in teams}


# --- what is printed ----------------------------------------------------------------------------------------------


def three(lags_ms: Sequence[int]) -> str:
    return " / ".join(f"{percentile(lags_ms, percent) / SECOND_MS:.2f}" for percent in (50, 99, 100))


def rows(name: str, world: SharedWorld) -> Iterator[str]:
    for team, lags in world.lags().items():
        started = three(lags.started) if lags.started else "-"
        yield f"| {name} | {team} | {len(lags.queued):,} | {three(lags.queued)} | {len(lags.started):,} | {started} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="an eighth of the slices")
    parser.add_argument("--only", default="", help="loads whose name contains this")
    parser.add_argument("--slices", type=int, default=64, help="how many of the 64 are simulated")
    parser.add_argument("--herd", type=int, default=HERD)
    parser.add_argument("--per-minute", type=int, default=SMALL_PER_MIN)
    chosen = parser.parse_args()
    simulated = 8 if chosen.quick else chosen.slices
    deployment = Deployment(simulated=simulated)
    few = Deployment(simulated=simulated, workers=FEW_WORKERS)
    began = time.process_time()
    print(
        f"{simulated} of {deployment.slices} slices, {deployment.workers:,} workers of ten messages each (few: "
        f"{few.workers:,}), {chosen.herd:,} timers of one team due at once, {chosen.per_minute} a minute of another, "
        f"seed {chosen.seed}\n"
    )
    print(
        "| load | team | queued | due to queued, p50 / p99 / worst s | started | due to started s |\n"
        + "|---" * 6
        + "|"
    )
    big = {"big": chosen.herd}
    loads = (
        ("as before", big, chosen.per_minute, deployment, False),
        ("the herd alone", big, 0, deployment, True),
        ("shared", big, chosen.per_minute, deployment, True),
        ("shared, few workers", big, chosen.per_minute, few, True),
    )
    for name, counts, small, where, on in loads:
        if chosen.only not in name:
            continue
        world = run(counts, small, where, seed=chosen.seed, on=on)
        print("\n".join(rows(name, world)), flush=True)
        del world
        gc.collect()
    third = dict.fromkeys(WEIGHTS, chosen.herd // len(WEIGHTS))
    world = run(third, 0, deployment, seed=chosen.seed, weights=WEIGHTS)
    got = parts(world, list(WEIGHTS))
    print("\n| team | weight | got, while all wanted more |\n|---|---|---|")
    for team, weight in WEIGHTS.items():
        print(f"| {team} | {weight} | {got[team]:.2f} |")
    print(f"\nCPU: {time.process_time() - began:.0f} s of this machine")


if __name__ == "__main__":
    main()
