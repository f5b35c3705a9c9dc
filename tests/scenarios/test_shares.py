"""Fair shares in a lane: what a team has due at once delays no other's, whatever it is spread over, and is not lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tests.scenarios.stage import NOW_MS, Call, Killed, Stage
from tickwork.core.access.teams import Team
from tickwork.core.dispatch import shares
from tickwork.core.errors import Throttled
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.ledger.tables import SET_ASIDE, TEAMS, TIMERS
from tickwork.core.ledger.writes import Anyway, Put
from tickwork.flows.dispatch import sharing
from tickwork.flows.dispatch.serving import PAGE_ITEMS_MAX
from tickwork.flows.runs import cancelling
from tickwork.ports import Layout, OutMessage, SendReport, ready_queue

CALL_MS = 20
"""What a call takes here: so a herd lasts longer than a window may."""
LAG_MAX_MS = 5 * SECOND_MS
"""What a team may cost another (spec F10)."""
DUE_MS = NOW_MS + 10 * SECOND_MS


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts and turns a tenth as large, for herds a tenth as large."""
    monkeypatch.setattr(shares, "ALONE_MS", 0)
    monkeypatch.setattr(shares, "LIVE_QUANTUM", 50)
    monkeypatch.setattr(shares, "QUANTUM", 2)
    monkeypatch.setattr(sharing, "FIRED_ITEMS_MAX", 10)


def a_stage(shards: int = 2) -> Stage:
    return Stage(Layout(shards=shards, slices=1, pools=("default",)))


