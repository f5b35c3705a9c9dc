"""Which windows are told of in the log: one in so many of those that went well, and every other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.runs_world import World
from tests.support.worlds import create_timer, make_world, move, serve
from tickwork.core.dispatch.outcomes import LATE_MS, SLOW_MS, is_told
from tickwork.core.runs.attempts import StartRequest
from tickwork.flows.runs import worker_calls
from tickwork.ports import OutMessage, Ports, SendReport

NEVER = 10_000
"""One in so many: of a handful of windows none, as a test below makes sure."""
WELL: dict[str, Any] = {"took_ms": 50, "lag_ms": 600, "is_ordinary": True}


def sampled(one_in: int = NEVER) -> tuple[Ports, Any]:
    ports, _ = make_world()
    return replace(ports, layout=replace(ports.layout, log_one_in=one_in)), ports.signals


def told(signals: Any) -> list[dict[str, Any]]:
    return [facts for action, facts in signals.lines if action == "window"]


def test_of_windows_that_went_well_one_in_so_many_is_told_and_it_is_the_same_one_each_time() -> None:
    windows = [("main#001", 7, 1_796_000_000 + second) for second in range(10_000)]
    chosen = [window for window in windows if is_told(*window, 10, **WELL)]
    assert 900 < len(chosen) < 1_100
    assert chosen == [window for window in windows if is_told(*window, 10, **WELL)]
    assert all(is_told(*window, 1, **WELL) for window in windows[:100])


@pytest.mark.parametrize("what", [{"took_ms": SLOW_MS}, {"lag_ms": LATE_MS}, {"is_ordinary": False}])
def test_one_that_was_slow_late_or_out_of_the_ordinary_is_always_told(what: dict[str, Any]) -> None:
    seconds = range(1_796_000_000, 1_796_000_200)
    assert not any(is_told("main#001", 7, second, NEVER, **WELL) for second in seconds)
    assert all(is_told("main#001", 7, second, NEVER, **WELL | what) for second in seconds)


def test_what_a_window_without_a_line_dispatched_says_itself_when_and_by_whom() -> None:
    world = World()
    world.ports = replace(world.ports, layout=replace(world.ports.layout, log_one_in=NEVER))
    key = world.timer(delay_s=5)
    world.after(5.4)
    world.scan()
    assert told(world.signals) == []
    message = world.message(key)
    words = {"dispatched_at_ms": message["dispatched_at_ms"], "dispatched_by": message["dispatched_by"]}
    worker_calls.start(world.ports, StartRequest(key, "claim", "w1", 60, 1, **words))
    run = world.run(key)
    assert run.dispatched_at_ms == world.clock.at_ms
    assert run.dispatched_by.startswith("main#")


def test_as_it_comes_every_window_that_did_something_is_told() -> None:
    ports, signals = sampled(1)
    create_timer(ports, in_s=5)
    move(ports, 5.4)
    serve(ports)
    assert [line["sent"] for line in told(signals)] == [1]


def test_a_window_that_dispatches_late_is_told_though_it_was_quick() -> None:
    ports, signals = sampled()
    create_timer(ports, in_s=5)
    move(ports, 5 + LATE_MS / 1_000)
    serve(ports)
    assert [line["sent"] for line in told(signals)] == [1]


def test_a_window_whose_calls_are_slow_is_told_though_nothing_is_late() -> None:
    ports, signals = sampled()
    sender = ports.sender

    class Slow:
        def send(self, queue: str, messages: list[OutMessage]) -> SendReport:
            move(ports, SLOW_MS / 1_000)
            return sender.send(queue, messages)

    create_timer(ports, in_s=5)
    move(ports, 5.2)
    slow: Any = Slow()
    serve(replace(ports, sender=slow))
    assert [line["sent"] for line in told(signals)] == [1]


def test_a_window_that_sets_something_aside_is_told() -> None:
    ports, signals = sampled()
    create_timer(ports, in_s=5)
    refusing: Any = type("Refusing", (), {"send": lambda _, queue, messages: SendReport(
        refused=tuple((n, "no such queue") for n in range(len(messages)))
    )})()  # fmt: skip
    move(ports, 5.2)
    serve(replace(ports, sender=refusing))
    assert [line["set_aside"] for line in told(signals)] == [1]
