"""Where in a request something stands: the names of runs a client hands back, and those of fields inside fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from tickwork.api.fields import instant_of
from tickwork.core.access.actors import Actor
from tickwork.core.errors import CallerError, InvalidField
from tickwork.core.ids import parse_one_shot_name, split_job_id
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.kinds import is_own
from tickwork.flows.runs import naming
from tickwork.ports import Ports

RUN_NAMES = "a timer's id, team:name@2026-12-01T02:00:00Z (the nominal time; then ~ and its kind, if any), or a `ref`"
"""How a run may be named, in every call and command."""

_RUN_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


def key_of(ref: str, field: str) -> LedgerKey:
    try:
        return parse_ref(ref)
    except ValueError:
        raise InvalidField(
            "this is not a run's ref", field=field, remedy="hand back the `ref` of the message"
        ) from None


def run_named(ports: Ports, text: str, field: str, job_id: str = "") -> LedgerKey:
    """The place of a run by any of its names: its ref, or that of one of its retries; a timer's id; `job_id@time`; a
    `run_id` with the job it is of. InvalidField for what is none of them, NotFound when there is no such run."""
    if "|" in text:
        return naming.run_of_ref(ports, key_of(text, field))
    if _RUN_ID.fullmatch(text):
        return _by_run_id(ports, text, field, job_id)
    named, at, when = text.partition("@")
    instant, tilde, kind = when.partition("~")
    if ":" not in named:
        raise InvalidField(f"{text[:80]!r} does not name a run", field=field, remedy=f"give {RUN_NAMES}")
    _, name = split_job_id(named, field)
    if not at and parse_one_shot_name(name) is None:
        raise InvalidField(
            f"{text[:80]!r} is a job, and this is about one run of it",
            field=field,
            remedy=f"add @ and the nominal time, as in {named[:80]}@2026-12-01T02:00:00Z",
        )
    if tilde and not is_own(kind):
        raise InvalidField(f"{text[:80]!r} does not name a run", field=field, remedy=f"give {RUN_NAMES}")
    return naming.find_run(ports, named, instant_of(instant, field) if at else None, kind)


def _by_run_id(ports: Ports, run_id: str, field: str, job_id: str) -> LedgerKey:
    if not job_id:
        raise InvalidField(
            "a run_id is a hash: it does not say where its run is",
            field=field,
            remedy=f"give the `occurrence` or the `ref` that is shown beside it, or its job as well (`job_id`; "
            f"--job on the command line). A run is named by {RUN_NAMES}",
        )
    split_job_id(job_id, "job_id")
    return naming.find_run_id(ports, job_id, run_id)


@contextmanager
def fields_under(prefix: str, kind: type[CallerError] = CallerError) -> Iterator[None]:
    """Name the fields of errors by where the client wrote them: `schedule.cron.hour`, `timers.3.at`."""
    try:
        yield
    except kind as error:
        error.field = prefix if error.field in (None, prefix) else f"{prefix}.{error.field}"
        raise


def own_by_team(actor: Actor, ids: Iterable[str]) -> dict[str, list[int]]:
    """Which of the things that a request names, by ids that begin with their team, are of which team: of those that
    the caller reaches. What is no id of anything names no team."""
    found: dict[str, list[int]] = {}
    for index, text in enumerate(ids):
        with suppress(InvalidField):
            team, _ = split_job_id(text)
            if actor.reaches(team):
                found.setdefault(team, []).append(index)
    return found
