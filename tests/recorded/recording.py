"""Writes down what this version stores: `python -m tests.recorded.recording` fills the folder of `VERSION`.

Everything goes through the flows that write it in production, on a clock and ids that are set, so that the same code
always records the same. Raise `VERSION` when the stored form gains something, record anew, and keep the old folders:
they are what an old version left in somebody's tables.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.fakes import FakePager, FakeQueues, RememberingSender
from tests.support.runs_world import World
from tickwork.core.access.acting import acting
from tickwork.core.access.actors import LOCAL
from tickwork.core.access.pools import pool_key
from tickwork.core.access.teams import PagerRoute, Quotas, Shared, TeamContent
from tickwork.core.instants import DAY_MS, SECOND_MS, iso
from tickwork.core.jobs.defaults import Version
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.pauses import Pause
from tickwork.core.jobs.scopes import Scope
from tickwork.core.ledger.epochs import Label
from tickwork.core.ledger.keys import is_wait_place
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import ALL_TABLES, AUDIT, JOBS, PASSES, RESOURCES, SET_ASIDE, TEAMS, TIMERS, Table
from tickwork.core.ledger.work import Resource, RetryPolicy, Work
from tickwork.core.ledger.writes import Anyway, Item, Put, Update
from tickwork.core.runs import breaker
from tickwork.core.schedule import parse_schedule
from tickwork.core.watch import incidents
from tickwork.flows.access import keys, pools, registry, teams
from tickwork.flows.access.authenticating import KnownKeys
from tickwork.flows.access.recording import call_on_many
from tickwork.flows.audit import reconciling, sealing
from tickwork.flows.audit.repairs import Repairs, deadline_in
from tickwork.flows.dispatch import ticking
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.jobs import (
    calendars,
    cancelling_groups,
    changing,
    counting_jobs,
    pausing,
    registering,
    rolling_out,
    skipping,
)
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.ledger.commit import commit
from tickwork.flows.runs import (
    asking,
    backfill_making,
    backfill_stopping,
    cancelling,
    dead_letters,
    paging,
    timers,
    worker_calls,
)
from tickwork.flows.runs.admitting import let_in
from tickwork.flows.runs.asking import Wanted
from tickwork.flows.runs.backfill_making import Wanted as Backfilled
from tickwork.flows.runs.timers import NewTimer
from tickwork.flows.watch import incidents as watched_incidents
from tickwork.flows.watch import watching
from tickwork.ports import OutMessage, SendReport
from tickwork.store.dynamodb import from_attributes, to_attributes

VERSION = 25
ROOT = Path(__file__).parent

FULL = Work(
    "default",
    "settle",
    '{"day":1}',
    lease_s=90,
    retry=RetryPolicy(3, 10, 600, 0, ("ValueError",), ("OSError", "KeyError")),
    max_duration_s=900,
    start_within_s=7_200,
    side_effects=("email", "payment"),
    secret_fields=("card.number", "day"),
    certificate={"source_sha256": "a" * 64, "verified_at": "2026-10-30T00:00:00Z"},
    resources=(Resource("reporting-db", 2), Resource("mail", 1)),
)
"""Says everything that a recurring job's work can say, but what excludes each other."""


def record() -> dict[str, list[Any]]:
    """All tables and messages of a small world in which everything has happened, by name."""
    world = World()
    _calendar(world)
    _jobs(world)
    _runs(world)
    _slots(world)
    _frozen(world)
    _earlier(world)
    _keys(world)
    _teams(world)
    _lasting(world)
    _scopes(world)
    _groups(world)
    _silence(world)
    ticking.issue_ticks(world.ports)
    found: dict[str, list[Any]] = {table.name: _items(world, table) for table in ALL_TABLES}
    beside = _beside()
    for table in (SET_ASIDE, PASSES):
        found[table.name] += _items(beside, table)
    sealed = _sealed()
    found["audit"] += [item for item in _items(sealed, AUDIT) if "lines" in item]
    found["passes"] += [item for item in _items(sealed, PASSES) if "seal_head" in item]
    found["resources"] += [item for item in _items(beside, RESOURCES) if is_wait_place(item["slot"])]
    ready = [json.loads(message.body) for queue, message in world.outbox.sent if queue != "ticks"]
    found["ready_messages"] = sorted(ready, key=lambda body: (body["ref"], body["attempt"]))
    found["ticks"] = world.outbox.bodies("ticks")[:5]
    return found


