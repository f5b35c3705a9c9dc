"""What happens to a world past every rule: clocks that jump, items that vanish, zone data that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator import servers
from tests.simulator.places import next_pk
from tests.simulator.tight import SHORT_DAYS
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import ALL_TABLES, JOBS, RESOURCES, TIMERS
from tickwork.core.ledger.writes import Item

if TYPE_CHECKING:
    from tests.simulator.world import World

_RETRIES_DELETED = 3
"""In worlds whose audits come soon enough to put them back."""
_SWEEP_EVERY_MS = 40 * SECOND_MS
RETENTION_S = 600
"""In worlds that carry out the time to live: the shortest that leaves a message the time to find its run."""
_UNENDED = ("pending", "running", "waiting", "buffered")
OLD_ZONE_DATA = "2020a"
_HALF_A_MESSAGE = {"ref": "x", "run_id": "x", "job_id": "a:b", "handler": "x", "attempt": 1, "lease_s": 1}


def plan_vandals(world: World) -> None:
    """Let each of the seed's vandals come by some time in the safety phase."""
    at, rng, strikes = world.kernel.at, world.apart, world.faults.strikes
    if world.faults.jump_ms:
        at(world.sometime(rng), lambda: jump_clock(world))
    if strikes(rng, "item_deleted"):
        for _ in range(rng.choice((1, 3))):
            at(world.sometime(rng), lambda: delete_something(world))
    if SHORT_DAYS in world.tight and world.classes:
        for _ in range(_RETRIES_DELETED):
            at(world.sometime(rng), lambda: delete_retry(world))
    if strikes(rng, "short_retention"):
        at(world.shape.start_ms + _SWEEP_EVERY_MS, lambda: sweep(world))
    if world.shape.zone_data_at_ms:
        at(world.shape.zone_data_at_ms, lambda: change_zone_data(world))
        at(world.shape.zone_data_at_ms + rng.randrange(30) * SECOND_MS, lambda: servers.audit(world))
    if strikes(rng, "bad_messages"):
        at(world.sometime(rng), lambda: send_garbage(world))
    if strikes(rng, "api_outage"):
        at(world.sometime(rng), lambda: stop_api(world))


def send_garbage(world: World) -> None:
    """Messages that are none, in every queue."""
    bodies = [
        "7",
        '{"v":1}',
        "no json",
        '{"ref":"x","run_id":"x","job_id":"a:b","handler":"x","attempt":1,"lease_s":1}',
    ]
    if world.holds("deep_messages"):
        bodies.append("[" * 100_000)
    world.seen["bad messages"] += 1
    for queue in world.queues.values():
        for body in bodies:
            queue.put(body, 0)


def stop_api(world: World) -> None:
    """The workers' calls are not answered for a while."""
    world.seen["api outage"] += 1
    world.api_down_until_ms = world.kernel.now_ms + world.apart.randint(10, 90) * SECOND_MS


def jump_clock(world: World) -> None:
    """One host's clock jumps, forward or back, and is set right some time later."""
    rng = world.apart
    host = rng.randrange(len(world.host_skews_ms))
    by_ms = rng.choice((-1, 1)) * rng.randint(world.faults.jump_ms // 2, world.faults.jump_ms)
    world.seen["clock jumped"] += 1
    _set_clock(world, host, world.host_skews_ms[host] + by_ms)
    back_ms = world.kernel.now_ms + rng.randint(5, 300) * SECOND_MS
    world.kernel.at(back_ms, lambda: _set_clock(world, host, world.host_skews_ms[host] - by_ms))


def _set_clock(world: World, host: int, skew_ms: int) -> None:
    world.trace("vandal", "CLOCK", f"host {host} is {skew_ms / 1000:.1f} s off")
    world.host_skews_ms[host] = skew_ms
    world.host_skews_seen_ms[host].add(skew_ms)


def sweep(world: World) -> None:
    """Carry out the time to live, as DynamoDB does: some time after. A deleted job outlives its last run all the same:
    retention in production is far longer than any retry takes, and here it is not."""
    world.kernel.at(world.kernel.now_ms + _SWEEP_EVERY_MS, lambda: sweep(world))
    now_s = world.kernel.now_ms // SECOND_MS - world.apart.randrange(60)
    unended = [item for item in world.tables.items(TIMERS) if item["status"] in _UNENDED]
    with_runs = {":".join(str(item["sk"]).split("#")[1:3]) for item in unended}

    def is_needed(item: Item) -> bool:
        return "pk" not in item and item.get("job_id") in with_runs

    for table in ALL_TABLES:
        for item in world.tables.expire(table, now_s, spared=is_needed):
            world.seen[f"expired {table.name}"] += 1
            if table is TIMERS:
                world.gone.add(f"{item['pk']}|{item['sk']}")


def delete_something(world: World) -> None:
    """Somebody's hand: the pending next item of a job, or a row of a slot. Both are repaired."""
    rng = world.apart
    nexts = []
    for job in world.tables.items(JOBS):
        if job.get("status") == "active" and job.get("next_scheduled_at_ms") and job["job_id"] not in world.poisoned:
            second, nominal = job["next_fire_at_ms"] // SECOND_MS, job["next_scheduled_at_ms"] // SECOND_MS
            place = {
                "pk": next_pk(world, job),
                "sk": f"{second:010d}#{job['team']}#{job['name']}#{nominal:010d}",
            }
            nexts.append((TIMERS, place))
    rows = [(RESOURCES, row) for row in world.tables.items(RESOURCES) if "holder" in row]
    targets = rows if rows and rng.random() < 0.4 else nexts
    if not targets:
        return
    table, key = rng.choice(targets)
    item = world.tables.standing(table, key)
    if item is None or (table is TIMERS and item["status"] != "pending"):
        return
    world.trace("vandal", "DELETES", f"{table.name} {key}")
    world.seen[f"deleted from {table.name}"] += 1
    world.tables.remove(table, key)
    if table is TIMERS:
        world.gone.add(f"{item['pk']}|{item['sk']}")
        world.checks.cursors.vanished(item)
    else:
        world.checks.slots.vanished(item)


def delete_retry(world: World) -> None:
    """Somebody's hand: the retry that a run waits for. The audit gives it back, but to one that was replayed when all
    audits had passed it: such a run is in sight by its retry only."""
    pending = [item for item in world.tables.items(TIMERS) if item["status"] == "pending"]
    retries = [item for item in pending if "run_ref" in item and "#look" not in item["sk"]]
    retries = [item for item in retries if not _was_replayed(world, str(item["run_ref"]))]
    if retries:
        item = world.apart.choice(retries)
        world.trace("vandal", "DELETES", f"{item['pk']}|{item['sk']}")
        world.seen["retry deleted"] += 1
        world.tables.remove(TIMERS, item)
        world.gone.add(f"{item['pk']}|{item['sk']}")
        world.checks.cursors.vanished(item)


def _was_replayed(world: World, ref: str) -> bool:
    pk, _, sk = ref.partition("|")
    return bool((world.tables.standing(TIMERS, {"pk": pk, "sk": sk}) or {}).get("replays"))


def change_zone_data(world: World) -> None:
    """Every job was planned with zone data of yesterday: the reconciler plans them anew."""
    world.seen["zone data changed"] += 1
    for job in world.tables.items(JOBS):
        if job.get("status") == "active" and "planned_with" in job and job["job_id"] not in world.poisoned:
            versions = str(job["planned_with"]).split()
            world.tables.plant(JOBS, job | {"planned_with": " ".join([OLD_ZONE_DATA, *versions[1:]])})
