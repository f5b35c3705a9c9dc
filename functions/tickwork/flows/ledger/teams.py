"""Which teams have had a run that did not end well: a row for each, for the list over all teams.

A process looks after a team once, when it has ended a run of it badly; the audit, which reads all that has ended, does
so too. Protects nothing that runs: a row that cannot be written holds up no call, and the audit comes within minutes.
"""

from __future__ import annotations

from collections.abc import Iterable

from tickwork.core.errors import WorldError
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Absent, Item, Put
from tickwork.flows.ledger.reading import pages
from tickwork.ports import Ports

_PAGE = 500


def note_teams(ports: Ports, teams: Iterable[str], *, again: bool = False) -> None:
    """See to it that these teams have their rows. Tried once by a process: a table that is busy must not cost each end
    of a run its patience. `again`: by one that comes by rarely, until it is done."""
    for team in sorted(set(teams) - ports.teams_seen):
        ports.teams_seen.add(team)
        key: Item = {"cell": ports.layout.home, "team": team}
        try:
            if ports.store.get(TEAMS, key) is None:
                ports.store.commit([Put(TEAMS, key, Absent())])
        except WorldError as error:
            ports.signals.log("team_not_noted", team=team, error=repr(error))
            if again:
                ports.teams_seen.discard(team)


def read_teams(ports: Ports) -> list[str]:
    """All of them, by name."""
    found = pages(ports, TEAMS, ports.layout.home, "!", "~", limit=_PAGE)
    return [str(item["team"]) for page in found for item in page.items]
