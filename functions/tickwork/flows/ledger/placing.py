"""Where what is written anew of a team lies: in the cell that it is placed in, or else its lane is, or all are.

A process knows a placement for half a minute, and so long what is new may still come to the cell before: it is served
there. Protects no-lost-timer: nothing waits for a placement. One that cannot be read is taken as it was read last, and
a cell that this process is not deployed with is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tickwork.core.errors import WorldError
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.cells import ALL, Spread, of_lane, of_team, placed_in, placement_key
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.lanes import P1
from tickwork.flows.ledger import remembered
from tickwork.ports import Ports


def spread_of(ports: Ports, team: str, lane: str = "") -> Spread:
    """Where something new of a team, in a lane, is to lie."""
    if not ports.layout.others:
        return Spread(ports.layout.home, "", ports.layout.shards)
    return _spreads(ports, [(team, lane)])[team, lane]


def placed(ports: Ports, jobs: Sequence[Job]) -> list[Job]:
    """The jobs with where their occurrences lie from now on. An environment of one cell reads nothing for it."""
    if not ports.layout.others:
        return list(jobs)
    spreads = _spreads(ports, {(job.team, job.work.lane) for job in jobs})
    return [replace(job, spread=spreads[job.team, job.work.lane]) for job in jobs]


def places_of(ports: Ports, identity: str, planned: LedgerKey) -> list[LedgerKey]:
    """Where a run may lie that was written before the placement of its team changed. `identity`: of which its shard is
    the hash."""
    shapes = [shape for shape in ports.layout.shapes if shape.name != planned.cell]
    spreads = [Spread(ports.layout.home, shape.name, shape.shards) for shape in shapes]
    return [planned, *(replace(planned, cell=one.cell, shard=one.shard_of(identity)) for one in spreads)]


type _Whose = tuple[str, str]
"""Team and lane."""


def _spreads(ports: Ports, whose: Iterable[_Whose]) -> dict[_Whose, Spread]:
    shapes = {shape.name: shape for shape in ports.layout.shapes}
    home, names = ports.layout.home, _placements(ports, sorted(whose))
    found = {one: shapes.get(name, shapes[home]) for one, name in names.items()}
    return {one: Spread(home, "" if shape.name == home else shape.name, shape.shards) for one, shape in found.items()}


def _placements(ports: Ports, whose: Sequence[_Whose]) -> dict[_Whose, str]:
    """The name of the cell that each is placed in, by its team or else by its lane; '' where nothing is placed."""
    named = [ALL, *dict.fromkeys(of for team, lane in whose for of in (of_team(team), of_lane(lane or P1)))]
    keys = [placement_key(of) for of in named]
    try:
        rows = remembered.read(ports, keys)
    except WorldError as error:
        ports.signals.log("placements_unread", error=repr(error))
        rows = [remembered.known(ports, key) for key in keys]
    cells = dict(zip(named, map(placed_in, rows), strict=True))
    return {(team, lane): cells[of_team(team)] or cells[of_lane(lane or P1)] or cells[ALL] for team, lane in whose}
