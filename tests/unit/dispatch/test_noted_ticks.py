"""A second needs one tick, however many timers are created for it; and a ticker out of time leaves no slice behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import FakeClock
from tests.support.worlds import LAYOUT, NOW_S, create_timer, lease_of, make_world, move, serve, with_store
from tickwork.core.dispatch import slices
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import Throttled
from tickwork.core.instants import second_of
from tickwork.core.ledger.keys import second_in
from tickwork.core.ledger.tables import LEASES
from tickwork.core.ledger.writes import Anyway, Committed, Refused, Update, Write
from tickwork.flows.dispatch.ticking import SLICES_AT_ONCE, issue_ticks
from tickwork.ports import TICKS_QUEUE, Layout, OutMessage, Ports, SendReport
from tickwork.testing.memory import MemoryStore


def ticks(ports: Ports) -> Counter[int]:
    """Ticks sent, by seconds from the start."""
    sender: Any = ports.sender
    return Counter(int(body["second"]) - NOW_S for body in sender.bodies(TICKS_QUEUE))


def ticked_world(layout: Layout = LAYOUT) -> tuple[Ports, MemoryStore]:
    """A world whose ticker has just been, and found nothing."""
    ports, tables = make_world(layout)
    issue_ticks(ports)
    return ports, tables


def test_of_many_creators_of_one_second_the_first_brings_its_tick() -> None:
    ports, _ = ticked_world()
    for _ in range(5):
        create_timer(ports, 30)
    create_timer(ports, 31)
    assert (ticks(ports)[30], ticks(ports)[31]) == (1, 1)


def test_a_tick_of_the_ticker_is_not_sent_again_by_a_creator() -> None:
    ports, _ = make_world()
    create_timer(ports, 90)
    issue_ticks(ports)
    create_timer(ports, 90)
    assert ticks(ports)[90] == 1


def test_before_the_ticker_has_come_round_a_creator_brings_what_is_due_within_the_minute() -> None:
    ports, _ = make_world()
    create_timer(ports, 60)
    create_timer(ports, 60)
    create_timer(ports, 61)
    assert ticks(ports) == {60: 1}


def test_all_timers_of_a_second_with_one_tick_are_fired() -> None:
    ports, _ = ticked_world()
    for _ in range(5):
        create_timer(ports, 30)
    move(ports, 30)
    assert serve(ports).sent == 5


def test_a_tick_that_could_not_be_sent_is_not_noted() -> None:
    ports, tables = ticked_world()

    class Down:
        def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
            return SendReport(failed=tuple(range(len(messages))))

    second = create_timer(replace(ports, sender=Down()), 30).key.fire_second
    assert not slices.has_tick(lease_of(tables), second)
    create_timer(ports, second - second_of(ports.clock.now_ms()))  # trying has taken time
    assert ticks(ports)[second - NOW_S] == 1


class RefusesNotes:
    """A store that has no patience with notes of ticks."""

    def __init__(self, inner: MemoryStore, error: Exception | None) -> None:
        self._inner, self._error = inner, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        if any(isinstance(write, Update) and "tick_map" in write.set for write in writes):
            if self._error is not None:
                raise self._error
            return Refused({0: None})
        return self._inner.commit(writes)


@pytest.mark.parametrize("error", [None, Throttled("busy")])
def test_a_note_that_is_refused_costs_a_tick_and_no_timer(error: Exception | None) -> None:
    ports, tables = ticked_world()
    busy = with_store(ports, RefusesNotes(tables, error))
    create_timer(busy, 30)
    create_timer(busy, 30)
    assert ticks(ports)[30] == 2


def test_a_lease_of_an_older_version_can_be_noted_on() -> None:
    ports, tables = ticked_world()
    forget = Update(LEASES, {"slice": "main#0000"}, Anyway("it was never there"), remove=("tick_base", "tick_map"))
    tables.commit([forget])
    create_timer(ports, 30)
    create_timer(ports, 30)
    assert ticks(ports)[30] == 1


@given(
    noted=st.lists(st.integers(0, 2 * slices.TICK_MAP_S), max_size=20),
    later_s=st.integers(0, 2 * slices.TICK_MAP_S),
    more=st.lists(st.integers(0, 4 * slices.TICK_MAP_S), max_size=20),
)
def test_the_map_knows_what_was_noted_and_has_not_passed(noted: list[int], later_s: int, more: list[int]) -> None:
    lease = SliceLease("main#0000")
    for now_s, seconds in ((NOW_S, noted), (NOW_S + later_s, more)):
        changes = slices.note_ticks(lease, [NOW_S + second for second in seconds], now_s).set
        lease = replace(lease, tick_base=changes["tick_base"], tick_map=changes["tick_map"])
    first = {second for second in noted if second < slices.TICK_MAP_S}
    then = {second for second in more if later_s <= second < later_s + slices.TICK_MAP_S}
    known = {second for second in range(5 * slices.TICK_MAP_S) if slices.has_tick(lease, NOW_S + second)}
    assert known == {second for second in first if second >= later_s} | then
    assert len(lease.tick_map) <= slices.TICK_MAP_S // 4 + 1


def test_a_ticker_that_runs_out_of_time_has_sent_the_ticks_of_the_slices_before_and_the_next_goes_on() -> None:
    class OutOfTime(BaseException):
        pass

    layout = Layout(shards=2 * SLICES_AT_ONCE, slices=2 * SLICES_AT_ONCE)
    ports, tables = make_world(layout)
    for slice_no in range(layout.slices):  # so that there is something to send
        serve(ports, slice_no)

    class Slow(RefusesNotes):
        def query(self, table: Any, partition: str, first: str, last: str, **how: Any) -> Any:
            if partition.startswith(f"main#{SLICES_AT_ONCE + 1:04d}"):
                raise OutOfTime
            assert second_in(first) <= second_in(last)
            return self._inner.query(table, partition, first, last, **how)

    def ticked() -> set[int]:
        sender: Any = ports.sender
        return {int(body["slice"]) for body in sender.bodies(TICKS_QUEUE)}

    with pytest.raises(OutOfTime):
        issue_ticks(with_store(ports, Slow(tables, None)))
    assert ticked() == set(range(SLICES_AT_ONCE))
    issue_ticks(ports)
    assert ticked() == set(range(layout.slices))


def test_a_creator_whose_clock_is_behind_notes_no_tick_for_its_own_comes_late() -> None:
    ports, tables = ticked_world()
    late = replace(ports, clock=FakeClock(ports.clock.now_ms() - 40_000))
    create_timer(late, 40 + 30)  # the thirtieth second by the others' clocks
    assert ticks(ports)[30] == 1
    assert not slices.has_tick(lease_of(tables), NOW_S + 30)
    create_timer(ports, 30)
    assert ticks(ports)[30] == 2, "who is on time sends his own"
