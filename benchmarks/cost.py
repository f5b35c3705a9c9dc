"""What a timer costs: whole lives by the real flows, billed by the meter; what others charge; what dwarfs both.

`make bench-cost` (or `python -m benchmarks.cost --timers 10000 --due-per-second 100`). The flows run on the in-memory
store behind counting ports: `tests/unit/meter/test_hook.py` holds their bill equal to that of real boto3 clients,
call by call, so nothing is gained by waiting for an emulator.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.doors import show_doors
from benchmarks.meter.bill import READS, SQS, WRITES, Counts, usd
from benchmarks.meter.ports import CountingStore
from benchmarks.world import BATCH, World, make_world
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import parse_schedule
from tickwork.flows.access import registry
from tickwork.flows.jobs import changing, registering
from tickwork.flows.runs import timers, worker_calls
from tickwork.ports import Layout
from tickwork.price.prices import AS_OF, REGION

PAYLOAD = '{"order_id":"5f0c2f2e-9a55-4d53-8f0a-2f9e6b1f2c11","kind":"reminder","channel":"email","attempt":1}'
WORK = Work("default", "send-reminder", payload=PAYLOAD)
BULK = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timers", type=int, default=10_000)
    parser.add_argument("--due-per-second", type=int, default=100, help="in each slice")
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--slices", type=int, default=8)
    chosen = parser.parse_args()
    layout = Layout(shards=chosen.shards, slices=chosen.slices)
    count, rate = chosen.timers, chosen.due_per_second * chosen.slices
    print(f"Prices of {AS_OF}, {REGION}. {count} of each, {rate} due a second, {chosen.slices} slices.")
    for title, life in (
        (f"One-shot, whole life, created {BULK} a call", lambda w: one_shots(w, count, rate, BULK)),
        ("One-shot, whole life, created one a call", lambda w: one_shots(w, count, rate, 1)),
        ("One-shot due within the hour, created one a call", lambda w: one_shots(w, count, rate, 1, ahead_s=600)),
        (f"Create ({BULK} a call) and cancel", lambda w: cancelled(w, count)),
        ("One occurrence of a recurring job", lambda w: recurring(w, count, rate)),
        ("One-shot that fails once, and its retry", lambda w: retried(w, count, rate)),
        ("A job made and changed, with its entries in the audit", lambda w: changed(w, count)),
    ):
        world = make_world(layout)
        life(world)
        show(title, world, count)
    show_sizes()
    show_peers()
    show_around()
    show_doors()


# --- lives ----------------------------------------------------------------------------------------------------


def one_shots(world: World, count: int, rate: int, per_call: int, ahead_s: int = 7_200) -> None:
    create(world, count, rate, per_call, ahead_s)
    world.clock.sleep_ms((ahead_s - 1) * 1_000)
    world.scan_all("(cursor to the first second)")
    fire_and_work(world, count // rate + 2)


def create(world: World, count: int, rate: int, per_call: int, ahead_s: int) -> list[str]:
    world.scan_all("(first lease)")
    first_ms = world.clock.now_ms() + ahead_s * 1_000
    new = [timers.NewTimer("payments", first_ms + i // rate * 1_000, WORK) for i in range(count)]
    with world.bill.step("(first look at the team)"):  # of a process, in half a minute
        registry.keep_teams_mark(world.ports, "payments", first_ms)
    made = []
    with world.bill.step("create"):
        for begin in range(0, count, per_call):
            made += timers.create_timers(world.ports, new[begin : begin + per_call])
    return [one.run.key.job_id for one in made]


def fire_and_work(world: World, seconds: int) -> None:
    for _ in range(seconds):
        world.clock.sleep_ms(1_000)
        world.scan_all("fire")
        world.work()


def cancelled(world: World, count: int) -> None:
    made = create(world, count, 100, BULK, 7_200)
    with world.bill.step("cancel"):
        for timer_id in made:
            timers.cancel_timer(world.ports, timer_id)


def recurring(world: World, count: int, rate: int) -> None:
    """`count` jobs of every hour; the bill of their second occurrence, each a whole life."""
    world.scan_all("(first lease)")
    with world.bill.step("(registered)"):
        for i in range(count):
            schedule = parse_schedule(
                {"rate": "1h", "anchor": _instant(world, 3_600 + i // rate)}, now_ms=world.clock.now_ms()
            )
            new = registering.NewJob(
                "payments", f"nightly-settlement-{i:05d}", schedule.spec, WORK, 0, CatchUp(), "f" * 32
            )
            registering.create_job(world.ports, new)
    world.clock.sleep_ms(3_599_000)
    world.scan_all("(cursor to the first second)")
    fire_and_work(world, count // rate + 2)


def changed(world: World, count: int) -> None:
    """Jobs that are registered, changed, paused, resumed and deleted."""
    world.scan_all("(first lease)")
    schedule = parse_schedule({"cron": "0 2 * * *", "zone": "Europe/Berlin"}, now_ms=world.clock.now_ms())
    ports, who = world.ports, "key:payments:0123456789abcdef"
    names = [f"nightly-settlement-{i:05d}" for i in range(count)]
    new = registering.NewJob("payments", "", schedule.spec, WORK, 60, CatchUp(), "f" * 32)
    revised = replace(new, work=replace(WORK, lease_s=90), fingerprint="e" * 32)
    steps: dict[str, Callable[[str], object]] = {
        "register": lambda name: registering.create_job(ports, replace(new, name=name)),
        "change": lambda name: changing.update_job(ports, f"payments:{name}", 1, lambda _: replace(revised, name=name)),
        "pause": lambda name: changing.pause_job(ports, f"payments:{name}", who, "a release"),
        "resume": lambda name: changing.resume_job(ports, f"payments:{name}", who),
        "delete": lambda name: registering.delete_job(ports, f"payments:{name}"),
    }
    for step, act in steps.items():
        with world.bill.step(step):
            for name in names:
                act(name)


def _instant(world: World, ahead_s: int) -> str:
    from tickwork.core.instants import iso

    return iso(world.clock.now_ms() + ahead_s * 1_000)


def retried(world: World, count: int, rate: int) -> None:
    create(world, count, rate, BULK, 7_200)
    world.clock.sleep_ms(7_199_000)
    world.scan_all("(cursor to the first second)")
    fail = partial(worker_calls.fail, error="TimeoutError: no answer in 10 s", permanent=False)
    for _ in range(count // rate + 2):
        world.clock.sleep_ms(1_000)
        world.scan_all("fire")
        world.work(fail)
    steps = world.bill.by_step
    steps["fail (with the retry's timer)"], steps["end"] = steps.pop("end"), Counter()
    steps["first start"], steps["start"] = steps.pop("start"), Counter()
    steps["first fire"], steps["fire"] = steps.pop("fire"), Counter()
    fire_and_work(world, 90)


# --- printing -------------------------------------------------------------------------------------------------


def show(title: str, world: World, count: int) -> None:
    print(f"\n### {title}\n\n| step | write units | read units | SQS requests | $ per million |\n|---|---|---|---|---|")
    total: Counter[str] = Counter()
    for step, counts in world.bill.by_step.items():
        if step.startswith("(") or not counts:
            continue
        total.update(counts)
        print(_row(step, counts, count))
    print(_row("**together**", total, count))


def _row(step: str, counts: Counts, count: int) -> str:
    figures = " | ".join(f"{counts.get(name, 0) / count:.3f}" for name in (WRITES, READS, SQS))
    return f"| {step} | {figures} | {usd(counts) / count * 1e6:.2f} |"


def show_sizes() -> None:
    """The dearest image of an item in each life, against the kilobyte that a write unit takes."""
    from benchmarks.meter.units import item_size
    from tickwork.core.ledger.tables import JOBS, TIMERS
    from tickwork.store.attributes import to_attributes

    print("\n### Sizes of items (a write unit takes 1,024 bytes)\n\n| item | bytes |\n|---|---|")
    layout = Layout(shards=64, slices=8)
    for title, life in (
        ("one-shot, succeeded", lambda w: one_shots(w, 1, 1, 1)),
        ("one-shot, succeeded after a failure", lambda w: retried(w, 1, 1)),
        ("recurring job's", lambda w: recurring(w, 1, 1)),
    ):
        world = make_world(layout)
        life(world)
        store = world.ports.store
        assert isinstance(store, CountingStore)
        for table in (TIMERS, JOBS):
            sizes = [item_size(to_attributes(item)) for item in store._inner.items(table)]  # type: ignore[attr-defined]
            if sizes:
                print(f"| {title}: {table.name} | {max(sizes)} |")


def peers() -> dict[str, Counter[str]]:
    """Others' sequences of calls for one timer, items under 1 KB, batches of ten where they batch."""
    batch = 1 / BATCH
    take = {SQS: 2 * batch}  # receive and delete, by tens
    record = {WRITES: 2}
    return {
        "the floor: durable create, durable outcome, one message": Counter({WRITES: 2, SQS: 3 * batch}),
        "EventBridge Scheduler to SQS, no history": Counter({"scheduler_invocations": 1, SQS: 1 + 2 * batch}),
        "EventBridge Scheduler to SQS, a run record put and completed": Counter(
            {"scheduler_invocations": 1, SQS: 1 + 2 * batch, **record}
        ),
        # inbound: send, receive, delete; put; then read, compare-and-set, send, delete; the consumer's receive, delete
        "Dynein's sequence, no history": Counter({SQS: 1 + 2 * batch + 1, WRITES: 3, READS: 0.125}) + Counter(take),
        "Step Functions, start, wait, send, end": Counter({"step_functions_transitions": 4, SQS: 1 + 2 * batch}),
    }