def _keys(world: World) -> None:
    """A worker's key that is used, and one that is revoked."""
    ends_at_ms = world.clock.now_ms() + 30 * DAY_MS
    wanted = keys.Wanted("payments", "worker", ends_at_ms, "ci", ("default",))
    _, text = keys.create_key(world.ports, wanted, LOCAL)
    KnownKeys().actor_of(world.ports, text)
    by_ann = replace(world.ports, acting=acting(LOCAL, "127.0.0.1", "curl", "request-1"))
    (made,) = timers.create_timers(
        by_ann,
        [
            timers.NewTimer(
                "shop", world.clock.now_ms() + DAY_MS, Work("default", "job", '{"pin":1}', secret_fields=("pin",))
            )
        ],
    )
    timers.cancel_timer(by_ann, made.run.key.job_id)
    with call_on_many(by_ann, "timers.cancelled", {"shop": {"timers": 2}}) as counted:
        counted.add("shop", "cancelled", 2)
    old, _ = keys.create_key(world.ports, keys.Wanted("platform", "platform", ends_at_ms), LOCAL)
    keys.revoke_key(world.ports, old.key_id, LOCAL)


def _groups(world: World) -> None:
    """A group with a timer and a job, before it was cancelled and after."""
    ports, label = world.ports, Label("shop", "xmas-mail")

    def some(number: int) -> None:
        at_ms = world.clock.now_ms() + DAY_MS
        timers.create_timers(ports, [timers.NewTimer("shop", at_ms, Work("default", "remind"), group=label.name)])
        spec = parse_schedule({"rate": "6 hours"}, now_ms=world.clock.now_ms(), job_id=f"shop:xmas-{number}").spec
        new = NewJob("shop", f"xmas-{number}", spec, Work("default", "report"), group=label.name)
        registering.create_job(ports, new)

    some(0)
    cancelling_groups.cancel_group(ports, label, "ann", "wrong template")
    some(1)
    pausing.pause_scope(ports, Scope("shop", "group", label.name), Pause("ann", "not yet", 0))


def _teams(world: World) -> None:
    """A team that says all that one can say, changed and marked; one that was seen; the rule."""
    ports = replace(world.ports, queues=FakeQueues())
    content = TeamContent(
        contact="ann@example.org",
        runbook="https://wiki.example.org/payments",
        routes=(PagerRoute("webhook", "https://hooks.example.org/p"), PagerRoute("email", "ann@example.org")),
        defaults={"lease_s": 60},
        weight=2,
        quotas=Quotas(100, 1_000, 50, 10_000, 20),
        shared=(Shared("reporting-db", ("shop",)),),
    )
    teams.put_team(ports, "payments", replace(content, weight=1), None, LOCAL)
    teams.put_team(ports, "payments", content, 1, LOCAL)
    registry.keep_teams_mark(ports, "payments", world.clock.now_ms() + DAY_MS)
    registry.note_unregistered(ports, ["shop"])
    paging.test_routes(replace(ports, pager=FakePager()), teams.get_team(ports, "payments"), LOCAL)
    asked = pools.Asked("lambda", 120, ("shop", "web"))
    pools.put_pool(ports, "payments", "fast", asked, None, LOCAL)
    pools.put_pool(ports, "payments", "fast", replace(asked, shared_with=("web",)), 1, LOCAL)
    for team in ("payments", "web"):
        pools.check_aim(ports, team, "payments_fast", "fast", world.clock.now_ms() + DAY_MS)
    other = pools.put_pool(ports, "payments", "old", pools.Asked(), None, LOCAL)
    closed = {"closed_at_ms": world.clock.now_ms()}
    ports.store.commit([Update(TEAMS, pool_key("payments", other.pool), pools.stands(other), set=closed)])
    teams.adopt(ports, TeamContent(contact="cyd"), LOCAL, dry_run=False, refusing=True)
    _quotas(world)


