"""Where what is written anew of a team lies: in the cell that it is placed in, or else the one of all, or else at home.

A process knows a placement for half a minute, and so long what is new may still come to the cell before: it is served
there. Protects no-lost-timer: nothing waits for a placement. One that cannot be read is taken as it was read last, and
a cell that this process is not deployed with is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tickwork.core.errors import WorldError
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.cells import ALL, Spread, of_team, placed_in, placement_key
from tickwork.core.ledger.keys import LedgerKey
from tickwork.flows.ledger import remembered
from tickwork.ports import Ports


def spread_of(ports: Ports, team: str) -> Spread:
    """Where something new of a team is to lie."""
    if not ports.layout.others:
        return Spread(ports.layout.home, "", ports.layout.shards)
    return _spreads(ports, [team])[team]


def placed(ports: Ports, jobs: Sequence[Job]) -> list[Job]:
    """The jobs with where their occurrences lie from now on. An environment of one cell reads nothing for it."""
    if not ports.layout.others:
        return list(jobs)
    spreads = _spreads(ports, {job.team for job in jobs})
    return [replace(job, spread=spreads[job.team]) for job in jobs]


def places_of(ports: Ports, identity: str, planned: LedgerKey) -> list[LedgerKey]:
    """Where a run may lie that was written before the placement of its team changed. `identity`: of which its shard is
    the hash."""
    shapes = [shape for shape in ports.layout.shapes if shape.name != planned.cell]
    spreads = [Spread(ports.layout.home, shape.name, shape.shards) for shape in shapes]
    return [planned, *(replace(planned, cell=one.cell, shard=one.shard_of(identity)) for one in spreads)]


def _spreads(ports: Ports, teams: Iterable[str]) -> dict[str, Spread]:
    shapes = {shape.name: shape for shape in ports.layout.shapes}
    home, names = ports.layout.home, _placements(ports, sorted(teams))
    found = {team: shapes.get(name, shapes[home]) for team, name in names.items()}
    return {team: Spread(home, "" if shape.name == home else shape.name, shape.shards) for team, shape in found.items()}


def _placements(ports: Ports, teams: Sequence[str]) -> dict[str, str]:
    """By team, the name of the cell that it is placed in; '' where neither it nor all are placed."""
    keys = [placement_key(ALL), *(placement_key(of_team(team)) for team in teams)]
    try:
        rows = remembered.read(ports, keys)
    except WorldError as error:
        ports.signals.log("placements_unread", error=repr(error))
        rows = [remembered.known(ports, key) for key in keys]
    of_all, *own = map(placed_in, rows)
    return {team: name or of_all for team, name in zip(teams, own, strict=True)}
