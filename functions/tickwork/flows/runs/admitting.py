"""New timers, before they are created: which of them their teams' quotas let in, and who hears that one is nearly full.

Refuses to know how it is counted (`flows/access/quotas`). Protects: of a call's timers each has a fate of its own, and
of a team's those come first that stand first; what is refused was not begun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tickwork.core.errors import QuotaExceeded
from tickwork.flows.access import quotas
from tickwork.flows.access.quotas import Near
from tickwork.flows.runs import paging
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import Ports


@dataclass(frozen=True, slots=True)
class Let:
    """What the quotas say of a call's timers, one by one; and which of them are nearly full, by team."""

    fates: tuple[NewTimer | QuotaExceeded, ...]
    near: Mapping[str, tuple[Near, ...]] = field(default_factory=dict)


def let_in(ports: Ports, new: Sequence[NewTimer]) -> Let:
    """Ask the quotas of each team for its timers."""
    fates: dict[int, NewTimer | QuotaExceeded] = {}
    near: dict[str, tuple[Near, ...]] = {}
    for team in sorted({timer.team for timer in new}):
        own = [index for index, timer in enumerate(new) if timer.team == team]
        sizes = [(new[index].payload_bytes, new[index].fire_at_ms) for index in own]
        admitted = quotas.admit_timers(ports, team, sizes)
        near |= {team: admitted.near} if admitted.near else {}
        for place, index in enumerate(own):
            if place < admitted.count or admitted.refusal is None:
                fates[index] = replace(new[index], stands_for=admitted.stands[place])
            else:
                fates[index] = admitted.refusal.again()
    return Let(tuple(fates[index] for index in range(len(new))), near)


def let_one_in(ports: Ports, new: NewTimer) -> tuple[NewTimer, Mapping[str, tuple[Near, ...]]]:
    """(the timer as it may be created, which quotas are nearly full). QuotaExceeded when there is no room for it."""
    let = let_in(ports, [new])
    (fate,) = let.fates
    if isinstance(fate, QuotaExceeded):
        paging.page_owners(ports, let.near)
        raise fate
    return fate, let.near