def _quotas(world: World) -> None:
    """A team that has come near to one, and a timer that says what it is counted for."""
    quotas = Quotas(creates_per_s=20, pending_timers=20, payload_bytes=20, jobs=1)
    teams.put_team(world.ports, "desk", TeamContent("eve", quotas=quotas), None, LOCAL)
    fire_at_ms = world.clock.now_ms() + DAY_MS
    let = let_in(world.ports, [NewTimer("desk", fire_at_ms, Work("default", "ring", '"1234567890123456"'))] * 9)
    timers.create_timers(world.ports, [one for one in let.fates if isinstance(one, NewTimer)])
    paging.page_owners(world.ports, let.near)
    counter = counting_jobs.coming(world.ports, "desk")
    assert counter is not None
    world.store.commit([counter])


def _items(world: World, table: Table) -> list[Item]:
    """As DynamoDB would give them back: a tuple is a list there."""
    items = [from_attributes(to_attributes(item)) for item in world.store.items(table)]
    return sorted(items, key=table.key_of)


def _calendar(world: World) -> None:
    content = {
        "zone": "Europe/Berlin",
        "dates": ["2026-12-24"],
        "ranges": [{"from": "2026-12-27", "to": "2026-12-30"}],
        "weekly": ["sat", {"from": "sun 18:00", "to": "mon 06:00"}],
        "holidays": [{"rule": "12-25", "name": "Christmas Day", "observed": "same_day"}, "easter-2"],
    }
    calendars.put_calendar(world.ports, "shop", "holidays", content, None)
    calendars.put_calendar(world.ports, "shop", "holidays", content | {"dates": []}, 1)


def _new(world: World, name: str, spec: dict[str, Any], work: Work, **more: Any) -> NewJob:
    schedule = parse_schedule(spec, now_ms=world.clock.at_ms, job_id=f"shop:{name}")
    new = NewJob("shop", name, schedule.spec, work, 0, CatchUp(), f"{name}-content")
    return replace(new, **more)


