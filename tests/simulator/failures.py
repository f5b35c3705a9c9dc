"""The failures of the table in docs/operations.md, each in virtual time over the production flows: who is delayed by
how much, and what the service says of itself meanwhile.

`run_failure(name)` gives the lags of what the failure touches and of everything else, and each metric by the minute,
for an evaluator of alarms. A failure lasts from `BEGINS_S` to the end: nothing is mended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulator.elements import CALENDAR, LONG_PAYLOAD, SECOND_POOL, CalendarPlan
from tests.simulator.parts import break_part
from tests.simulator.poison import plant_every_poison
from tests.simulator.shape import CELL, POOL, JobPlan, Shape, TimerPlan
from tests.simulator.world import EPOCH_MS, World
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.keys import slice_key
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.work import Resource, RetryPolicy, Work
from tickwork.core.ledger.writes import Item
from tickwork.ports import TICKS_QUEUE, Layout
from tickwork.testing.broken import shard_of
from tickwork.testing.faults import Faults
from tickwork.testing.world import Measured

BEGINS_S, LASTS_S = 150, 600
_SHARDS, _SLICES, _HOSTS = 4, 2, 3
_TIMERS_EVERY_S, _LATER_TIMERS = 6, 40
_SEED = 0
_CLOCK_OFF_MS = 60 * SECOND_MS
_NEVER_MS = 1 << 50

type Touches = Callable[[World, str, Item], bool]


@dataclass(frozen=True, slots=True)
class Failure:
    """One row of the table: what breaks, and whom it touches."""

    what: str
    begin: Callable[[World], None]
    touches: Touches


@dataclass(slots=True)
class Lags:
    """Of one class of items, due after the failure began: how many were due, how many never started, how late the
    others did."""

    due: int = 0
    never: int = 0
    lags_ms: list[int] = field(default_factory=list)

    @property
    def longest_ms(self) -> int:
        """With those that never started as late as the history was long."""
        return (LASTS_S - BEGINS_S) * SECOND_MS if self.never else max(self.lags_ms, default=0)


type ByMinute = dict[tuple[str, tuple[tuple[str, str], ...]], dict[int, list[float]]]
"""Metric and labels -> minute since the beginning -> the values of that minute."""


@dataclass(slots=True)
class Report:
    """What a failure came to. `violation`: an invariant that did not hold meanwhile."""

    name: str
    lags: dict[str, Lags]
    metrics: ByMinute
    violation: str = ""


TOUCHED, OTHERS = "touched", "others"


def run_failure(name: str) -> Report:
    """The history of a failure; "none" is the one without."""
    failure = FAILURES[name]
    metrics: list[Measured] = []
    world = World(_SEED, shape=_shape(), faults=Faults({}), metrics=metrics)
    world.checks.lags.stop()
    world.queues[
        TICKS_QUEUE
    ].batch_max = 1  # production serves the slices of a batch side by side, a history one by one
    world.kernel.at(world.shape.start_ms + BEGINS_S * SECOND_MS, lambda: failure.begin(world))
    world.run_for(LASTS_S * SECOND_MS)
    violation = "" if world.violation is None else str(world.violation)
    return Report(name, _lags(world, failure), by_minute(metrics, world.shape.start_ms), violation)


def by_minute(metrics: list[Measured], start_ms: int) -> ByMinute:
    """The values of each metric, minute by minute, as an alarm's periods see them."""
    found: ByMinute = defaultdict(lambda: defaultdict(list))
    for at_ms, metric, value, labels in metrics:
        found[metric, tuple(sorted(labels.items()))][(at_ms - start_ms) // MINUTE_MS].append(value)
    return found


def _lags(world: World, failure: Failure) -> dict[str, Lags]:
    """By class: first attempts of what was due after the failure began, but for the last half minute."""
    begins_ms = world.shape.start_ms + BEGINS_S * SECOND_MS
    ends_ms = world.shape.start_ms + (LASTS_S - 30) * SECOND_MS
    lags = {TOUCHED: Lags(), OTHERS: Lags()}
    for item in world.tables.items(TIMERS):
        ref, due_ms = f"{item['pk']}|{item['sk']}", int(item["sk"][:10]) * SECOND_MS
        if "run_ref" in item or ref in world.poisoned or item["status"] in ("skipped", "cancelled"):
            continue
        if begins_ms <= due_ms < ends_ms:
            kind = lags[TOUCHED if failure.touches(world, ref, item) else OTHERS]
            kind.due += 1
            started_ms = world.checks.ledger.started_at_ms.get(ref)
            if started_ms is None:
                kind.never += 1
            else:
                kind.lags_ms.append(started_ms - max(due_ms, item.get("created_at_ms", 0)))
    return lags


# --- the world that fails -------------------------------------------------------------------------------------


def _shape() -> Shape:
    """Two pools, two slices of two shards, timers every few seconds, jobs of each kind that a part may touch."""
    start_ms = EPOCH_MS
    layout = Layout(CELL, shards=_SHARDS, slices=_SLICES, pools=(POOL, SECOND_POOL))
    work = Work(POOL, "job", payload='{"n":1}', lease_s=60, retry=RetryPolicy(3, 2))
    bulk, long = replace(work, pool=SECOND_POOL), replace(work, payload=LONG_PAYLOAD)
    shared = replace(work, resources=(Resource("db", 50),))
    timers = [_timers(start_ms, 5, one, LASTS_S // _TIMERS_EVERY_S) for one in (work, bulk, long, shared)]
    timers += [_timers(start_ms, BEGINS_S + 60, one, _LATER_TIMERS) for one in (work, bulk)]
    every: dict[str, Any] = {"rate": "20 seconds", "anchor": "2026-01-01T00:00:00Z"}
    calendars = {"calendars": {"exclude": [CALENDAR], "on_excluded": "skip"}}
    jobs = [_job(start_ms, f"plain-{n}", every, work) for n in range(6)]
    jobs += [_job(start_ms, f"bulk-{n}", every, bulk) for n in range(3)]
    jobs += [_job(start_ms, f"calendar-{n}", every | calendars, work) for n in range(3)]
    spec = {"zone": "UTC", "dates": ["2026-12-24"]}
    plans = (CalendarPlan(start_ms, "pay", spec),)
    elements = frozenset({"second_pool"})
    return Shape(
        start_ms,
        LASTS_S * SECOND_MS,
        _SLICES,
        (layout, layout),
        start_ms,
        _HOSTS,
        tuple(timers),
        tuple(jobs),
        elements=elements,
        calendars=(plans,),
    )


def _timers(start_ms: int, at_s: int, work: Work, count: int) -> TimerPlan:
    at_ms = start_ms + at_s * SECOND_MS
    return TimerPlan(at_ms, at_ms + 20 * SECOND_MS, count, work, "pay", None, None, _TIMERS_EVERY_S)


def _job(start_ms: int, name: str, schedule: dict[str, Any], work: Work) -> JobPlan:
    return JobPlan("pay", name, schedule, 0, CatchUp(), work, (start_ms + 10 * SECOND_MS,), ())


# --- what breaks ----------------------------------------------------------------------------------------------


def _nobody(*_: object) -> bool:
    return False


def _everybody(*_: object) -> bool:
    return True


def _part(name: str, what: str = "") -> tuple[Callable[[World], None], Touches]:
    """A part that breaks, and whom it touches."""

    def begin(world: World) -> None:
        break_part(world, name, world.apart, what)

    def touches(world: World, ref: str, item: Item) -> bool:
        return any(part.touches(world, ref, item) for part in world.parts)

    return begin, touches


def _table(name: str) -> Callable[[World], None]:
    return lambda world: world.broken.tables.add(name)


def _unserved(queue: str) -> Callable[[World], None]:
    def begin(world: World) -> None:
        world.queues[queue].served_from_ms = _NEVER_MS

    return begin


def _off(process: str) -> Callable[[World], None]:
    return lambda world: world.off.add(process)


def _slice(world: World) -> None:
    world.broken.slices.add(SliceLease(slice_key(CELL, 0)).slice)


def _in_slice(_: World, ref: str, __: Item) -> bool:
    return shard_of(ref) % _SLICES == 0


def _of_pool(pool: str) -> Touches:
    def touches(world: World, ref: str, item: Item) -> bool:
        work = item.get("work") or world.work_of(item.get("job_id", ""))
        return bool(work.get("pool") == pool)

    return touches


def _bad_messages(world: World) -> None:
    """Messages that are none: in the ticks, and in a pool's queue."""
    for queue in world.queues.values():
        for body in ("[" * 100_000, "7", '{"v":1}', "no json"):
            queue.put(body, 0)


def _clock_off(world: World) -> None:
    world.host_skews_ms[0] += _CLOCK_OFF_MS
    world.host_skews_seen_ms[0].add(world.host_skews_ms[0])
    world.faults.skew_max_ms = _CLOCK_OFF_MS


FAILURES: dict[str, Failure] = {
    "none": Failure("nothing", _nobody, _nobody),  # type: ignore[arg-type]
    "no_ticker": Failure("the ticker does not run", _off("ticker"), _everybody),
    "no_scanner": Failure("no scanner takes a tick", _unserved("ticks"), _everybody),
    "no_reconciler": Failure("the reconciler does not run", _off("reconciler"), _nobody),
    "no_worker": Failure("a pool has no worker", _unserved(f"ready-{SECOND_POOL}"), _of_pool(SECOND_POOL)),
    "timers_throttled": Failure("the ledger is throttled", _table("timers"), _everybody),
    "leases_throttled": Failure("the leases are throttled", _table("leases"), _everybody),
    "jobs_throttled": Failure("the jobs are throttled", *_part("broken_jobs_table")),
    "payloads_throttled": Failure("the payloads are throttled", *_part("broken_payloads_table")),
    "resources_throttled": Failure("the resources are throttled", *_part("broken_resources_table")),
    "calendars_throttled": Failure("the calendars are throttled", *_part("broken_calendars_table")),
    "one_shard": Failure("one shard's reads are throttled", *_part("broken_shard", "0")),
    "one_slice": Failure("one slice's lease is throttled", _slice, _in_slice),
    "one_pool": Failure("one pool's queue takes nothing", *_part("broken_pool", SECOND_POOL)),
    "poison_item": Failure("items that cannot be read", plant_every_poison, _nobody),
    "poison_definition": Failure("a definition that cannot be read", *_part("garbled_definition", "pay:plain-0")),
    "poison_calendar": Failure("a calendar that cannot be read", *_part("garbled_calendar", "pay")),
    "poison_message": Failure("messages that are none", _bad_messages, _nobody),
    "clock_off": Failure("one host's clock is 60 s ahead", _clock_off, _nobody),
}
"""The rows of the table, and `none` to compare with."""


def others_delay_ms(name: str, without: Report | None = None) -> int:
    """How much later than without the failure the last of what it does not touch starts."""
    quiet = without or run_failure("none")
    return run_failure(name).lags[OTHERS].longest_ms - quiet.lags[OTHERS].longest_ms
