"""Reports of messages that grow too old, of many things due in one second, and of starts in a freeze."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.world import World
from tests.scenarios.stage import NOW_MS
from tests.unit.reported.reports import holds
from tickwork.core.instants import DAY_MS, HOUR_MS, SECOND_MS, iso, parse_iso
from tickwork.flows.audit.reconciling import reconcile

TARGET = {"pool": "default", "handler": "job"}
RETENTION_MS = 14 * DAY_MS
"""Of a message in SQS: after that it is deleted, from no queue into no other."""


# --- R2-O-14 ----------------------------------------------------------------------------------------------------------


class Aging:
    """A world whose queue forgets messages as SQS does."""

    def __init__(self) -> None:
        self.world = World()
        self._sent_ms: dict[int, int] = {}

    def pass_days(self, days: float) -> None:
        """Days in which windows are served, the reconciler looks and messages grow old; no worker takes any."""
        for _ in range(int(days * 8)):
            self.world.at_ms += 3 * HOUR_MS
            for _ in range(3):  # after so long a backlog is opened first
                self.world.window()
            reconcile(self.world.process().ports)
            for number, message in enumerate(self.world.queue.messages):
                sent_ms = self._sent_ms.setdefault(number, self.world.at_ms)
                message.gone = message.gone or self.world.at_ms - sent_ms > RETENTION_MS

    def run(self, name: str) -> dict[str, Any]:
        return dict(self.world.must("GET", f"/runs/{name}"))


def _queued(world: World) -> str:
    made = world.must("POST", "/timers", {"team": "shop", "delay_s": 1, "target": TARGET})
    world.go(2)
    return str(made["ref"])


def _waiting(world: World) -> str:
    policy = {"max_attempts": 3, "base_s": 5}
    made = world.must("POST", "/timers", {"team": "shop", "delay_s": 1, "target": TARGET, "retry_policy": policy})
    world.go(2)
    (held,) = world.take()
    world.complete(held, "failed", error="boom")
    world.go(30)  # its retry's message is there, and nobody takes it
    return str(made["ref"])


def _of_a_job(world: World) -> str:
    schedule = {"at": iso(world.at_ms + 1_000)}
    body = {"team": "shop", "name": "j", "schedule": schedule, "target": TARGET, "tolerance_s": 0}
    world.must("POST", "/jobs", body)
    ref = world.must("GET", "/jobs/shop:j/runs")["runs"][0]["ref"]
    world.go(2)
    return str(ref)


def _running(world: World) -> str:
    """Its worker died, and no other came."""
    ref = _queued(world)
    world.take()
    return ref


UNTAKEN = {"queued": _queued, "waiting": _waiting, "of a job": _of_a_job, "its worker died": _running}


@holds("R2-O-14")
@pytest.mark.parametrize("name", ["queued", "of a job"])
def test_a_run_that_nobody_takes_ends_with_the_reason_and_is_counted_for_an_alarm(name: str) -> None:
    aging = Aging()
    ref = UNTAKEN[name](aging.world)
    aging.pass_days(15.5)
    run = aging.run(ref)
    assert run["status"] == "expired"
    assert "has started it within 13 days" in run["reason"], run["reason"]
    assert aging.world.signals.counts["runs.expired_total"] == 1
    since = iso(NOW_MS)
    assert [
        one["ref"] for one in aging.world.must("GET", "/runs", team="shop", status="expired", since=since)["runs"]
    ] == [ref]
    aging.world.work()
    aging.pass_days(1)
    assert aging.run(ref) == run, "workers that come back do not begin what was ended"


@holds("R2-O-14")
@pytest.mark.parametrize("name", ["waiting", "its worker died"])
def test_a_run_that_has_begun_is_sent_again_however_old_its_messages_have_grown(name: str) -> None:
    """What it has done by halves is brought to an end when workers come back, once."""
    aging = Aging()
    ref = UNTAKEN[name](aging.world)
    aging.pass_days(15.5)
    begun = len(aging.world.worked.starts)
    aging.world.work()
    assert aging.run(ref)["status"] == "succeeded"
    assert len(aging.world.worked.starts) == begun + 1


@holds("R2-O-14")
@pytest.mark.parametrize("name", ["queued", "waiting", "of a job"])
def test_its_message_may_be_lost_at_any_time_before(name: str) -> None:
    aging = Aging()
    ref = UNTAKEN[name](aging.world)
    for message in aging.world.queue.messages:
        message.gone = True
    aging.pass_days(2)
    aging.world.work()
    assert aging.run(ref)["status"] == "succeeded"


@holds("R2-O-14")
def test_workers_that_come_back_before_its_end_do_it_once() -> None:
    aging = Aging()
    ref = _queued(aging.world)
    aging.pass_days(12)
    aging.world.work()
    assert (aging.run(ref)["status"], len(aging.world.worked.starts)) == ("succeeded", 1)


# --- R2-O-27 ----------------------------------------------------------------------------------------------------------


def _keyed(number: int, due_ms: int) -> dict[str, Any]:
    return {"team": "shop", "at": iso(due_ms), "client_key": f"k{number}", "target": TARGET}


@holds("R2-O-27")
@pytest.mark.parametrize("count", [2, 400])
def test_of_many_timers_due_in_one_second_each_runs_once(count: int) -> None:
    world, due_ms = World(), NOW_MS + 5_000
    for begin in range(0, count, 100):
        entries = [_keyed(number, due_ms) for number in range(begin, min(count, begin + 100))]
        world.must("POST", "/timers:batch", {"timers": entries})
    world.go(60, world.work)
    runs = [held.run_id for held in world.worked.starts]
    assert (len(runs), len(set(runs))) == (count, count)


@holds("R2-O-27")
@pytest.mark.parametrize(
    "schedule", [{"cron": "* * * * *"}, {"rate": "1 minute"}, {"at": iso(NOW_MS + 60_000)}], ids=str
)
def test_so_does_each_of_many_jobs_and_timers(schedule: dict[str, Any]) -> None:
    world = World()
    exact = {"tolerance_s": 0, "exact_reason": "the test counts"} if "at" not in schedule else {"tolerance_s": 0}
    for number in range(30):
        body = {"team": "shop", "name": f"j{number}", "schedule": schedule, "target": TARGET} | exact
        world.must("POST", "/jobs", body)
    for number in range(10):
        world.must("POST", "/timers", _keyed(number, NOW_MS + 60_000))
    world.go(119, world.work)
    runs = [held.run_id for held in world.worked.starts]
    assert (len(runs), len(set(runs))) == (40, 40)


@holds("R2-O-27")
@pytest.mark.parametrize("policy", ["latest", "all"])
def test_two_jobs_that_were_late_together_are_both_caught_up(policy: str) -> None:
    world = World()
    for name in ("one", "two"):
        schedule = {"rate": "10 minutes", "anchor": iso(NOW_MS)}
        body = {"team": "shop", "name": name, "schedule": schedule, "target": TARGET, "tolerance_s": 0}
        world.must("POST", "/jobs", body | {"catch_up": {"policy": policy}, "overlap": "allow"})
    world.go(1, world.work)
    world.worked.starts.clear()
    world.at_ms = NOW_MS + 1_205 * SECOND_MS  # nobody served meanwhile
    world.go(60, world.work)
    times = sorted((held.told["job_id"], held.told["scheduled_at"]) for held in world.worked.starts)
    missed = [iso(NOW_MS + 600_000), iso(NOW_MS + 1_200_000)]
    wanted = missed if policy == "all" else missed[1:]
    assert times == [(f"shop:{name}", at) for name in ("one", "two") for at in wanted]


# --- R2-T-57 ----------------------------------------------------------------------------------------------------------

FREEZE = {"zone": "UTC", "weekly": [{"from": "fri 18:00", "to": "mon 06:00"}]}
KOLKATA = {"zone": "Asia/Kolkata", "weekly": [{"from": "fri 23:31", "to": "mon 06:00"}]}
BEFORE = {
    "a freeze of the week": (FREEZE, {"cron": "59 17 * * 5"}, "T18:00:00Z"),
    "a freeze in another zone": (KOLKATA, {"cron": "59 17 * * 5"}, "T18:01:00Z"),
    "a holiday at midnight": ({"dates": ["2026-10-31"]}, {"cron": "57 23 30 10 *"}, "T24:00:00Z"),
    "the end of the schedule": (FREEZE, {"cron": "59 17 * * 5", "end": "2026-10-30T17:59:30Z"}, "T17:59:30Z"),
    "a run that is moved to the day before a freeze": (
        {"dates": ["2026-10-29"], "weekly": [{"from": "fri 18:00", "to": "sun 23:00"}]},
        {"cron": "59 17 * * *", "calendars": {"on_excluded": "next_working_day"}}, "T18:00:00Z",
    ),
}  # fmt: skip


@holds("R2-T-57")
@pytest.mark.parametrize("name", BEFORE)
def test_jitter_starts_nothing_in_a_freeze(name: str) -> None:
    calendar, schedule, before = BEFORE[name]
    world = World()
    world.must("PUT", "/calendars/shop:freeze", calendar)
    excluded = {"exclude": ["freeze"]} | schedule.get("calendars", {})  # type: ignore[operator]
    limit_ms = parse_iso("2026-10-31T00:00:00Z" if before == "T24:00:00Z" else f"2026-10-30{before}")
    fires = []
    for number in range(40):
        body = {"team": "shop", "name": f"j{number}", "schedule": schedule | {"calendars": excluded}, "target": TARGET}
        fires.append(parse_iso(world.must("POST", "/jobs", body)["next"]["fire_at"]))
    assert all(at_ms < limit_ms for at_ms in fires), [iso(at_ms) for at_ms in fires if at_ms >= limit_ms]
    assert len(set(fires)) > 15, "they are spread over what room there is"


@holds("R2-T-57")
def test_a_freeze_that_is_made_while_a_start_waits_holds_as_well() -> None:
    """The start that was planned moves forward into the room that is left."""
    world = World()
    world.must("PUT", "/calendars/shop:freeze", {"dates": ["2027-12-24"]})
    for number in range(40):
        schedule = {"cron": "59 17 * * 5", "calendars": {"exclude": ["freeze"]}}
        world.must("POST", "/jobs", {"team": "shop", "name": f"j{number}", "schedule": schedule, "target": TARGET})
    world.must("PUT", "/calendars/shop:freeze", FREEZE | {"version": 1})
    world.go(305)
    world.at_ms = parse_iso("2026-10-30T17:58:30Z")
    world.window()
    world.go_to(parse_iso("2026-10-30T17:59:59Z"), world.work)
    assert len(world.worked.starts) == 40
