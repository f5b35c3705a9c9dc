"""Taking back, by the audit, what teams' timers were counted for: of timers whose time has passed, and of whole weeks.

The first audit that reads a second takes back what its timers stand for, once its cursor has moved past them: a crash
between leaves it, and the end of the week takes it back. Protects: a counter holds up no audit; a quota fills up
neither with what has fired, nor with what an older version has cancelled, nor with what a crash has counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tickwork.core.access import holdings
from tickwork.core.audit.passes import LAST_AUDIT
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import WorldError
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import slice_key
from tickwork.core.ledger.records import Stands, stands_of
from tickwork.core.ledger.tables import LEASES, TEAMS
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger.reading import pages, read_many
from tickwork.ports import Ports

_FIRST, _LAST = "!", "~"
_PAGE = 500
FAILURES_MAX = 3
"""Of one round: a table that is busy is not asked for each team."""


@dataclass(slots=True)
class Counted:
    """What the timers of some minutes stand for, by team."""

    by_team: dict[str, list[Stands]] = field(default_factory=lambda: defaultdict(list))

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            try:
                if (found := stands_of(item)) is not None:
                    self.by_team[str(item["sk"]).split("#", 2)[1]].append(found)
            except ValueError:
                continue  # a newer version's: the end of its week takes it back

    def give_back(self, ports: Ports) -> None:
        failures = 0
        for team, stands in sorted(self.by_team.items()):
            try:
                if (write := holdings.taking_back(team, stands)) is not None and failures < FAILURES_MAX:
                    ports.store.commit([write])
            except WorldError as error:
                failures += 1
                ports.signals.log("quota_not_given_back", team=team, error=repr(error))


def sweep_counters(ports: Ports) -> None:
    """Take back what is left of the weeks that all audits have passed: what a crash has counted and not created."""
    try:
        audited_s = _audited_s(ports)
        for page in pages(ports, TEAMS, holdings.USED, _FIRST, _LAST, limit=_PAGE):
            for item in page.items:
                for week in holdings.over(item, audited_s):
                    ports.store.commit([holdings.sweeping(item, week)])  # refused: it moves yet, so another time
    except (WorldError, Unreadable) as error:
        ports.signals.log("quotas_not_swept", error=repr(error))


def _audited_s(ports: Ports) -> int:
    """The second that the last audit has passed in every slice that has been served."""
    keys: list[Item] = [
        {"slice": slice_key(shape.name, number)} for shape in ports.layout.shapes for number in range(shape.slices)
    ]
    found = [SliceLease.from_item(item) for item in read_many(ports, LEASES, keys) if item is not None]
    return min((int(getattr(lease, LAST_AUDIT)) for lease in found), default=0)