def windows(stage: Stage, count: int) -> Iterator[list[dict[str, object]]]:
    """Windows a second apart at least, each with the messages it sent."""
    stage.at_ms = max(stage.at_ms, DUE_MS)
    for _ in range(count):
        process = stage.process()
        process.latency_ms = CALL_MS
        process.window()
        yield stage.bodies()
        stage.inbox.clear()
        stage.at_ms = (stage.at_ms // SECOND_MS + 1) * SECOND_MS


def team_of(body: dict[str, object]) -> str:
    return str(body["ref"]).partition("|")[2].split("#")[1]


def due_of(body: dict[str, object]) -> int:
    return int(str(body["ref"]).partition("|")[2][:10]) * SECOND_MS


def lag_of(body: dict[str, object]) -> int:
    return int(str(body["dispatched_at_ms"])) - due_of(body)


def rows(stage: Stage) -> list[str]:
    return sorted(str(item["who"]) for item in stage.store.items(SET_ASIDE))


def a_herd(stage: Stage, count: int, due_ms: int = DUE_MS, team: str = "big") -> None:
    for begin in range(0, count, 250):
        stage.timers(min(250, count - begin), due_ms, team=team)


def served(stage: Stage, count: int) -> list[dict[str, object]]:
    return [body for bodies in windows(stage, count) for body in bodies]


# --- delay ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_what_a_team_has_due_at_once_delays_no_other() -> None:
    stage = a_stage()
    a_herd(stage, 2_000)
    for n in range(20):
        stage.timers(1, DUE_MS + n * SECOND_MS, team="small")
    sent = served(stage, 24)
    assert len(sent) == len({str(body["ref"]) for body in sent}) == 2_020, "each once, and none is lost"
    lags = {team: max(lag_of(body) for body in sent if team_of(body) == team) for team in ("big", "small")}
    assert lags["big"] > LAG_MAX_MS / 2, "else there was no herd"
    assert lags["small"] < LAG_MAX_MS / 2
    assert not rows(stage)
    assert stage.lease().aside_s == 0, "a slice without rows looks at none"


@pytest.mark.usefixtures("small")
def test_a_teams_backlog_lasts_no_longer_than_without_the_others() -> None:
    """Whoever wants less than its part leaves the rest to the others: nobody waits for what nobody uses."""
    alone, beside = a_stage(), a_stage()
    for stage in (alone, beside):
        a_herd(stage, 1_500)
    for n in range(10):
        beside.timers(1, DUE_MS + n * SECOND_MS, team="small")
    last = {name: max(map(lag_of, served(stage, 12))) for name, stage in (("alone", alone), ("beside", beside))}
    assert last["beside"] <= last["alone"] * 1.1


@pytest.mark.usefixtures("small")
def test_turns_go_on_with_the_next_second_whatever_else_is_due() -> None:
    """A herd alone has no tick but the one that each of its windows leaves: it comes as soon as it can be of use."""
    stage = a_stage(shards=1)
    a_herd(stage, 3_000)
    stage.at_ms = DUE_MS
    scans = 0
    while stage.next_tick_ms() is not None:
        scanner = stage.process()
        scanner.latency_ms = CALL_MS
        began = stage.second
        stage.scan(scanner)
        scans += 1
        if rows(stage):
            assert stage.second > began, "else the next window had to wait for its second"
            assert (stage.next_tick_ms() or 0) <= stage.at_ms
    assert 2 < scans < 12, "one window wakes the next, and each gets on"
    assert len({str(body["ref"]) for body in stage.bodies()}) == 3_000


@pytest.mark.usefixtures("small")
def test_a_teams_order_is_kept_and_newer_work_waits_behind_its_row() -> None:
    stage = a_stage(shards=3)
    for n in range(8):
        a_herd(stage, 800 if n == 0 else 20, DUE_MS + n * SECOND_MS)
    sent = served(stage, 12)
    assert len(sent) == 940
    for shard in stage.layout.shards_of(0):
        of_shard = [due_of(body) for body in sent if f"#{shard:04d}#" in str(body["ref"]).partition("|")[0]]
        assert of_shard == sorted(of_shard)
    lags = [lag_of(body) for body in sent if due_of(body) > DUE_MS]
    assert max(lags) > SECOND_MS, "else there was no row to wait behind"


@pytest.mark.usefixtures("small")
def test_a_second_of_another_team_is_not_passed_with_the_rest_of_one() -> None:
    stage = a_stage(shards=1)
    a_herd(stage, 1_200, team="big")
    for team in ("aaa", "zzz"):
        stage.timers(3, DUE_MS, team=team)
    (first,) = windows(stage, 1)
    live = first[: shares.LIVE_QUANTUM + 6]
    assert Counter(map(team_of, live)) == {"big": shares.LIVE_QUANTUM, "aaa": 3, "zzz": 3}


@pytest.mark.usefixtures("small")
def test_what_lies_behind_ended_ones_of_a_team_is_left_to_its_row() -> None:
    """The page that shows whom to pass may show nothing of his that is pending: his row reaches what was not read."""
    stage = a_stage(shards=2)
    last_ms = DUE_MS + 3 * SECOND_MS
    keys = [
        key for due_ms, calls in ((DUE_MS, 5), (last_ms, 1)) for _ in range(calls) for key in stage.timers(250, due_ms)
    ]
    first = sorted((key for key in keys if key.shard == 1 and key.fire_at_ms == DUE_MS), key=lambda key: key.sk)
    kept = [key for key in keys if key.shard == 0 and key.fire_at_ms == last_ms] + first[PAGE_ITEMS_MAX:]
    for key in {*keys} - {*kept}:
        cancelling.cancel_run(stage.process().ports, key, "a test")
    assert len(first) > PAGE_ITEMS_MAX, "else nothing lies behind the page"
    stage.at_ms = last_ms
    assert {str(body["ref"]) for body in served(stage, 12)} == {key.ref for key in kept}


# --- parts ----------------------------------------------------------------------------------------------------


def weigh(stage: Stage, **weights: int) -> None:
    for team, weight in weights.items():
        stage.store.commit([Put(TEAMS, Team(team=team, contact="ann", weight=weight).to_item(), Anyway("a test"))])


def parts(stage: Stage, teams: tuple[str, ...], count: int) -> list[float]:
    """What each team got of some windows, as parts of what the last got."""
    got = Counter(team_of(body) for body in served(stage, count))
    return [got[team] / got[teams[-1]] for team in teams]


@pytest.mark.usefixtures("small")
def test_weights_say_what_each_team_gets_of_what_all_want() -> None:
    stage = a_stage()
    weigh(stage, three=3, two=2)
    for team in ("three", "two", "one"):
        a_herd(stage, 2_500, team=team)
    served(stage, 1)  # in the first each has its part of what is due live, and that has no weight
    assert parts(stage, ("three", "two", "one"), 2) == pytest.approx([3, 2, 1], rel=0.1)


@pytest.mark.usefixtures("small")
def test_weights_that_cannot_be_read_are_one_and_hold_up_nobody() -> None:
    stage = a_stage()
    weigh(stage, three=3)
    for team in ("three", "one"):
        a_herd(stage, 1_200, team=team)

    def busy() -> None:
        raise Throttled("the table is busy")

    process = stage.process()
    process.latency_ms = CALL_MS
    stage.at_ms = DUE_MS
    process.before(lambda c: c.verb == "get_many" and c.what == TEAMS.name, busy, times=9).window()
    got = Counter(map(team_of, stage.bodies()))
    assert got["three"] == pytest.approx(got["one"], rel=0.1)
    assert "weights_unread" in [action for action, _ in stage.signals.lines]


@pytest.mark.usefixtures("small")
def test_a_team_that_spreads_its_load_over_many_jobs_gains_nothing() -> None:
    stage = a_stage()
    minute_ms = (DUE_MS // MINUTE_MS + 1) * MINUTE_MS
    for n in range(300):
        stage.job(f"job-{n:03d}", {"cron": "* * * * *", "zone": "UTC"}, team="spread")
    a_herd(stage, 300, minute_ms, team="plain")
    stage.at_ms = minute_ms
    stage.process().window(budget_ms=0)  # all that is due live, and a turn each
    process = stage.process()
    process.latency_ms = 4 * CALL_MS
    stage.at_ms += SECOND_MS
    process.window()
    got = Counter(map(team_of, stage.bodies()))
    assert 60 <= got["plain"] + got["spread"] < 600, "else there was nothing to share"
    assert got["spread"] <= got["plain"] * 1.1 + shares.QUANTUM
    stage.assert_chains_unbroken()


def test_more_teams_than_there_are_rows_for_are_fired_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "ALONE_MS", 0)
    monkeypatch.setattr(shares, "LIVE_QUANTUM", 2)
    monkeypatch.setattr(shares, "TEAM_ROWS_MAX", 2)
    stage = a_stage()
    for team in ("ann", "bob", "cid", "dan"):
        stage.timers(10, DUE_MS, team=team)
    process = stage.process()
    stage.at_ms = DUE_MS
    process.window()
    assert Counter(map(team_of, stage.bodies())) == dict.fromkeys(("ann", "bob", "cid", "dan"), 10)
    assert not rows(stage)
    assert max(len(call.detail) for call in process.calls if writes_rows(call)) == 3, "two rows and the lease"


def writes_rows(call: Call) -> bool:
    return call.verb == "commit" and any(write.table is SET_ASIDE for write in call.detail)


# --- crashes --------------------------------------------------------------------------------------------------


def crowded(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A herd in small: two teams with more than their parts, of timers and of jobs, over two shards."""
    monkeypatch.setattr(shares, "ALONE_MS", 0)
    monkeypatch.setattr(shares, "LIVE_QUANTUM", 2)
    monkeypatch.setattr(shares, "QUANTUM", 1)
    monkeypatch.setattr(sharing, "FIRED_ITEMS_MAX", 1)
    stage = a_stage()
    stage.job("each", {"rate": "5 seconds", "anchor": "2026-01-01T00:00:00Z"}, team="big")
    stage.timers(5, DUE_MS, team="big")
    stage.timers(4, DUE_MS + 2 * SECOND_MS, team="big")
    stage.timers(4, DUE_MS, team="web")
    stage.timers(1, DUE_MS, team="tea")
    stage.at_ms = DUE_MS
    return stage


def test_a_crash_at_any_call_of_a_window_loses_nothing_and_starts_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = crowded(monkeypatch)
    first = whole.process()
    first.window()
    calls = len(first.calls)
    assert sum(writes_rows(call) for call in first.calls) >= 2, "a row is written, and served"
    for n in range(1, calls + 1):
        for after in (False, True):
            stage = crowded(monkeypatch)
            process = stage.process()

            def die() -> None:
                raise Killed

            (process.after if after else process.before)(lambda c, n=n: c.n == n, die)
            with pytest.raises(Killed):
                process.window()
            stage.at_ms += 11 * SECOND_MS  # its lease lapses
            workers = stage.serve(6)
            timers = [run for run in stage.runs() if "~" in run.key.name]
            assert [run.key.ref for run in timers if run.status != "succeeded"] == [], f"died at call {n}, {after=}"
            assert len(timers) == 14
            assert len(workers.started) == len(set(workers.started))
            stage.assert_chains_unbroken()
            assert not rows(stage)


def test_a_paused_owner_that_wakes_in_its_turns_moves_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = crowded(monkeypatch)
    slow = stage.process()
    turns = [0]

    def nap() -> None:
        turns[0] += 1
        if turns[0] == 3:  # sends of what is due live, then those of turns
            slow.pause(30 * SECOND_MS, lambda: [stage.process().window() for _ in range(3)])

    slow.after(lambda c: c.verb == "send" and "ready" in c.what, nap, times=99)
    report = slow.window()
    assert report.outcome in ("fenced", "unsure", "served")
    workers = stage.serve(8)
    timers = [run for run in stage.runs() if "~" in run.key.name]
    assert {run.status for run in timers} == {"succeeded"}
    assert len(workers.started) == len(set(workers.started))
    assert not rows(stage)


def test_a_shard_that_cannot_be_read_in_a_turn_waits_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = crowded(monkeypatch)

    def busy() -> None:
        raise Throttled("the partition is busy")

    live = stage.process()
    reads = [0]

    def in_turns() -> None:
        reads[0] += 1
        if reads[0] > 2 * stage.layout.shards:
            busy()

    live.before(lambda c: c.verb == "query" and c.what == TIMERS.name, in_turns, times=99).window()
    assert any(who.startswith("shard#") for who in rows(stage))
    stage.serve(40)
    assert {run.status for run in stage.runs() if "~" in run.key.name} == {"succeeded"}
    assert not rows(stage)


@pytest.mark.parametrize("count", [300, 1_400])
def test_a_herd_that_is_fired_within_a_second_costs_what_it_did(count: int) -> None:
    stage = a_stage()
    for team in ("ann", "bob", "cid"):
        a_herd(stage, count, team=team)
    stage.at_ms = DUE_MS
    process = stage.process()
    assert process.window().sent == 3 * count
    pages = 2 * -(-3 * count // 2 // PAGE_ITEMS_MAX)
    reads = [call for call in process.calls if call.verb == "query" and call.what == TIMERS.name]
    assert not [call for call in process.calls if call.verb == "query" and call.what == SET_ASIDE.name]
    assert pages <= len(reads) <= pages + 2, "as many pages as there are, and one of each shard that is its last"
    assert not [call for call in process.calls if writes_rows(call)]


def test_what_a_row_says_is_read_by_a_version_that_knows_no_teams(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes an unknown kind for everybody's, goes by `place`, and sends some of it twice."""
    stage = crowded(monkeypatch)
    process = stage.process()
    process.latency_ms = 400
    process.window()
    assert [who for who in rows(stage) if who.startswith("team#")], "time was up"
    pending = 0
    for item in stage.store.items(SET_ASIDE):
        known = {name: item[name] for name in ("slice", "who", "begin", "until", "place", "next_try_s", "tries")}
        team = str(item["who"]).partition("#")[2]
        for timer in stage.store.items(TIMERS):
            second, owner, *_ = str(timer["sk"]).split("#")
            ref = f"{timer['pk']}|{timer['sk']}"
            was_sent = ref in {str(body["ref"]) for body in stage.bodies()}
            if owner == team and int(second) <= stage.lease().done and not was_sent and timer["status"] == "pending":
                pending += 1
                _, shard, bucket = str(timer["pk"]).split("#")
                assert known["begin"] <= int(second) <= known["until"]
                assert f"{bucket}#{shard}#{timer['sk']}" > str(known["place"])
    assert pending


# --- the queue --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_a_crowd_is_named_to_the_queue_and_the_quiet_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "CROWD_ITEMS_MIN", 20)
    stage = a_stage()
    a_herd(stage, 300)
    stage.timers(3, DUE_MS, team="small")
    named: Counter[tuple[str, str | None]] = Counter()
    put = stage.put

    def seen(queue: str, messages: Sequence[OutMessage]) -> SendReport:
        named.update((team_of(json.loads(one.body)), one.group) for one in messages if queue == ready_queue("default"))
        return put(queue, messages)

    stage.put = seen  # type: ignore[method-assign]
    served(stage, 4)
    assert named == {("big", "big"): 300, ("small", None): 3}


@pytest.mark.usefixtures("small")
def test_what_is_served_of_a_teams_row_says_whose_it_is_also_when_none_of_it_is_due_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shares, "CROWD_ITEMS_MIN", 20)
    stage = a_stage()
    a_herd(stage, 2_400)
    stage.at_ms = DUE_MS
    groups: list[str | None] = []
    put = stage.put

    def seen(queue: str, messages: Sequence[OutMessage]) -> SendReport:
        groups.extend(one.group for one in messages if queue == ready_queue("default"))
        return put(queue, messages)

    stage.put = seen  # type: ignore[method-assign]
    for count, _ in enumerate(windows(stage, 3), 1):
        assert rows(stage) or count == 3, "else the herd was no crowd"
    assert len(groups) > 300
    assert set(groups) == {"big"}


@pytest.mark.usefixtures("small")
def test_what_a_pool_keeps_waiting_of_a_team_is_sent_while_the_row_of_the_team_has_gone_beyond_it() -> None:
    stage = Stage(Layout(shards=2, slices=1, pools=("default", "bad")))
    a_herd(stage, 2_000)
    waits = {key.ref for key in stage.timers(60, DUE_MS, team="big", pool="bad")}
    put = stage.put

    def refusing(queue: str, messages: Sequence[OutMessage]) -> SendReport:
        if queue == ready_queue("bad"):
            return SendReport(failed=tuple(range(len(messages))), why="AccessDenied")
        return put(queue, messages)

    stage.put = refusing  # type: ignore[method-assign]
    served(stage, 1)
    assert rows(stage) == ["pool#bad", "team#big"], "the row of the team has gone by some of what the pool keeps"
    stage.put = put  # type: ignore[method-assign]
    sent = Counter(str(body["ref"]) for body in served(stage, 30))
    assert rows(stage) == []
    assert waits <= sent.keys()
