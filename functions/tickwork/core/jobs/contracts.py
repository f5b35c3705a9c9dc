"""What a job says of itself to people, or has from its team: who answers for it, how they are reached, and for how long
it may be silent (A3).

Owns what holds for a job that says nothing, what the tags `compliance` and `financial` demand, and the words of a
violation. Refuses to know the store, and who asks. Protects: what a demand refuses in a new job it only lists of one
that stands; and a switch never waits less than five minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tickwork.core.access.teams import PagerRoute, TeamContent
from tickwork.core.errors import BadSchedule, InvalidField
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs import durations
from tickwork.core.jobs.definitions import Definition, Job
from tickwork.core.schedule import longest_gap_s, schedule_from_spec

STRICT_TAGS = ("compliance", "financial")
"""What they are on has to be told of when it falls silent, and is not stopped without a reason."""
TAGS_MAX = 20
MAX_SILENCE_S_MIN = 5 * MINUTE_MS // SECOND_MS
GAPS_WAITED = 2
"""One occurrence may fail, or be skipped for a long run before it, and nobody is told."""
ON, OFF = "on", "off"
REPEAT_S, SECOND_AFTER_S = 4 * 3_600, 15 * 60
"""Of incidents, where the team does not say it."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What holds for a job: what it says, else what its team does."""

    owner: str = ""
    routes: tuple[PagerRoute, ...] = ()
    """The one that is paged first, and then the team's others."""
    runbook: str = ""
    tags: tuple[str, ...] = ()
    is_watched: bool = False
    """Whether its silence is told."""
    max_silence_s: int = 0
    """0: as its schedule allows (`max_silence_s`)."""
    min_duration_s: int = 0
    repeat_s: int = REPEAT_S
    """How often who has not acknowledged an incident is told again."""
    second_route_after_s: int = SECOND_AFTER_S
    """After how long the team's other routes are told too."""

    @property
    def is_strict(self) -> bool:
        return any(tag in STRICT_TAGS for tag in self.tags)


@dataclass(frozen=True, slots=True)
class Violation:
    """What a job's contract lacks. `refused`: a new job is refused for it."""

    field: str
    detail: str
    remedy: str
    refused: bool = False


_NO_TEAM = TeamContent()


def contract_of(job: Definition, team: TeamContent | None) -> Contract:
    """`team` None: it is not registered, and says nothing."""
    team = team or _NO_TEAM
    silence_s = job.max_silence_s or _number(team, "max_silence_s")
    switch = job.dead_man_switch or (ON if job.max_silence_s else _text(team, "dead_man_switch"))
    return Contract(
        owner=job.owner or team.contact,
        routes=_routes(job, team),
        runbook=job.runbook or team.runbook,
        tags=tuple(sorted({*job.tags, *_texts(team, "tags")})),
        is_watched=switch == ON or (not switch and bool(silence_s)),
        max_silence_s=silence_s,
        min_duration_s=job.min_duration_s or _number(team, "min_duration_s"),
        repeat_s=_number(team, "repeat_s") or REPEAT_S,
        second_route_after_s=_number(team, "second_route_after_s") or SECOND_AFTER_S,
    )


def of_team(team: TeamContent | None) -> Contract:
    """Of a job that was watched and that nothing is known of any more."""
    team = team or _NO_TEAM
    return Contract(owner=team.contact, routes=team.routes, runbook=team.runbook, is_watched=True)


def _routes(job: Definition, team: TeamContent) -> tuple[PagerRoute, ...]:
    first = [one for one in team.routes if one.address == job.pager_route]
    return (*first, *(one for one in team.routes if one not in first))


def _number(team: TeamContent, name: str) -> int:
    """A default of a team, as far as it can be read: what another version has stored there costs no job its switch."""
    found = team.defaults.get(name, 0)
    return found if isinstance(found, int) and found > 0 else 0


def _text(team: TeamContent, name: str) -> str:
    found = team.defaults.get(name, "")
    return found if isinstance(found, str) else ""


def _texts(team: TeamContent, name: str) -> tuple[str, ...]:
    found = team.defaults.get(name, ())
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list | tuple) else ()


