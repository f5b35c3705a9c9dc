"""The line of a window says where its time went: what was slow at night is then a matter of reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.support.worlds import NOW_MS, create_job, create_timer, every, make_world, move, serve
from tickwork.ports import OutMessage, Page, Ports, SendReport

QUERY_S, WRITE_S, TRANSACTION_S, SEND_S = 0.01, 0.003, 0.05, 0.02


class Slow:
    """A store and a sender whose calls take their time on the world's clock."""

    def __init__(self, ports: Ports) -> None:
        self._ports, self._store, self._sender = ports, ports.store, ports.sender

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def query(self, *arguments: Any, **how: Any) -> Page:
        move(self._ports, QUERY_S)
        return self._store.query(*arguments, **how)

    def commit(self, writes: Sequence[Any]) -> Any:
        move(self._ports, WRITE_S if len(writes) == 1 else TRANSACTION_S)
        return self._store.commit(writes)

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        move(self._ports, SEND_S)
        return self._sender.send(queue, messages)


def window_of(ports: Ports) -> dict[str, object]:
    """The facts of the one window that is served now, by slow ports."""
    slow = Slow(ports)
    serve(replace(ports, store=slow, sender=slow))
    signals: Any = ports.signals
    (facts,) = [facts for action, facts in signals.lines if action == "window"]
    return facts


def test_a_window_that_fires_a_timer_says_how_long_each_step_took() -> None:
    ports, _ = make_world()
    create_timer(ports, in_s=5)
    move(ports, 5.4)
    facts = window_of(ports)
    assert {name: facts[name] for name in facts if str(name).endswith("_ms")} == {
        "began_at_ms": NOW_MS + 5_400,
        "announce_ms": 3,
        "query_ms": 20,
        "transact_ms": 0,
        "send_ms": 20,
        "advance_ms": 3,
    }


def test_the_next_occurrence_is_transaction_and_its_tick_is_sending() -> None:
    ports, _ = make_world()
    create_job(ports, every(60))
    move(ports, 60)
    facts = window_of(ports)
    assert (facts["transact_ms"], facts["send_ms"]) == (50, 40)


def test_the_steps_add_up_to_the_window() -> None:
    ports, _ = make_world()
    for in_s in (3, 40, 70):  # two minutes: two ranges, each with an advance
        create_timer(ports, in_s=in_s)
    move(ports, 80)
    facts = window_of(ports)
    steps = [facts[f"{step}_ms"] for step in ("announce", "query", "transact", "send", "advance")]
    assert sum(steps) == ports.clock.now_ms() - facts["began_at_ms"]  # type: ignore[operator]
