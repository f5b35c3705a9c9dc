"""Incidents: opened once, told as often as it was agreed, acknowledged by people, closed by the next success.

The order of writes, and what crashes leave, is in `watching`. Protects: one message for each incident and time,
whoever else runs; incidents of a team that are due together are one message, with a count and the worst three.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tickwork.core.errors import Conflict, InvalidField, NotFound, WorldError
from tickwork.core.ids import split_job_id
from tickwork.core.instants import iso_ms
from tickwork.core.jobs.contracts import Contract
from tickwork.core.jobs.definitions import DELETED
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Committed, Item
from tickwork.core.watch import incidents, silence, wheel
from tickwork.core.watch.incidents import OPEN, UNREADABLE, Incident
from tickwork.flows.access.recording import call_on_many
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages
from tickwork.flows.watch import telling
from tickwork.flows.watch.judging import Judge, Verdict
from tickwork.flows.watch.telling import Message
from tickwork.ports import Ports

if TYPE_CHECKING:
    from tickwork.flows.watch.watching import Pass

PAGE = 200
FIRST, LAST = "!", "~"
TRIES_MAX = 5
"""Of a person's word on an incident: the watchdog writes it once or twice a minute."""


@dataclass(frozen=True, slots=True)
class _Due:
    """What is told in this pass, with whom it is told to."""

    incident: Incident
    contract: Contract


def open_one(ports: Ports, incident: Incident) -> bool | None:
    """Whether it was opened now; False: it is open already; None: the one before it is just ending."""
    result = commit(ports, incidents.opening(incident))
    if isinstance(result, Committed):
        ports.signals.count("watch.incidents_opened_total", team=incident.of_team)
        ports.signals.log("incident_opened", job_id=incident.job_id, kind=incident.kind, why=incident.why)
        return True
    standing = result.only
    return None if standing is not None and standing.get("closed_at_ms") else False


def see_to_all(ports: Ports, judge: Judge, done: Pass) -> None:
    """Close what is over, tell what is due."""
    due: dict[str, list[_Due]] = defaultdict(list)
    for incident in _open_ones(ports, done):
        try:
            one = _see_to(ports, judge, incident, done)
        except WorldError as error:
            done.unknown += 1
            ports.signals.log("job_not_judged", job_id=incident.job_id, verdict="unknown", error=repr(error))
            continue
        if one is not None:
            due[incident.of_team].append(one)
    for team, found in due.items():
        done.told += _tell(ports, team, found)


def _open_ones(ports: Ports, done: Pass) -> Iterator[Incident]:
    for page in pages(ports, TEAMS, OPEN, FIRST, LAST, limit=PAGE):
        for item in page.items:
            try:
                yield Incident.from_item(item)
            except Unreadable as error:
                done.unknown += 1
                ports.signals.log("incident_unreadable", why=str(error))


def _see_to(ports: Ports, judge: Judge, incident: Incident, done: Pass) -> _Due | None:
    """What is to be told of an incident now."""
    verdict, now_ms = judge.again(incident), ports.clock.now_ms()
    if not incident.closed_at_ms and (how := _how_it_ended(incident, verdict)):
        closed = _close(ports, incident, verdict, how)
        if closed is None:
            return None  # somebody else has written it: the next pass looks
        incident = closed
        done.closed += 1
    if incidents.is_due(incident, verdict.contract, now_ms):
        return _Due(incident, verdict.contract)
    if incident.closed_at_ms and incident.claimed_at_ms <= incident.told_at_ms:
        commit(ports, *incidents.ending(incident))
    return None


def _how_it_ended(incident: Incident, verdict: Verdict) -> str:
    """Empty: it goes on."""
    if verdict.incident is not None and verdict.incident.kind == incident.kind:
        return ""
    if incident.kind == UNREADABLE:
        return "its definition can be read again"
    if verdict.incident is not None:  # nothing is known of its runs
        return ""
    if verdict.job is None or verdict.job.status == DELETED:
        return "the job was deleted"
    if verdict.expected is None:
        return "nobody waits for it any more"
    if verdict.expected.since_ms > incident.since_ms and silence.last_success_ms(verdict.job) > incident.since_ms:
        return "it has succeeded again"
    return "more time was given to it"


def _close(ports: Ports, incident: Incident, verdict: Verdict, how: str) -> Incident | None:
    job, now_ms = verdict.job, ports.clock.now_ms()
    missed = 0
    if job is not None and incident.since_ms and job.last is not None:
        missed = silence.missed_count(job, incident.since_ms, job.last["scheduled_at_ms"])
    closed = incidents.closed(incident, now_ms, how, missed)
    writes = [incidents.revised(incident, closed)]
    if job is not None and verdict.expected is not None:
        writes.append(wheel.put(wheel.deadline(job, verdict.expected.by_ms, verdict.expected.silence_s, now_ms)))
    elif verdict.incident is not None:  # another kind is open: it is seen to
        open_one(ports, verdict.incident)
    if not isinstance(commit(ports, *writes), Committed):
        return None
    ports.signals.log("incident_closed", job_id=incident.job_id, kind=incident.kind, how=how, missed=missed)
    return replace(closed, rev=incident.rev + 1)


# --- telling ----------------------------------------------------------------------------------------------------


def _tell(ports: Ports, team: str, due: list[_Due]) -> int:
    """Tell a team of what is due: by one message of what goes on, and one of what is over. Those that somebody else
    has claimed are his."""
    mine = [claimed for one in due if (claimed := _claim(ports, one)) is not None]
    count = 0
    for over in (False, True):
        found = [one for one in mine if bool(one.incident.closed_at_ms) == over]
        for routes_all in (False, True):
            group = [one for one in found if one.incident.told_all == routes_all]
            if group:
                _send(ports, team, group, over=over, to_all=routes_all)
                count += 1
    return count


