"""The row by which a team's bad ends are in the list over all teams: one process tries once, the audit until it is
there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tickwork.core.errors import Throttled
from tickwork.core.ledger.tables import TEAMS, Table
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger.teams import note_teams, read_teams
from tickwork.testing.memory import MemoryStore


class Busy(MemoryStore):
    """The table of teams refuses its first reads."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.left, self.asked = refusals, 0

    def get(self, table: Table, key: Item) -> Any:
        if table is TEAMS:
            self.asked += 1
            if self.left:
                self.left -= 1
                raise Throttled("busy")
        return super().get(table, key)


@pytest.mark.parametrize(("again", "asked", "found"), [(False, 1, []), (True, 3, ["pay"])])
def test_a_row_that_could_not_be_written_costs_no_other_call_and_the_audit_comes_back(
    again: bool, asked: int, found: list[str]
) -> None:
    store = Busy(refusals=2)
    ports = fake_ports(store)
    for _ in range(5):
        note_teams(ports, ["pay"], again=again)
    assert (store.asked, read_teams(ports)) == (asked, found)


def test_a_team_is_looked_after_once_by_a_process() -> None:
    store = Busy(refusals=0)
    ports = fake_ports(store)
    for _ in range(3):
        note_teams(ports, ["pay", "ops", "pay"])
    assert (store.asked, read_teams(ports)) == (2, ["ops", "pay"])
