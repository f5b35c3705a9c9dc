"""The daily seal over what each team's audit has gained: one more pass of the reconciler.

Each team's row is its place: how far it is sealed, moved in one transaction with the seal that takes it there. So a run
that dies, or meets another one, seals nothing twice and leaves nothing out. What fails for one team costs that one.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.access.seals import ENTRIES_PER_SEAL, Sealed, move_sealed, next_seal, put_seal, sealed_until
from tickwork.core.errors import WorldError
from tickwork.core.instants import iso
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import AUDIT, ENTRIES_BY_TEAM, PASSES
from tickwork.core.ledger.writes import Committed, Item
from tickwork.flows.audit.repairs import Deadline, Repairs
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages, read_many
from tickwork.ports import Ports

TEAMS_PAGE = 500
SEALS_PER_RUN_MAX = 50
"""Of one team: five thousand entries. The others come to their turn, and the next run goes on."""


def seal_audit(ports: Ports, repairs: Repairs, end: Deadline) -> None:
    """Seal what each team has gained up to the last midnight, as far as the time goes."""
    until_ms = sealed_until(ports.clock.now_ms())
    for page in pages(ports, PASSES, f"{ports.layout.home}#sealed", "!", "~", limit=TEAMS_PAGE):
        for item in page.items:
            sealed = _readable(ports, item, repairs)
            if sealed is None or sealed.through_ms >= until_ms:
                continue
            if end.is_over:
                repairs.unfinished += 1
                return
            _seal_team(ports, sealed, until_ms, repairs, end)


def _readable(ports: Ports, item: Item, repairs: Repairs) -> Sealed | None:
    """A team's row; one that somebody has garbled costs that team, and is told until it is mended."""
    try:
        return Sealed.from_item(item)
    except Unreadable as error:
        repairs.failed += 1
        ports.signals.log("audit_not_sealed", team=str(item["place"]), error=str(error))
        return None


def _seal_team(ports: Ports, sealed: Sealed, until_ms: int, repairs: Repairs, end: Deadline) -> None:
    try:
        for _ in range(SEALS_PER_RUN_MAX):
            if (moved := _seal_next(ports, sealed, until_ms, repairs)) is None or end.is_over:
                return
            sealed = moved
            if sealed.through_ms >= until_ms:
                ports.signals.log("audit_sealed", team=sealed.team, through=iso(until_ms), seal=sealed.head)
                return
        repairs.unfinished += 1
    except (WorldError, Unreadable) as error:
        repairs.failed += 1
        ports.signals.log("audit_not_sealed", team=sealed.team, error=repr(error))


def _seal_next(ports: Ports, sealed: Sealed, until_ms: int, repairs: Repairs) -> Sealed | None:
    """How far a team is after its next seal; None where somebody else has moved it meanwhile. Where nothing was gained
    there is nothing to seal, and the row alone says so."""
    rows, more = ports.store.query_index(
        AUDIT,
        ENTRIES_BY_TEAM,
        sealed.team,
        limit=ENTRIES_PER_SEAL,
        after=dict(sealed.after) if sealed.after else None,
        descending=False,
        between=(sealed.through_ms, until_ms - 1),
    )
    keys: list[Item] = [{"stream": row["stream"], "place": row["place"]} for row in rows]
    entries = [item for item in read_many(ports, AUDIT, keys) if item is not None]
    moved = replace(sealed, through_ms=sealed.through_ms if more else until_ms, after=more)
    if not entries:
        return moved if isinstance(commit(ports, move_sealed(sealed, moved)), Committed) else None
    through_ms = int(entries[-1]["at_ms"]) if more else until_ms
    seal = next_seal(sealed, entries, through_ms, ports.clock.now_ms())
    moved = replace(moved, head=seal.head.as_text())
    if not isinstance(commit(ports, put_seal(seal), move_sealed(sealed, moved)), Committed) and not _stands(
        ports, moved
    ):
        return None
    repairs.sealed += len(entries)
    return moved


def _stands(ports: Ports, moved: Sealed) -> bool:
    """Whether a refused seal stands all the same: our own first try, its reply lost, has written it."""
    item = ports.store.get(PASSES, moved.key)
    return item is not None and Sealed.from_item(item).head == moved.head
