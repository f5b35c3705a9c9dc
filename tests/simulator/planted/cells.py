"""Planted bugs of cells: something of another cell is taken for the own, or for nobody's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.ids import shard_of
from tickwork.core.jobs import occurrences
from tickwork.core.jobs.definitions import Job, Next
from tickwork.core.ledger import cells
from tickwork.core.ledger.keys import LedgerKey
from tickwork.flows.audit import auditing
from tickwork.flows.dispatch import creating, serving, ticking
from tickwork.ports import Ports


def _home_only(right: Any) -> Any:
    """Of all cells only the one that the process looks from."""
    return lambda ports, *rest: right(replace(ports, layout=replace(ports.layout, others=())), *rest)


def _ticker_of_home() -> Sequence[Patch]:
    right = ticking._look_at_some

    def wrong(some: Sequence[tuple[Ports, int]], failures: Any) -> Any:
        return right([one for one in some if one[0].layout.cell == one[0].layout.home], failures)

    return [(ticking, "_look_at_some", wrong)]


def _audit_of_home() -> Sequence[Patch]:
    return [(auditing, "_slices", _home_only(auditing._slices))]


def _crossed_taken_for_own() -> Sequence[Patch]:
    """A scanner takes what it has put into a slice of the same number in another cell for its own."""
    right = serving.Serving._see_to

    def wrong(self: Any, materialised: list[LedgerKey], last: int) -> list[LedgerKey]:
        own = self.ports.layout.cell
        renamed = {replace(key, cell=own): key for key in materialised}
        return [renamed[key] for key in right(self, list(renamed), last)]

    return [(serving.Serving, "_see_to", wrong)]


def _creator_looks_at_home() -> Sequence[Patch]:
    """The creator's rule goes by the cursors of the slice of that number in its own cell."""
    right = creating._behind_cursor

    def wrong(ports: Ports, keys: Sequence[LedgerKey]) -> Any:
        own = {replace(key, cell=ports.layout.cell): key for key in keys if key.shard < ports.layout.shards}
        behind, busy = right(ports, list(own))
        return [own[key] for key in behind], busy

    return [(creating, "_behind_cursor", wrong)]


def _place_forgotten() -> Sequence[Patch]:
    """A job says in which shard its next occurrence lies, and not in which cell."""
    right = Job.occurrence_key

    def wrong(self: Job, home: str, at: Next) -> LedgerKey:
        return right(self, home, replace(at, cell=""))

    return [(Job, "occurrence_key", wrong)]


def _shard_of_home() -> Sequence[Patch]:
    """The shard is one of the home cell's, wherever the occurrence is to lie."""
    right = occurrences.following

    def wrong(job: Job, after_ms: int, shards: int) -> Next | None:
        found, at_home = right(job, after_ms, shards), right(replace(job, spread=None), after_ms, shards + 3)
        return replace(found, shard=at_home.shard) if found and at_home and found.cell else found

    return [(owner, "following", wrong) for owner in _followers()]


def _followers() -> list[Any]:
    from tickwork.core.dispatch import chain

    return [occurrences, chain]


def _one_shot_of_home() -> Sequence[Patch]:
    """Timers take their shard by the number that home has."""
    return [(cells.Spread, "shard_of", lambda self, identity: shard_of(identity, self.shards + 2 * bool(self.cell)))]


BUGS = (
    Bug("a ticker sees the home cell only", _ticker_of_home),
    Bug("an audit sees the home cell only", _audit_of_home),
    Bug("a chain that has crossed is taken for the own", _crossed_taken_for_own),
    Bug("a creator looks at the cursors of its own cell", _creator_looks_at_home),
    Bug("a job's next is looked for at home", _place_forgotten),
    Bug("a chain's shard is one of another cell", _shard_of_home),
    Bug("a timer's shard is beyond its cell", _one_shot_of_home),
)