def _jobs(world: World) -> None:
    """A plain job, one that says everything, a union, an unsafe one, a pushed one; one changed, paused and resumed;
    one finished, one with its next cancelled, one deleted, one parked, one of which a run waits until it is free."""
    every_hour = {"rate": "1 hour"}
    cron = {"cron": "30 6 * * 1-5", "zone": "Europe/Berlin", "calendars": {"exclude": ["holidays"]}}
    unsafe = Work("default", "job", idempotency_class="unsafe", sign_off={"who": "ops", "why": "a bell"})
    pushed = Work("push", "push", url="https://example.com/hook", resources=(Resource("push.example.com", 4),))
    weekly = {"rrule": "FREQ=WEEKLY", "start": "2026-11-01T00:00:00Z"}
    union = {"any_of": [{"cron": "0 1 * * *", "zone": "UTC"}, weekly]}
    everything = {"tolerance_s": 120, "catch_up": CatchUp("last", 3, 7200), "exact_reason": "a bank opens then"}
    everything |= {"owner": "ann", "runbook": "https://wiki.example.org/full", "description": "the whole day's books"}
    everything |= {"tags": ("books", "compliance"), "pager_route": "https://hooks.example.org/shop"}
    everything |= {"dead_man_switch": "on", "max_silence_s": 90_000, "min_duration_s": 5}
    for new in (
        _new(world, "plain", every_hour, Work("default", "job")),
        _new(world, "full", cron, FULL, **everything),
        _new(world, "apart", every_hour, Work("default", "job", '"' + "x" * 500 + '"')),
        _new(world, "unsafe", every_hour, unsafe),
        _new(world, "pushed", every_hour, pushed),
        _new(world, "daily", {"cron": "0 1 * * *", "zone": "UTC"}, Work("default", "job")),
        _new(world, "several", union, Work("default", "job")),
        _new(world, "once", {"at": "2026-10-30T00:00:30Z"}, Work("default", "job")),
        _new(world, "gone", every_hour, Work("default", "job")),
        _new(world, "alone", {"rate": "30 seconds", "count": 3}, Work("default", "job"), overlap="skip"),
        _new(world, "patient", {"rate": "30 seconds", "count": 3}, Work("default", "job"), overlap="buffer_one"),
        _new(
            world, "lined-up", every_hour, Work("default", "job"), overlap="buffer_all", buffer_max=20, buffer_age_s=900
        ),
        _new(world, "freed", {"rate": "30 seconds", "count": 3}, Work("default", "job"), overlap="buffer_one"),
        _new(world, "newest", {"rate": "30 seconds", "count": 3}, Work("default", "job"), overlap="cancel_other"),
        _new(world, "parked", every_hour, Work("default", "job")),
        _new(world, "kept", every_hour, Work("default", "job")),
        _new(world, "frequent", {"rate": "20 seconds", "anchor": "2026-10-20T00:00:00Z"}, Work("default", "job")),
    ):
        registering.create_job(world.ports, new)
    faster = _new(world, "daily", {"rate": "2 hours"}, Work("default", "job", max_duration_s=60))
    changing.update_job(world.ports, "shop:daily", 1, lambda job: replace(faster, fingerprint="changed"))
    changing.pause_job(world.ports, "shop:plain", "ops", "maintenance")
    world.after(5)
    changing.resume_job(world.ports, "shop:plain", "ops")
    changing.pause_job(world.ports, "shop:plain", "ops", "again", world.clock.at_ms + 7_200_000)
    changing.pause_job(world.ports, "shop:kept", "ops", "the bank moves", at_resume="latest")
    registering.delete_job(world.ports, "shop:gone")
    for hours in (20, 21):
        coming = registering.get_job(world.ports, "shop:plain").created_at_ms + hours * 3_600_000
        skipping.skip_occurrence(world.ports, "shop:plain", coming // 3_600_000 * 3_600_000, "ann", "closed")
    skipping.unskip_occurrence(world.ports, "shop:plain", coming // 3_600_000 * 3_600_000, "bob")
    _defaults(world)
    for beside, client_key in ((False, ""), (True, "late-file")):
        late = Wanted("shop:daily", "key:shop:ann", "the file came late", beside=beside, client_key=client_key)
        asking.ask_for_run(world.ports, late)
        asking.ask_for_run(world.ports, Wanted("shop:lined-up", "key:shop:ann", "once more"))  # the second one waits
    past = 1_792_454_400_000, 1_792_886_400_000
    backfills = [
        Backfilled("shop:several", *past, "all", order, 2, "key:shop:ann", "a bug", order)
        for order in ("oldest_first", "newest_first")
    ]
    made = [backfill_making.make(world.ports, one) for one in backfills]
    backfill_stopping.cancel(world.ports, made[1].backfill_id, "ops", "a mistake", stops_runs=True)
    long = Backfilled(
        "shop:frequent", 1_792_454_400_000, 1_792_886_400_000, "all", "oldest_first", 2, "ops", "a bug", "long"
    )
    backfill_making.make(world.ports, long, backfill_making.plan(world.ports, long).token)
    parked = {"status": "error", "reason": "no zone data", "next_scheduled_at_ms": 0, "next_fire_at_ms": 0}
    commit(world.ports, Update(JOBS, {"job_id": "shop:parked"}, Anyway("as a window parks it"), set=parked))
    holder = world.next_key("shop:freed")
    world.after(60)
    world.scan()
    world.complete(holder, world.must_start(holder).token)


def _defaults(world: World) -> None:
    """A version of the platform's defaults that is rolled out, and jobs that go by it: one has pinned it, and says of
    its tolerance what it would have anyway."""
    version = Version(RetryPolicy(7), 60, "allow", CatchUp("last", 2), extra={})
    rolling_out.publish(world.ports, 0, version, "ops", "the bank is slow")
    rolling_out.roll_out(world.ports, 1, 2, 30, ("shop",), "a part first")
    new = _new(world, "by-default", {"rate": "30 seconds"}, Work("default", "job"), overlap="skip")
    new = replace(new, own_policies=("tolerance_s",), defaults_pin=2)
    registering.create_job(world.ports, new)


def _runs(world: World) -> None:
    """A run in every status that there is, and some more on the way."""
    world.timer(3600)  # pending
    world.must_start(world.timer())  # running
    asked = world.timer()
    world.must_start(asked)
    cancelling.cancel_run(world.ports, asked, "not wanted")  # running, and asked to stop
    done = world.timer(payload='{"n":[1,2]}', traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01")
    world.complete(done, world.must_start(done).token)
    waiting = world.timer()
    world.fail(waiting, world.must_start(waiting).token, error_class="KeyError", retry_after_s=30)
    tired = world.timer(retry=RetryPolicy(2, 1))
    world.fail(tired, world.must_start(tired).token)
    again = world.must_start(tired, message=world.until_retry(tired))
    world.fail(tired, again.token, permanent=True)  # dead, its first retry spent
    replayed = world.timer(retry=RetryPolicy(1))
    world.fail(replayed, world.must_start(replayed).token)
    order = dead_letters.Order("ops", "the bank is back", 10, world.clock.at_ms + 60_000)
    dead_letters.replay_runs(world.ports, [replayed], order)  # waiting, and replayed
    cancelling.cancel_run(world.ports, world.timer(600), "changed our mind")
    lapsed = world.timer(lease_s=30)
    world.must_start(lapsed, lease_s=30)
    world.after(40)
    world.must_start(lapsed)  # reclaimed
    for _ in range(2):  # handed back, and running again after that
        given = world.timer()
        worker_calls.hand_back(world.ports, given, world.must_start(given).token)
    world.must_start(given)
    lasting = world.timer(max_duration_s=600)
    world.must_start(lasting)
    keyed = timers.NewTimer("shop", world.clock.at_ms + 90_000, Work("default", "job"), "order-17", "content")
    timers.create_timers(world.ports, [keyed])
    _missed(world)


def _missed(world: World) -> None:
    """An outage of three hours: the jobs of every hour skip what they missed, or run it, as they were told."""
    world.after(3 * 3600)
    for _ in range(4):
        world.scan()
        world.after(1)


def _slots(world: World) -> None:
    """A run that holds slots, and a target that is left alone."""
    holder = world.timer(resources=(Resource("reporting-db", 2), Resource("mail", 1)))
    world.must_start(holder)
    key = breaker.breaker_key("shop", "push.example.com")
    read = breaker.Breaker()
    for _ in range(breaker.TRIP_AFTER):
        commit(world.ports, breaker.failed(key, read, world.clock.at_ms))
        read = breaker.Breaker.from_item(world.ports.store.get(RESOURCES, key))
    occurrence = world.until_due("shop:unsafe")
    world.complete(occurrence, world.must_start(occurrence).token)  # and the job's `last` says so


class _Closed(RememberingSender):
    """A queue that takes nothing."""

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        return SendReport(tuple(range(len(messages))), why="closed", closed=True)


def _beside() -> World:
    """A world of its own, for what lies beside the ledger: a pool set aside, a run that waits for a slot, a bucket left
    open two days later."""
    world = World()
    for _ in range(2):
        waits = world.timer(resources=(Resource("reporting-db", 1),))
        world.start(waits)
    world.timer(3)
    world.after(5)
    run_window(replace(world.ports, sender=_Closed()), 0, world.clock.at_ms // SECOND_MS)
    later = World(world.store)
    later.clock.at_ms = world.clock.at_ms + 2 * DAY_MS
    kept = _items(world, SET_ASIDE)
    for _ in range(3):
        later.scan()
        later.after(60)
        reconciling.reconcile(later.ports)
    commit(world.ports, *(Put(SET_ASIDE, item, Anyway("as it stood before the queue was open again")) for item in kept))
    return world


def _sealed() -> World:
    """A world whose audit is sealed, two days later."""
    world = World()
    calendars.put_calendar(world.ports, "sealed", "holidays", {"dates": ["2026-12-24"]}, None)
    with call_on_many(world.ports, "timers.cancelled", {"sealed": {"timers": 2}}) as counted:
        counted.add("sealed", "cancelled", 2)
    world.clock.at_ms += 2 * DAY_MS
    sealing.seal_audit(world.ports, Repairs(), deadline_in(world.ports, 1_000))
    return world


def _frozen(world: World) -> None:
    """A start that a hard calendar puts off."""
    begin_ms = world.clock.at_ms // 60_000 * 60_000 + 120_000
    span = {"from": iso(begin_ms)[:16], "to": iso(begin_ms + 600_000)[:16]}
    calendars.put_calendar(world.ports, "shop", "freeze", {"zone": "UTC", "ranges": [span], "hard": True}, None)
    spec = {"cron": "* * * * *", "zone": "UTC", "calendars": {"exclude": ["freeze"]}}
    registering.create_job(world.ports, _new(world, "frozen", spec, Work("default", "job")))
    world.after(150)
    for _ in range(3):
        world.scan()
        world.after(1)


def _earlier(world: World) -> None:
    """A run that goes by an earlier definition of its job, since a replay that asked for it; and a cancelled next."""
    dead = world.until_due("shop:daily")
    world.fail(dead, world.must_start(dead).token, permanent=True)
    order = dead_letters.Order("ops", "as it was", 10, world.clock.at_ms + 60_000, definition=1)
    dead_letters.replay_runs(world.ports, [dead], order)
    cancelling.cancel_run(world.ports, world.next_key("shop:several"), "not this time")


def _lasting(world: World) -> None:
    """A run that took its time: its job knows of it."""
    runs = [Run.from_item(item) for item in _items(world, TIMERS) if item.get("job_id") == "shop:apart"]
    fired = [run.key for run in runs if run.status == "pending" and run.key.fire_at_ms <= world.clock.at_ms]
    key = max(fired, key=lambda key: key.fire_at_ms)
    run = world.must_start(key, lease_s=900)
    world.after(600)
    world.complete(key, run.token)


def _silence(world: World) -> None:
    """A watchdog that has looked once; a job that is silent, of which somebody has heard; one that cannot be read."""
    watching.watch(world.ports)
    silent = incidents.opened("shop:full", incidents.SILENT, world.clock.now_ms())
    silent = replace(silent, since_ms=silent.opened_at_ms - DAY_MS, by_ms=silent.opened_at_ms, silence_s=90_000)
    watched_incidents.open_one(world.ports, replace(silent, version=1, why="no run of it has ended"))
    unread = incidents.opened("shop:parked", incidents.UNREADABLE, world.clock.now_ms())
    watched_incidents.open_one(world.ports, replace(unread, why="of another version"))
    world.after(300)
    watched_incidents.acknowledge(world.ports, "shop:full", incidents.SILENT, "ann", "at it", 0)


def _scopes(world: World) -> None:
    """A team's pause, whose occurrences wait for its end, and that of a pool, which ends by itself."""
    now_ms = world.clock.at_ms
    team, pool = Scope("shop", "team", "shop"), Scope("ops", "pool", "default")
    pausing.pause_scope(world.ports, team, Pause("ann", "the bank moves", now_ms, at_resume="latest"))
    pausing.pause_scope(world.ports, pool, Pause("ops", "new workers", now_ms, now_ms + 3_600_000))


def write() -> None:
    """Fill the folder of this version."""
    folder = ROOT / f"v{VERSION}"
    folder.mkdir(exist_ok=True)
    for name, items in record().items():
        text = json.dumps(items, indent=1, sort_keys=True, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