# --- how long it may be silent ----------------------------------------------------------------------------------


def max_silence_s(job: Job, contract: Contract, from_ms: int) -> int:
    """For how long the job, whose calendars have been read, may go without a success. BadSchedule when that depends on
    a schedule that cannot be read."""
    return contract.max_silence_s or usual_silence_s(job, gap_s(job, from_ms))


def usual_silence_s(job: Job, longest_s: int) -> int:
    """Of a job that does not say it."""
    usual_s = durations.usual_s(job) or 0
    return max(MAX_SILENCE_S_MIN, GAPS_WAITED * longest_s + job.tolerance_s + usual_s)


def gap_s(job: Job, from_ms: int) -> int:
    """The longest gap of its schedule from an instant on; 0: it is due once at the most."""
    return longest_gap_s(schedule_from_spec(job.schedule), from_ms, job.calendars) or 0


# --- what it lacks ----------------------------------------------------------------------------------------------


def violations(job: Definition, team: TeamContent | None) -> Iterator[Violation]:
    """What is wrong with a job's contract, what is refused first."""
    contract, says = contract_of(job, team), f"it is tagged {_strict(job, team)}"
    known = [] if team is None else [one.address for one in team.routes]
    if job.pager_route and job.pager_route not in known:
        yield Violation(
            "pager_route",
            f"{job.pager_route[:80]!r} is none of the routes of team {job.team}",
            f"give one of them ({', '.join(known) or 'it has none'}), or add it: tickwork teams set {job.team}",
            refused=True,
        )
    if contract.is_strict and not contract.routes:
        yield Violation(
            "pager_route",
            f"{says}, and nobody can be told: its team has no pager route",
            f"give the team one (`tickwork teams set {job.team}`), or leave the tag out",
            refused=True,
        )
    if contract.is_strict and not contract.is_watched:
        yield Violation(
            "dead_man_switch",
            f"{says}, and nobody would hear when it falls silent",
            "say dead_man_switch 'on' or max_silence_s, or leave the tag out",
            refused=True,
        )
    yield from _unwatched(job, contract)


def _strict(job: Definition, team: TeamContent | None) -> str:
    return " and ".join(tag for tag in contract_of(job, team).tags if tag in STRICT_TAGS)


def _unwatched(job: Definition, contract: Contract) -> Iterator[Violation]:
    """What no job is refused for."""
    if not contract.owner:
        yield Violation("owner", "nobody answers for it", f"say owner, or register the team {job.team} with a contact")
    if contract.is_watched and not contract.routes:
        yield Violation(
            "pager_route",
            "its switch is on, and nobody can be told: its team has no pager route",
            f"give the team one: tickwork teams set {job.team}",
        )


def check(job: Definition, team: TeamContent | None, before: Definition | None = None) -> None:
    """InvalidField when a demand is not met: of a job that stands (`before`), only for what a change takes away."""
    known = set() if before is None else {(one.field, one.detail) for one in violations(before, team)}
    for one in violations(job, team):
        if one.refused and (one.field, one.detail) not in known:
            raise InvalidField(one.detail, field=one.field, remedy=one.remedy)


def check_reason(job: Definition, team: TeamContent | None, reason: str | None) -> None:
    """InvalidField when a job is to be deleted that may not be without a reason, and there is none."""
    if contract_of(job, team).is_strict and not reason:
        raise InvalidField(
            f"it is tagged {_strict(job, team)}, and is not deleted without a reason",
            field="reason",
            remedy="say why: ?reason=..., or `tickwork jobs delete --reason`",
        )


def warnings_of_silence(job: Job, team: TeamContent | None, from_ms: int) -> Iterator[str]:
    """Of a bound that the schedule itself does not keep."""
    contract = contract_of(job, team)
    if not (contract.is_watched and contract.max_silence_s):
        return
    try:
        needs_s = gap_s(job, from_ms) + job.tolerance_s
    except BadSchedule:
        return
    if needs_s >= contract.max_silence_s:
        yield (
            f"silence_shorter_than_gap: max_silence_s is {contract.max_silence_s}, and the schedule alone leaves "
            f"{needs_s} s between two starts: its owner is told each time; say more, or leave it out"
        )
