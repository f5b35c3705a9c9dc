"""Pausing a scope (`core/jobs/scopes`), and resuming it.

A pause is one item, and an end of one is too: nothing is written to what it covers, however much that is. Its entry of
the audit is in the same transaction. Protects: a resume answers with what it will start, computed from the instant that
it then writes as the pause's end, so that the windows decide as it has told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tickwork.core.access.actors import PLATFORM_TEAM
from tickwork.core.access.diffs import differences
from tickwork.core.access.entries import Change
from tickwork.core.errors import Conflict, InvalidField, TooMany
from tickwork.core.instants import iso_ms, second_of
from tickwork.core.jobs.pauses import Pause, end_pause, is_last, pause_in_force, resumed, with_pause
from tickwork.core.jobs.scopes import GROUP, KNOWN_MS, Paused, PausedScope, Scope, paused_of, scope_key
from tickwork.core.ledger.messages import Tick
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Absent, Committed, Is, Put
from tickwork.flows.access.recording import recorded
from tickwork.flows.dispatch.sending import send_ticks
from tickwork.flows.jobs import resuming
from tickwork.flows.jobs.resuming import Starting
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.paused import PLACE, read_paused
from tickwork.ports import Ports

GROUPS_MAX = 50
"""Of a team's groups that are paused, or were in the last week: every window reads what is paused."""

CHANGE_TRIES_MAX = 4
"""Each refusal means that somebody else has paused or resumed the same just then."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """What came of resuming: whether it was paused, what will start, and who has ended the last pause."""

    scope: Scope
    changed: bool
    starting: Starting
    last: Pause | None = None


def pause_scope(ports: Ports, scope: Scope, pause: Pause) -> PausedScope:
    """Keep what lies in a scope from being started from now on. Again with the same words is a no-op; with others the
    pause in force ends and this one begins, and what has waited goes on waiting. InvalidField when its end has passed,
    TooMany for one group more than may be paused."""
    for _ in range(CHANGE_TRIES_MAX):
        standing, now_ms = _standing(ports, scope), ports.clock.now_ms()
        pauses = standing.pauses if standing else ()
        is_same = is_last(pauses, pause.by, pause.reason, pause.until_ms) and pauses[-1].at_resume == pause.at_resume
        if standing is not None and is_same and not pauses[-1].resumed_by:
            return standing
        if pause.until_ms and pause.until_ms <= now_ms:
            raise InvalidField("it has passed", field="until", remedy="give a later time, or leave it out")
        if standing is None and scope.kind == GROUP:
            _refuse_too_many(ports, scope)
        after = with_pause(pauses, replace(pause, from_ms=now_ms), now_ms - KNOWN_MS)
        if (paused := _put(ports, scope, standing, after, "paused")) is not None:
            until = iso_ms(pause.until_ms) if pause.until_ms else None
            ports.signals.log("scope_paused", scope=scope.key, by=pause.by, reason=pause.reason, until=until)
            return paused
    raise _contended(scope)


def _refuse_too_many(ports: Ports, scope: Scope) -> None:
    known = [one for one in read_paused(ports).scopes if (one.kind, one.scope.owner) == (GROUP, scope.owner)]
    if len(known) >= GROUPS_MAX:
        raise TooMany(
            f"{GROUPS_MAX} groups of {scope.owner} are paused, or were in the last week",
            field="group",
            remedy="pause the team, or give what is paused together one label",
        )


def resume_scope(ports: Ports, scope: Scope, by: str, *, dry_run: bool = False) -> Resumed:
    """End the pause of a scope now, and say what that starts. `dry_run`: only say it. Again is a no-op."""
    told: Resumed | None = None
    for _ in range(CHANGE_TRIES_MAX):
        standing, now_ms = _standing(ports, scope), ports.clock.now_ms()
        pauses = standing.pauses if standing else ()
        if told is not None and resumed(pauses) == told.last:  # our own first try, its reply lost
            _wake_slices(ports)
            return told
        if standing is None or pause_in_force(pauses, now_ms) is None:
            return Resumed(scope, False, Starting(), resumed(pauses))
        after = end_pause(pauses, now_ms, by)
        starting = resuming.starting(ports, scope, _with(read_paused(ports), replace(standing, pauses=after)), now_ms)
        if dry_run:
            return Resumed(scope, False, starting)
        told = Resumed(scope, True, starting, after[-1])
        if _put(ports, scope, standing, after, "resumed") is not None:
            ports.signals.log("scope_resumed", scope=scope.key, by=by, starts=starting.count)
            _wake_slices(ports)
            return told
    raise _contended(scope)


def list_scopes(ports: Ports, team: str | None, now_ms: int) -> list[PausedScope]:
    """The scopes that are paused and that a team may have something in: its own, its pools', the platform's. All, where
    no team is named."""
    found = [one for one in read_paused(ports).scopes if pause_in_force(one.pauses, now_ms)]
    return [one for one in found if team is None or one.scope.owner in (team, PLATFORM_TEAM)]


def _with(paused: Paused, one: PausedScope) -> Paused:
    return paused_of([*(other for other in paused.scopes if other.scope != one.scope), one])


def _standing(ports: Ports, scope: Scope) -> PausedScope | None:
    item = ports.store.get(TEAMS, scope_key(scope))
    return None if item is None else PausedScope.from_item(item)


def _put(
    ports: Ports, scope: Scope, standing: PausedScope | None, pauses: Sequence[Pause], action: str
) -> PausedScope | None:
    """The scope with these pauses, written with its entry; None when somebody else was there first, or our own first
    try: what it has written then stands as it was wanted."""
    after = PausedScope(
        scope,
        tuple(pauses),
        standing.version + 1 if standing else 1,
        extra=standing.extra if standing else {},
    )
    change = Change(
        scope.owner,
        "pause",
        f"{scope.kind}.{scope.name}",
        f"scope.{action}",
        head=standing.audit_head if standing else "",
        version_before=standing.version if standing else 0,
        version=after.version,
        changes=differences(_told(standing.pauses if standing else ()), _told(after.pauses)),
    )
    entry, head = recorded(ports, change)
    after = replace(after, audit_head=head)
    condition = Is("version", standing.version) if standing else Absent()
    result = commit(ports, Put(TEAMS, after.to_item(), condition), entry)
    ports.registry.pop(PLACE, None)
    return after if isinstance(result, Committed) else None


def _told(pauses: Sequence[Pause]) -> dict[str, Any]:
    """The last pause, as an entry has it."""
    if not pauses:
        return {}
    last = pauses[-1]
    said = {"by": last.by, "reason": last.reason, "at_resume": last.at_resume, "from": iso_ms(last.from_ms)}
    return said | ({"until": iso_ms(last.until_ms)} if last.until_ms else {})


def _wake_slices(ports: Ports) -> None:
    """Have every slice look at once; a tick that is lost costs a minute."""
    second = second_of(ports.clock.now_ms()) + 1
    send_ticks(ports, {Tick(one.name, number, second) for one in ports.layout.shapes for number in range(one.slices)})


def _contended(scope: Scope) -> Conflict:
    return Conflict(f"{scope.words} was paused or resumed {CHANGE_TRIES_MAX} times meanwhile")
