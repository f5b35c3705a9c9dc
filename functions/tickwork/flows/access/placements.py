"""Placements: in which cell what is written anew of a team, or of all, is to lie; listing that, and taking it back.

Moves nothing: what is pending stays where it is, and is served there; a recurring job goes over with its next step.
Protects no-lost-timer: a placement names a cell that this process is deployed with, and what a process cannot serve it
leaves to the others.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.access.actors import PLATFORM_TEAM, Actor
from tickwork.core.access.entries import Change
from tickwork.core.errors import Conflict, InvalidField
from tickwork.core.ledger.cells import PLACEMENTS, Placement, placement_key
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Absent, Committed, Condition, Is, Put
from tickwork.flows.access.recording import recorded
from tickwork.flows.ledger import remembered
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages
from tickwork.ports import Ports

PLACE_TRIES_MAX = 3
"""Each refusal is somebody else's change meanwhile."""
_FIRST, _LAST = "!", "~"
_PAGE = 500


def place(ports: Ports, of: str, cell: str, actor: Actor, reason: str) -> Placement:
    """Have what is written anew of somebody lie in a cell. InvalidField when there is no such cell. Where it is placed
    there already it is a no-op."""
    if cell not in {shape.name for shape in ports.layout.shapes}:
        raise InvalidField(
            f"there is no cell {cell!r} here",
            field="cell",
            remedy="deploy the environment with it first (TICKWORK_CELLS); list them with GET /cells",
        )
    return _set(ports, of, cell, actor, reason)


def take_back(ports: Ports, of: str, actor: Actor, reason: str) -> Placement:
    """Have what is written anew lie again where it would without a placement. Again is a no-op, and so it is where
    there never was one."""
    return _set(ports, of, "", actor, reason)


def list_placements(ports: Ports) -> list[Placement]:
    """Those in force, by whose they are: a row for each that was ever placed by itself, which are few."""
    found: list[Placement] = []
    for page in pages(ports, TEAMS, PLACEMENTS, _FIRST, _LAST, limit=_PAGE):
        for item in page.items:
            try:
                found.append(Placement.from_item(item))
            except Unreadable as error:
                ports.signals.log("placement_unreadable", why=str(error))
    return [one for one in found if one.placed_in]


def _standing(ports: Ports, of: str) -> Placement | None:
    item = ports.store.get(TEAMS, placement_key(of))
    return None if item is None else Placement.from_item(item)


def _set(ports: Ports, of: str, cell: str, actor: Actor, reason: str) -> Placement:
    for _ in range(PLACE_TRIES_MAX):
        standing = _standing(ports, of)
        if (standing.placed_in if standing else "") == cell:
            return standing or Placement(of, version=0)
        placed = Placement(
            of,
            cell,
            standing.version + 1 if standing else 1,
            placed_at_ms=ports.clock.now_ms(),
            placed_by=actor.name,
            reason=reason,
            before=standing.placed_in if standing else "",
        )
        change = Change(
            PLATFORM_TEAM,
            "placement",
            of,
            "placement.set" if cell else "placement.taken_back",
            head=standing.audit_head if standing else "",
            version_before=standing.version if standing else 0,
            version=placed.version,
            changes={"cell": [placed.before or None, cell or None]},
            facts={"reason": reason} if reason else {},
        )
        entry, head = recorded(ports, change)
        placed = replace(placed, audit_head=head)
        unmoved: Condition = Is("version", standing.version) if standing else Absent()
        if isinstance(commit(ports, Put(TEAMS, placed.to_item(), unmoved), entry), Committed):
            remembered.remember(ports, placement_key(of), placed.to_item())
            ports.signals.log("placed", of=of, cell=cell, before=placed.before, by=actor.name)
            return placed
        # Refused: somebody was first, or it was our own write whose reply was lost; reading it again tells.
    raise Conflict(f"the placement of {of} was changed {PLACE_TRIES_MAX} times meanwhile")
