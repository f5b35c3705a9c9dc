"""An outage of three hours with hourly jobs, under each overlap policy: what becomes of what was missed, and whether
what is on time keeps its objective meanwhile.

`make bench-outage` (`QUICK=1`: a thirty-second of the slices, with their share of the jobs). The production flows in
virtual time, as in `loads`; what it prints depends on the seed alone. Nothing ticks for three hours; jobs catch up on
`all`, and a run takes longer than what was missed is apart when it is caught up on.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.percentiles import percentile
from benchmarks.scale.loads import MIDNIGHT_MS, TEAMS, WORK, new_timer
from benchmarks.scale.queues import Message
from benchmarks.scale.world import TIMERS_KIND, Deployment, Load, ScaleWorld, kind_of
from tickwork.core.instants import MINUTE_MS, SECOND_MS, iso
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.overlap import ALLOW, BUFFER_ALL, BUFFER_ONE, CANCEL_OTHER, SKIP
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.schedule import parse_schedule
from tickwork.flows.jobs.registering import NewJob

JOBS, HOUR_MS = 40_000, 60 * MINUTE_MS
OUTAGE_MS = 3 * HOUR_MS
ENDS_MS = MIDNIGHT_MS + 100 * SECOND_MS
"""When somebody serves again."""
REGISTERED_OVER_S = 200
PER_S = 200
"""Timers on time, beside what is caught up on; of all slices."""
FOR_S, WATCHED_S = 240, 420
"""So long there are some, and so long all is watched."""
JOB_MS = 120_000
"""Longer than it takes to catch up on an hour of what was missed."""
WORKERS = 16_000
"""Each with ten messages: so many that nothing waits for one."""
OBJECTIVE_S = 5
POLICIES = (ALLOW, SKIP, BUFFER_ONE, BUFFER_ALL, CANCEL_OTHER)
LATE, ON_TIME = "late", "on time"


class OutageWorld(ScaleWorld):
    """Nothing ticks from three hours before `ENDS_MS` on. Lags are of what was missed, and of the timers after it: what
    a job has due afterwards stands behind what it has missed, and is neither."""

    caught_up_ms = 0

    def _tick(self) -> None:
        now_ms = self.kernel.now_ms
        if not ENDS_MS - OUTAGE_MS <= now_ms < ENDS_MS:
            super()._tick()
        else:
            self.kernel.at(ENDS_MS, self._tick)

    def _note(self, lags: dict[str, list[int]], message: Message) -> None:
        key = parse_ref(message.content["ref"])
        if ENDS_MS - OUTAGE_MS <= key.fire_at_ms < ENDS_MS:
            self.caught_up_ms = max(self.caught_up_ms, self.kernel.now_ms)
            lags[LATE].append(self.kernel.now_ms - ENDS_MS)
        elif key.fire_at_ms >= ENDS_MS and kind_of(key.name) == TIMERS_KIND:
            lags[ON_TIME].append(self.kernel.now_ms - key.fire_at_ms)


def outage(share: float, policy: str) -> Load:
    """Jobs of every hour, each at a second of its own, and timers from the end of the outage on."""
    start_ms = ENDS_MS - OUTAGE_MS - (REGISTERED_OVER_S + 60) * SECOND_MS
    jobs = round(JOBS * share)
    registrations = tuple(
        (start_ms + 5 * SECOND_MS + n * REGISTERED_OVER_S * SECOND_MS // jobs, _job(n, jobs, policy))
        for n in range(jobs)
    )
    calls = []
    for n in range(round(FOR_S * PER_S * share)):
        at_ms = ENDS_MS + round(n * SECOND_MS / (PER_S * share))
        calls.append((at_ms, (new_timer(n, at_ms + 15 * SECOND_MS),)))
    return Load(policy, start_ms, ENDS_MS + WATCHED_S * SECOND_MS, tuple(calls), registrations, job_ms=JOB_MS)


def _job(n: int, jobs: int, policy: str) -> NewJob:
    anchor = iso(MIDNIGHT_MS - 24 * HOUR_MS + n * HOUR_MS // jobs // SECOND_MS * SECOND_MS)
    spec = parse_schedule({"rate": "1 hour", "anchor": anchor}, now_ms=MIDNIGHT_MS).spec
    return NewJob(f"team-{n % TEAMS:02d}", f"hourly-{n:06d}", spec, WORK, 0, CatchUp("all"), "f" * 32, overlap=policy)


def run(policy: str, deployment: Deployment, *, seed: int = 1) -> OutageWorld:
    gc.disable()  # a world lives until its end
    try:
        world = OutageWorld(outage(deployment.share, policy), deployment, seed=seed)
        world.run()
    finally:
        gc.enable()
    return world


def fates(world: OutageWorld) -> Counter[str]:
    """What became of what was missed: its status, and the reason where it was left out."""
    found: Counter[str] = Counter()
    for item in world.tables.items(TIMERS):
        if "job_id" in item and ENDS_MS - OUTAGE_MS <= int(item["scheduled_at_ms"]) < ENDS_MS:
            left_out = item["status"] in ("skipped", "cancelled")
            reason = str(item.get("reason", "")).partition(":")[0]
            found[f"{item['status']} ({reason})" if left_out else str(item["status"])] += 1
    return found


def row(policy: str, world: OutageWorld) -> str:
    became = ", ".join(f"{count:,} {what}" for what, count in fates(world).most_common())
    caught_up_s = (world.caught_up_ms - ENDS_MS) / SECOND_MS
    queued, started = (_three(lags[ON_TIME]) for lags in (world.dispatched, world.begun))
    kept = "kept" if percentile(world.dispatched[ON_TIME], 99) <= OBJECTIVE_S * SECOND_MS else "MISSED"
    return f"| `{policy}` | {became} | {caught_up_s:.0f} s | {queued} | {started} | {kept} |"


def _three(lags_ms: Sequence[int]) -> str:
    return " / ".join(f"{percentile(lags_ms, percent) / SECOND_MS:.2f}" for percent in (50, 99, 100))


def table(deployment: Deployment, policies: Sequence[str]) -> Iterator[str]:
    yield (
        "| policy | of what was missed | all let go after | on time: due to queued, s (p50 / p99 / max) "
        "| due to started | objective |"
    )
    yield "|---|---|---|---|---|---|"
    for policy in policies:
        yield row(policy, run(policy, deployment))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a thirty-second of the slices")
    parser.add_argument("--only", choices=POLICIES)
    chosen = parser.parse_args()
    deployment = Deployment(simulated=2 if chosen.quick else 64, workers=WORKERS)
    began = time.perf_counter()
    for line in table(deployment, [chosen.only] if chosen.only else POLICIES):
        print(line, flush=True)
    jobs = f"{round(JOBS * deployment.share):,} jobs on {deployment.simulated} slices"
    print(f"\n{jobs}, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
