"""Publishing versions of the platform's defaults, and rolling them out: who would change, said before; and back again.

One item holds all versions, so a change of it is one conditional write with its entry, and no job is written (W13:
what is planned already goes by what it was planned by). Protects: two people never overwrite each other unseen, and a
request whose answer was lost is known again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from tickwork.core.access.actors import PLATFORM_TEAM
from tickwork.core.access.diffs import differences
from tickwork.core.access.entries import Change
from tickwork.core.errors import InvalidField, VersionConflict
from tickwork.core.jobs import defaults
from tickwork.core.jobs.defaults import NAMED_MAX, VERSIONS_MAX, Defaults, Version
from tickwork.core.jobs.definitions import DELETED, Job
from tickwork.core.ledger import items
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import JOBS, TEAMS
from tickwork.core.ledger.writes import Absent, Committed, Condition, Is, Item, Put
from tickwork.flows.access.recording import recorded
from tickwork.flows.access.registry import check_heard_of
from tickwork.flows.ledger import platform_defaults
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.platform_defaults import KEY
from tickwork.flows.ledger.reading import job_from
from tickwork.ports import Ports

PLANNED_MAX = 1_000
"""Jobs that one call looks at: some seconds. The next goes on after them."""
_PAGE = 100


def read_defaults(ports: Ports) -> Defaults:
    """The defaults as they stand."""
    return platform_defaults.in_force(ports, anew=True)


def publish(ports: Ports, edition: int, policies: Version, by: str, reason: str) -> Defaults:
    """Make a version of these policies. Nobody goes by it yet. VersionConflict when the defaults are at another
    edition, unless this very version is the last that was published."""
    standing = read_defaults(ports)
    newest = standing.versions[-1]
    version = replace(policies, percent=0, teams=(), by=by, reason=reason, created_at_ms=ports.clock.now_ms())
    if standing.edition > edition and _says(newest, version):
        return standing
    _check_edition(standing, edition)
    if len(standing.versions) >= VERSIONS_MAX:
        raise InvalidField(
            f"there are {VERSIONS_MAX} versions", field="edition", remedy="roll out one of those that there are"
        )
    return _put(ports, standing, replace(standing, versions=(*standing.versions, version)), "published", reason)


def _says(one: Version, other: Version) -> bool:
    return _said(one) | {"by": one.by, "why": one.reason} == _said(other) | {"by": other.by, "why": other.reason}


def _said(version: Version) -> Item:
    return {name: getattr(version, name) for name in ("retry", "tolerance_s", "overlap", "catch_up")}


def roll_out(ports: Ports, edition: int, number: int, percent: int, teams: Collection[str], reason: str) -> Defaults:
    """Have these, and nobody else, go by a version where no newer one was rolled out for them. Again is a no-op."""
    standing = read_defaults(ports)
    wanted = _rolled_out(ports, standing, number, percent, teams)
    if wanted == standing:
        return standing
    _check_edition(standing, edition)
    return _put(ports, standing, wanted, "rolled_out", reason)


def _rolled_out(ports: Ports, standing: Defaults, number: int, percent: int, teams: Collection[str]) -> Defaults:
    """The defaults as somebody wants them to be. InvalidField or NotFound where nobody would go by it."""
    check_known(standing, number, "version")
    if number == defaults.BEFORE and (percent or teams):
        raise InvalidField(
            "version 0 is what jobs have that were registered before there were any, and goes before none",
            field="version",
            remedy="roll out a later one, or have a job pin this one (defaults_version: 0)",
        )
    wanted = standing.rolled_out(number, percent, teams)
    if wanted.named > max(NAMED_MAX, standing.named):
        raise InvalidField(
            f"all versions together would name {wanted.named:,} teams, and at most {NAMED_MAX:,} may be",
            field="teams",
            remedy="take back versions that nobody needs, or roll out by percentage",
        )
    for team in sorted(set(teams).difference(standing.versions[number].teams)):
        check_heard_of(ports, team, "teams")
    return wanted


def check_known(standing: Defaults, number: int, field: str) -> None:
    """InvalidField when there is no such version."""
    if number > standing.newest:
        raise InvalidField(
            f"there is no version {number} of the defaults",
            field=field,
            remedy=f"give one from 0 to {standing.newest} (GET /defaults)",
        )


def check_pin(ports: Ports, number: int | None, before: int | None = None) -> None:
    """InvalidField when a job pins a version that there is not, and did not before."""
    if number not in (None, before):
        assert number is not None
        check_known(platform_defaults.in_force(ports, number), number, "defaults_version")


def _check_edition(standing: Defaults, edition: int) -> None:
    if standing.edition != edition:
        raise VersionConflict(
            f"the defaults are at edition {standing.edition}, not {edition}",
            field="edition",
            remedy="read them again, and repeat your change on that edition",
        )


def _put(ports: Ports, before: Defaults, after: Defaults, action: str, reason: str) -> Defaults:
    after = replace(after, edition=before.edition + 1)
    change = Change(
        PLATFORM_TEAM,
        "rule",
        str(KEY["team"]),
        f"defaults.{action}",
        head=before.audit_head,
        version_before=before.edition,
        version=after.edition,
        changes=differences(_told(before), _told(after)),
        facts={"reason": reason},
    )
    entry, head = recorded(ports, change)
    after = replace(after, audit_head=head)
    condition: Condition = Is("edition", before.edition) if before.edition else Absent()
    if not isinstance(commit(ports, Put(TEAMS, KEY | after.to_item(), condition), entry), Committed):
        standing = read_defaults(ports)
        if standing.versions != after.versions:  # else it was our own write, whose answer was lost
            raise VersionConflict(
                "somebody has changed the defaults meanwhile", field="edition", remedy="read them again, and repeat"
            )
        return standing
    ports.signals.log("defaults_changed", edition=after.edition, how=action, reason=reason)
    return read_defaults(ports)


def _told(document: Defaults) -> Item:
    return {str(number): items.written(version) for number, version in enumerate(document.versions)}


# --- who changes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turned:
    """A job that would go by another version, and those of its policies that would be others."""

    job: Job
    before: int
    after: int
    policies: tuple[str, ...]


@dataclass(slots=True)
class Plan:
    """What a roll-out would come to, as far as it was looked at. `unreadable`: jobs of which nobody knows."""

    looked_at: int = 0
    own: int = 0
    """Jobs that are not touched, because all that differs is theirs to say, or they have pinned another version."""
    unreadable: int = 0
    turned: list[Turned] = field(default_factory=list)
    after: str | None = None

    @property
    def by_team(self) -> dict[str, int]:
        return dict(sorted(Counter(one.job.team for one in self.turned).items()))


def plan(ports: Ports, number: int, percent: int, teams: Collection[str], after: str | None = None) -> Plan:
    """Who would change, of the jobs after one. Nothing is written."""
    standing = read_defaults(ports)
    wanted, found = _rolled_out(ports, standing, number, percent, teams), Plan()
    position: Item | None = None if after is None else {"job_id": after}
    while found.looked_at < PLANNED_MAX:
        read, position = ports.store.scan(JOBS, limit=_PAGE, after=position)
        for item in read:
            _look(standing, wanted, item, found)
        if position is None:
            return found
    found.after = None if position is None else str(position["job_id"])
    return found


def _look(standing: Defaults, wanted: Defaults, item: Item, found: Plan) -> None:
    found.looked_at += 1
    try:
        job = job_from(item)
    except Unreadable:
        found.unreadable += 1
        return
    before, after = standing.version_of(job), wanted.version_of(job)
    if job.status == DELETED or before == after:
        return
    policies = changed_policies(defaults.by_version(standing, job, before), defaults.by_version(wanted, job, after))
    if policies:
        found.turned.append(Turned(job, before, after, policies))
    else:
        found.own += 1


def changed_policies(one: Job, other: Job) -> tuple[str, ...]:
    before, after = defaults.policies_of(one), defaults.policies_of(other)
    return tuple(name for name in defaults.POLICIES if before[name] != after[name])