def show_peers() -> None:
    print("\n### Others, for one timer (computed from their calls)\n\n| design | $ per million |\n|---|---|")
    for name, counts in peers().items():
        print(f"| {name} | {usd(counts) * 1e6:.2f} |")


API_MS, API_GB = 12, 1.0
"""A warm call of the API function that does one write: duration assumed, memory by infra/functions.py."""
LINE_BYTES = 450


def show_around() -> None:
    """What is around the writes, and dearer."""
    call = Counter({"http_api_requests": 1, "lambda_requests": 1, "lambda_gb_s": API_MS / 1_000 * API_GB})
    bulk = Counter({name: n / BULK for name, n in call.items()})
    bulk["lambda_gb_s"] = 2 / 1_000 * API_GB
    ten = Counter({name: 2 * n / BATCH for name, n in call.items()})
    ten["lambda_gb_s"] = 2 * 3 / 1_000 * API_GB
    rows = {
        "one create, alone, through HTTP API and Lambda": call,
        f"one create in a call of {BULK}": bulk,
        "start and complete through HTTP API and Lambda, ten a call": ten,
        f"one log line of {LINE_BYTES} bytes": Counter({"logs_gb": LINE_BYTES / 1e9}),
        "three such lines a timer": Counter({"logs_gb": 3 * LINE_BYTES / 1e9}),
        "a trace of every call": Counter({"xray_traces": 1}),
        "a month of history, 700 bytes an item": Counter({"dynamodb_storage_gb_month": 800 / 1e9}),
    }
    print("\n### What is around the writes\n\n| what | $ per million |\n|---|---|")
    for name, counts in rows.items():
        print(f"| {name} | {usd(counts) * 1e6:.2f} |")


if __name__ == "__main__":
    main()
