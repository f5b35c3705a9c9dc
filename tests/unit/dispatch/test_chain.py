"""The chain of a recurring job: which occurrence fires, which are skipped and why, which is next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.dispatch import chain
from tickwork.core.jobs import occurrences
from tickwork.core.jobs.definitions import FINISHED, CatchUp, Job, Next
from tickwork.core.jobs.pauses import PAUSES_KEPT_MAX, Pause, end_pause, pause_in_force, with_pause
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import TRANSACTION_WRITES_MAX, Put, Update
from tickwork.core.schedule import parse_schedule

NOW_MS = 1_793_318_400_000
EVERY = 60_000
SPEC = parse_schedule({"rate": "1 minute", "anchor": "2026-01-01T00:00:00Z"}, now_ms=NOW_MS, job_id="pay:x").spec
JOB = Job("pay", "x", SPEC, Work("default", "job"), next=Next(NOW_MS, NOW_MS, 0))
DUE = Next(NOW_MS, NOW_MS, 0)

POLICIES = st.one_of(
    st.builds(CatchUp, st.sampled_from(("latest", "all", "none")), st.just(0), st.sampled_from((0, 90, 600))),
    st.builds(CatchUp, st.just("last"), st.integers(1, 5), st.sampled_from((0, 90, 600))),
)


def plan(catch_up: CatchUp, late_ms: int) -> chain.Step:
    return chain.plan_step(replace(JOB, catch_up=catch_up), DUE, NOW_MS + late_ms, 1)


def minutes(step: chain.Step) -> list[int]:
    return [(skipped.at.scheduled_at_ms - NOW_MS) // EVERY for skipped in step.skipped]


def test_an_occurrence_on_time_fires_and_the_next_is_the_one_after_it() -> None:
    step = plan(CatchUp("none"), 500)
    assert (step.fires, step.skipped) == (True, ())
    assert step.next == Next(NOW_MS + EVERY, NOW_MS + EVERY, 0)


def test_what_is_late_by_less_than_an_outage_fires_whatever_the_policy() -> None:
    assert plan(CatchUp("none"), chain.OUTAGE_AFTER_MS).fires
    assert not plan(CatchUp("none"), chain.OUTAGE_AFTER_MS + 1).fires


@pytest.mark.parametrize(
    ("catch_up", "skipped", "next_minute", "fires"),
    [
        (CatchUp("latest"), [0, 1, 2, 3, 4], 5, False),
        (CatchUp("last", 2), [0, 1, 2, 3], 4, False),
        (CatchUp("last", 9), [], 1, True),
        (CatchUp("all"), [], 1, True),
        (CatchUp("none"), [0, 1, 2, 3, 4], 5, False),
        (CatchUp("all", max_lateness_s=150), [0, 1, 2], 3, False),
    ],
    ids=str,
)
def test_after_an_outage_the_policy_decides(
    catch_up: CatchUp, skipped: list[int], next_minute: int, fires: bool
) -> None:
    step = plan(catch_up, 5 * EVERY + 10)
    assert minutes(step) == skipped
    assert step.fires is fires
    assert step.next is not None
    assert (step.next.scheduled_at_ms - NOW_MS) // EVERY == next_minute


@pytest.mark.parametrize("late_ms", [500, 5 * EVERY], ids=["it fires", "it is skipped"])
def test_what_is_put_behind_an_occurrence_never_lies_before_it_though_its_jitter_has_shrunk(late_ms: int) -> None:
    """The pending one was planned with a tolerance that its job has no more. A cursor may have passed what fires before
    it: nobody would read that again if its window died."""
    pending = Next(NOW_MS, NOW_MS + 3 * EVERY // 2, 0)
    step = chain.plan_step(replace(JOB, catch_up=CatchUp("none")), pending, pending.fire_at_ms + late_ms, 1)
    assert step.next is not None
    assert step.next.fire_at_ms >= pending.fire_at_ms
    assert all(one.at.fire_at_ms >= pending.fire_at_ms for one in step.skipped)
    assert chain.next_after(JOB, pending, 1) == Next(NOW_MS + EVERY, pending.fire_at_ms, 0)


def test_the_newest_that_was_missed_is_the_one_whose_fire_time_has_come_and_not_only_its_nominal_one() -> None:
    """With jitter the occurrence after it may have its nominal time behind it, and is not missed yet."""
    jittered = replace(JOB, catch_up=CatchUp("latest"), tolerance_s=30)
    begin = occurrences.following(jittered, NOW_MS - EVERY, 1)
    assert begin is not None
    jitter_ms = begin.fire_at_ms - begin.scheduled_at_ms
    assert 1_000 < jitter_ms < 30_000, "or nothing is shown"
    step = chain.plan_step(jittered, begin, NOW_MS + 3 * EVERY + jitter_ms - 500, 1)
    assert (minutes(step), step.next) == ([0, 1], occurrences.following(jittered, NOW_MS + EVERY, 1))


@pytest.mark.parametrize("policy", [CatchUp("latest"), CatchUp("all"), CatchUp("none"), CatchUp("last", 2)], ids=str)
@pytest.mark.parametrize("bound_s", [1, 5, 59])
def test_a_bound_on_lateness_below_an_outage_holds_too(policy: CatchUp, bound_s: int) -> None:
    bounded = replace(policy, max_lateness_s=bound_s)
    assert plan(bounded, bound_s * 1_000).fires
    step = plan(bounded, bound_s * 1_000 + 1)
    assert (step.fires, [one.reason for one in step.skipped], minutes(step)) == (False, [chain.TOO_LATE], [0])


@pytest.mark.parametrize(("late_ms", "skipped_count"), [(120_000, 6), (125_000, 6), (125_001, 7), (139_999, 7)])
def test_with_none_what_came_due_afterwards_fires_behind_what_was_missed(late_ms: int, skipped_count: int) -> None:
    """A job of every twenty seconds after an outage of two minutes."""
    spec = parse_schedule({"rate": "20 seconds", "anchor": "2026-01-01T00:00:00Z"}, now_ms=NOW_MS, job_id="pay:x").spec
    often = replace(JOB, schedule=spec, catch_up=CatchUp("none"))
    step = chain.plan_step(often, DUE, NOW_MS + late_ms, 1)
    following = skipped_count * 20_000
    assert [one.at.scheduled_at_ms - NOW_MS for one in step.skipped] == list(range(0, following, 20_000))
    assert step.next == Next(NOW_MS + following, NOW_MS + following, 0)


def test_the_reason_says_whether_it_was_the_policy_or_the_lateness() -> None:
    reasons = [skipped.reason for skipped in plan(CatchUp("latest", max_lateness_s=150), 5 * EVERY + 10).skipped]
    assert reasons == [chain.TOO_LATE] * 3 + [chain.SKIPPED_OUTAGE] * 2


def test_a_long_outage_takes_several_steps() -> None:
    step = plan(CatchUp("none"), 100 * EVERY)
    assert len(step.skipped) == chain.SKIPS_PER_STEP_MAX
    assert step.next is not None
    assert step.next.fire_at_ms <= NOW_MS + 100 * EVERY


@pytest.mark.parametrize("late_s", [61, 96, 99, 100, 136, 500])
@pytest.mark.parametrize(
    ("policy", "fired"), [(CatchUp("none"), 5), (CatchUp("latest"), 1), (CatchUp("last", 3), 3)], ids=str
)
def test_an_outage_of_several_steps_is_one_outage(policy: CatchUp, fired: int, late_s: int) -> None:
    """Of a job of every second: what the first step leaves is less late than an outage, and was missed all the same."""
    spec = parse_schedule({"rate": "1 second", "anchor": "2026-01-01T00:00:00Z"}, now_ms=NOW_MS, job_id="pay:x").spec
    often = replace(JOB, schedule=spec, catch_up=policy)
    now_ms = NOW_MS + late_s * 1_000 + 200
    due: Next | None = DUE
    steps: list[chain.Step] = []
    while due is not None and due.fire_at_ms <= now_ms:
        steps.append(chain.plan_step(often, due, now_ms, 1))
        due = steps[-1].next
    assert sum(step.fires for step in steps) == fired
    assert sum(len(step.skipped) for step in steps) == late_s + 1 - fired
    writes = [chain.step_writes(often, often.occurrence_key("main", DUE), step, now_ms, 60) for step in steps]
    assert max(map(len, writes)) < TRANSACTION_WRITES_MAX, "the fence goes with them"


@given(POLICIES, st.integers(0, 80 * EVERY))
def test_no_occurrence_is_left_out(catch_up: CatchUp, late_ms: int) -> None:
    """every-end-recorded: what lies between the due one and the next one is skipped, in order, without a gap."""
    step = plan(catch_up, late_ms)
    assert step.next is not None
    passed = minutes(step) or [0]
    assert passed == list(range(passed[-1] + 1))
    assert (step.next.scheduled_at_ms - NOW_MS) // EVERY == passed[-1] + 1
    assert step.fires is not bool(step.skipped)


def test_a_schedule_that_ends_finishes_the_job() -> None:
    spec = parse_schedule({"at": "2026-10-30T00:00:00Z"}, now_ms=NOW_MS - 10, job_id="pay:x").spec
    once = replace(JOB, schedule=spec)
    step = chain.plan_step(once, DUE, NOW_MS, 1)
    writes = chain.step_writes(once, once.occurrence_key("main", DUE), step, NOW_MS, 60)
    assert step.next is None
    assert len(writes) == 1
    assert isinstance(writes[0], Update)
    assert writes[0].set["status"] == FINISHED


def test_the_writes_of_a_step_move_the_job_record_each_skip_and_put_the_next() -> None:
    step = plan(CatchUp("latest"), 3 * EVERY + 10)
    due = JOB.occurrence_key("main", DUE)
    move, *records, put = chain.step_writes(JOB, due, step, NOW_MS + 3 * EVERY, 60)
    assert isinstance(move, Update)
    assert move.table is JOBS
    assert move.set["fired_through_ms"] == NOW_MS + 2 * EVERY
    assert isinstance(records[0], Update)
    assert records[0].set["status"] == lifecycle.SKIPPED
    assert [record.item["status"] for record in records[1:] if isinstance(record, Put)] == [lifecycle.SKIPPED] * 2
    assert isinstance(put, Put)
    assert put.item["status"] == lifecycle.PENDING
    assert "expires_at_s" not in put.item


def test_jitter_moves_the_fire_time_and_never_the_nominal_one() -> None:
    jittered = replace(JOB, tolerance_s=20)
    upcoming = occurrences.following(jittered, NOW_MS, 4)
    assert upcoming is not None
    assert upcoming.scheduled_at_ms == NOW_MS + EVERY
    assert 0 <= upcoming.fire_at_ms - upcoming.scheduled_at_ms < 20_000
    assert upcoming == occurrences.following(jittered, NOW_MS, 4)


# --- pauses ---------------------------------------------------------------------------------------------------


def paused(from_minute: int, until_minute: int = 0, catch_up: CatchUp | None = None) -> Job:
    until_ms = NOW_MS + until_minute * EVERY if until_minute else 0
    pause = Pause("ops", "maintenance", NOW_MS + from_minute * EVERY, until_ms)
    return replace(JOB, pauses=(pause,), catch_up=catch_up or CatchUp())


@pytest.mark.parametrize("late_ms", [-2_000, 0, 500])
def test_a_paused_occurrence_is_skipped_however_early_or_late_its_scanner_is(late_ms: int) -> None:
    step = chain.plan_step(paused(0), DUE, NOW_MS + late_ms, 1)
    assert (step.fires, minutes(step)) == (False, [0])
    assert step.skipped[0].reason == "paused by ops: maintenance"
    assert step.next == Next(NOW_MS + EVERY, NOW_MS + EVERY, 0)


@pytest.mark.parametrize(
    ("job", "skipped", "next_minute", "fires"),
    [
        (paused(0, 2), [0, 1, 2, 3, 4], 5, False),
        (paused(0, 2, CatchUp("all")), [0, 1], 2, False),
        (paused(1), [], 1, True),
        (paused(-5, 0), [0, 1, 2, 3, 4, 5], 6, False),
        (paused(2, 4, CatchUp("all")), [], 1, True),
        (paused(2, 4, CatchUp("none")), [0, 1, 2, 3, 4], 5, False),
        (paused(2, 5, CatchUp("last", 2)), [0], 1, False),
    ],
    ids=str,
)
def test_after_an_outage_a_pause_and_the_policy_decide_together(
    job: Job, skipped: list[int], next_minute: int, fires: bool
) -> None:
    """Six occurrences were missed, 0 to 5. What was paused is not what `latest` and `last` count."""
    step = chain.plan_step(job, DUE, NOW_MS + 5 * EVERY + 1_000, 1)
    if fires:
        assert (minutes(step), step.fires) == ([], True)
        return
    assert minutes(step) == skipped
    assert step.next is not None
    assert (step.next.scheduled_at_ms - NOW_MS) // EVERY == next_minute


def test_a_pause_goes_by_the_nominal_time_wherever_jitter_has_put_the_occurrence() -> None:
    """F12: what is due before a pause runs though it fires within it, and what is due within is skipped after it."""
    spread = Next(NOW_MS, NOW_MS + 20_000, 0)
    later = replace(JOB, pauses=(Pause("ops", "maintenance", NOW_MS + 5_000, NOW_MS + 40_000),))
    assert chain.plan_step(later, spread, NOW_MS + 20_500, 1).fires
    over = replace(JOB, pauses=(Pause("ops", "maintenance", NOW_MS - 5_000, NOW_MS + 10_000),))
    step = chain.plan_step(over, spread, NOW_MS + 20_500, 1)
    assert [skipped.reason for skipped in step.skipped] == ["paused by ops: maintenance"]


@given(st.lists(st.tuples(st.integers(1, 100), st.booleans()), max_size=30))
def test_of_any_pauses_and_resumes_at_most_one_is_in_force_and_none_is_forgotten(calls: list[tuple[int, bool]]) -> None:
    pauses: tuple[Pause, ...] = ()
    for at_ms, resumes in calls:
        if resumes:
            pauses = end_pause(pauses, at_ms, "ops")
            assert pause_in_force(pauses, at_ms) is None
        else:
            pauses = with_pause(pauses, Pause("ops", "why", at_ms), 0)
            assert pause_in_force(pauses, at_ms) is pauses[-1]
        assert sum(not pause.until_ms for pause in pauses) <= 1
        assert len(pauses) <= PAUSES_KEPT_MAX
