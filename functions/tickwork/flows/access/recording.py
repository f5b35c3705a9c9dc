"""Entries of the audit as flows write them: one in the transaction of each change, or one for a call on many things.

Protects: never a change of a definition without its entry, and never an entry without its change, for both are one
transaction; never a change by a call on many without the call's entry, which is written first. Whose request it is, is
in the ports: a flow can neither forget it nor make it up.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tickwork.core.access.diffs import told
from tickwork.core.access.entries import CALL, Change, Entry, entry_of, put_entry, result_of
from tickwork.core.access.seals import Sealed
from tickwork.core.errors import CallerError, NotFound, WorldError
from tickwork.core.ledger.tables import PASSES
from tickwork.core.ledger.writes import Absent, Committed, Item, Put
from tickwork.flows.ledger.commit import commit
from tickwork.ports import Ports

SECRET_DRAWS = 4
"""Unique ids are some 76 unguessable bits each."""
_SECRET = "payloads"


def recorded(ports: Ports, change: Change) -> tuple[Put, str]:
    """(the entry's write, for the transaction of the change; the head that the thing has from then on)."""
    _note_team(ports, change.team)
    entry = entry_of(change, ports.acting, ports.clock.now_ms(), ports.layout.audit_s)
    return put_entry(entry), entry.head.as_text()


def _note_team(ports: Ports, team: str) -> None:
    """See to it that a team's audit gets sealed: a row, which the reconciler finds. Looked after once by a process."""
    name = f"team {team}"
    if name in ports.audit_known:
        return
    sealed = Sealed(team, ports.layout.home)
    try:
        if ports.store.get(PASSES, sealed.key) is None:
            ports.store.commit([sealed.first_row()])
    except WorldError as error:  # the next change tries again; what it then seals begins at the beginning
        ports.signals.log("audit_team_not_noted", team=team, error=repr(error))
        return
    ports.audit_known[name] = team


# --- payloads -------------------------------------------------------------------------------------------------


def hashed_payload(ports: Ports, digest: str) -> str:
    """How an entry shows a payload: the same for the same, and nothing of it can be guessed, for the hash takes a
    secret that the environment has made for itself, and that no answer shows."""
    return f"hmac:{hmac.digest(_secret(ports).encode(), digest.encode(), 'sha256').hex()[:32]}"


def _secret(ports: Ports) -> str:
    known = ports.audit_known.get(_SECRET)
    if known is None:
        known = ports.audit_known[_SECRET] = _stored_secret(ports)
    return known


def _stored_secret(ports: Ports) -> str:
    key: Item = {"pass": f"{ports.layout.home}#audit", "place": _SECRET}
    found = ports.store.get(PASSES, key)
    if found is None:
        drawn = "|".join(ports.ids.unique() for _ in range(SECRET_DRAWS))
        made = key | {"secret": hashlib.sha256(drawn.encode()).hexdigest()}
        refused = commit(ports, Put(PASSES, made, Absent()))
        found = made if isinstance(refused, Committed) else refused.only or made  # another process was first
    return str(found["secret"])


# --- calls on many things -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Counted:
    """What a call has come to so far, by team: of those that its entries stand for."""

    teams: frozenset[str]
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    def check(self, team: str) -> None:
        """Asked before something of a team is changed. What another team has is not there for the caller."""
        if team not in self.teams:
            raise NotFound("there is no such thing", remedy="check the id: it begins with the team")

    def add(self, team: str, outcome: str, count: int = 1) -> None:
        of_team = self.counts.setdefault(team, {})
        of_team[outcome] = of_team.get(outcome, 0) + count


@contextmanager
def call_on_many(ports: Ports, action: str, facts: Mapping[str, Mapping[str, Any]]) -> Iterator[Counted]:
    """Around what a call does to many things: its entry, for each team that it is about, stands before anything is
    changed, with the facts of that team alone (tenant-wall: its readers are not the others'), and says afterwards what
    came of it. Where it does not, the call has died, or its end could not be written: what it was to do may be done, in
    part or as a whole."""
    entries = [_begin(ports, team, action, facts[team]) for team in sorted(facts)]
    counted = Counted(frozenset(entry.team for entry in entries))
    try:
        yield counted
    except (CallerError, WorldError) as error:
        _end(ports, entries, counted, type(error).__name__)
        raise
    _end(ports, entries, counted, "")


def _begin(ports: Ports, team: str, action: str, facts: Mapping[str, Any]) -> Entry:
    _note_team(ports, team)
    change = Change(team, CALL, ports.ids.unique(), action, facts=told(facts))
    entry = entry_of(change, ports.acting, ports.clock.now_ms(), ports.layout.audit_s)
    commit(ports, put_entry(entry))  # a refusal is our own first try: nobody else has its name
    return entry


def _end(ports: Ports, entries: Iterable[Entry], counted: Counted, fault: str) -> None:
    """A result that cannot be written fails nothing: what was done is done, and the entry shows that its end is not
    known."""
    for entry in entries:
        result = {**counted.counts.get(entry.team, {}), **({"ended_by": fault} if fault else {})}
        try:
            commit(ports, result_of(entry, result or {"changed": 0}, ports.clock.now_ms()))
        except WorldError as error:
            ports.signals.log("audit_result_not_written", stream=entry.stream, error=repr(error))
