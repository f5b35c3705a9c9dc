"""Leases of slices that cannot be read, or whose answers are lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.worlds import NOW_S, lease_of, make_world, with_store
from tickwork.core.errors import OutcomeUnknown, Throttled
from tickwork.core.ledger.tables import LEASES, Table
from tickwork.core.ledger.writes import Committed, Item, Refused, Write
from tickwork.flows.dispatch.leasing import Holding, take
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.ports import Layout
from tickwork.testing.memory import MemoryStore


class OneLeaseThrottled:
    """Tables of which the lease of one slice cannot be read."""

    def __init__(self, tables: MemoryStore, slice_id: str) -> None:
        self._tables, self._slice_id = tables, slice_id

    def get(self, table: Table, key: Item) -> Any:
        if table is LEASES and key["slice"] == self._slice_id:
            raise Throttled(self._slice_id)
        return self._tables.get(table, key)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._tables, verb)


class FirstReplyLost:
    """Tables whose first answer to a commit is lost: it was written, and who asked cannot know."""

    def __init__(self, tables: MemoryStore) -> None:
        self._tables, self._is_lost = tables, False

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        result = self._tables.commit(writes)
        if not self._is_lost:
            self._is_lost = True
            raise OutcomeUnknown("no answer")
        return result

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._tables, verb)


def test_a_slice_whose_lease_cannot_be_read_keeps_no_other_from_its_ticks() -> None:
    ports, tables = make_world(Layout(shards=4, slices=4))
    issue_ticks(ports)
    before = [lease_of(tables, f"main#000{n}").ticked for n in range(4)]
    ports.clock.sleep_ms(60_000)
    with pytest.raises(Throttled):
        issue_ticks(with_store(ports, OneLeaseThrottled(tables, "main#0001")))
    after = [lease_of(tables, f"main#000{n}").ticked for n in range(4)]
    assert [new > old for new, old in zip(after, before, strict=True)] == [True, False, True, True]


def test_a_take_whose_answer_was_lost_is_known_as_ones_own() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    taken = take(with_store(ports, FirstReplyLost(tables)), 0, NOW_S, "me")
    assert isinstance(taken, Holding)
    assert taken.lease.token == lease_of(tables).token


def test_a_take_that_another_has_been_faster_with_answers_how_the_lease_stands_now() -> None:
    ports, tables = make_world()
    issue_ticks(ports)

    class AnotherIsFaster(FirstReplyLost):
        def commit(self, writes: Sequence[Write]) -> Committed | Refused:
            if not self._is_lost:
                self._is_lost = True
                assert isinstance(take(ports, 0, NOW_S, "another"), Holding)
            return self._tables.commit(writes)

    taken = take(with_store(ports, AnotherIsFaster(tables)), 0, NOW_S, "me")
    assert not isinstance(taken, Holding)
    assert taken.owner == "another"