def _claim(ports: Ports, one: _Due) -> _Due | None:
    try:
        claimed = incidents.claimed(one.incident, one.contract, ports.clock.now_ms())
        if isinstance(commit(ports, incidents.revised(one.incident, claimed)), Committed):
            return replace(one, incident=replace(claimed, rev=one.incident.rev + 1))
    except WorldError as error:
        ports.signals.log("incident_not_claimed", job_id=one.incident.job_id, error=repr(error))
    return None


def _send(ports: Ports, team: str, group: list[_Due], *, over: bool, to_all: bool) -> None:
    message = _message(team, [one.incident for one in group], ports.clock.now_ms(), over=over)
    # Each job may have a first route of its own; one message goes to each of them once.
    every = list(dict.fromkeys(route for one in group for route in one.contract.routes))
    first = every if to_all else list(dict.fromkeys(route for one in group for route in one.contract.routes[:1]))
    reached = telling.tell(ports, team, first, message)
    if not reached and (others := [route for route in every if route not in first]):
        reached = telling.tell(ports, team, others, message)
    if every and not reached and not over:
        return  # nobody has heard: its claim stands, and it is told again in a while, under the same name
    for one in group:
        try:
            _note_told(ports, one.incident)
        except WorldError as error:  # it is told again in a while, under the same name
            ports.signals.log("incident_not_noted", job_id=one.incident.job_id, error=repr(error))


def _note_told(ports: Ports, incident: Incident) -> None:
    told = incidents.told(incident, ports.clock.now_ms())
    if incident.closed_at_ms:
        commit(ports, *incidents.ending(incident))
    else:
        commit(ports, incidents.revised(incident, told))


def _message(team: str, found: list[Incident], now_ms: int, *, over: bool) -> Message:
    worst = incidents.worst(found)
    said: Callable[[Incident], str] = incidents.recovery if over else lambda one: incidents.words(one, now_ms)
    what = "succeeds again" if over else "is silent"
    if len(found) == 1:
        subject, text = f"{worst[0].job_id} {what}", said(worst[0])
    else:
        what = "succeed again" if over else "are silent"
        subject = f"{len(found)} jobs of {team} {what}"
        text = "\n".join([f"{subject}; the worst:", *map(said, worst)])
    listed = f"tickwork incidents list --team {team}"
    facts = {
        "count": len(found),
        "jobs": [one.job_id for one in worst],
        "closed": over,
        "at": iso_ms(now_ms),
        "list": listed,
    }
    kind = "incident_closed" if over else "incident"
    return Message(kind, subject, text if over else f"{text}\n{listed}", facts, worst[0].message_name)


# --- what people say of one -------------------------------------------------------------------------------------


def list_open(ports: Ports, team: str, *, limit: int, after: str | None) -> tuple[list[Incident], str | None]:
    """A page of a team's open incidents, by job."""
    page = ports.store.query(TEAMS, OPEN, f"{team}#", f"{team}#~", limit=limit, after=after)
    return [found for item in page.items if (found := _readable(ports, item)) is not None], page.more


def _readable(ports: Ports, item: Item) -> Incident | None:
    try:
        return Incident.from_item(item)
    except Unreadable as error:
        ports.signals.log("incident_unreadable", why=str(error))
        return None


def acknowledge(ports: Ports, job_id: str, kind: str, by: str, why: str, until_ms: int) -> Incident:
    """Somebody has heard: nobody is told again until then (0: until it is over). Again is a no-op; other words take
    the place of the first. NotFound when none is open."""
    if until_ms and until_ms <= ports.clock.now_ms():
        raise InvalidField("it has passed", field="until", remedy="give a later time, or leave it out")
    said_of = {"job_id": job_id, "kind": kind, "reason": why} | ({"until": iso_ms(until_ms)} if until_ms else {})
    facts = {split_job_id(job_id)[0]: said_of}
    standing = _standing(ports, job_id, kind)
    if _says(standing, by, why, until_ms):
        return standing
    with call_on_many(ports, "incident.acknowledged", facts) as counted:
        for _ in range(TRIES_MAX):
            said = incidents.acknowledged(standing, by, why, ports.clock.now_ms(), until_ms)
            if isinstance(commit(ports, incidents.revised(standing, said)), Committed):
                counted.add(standing.of_team, "acknowledged")
                return replace(said, rev=standing.rev + 1)
            standing = _standing(ports, job_id, kind)
            if _says(standing, by, why, until_ms):  # our own try, whose answer was lost
                counted.add(standing.of_team, "acknowledged")
                return standing
    raise Conflict(f"the incident of {job_id} was changed {TRIES_MAX} times meanwhile")


def _standing(ports: Ports, job_id: str, kind: str) -> Incident:
    item = ports.store.get(TEAMS, incidents.key_of(job_id, kind))
    if item is None:
        raise NotFound(
            f"job {job_id} has no open incident of the kind {kind!r}",
            field="job_id",
            remedy="list those that are open: tickwork incidents list --team",
        )
    return Incident.from_item(item)


def _says(incident: Incident, by: str, why: str, until_ms: int) -> bool:
    said = (incident.acknowledged_by, incident.acknowledged_why, incident.snoozed_until_ms)
    return bool(incident.acknowledged_at_ms) and said == (by, why, until_ms)
