"""Telling who answers for a job, by the routes of its team.

Owns how one message goes out by each kind of route. Refuses to know why it is sent, and who is to be told first.
Protects: a route that fails costs that route; and a message that is repeated with its name is posted once. A route is
tried whether it was proven or not: one that nobody has tested may still reach somebody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tickwork.core.access.pagers import FAILED, PROVEN
from tickwork.core.access.teams import PagerRoute
from tickwork.core.errors import CallerError, WorldError
from tickwork.core.instants import ceil_to_second
from tickwork.core.jobs.contracts import contract_of
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.messages import compact_json
from tickwork.core.ledger.work import Resource, RetryPolicy, Work
from tickwork.core.runs.push_targets import parse_target
from tickwork.flows.access import registry
from tickwork.flows.runs import timers
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import PUSH_POOL, Paged, Ports

SUBJECT_CHARS_MAX = 100
"""SNS's bound; ours are ASCII."""
PUSHES_AT_ONCE = 1
RETRY = RetryPolicy(max_attempts=4, base_s=15, cap_s=60)
"""Of a webhook: what could not be posted within some minutes is repeated by whoever asked for it."""


@dataclass(frozen=True, slots=True)
class Message:
    """What is told. `name`: what this one message is called, ever; empty: nobody repeats it."""

    kind: str
    subject: str
    text: str
    facts: Mapping[str, object]
    name: str = ""


def tell(ports: Ports, team: str, routes: Sequence[PagerRoute], message: Message) -> int:
    """By how many of these routes a message went out."""
    reached = 0
    if not routes:
        ports.signals.count("watch.not_told_total", team=team)
    for route in routes:
        paged = _by(ports, team, route, message)
        reached += paged.state == PROVEN
        if paged.state != PROVEN:
            ports.signals.count("watch.not_told_total", team=team)
            ports.signals.log("owner_not_told", team=team, way=route.way, kind=message.kind, why=paged.detail)
    ports.signals.log("owner_told", team=team, kind=message.kind, subject=message.subject, routes=reached)
    return reached


def _by(ports: Ports, team: str, route: PagerRoute, message: Message) -> Paged:
    try:
        if route.way == "webhook":
            return _post(ports, team, route.address, message)
        subject = message.subject.encode("ascii", "replace").decode()[:SUBJECT_CHARS_MAX]
        return ports.pager.page(team, route.way, route.address, subject, message.text, asks=False)
    except (WorldError, CallerError) as error:
        return Paged(FAILED, repr(error))


def _post(ports: Ports, team: str, url: str, message: Message) -> Paged:
    if PUSH_POOL not in ports.layout.pools:
        return Paged(FAILED, "this environment does not push")
    payload = compact_json({"kind": message.kind, "team": team, "text": message.text, **message.facts})
    cap = Resource(parse_target(url, allow_private=ports.layout.push_private).resource, PUSHES_AT_ONCE)
    work = Work(PUSH_POOL, PUSH_POOL, payload, retry=RETRY, resources=(cap,), url=url)
    key = f"{message.name}|{url}" if message.name else None
    fire_at_ms = ceil_to_second(ports.clock.now_ms())
    timers.create_timers(ports, [NewTimer(team, fire_at_ms, work, client_key=key, fingerprint=key or "")])
    return Paged(PROVEN, "it is handed to the pusher")


def tell_stopped(ports: Ports, job: Job, how: str, by: str, reason: str) -> None:
    """Tell that a job was paused or deleted which is tagged so that it may not stop unheard. Tried only: it is stopped,
    whoever hears of it; and its audit has the entry."""
    try:
        contract = contract_of(job, registry.said_by(ports, job.team))
        if not contract.is_strict:
            return
        text = f"{job.job_id} ({', '.join(contract.tags)}) was {how} by {by}: {reason}"
        facts = {"job_id": job.job_id, "by": by, "reason": reason}
        tell(ports, job.team, contract.routes, Message(f"job_{how}", f"{job.job_id} was {how}", text, facts))
    except (WorldError, CallerError, Unreadable) as error:
        ports.signals.log("owner_not_told", team=job.team, kind=f"job_{how}", why=repr(error))
