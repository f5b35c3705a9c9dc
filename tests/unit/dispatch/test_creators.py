"""A creator of items in several slices: one slice that cannot be read costs its own items only (F14)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.worlds import NOW_S, WORK, make_world
from tickwork.core.errors import Throttled
from tickwork.core.ledger.tables import LEASES
from tickwork.flows.runs.timers import NewTimer, create_timers
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

IN_S = 20
"""Within the minute in which a creator brings the ticks of its timers."""


class OneLeaseAway:
    """A store that gives the lease of one slice to nobody who looks at it after a put."""

    def __init__(self, inner: MemoryStore, slice_id: str) -> None:
        self._inner, self._slice_id = inner, slice_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get(self, table: Any, key: dict[str, Any]) -> Any:
        if table is LEASES and key == {"slice": self._slice_id}:
            raise Throttled("always")
        return self._inner.get(table, key)


def create(ports: Ports, count: int) -> None:
    create_timers(ports, [NewTimer("pay", (NOW_S + IN_S) * 1000, WORK, f"key-{n}", "content") for n in range(count)])


def test_a_slice_that_cannot_be_read_keeps_no_other_slices_timers_from_their_ticks() -> None:
    ports, tables = make_world(Layout(shards=4, slices=2))
    create(ports, 8)  # both slices have their cursors
    sender: Any = ports.sender
    sender.sent.clear()
    away = replace(ports, store=OneLeaseAway(tables, "main#0000"))
    for lease in tables.items(LEASES):
        assert lease["slice"] in ("main#0000", "main#0001")
    with pytest.raises(Throttled):
        create_timers(away, [NewTimer("pay", (NOW_S + IN_S + 7) * 1000, WORK, f"more-{n}", "c") for n in range(8)])
    assert {(tick["slice"], tick["second"]) for tick in sender.bodies("ticks")} == {(1, NOW_S + IN_S + 7)}
