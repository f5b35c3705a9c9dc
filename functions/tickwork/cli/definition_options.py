"""The options that say what a job is, for the commands that create or change one, and the fields they stand for.

Every field of the API has an option; `--file` takes them all at once, as JSON. Refuses to know which go together: the
API says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from tickwork.cli import json_text
from tickwork.core.ledger.lanes import LANES
from tickwork.core.schedule.cron.dialects import DIALECTS
from tickwork.core.schedule.walk import FOLDS, GAPS

KINDS = ("cron", "rate", "at", "delay", "rrule", "repeat")
_PLAIN = ("anchor", "dialect", "start", "end")

_SCHEDULE = (
    click.option("--cron", help='Five fields, such as "0 2 * * *".'),
    click.option("--rate", help='Such as "10 minutes".'),
    click.option("--at", help="A single instant, such as 2026-12-01T09:00:00Z."),
    click.option("--delay", help='A single time from now, such as "90s".'),
    click.option("--rrule", help="An RFC 5545 recurrence rule."),
    click.option("--repeat", help="An ISO-8601 repeat, such as R/2026-01-01T00:00:00Z/PT6H."),
    click.option("--schedule", "schedule_json", help="The whole schedule as JSON, for all that it can say."),
    click.option("--tz", "--zone", "zone", help="IANA time zone [UTC]."),
    click.option("--anchor", help="Where a rate is counted from [now]."),
    click.option("--seconds", is_flag=True, default=None, help="The cron expression has six fields, seconds first."),
    click.option("--dialect", type=click.Choice(DIALECTS), help="How to read the cron expression [cron]."),
    click.option("--start", help="Nothing is due before."),
    click.option("--end", help="Nothing is due from here on."),
    click.option("--gap", type=click.Choice(GAPS), help="A local time that is skipped by a change of clocks."),
    click.option("--fold", type=click.Choice(FOLDS), help="A local time that comes twice."),
    click.option(
        "--calendars", multiple=True, metavar="NAME", help="A calendar on whose days nothing starts; may be repeated."
    ),
    click.option("--on-excluded", metavar="HOW", help="skip or next_working_day [skip]."),
)
_TARGET = (
    click.option("--pool", help="The pool whose workers get the runs."),
    click.option("--handler", help="The job function in the worker [the job's name]."),
    click.option("--url", help="Push each run to this URL, instead of a pool."),
    click.option("--max-concurrency", type=int, help="Of --url: pushes at a time [10]."),
)
_WORK = (
    click.option("--payload", "payload_json", help="JSON, handed to the job function."),
    click.option(
        "--secret-field", "secret_fields", multiple=True, metavar="PATH", help="Shown to nobody; may be repeated."
    ),
    click.option("--group", help="A label, to list and pause it by with others."),
    click.option("--lane", type=click.Choice(LANES), help="P0 goes first, P2 holds up nobody [P1]."),
    click.option("--lease", "lease_s", type=int, help="Seconds a worker may go without a heartbeat [60]."),
    click.option("--max-duration", "max_duration_s", type=int, help="Seconds one attempt may take [no bound]."),
    click.option("--start-within", "start_within_s", type=int, help="Seconds after its time it may start [no bound]."),
    click.option("--idempotency-class", type=click.Choice(("keyed", "natural", "unsafe")), help="[keyed]"),
    click.option("--signed-off-by", "who", metavar="WHO", help="Who answers for an unsafe job; with --why."),
    click.option("--why", metavar="WHY", help="Why it is right that an unsafe job is never repeated."),
    click.option(
        "--side-effect", "side_effects", multiple=True, metavar="NAME", help="Such as email; may be repeated."
    ),
    click.option(
        "--certificate", "certificate", type=click.File(encoding="utf-8"), help="What `tickwork verify` wrote."
    ),
    click.option("--resource", "resources", multiple=True, metavar="NAME=N", help="At most N runs at a time share it."),
    click.option("--max-attempts", type=int, help="Attempts before the run is dead-lettered [5]."),
    click.option("--retry-base", "base_s", type=int, help="Seconds to wait after the first failure [30]."),
    click.option("--retry-cap", "cap_s", type=int, help="Seconds to wait at most [3600]."),
    click.option("--retry-jitter", "jitter_percent", type=int, help="[20]"),
    click.option(
        "--retry-on", multiple=True, metavar="CLASS", help="Only these errors are tried again; may be repeated."
    ),
    click.option(
        "--no-retry-on", multiple=True, metavar="CLASS", help="These errors end the run at once; may be repeated."
    ),
)
_JOB = (
    click.option("--tolerance", "tolerance_s", type=int, help="Spread the start over this many seconds."),
    click.option("--exact-reason", help="Why the job must be exact (needed for cron with --tolerance 0)."),
    click.option(
        "--catch-up", "policy", type=click.Choice(("latest", "all", "last", "none")), help="After an outage [latest]."
    ),
    click.option(
        "--overlap",
        type=click.Choice(("skip", "allow", "buffer_one", "buffer_all", "cancel_other")),
        help="While another run has not ended [skip].",
    ),
    click.option("--buffer-max", type=int, help="With --overlap buffer_all: how many wait [100]."),
    click.option("--buffer-age", "buffer_age_s", type=int, help="With --overlap buffer_all: for how many seconds."),
    click.option(
        "--defaults-version", type=int, metavar="N", help="The platform's defaults to go by [what is rolled out]."
    ),
    click.option("--catch-up-last", "last", type=int, metavar="N", help="With --catch-up last: how many."),
    click.option(
        "--max-lateness", "max_lateness_s", type=int, help="Seconds after which an occurrence is missed for good."
    ),
)


_CONTRACT = (
    click.option("--owner", metavar="WHO", help="Who answers for the job [its team's contact]."),
    click.option("--pager-route", metavar="ADDRESS", help="Of its team's routes the one that is paged first."),
    click.option("--runbook", metavar="WHERE", help="What to do when it fails [its team's]."),
    click.option("--description", help="What it is for."),
    click.option("--tag", "tags", multiple=True, help="Such as compliance or financial; may be repeated."),
    click.option("--dead-man-switch", type=click.Choice(("on", "off")), help="Tell when it is silent for too long."),
    click.option("--max-silence", "max_silence_s", type=int, help="Seconds without a success [by its schedule]."),
    click.option("--min-duration", "min_duration_s", type=int, help="A success in fewer seconds is suspicious."),
)


_PLAIN_FIELDS = (
    *("group", "lane", "lease_s", "max_duration_s", "start_within_s", "idempotency_class"),
    *("tolerance_s", "exact_reason", "overlap", "buffer_max", "buffer_age_s", "defaults_version"),
    *("owner", "pager_route", "runbook", "description", "tags"),
    *("dead_man_switch", "max_silence_s", "min_duration_s"),
)


def with_definition_options[Command: Callable[..., None]](command: Command) -> Command:
    """The options that say what a job is."""
    for option in reversed((*_SCHEDULE, *_TARGET, *_WORK, *_JOB, *_CONTRACT)):
        command = option(command)
    return command


def definition_of(options: Mapping[str, Any], *, changes: bool = False) -> dict[str, Any]:
    """The fields of the API that were given. `changes`: of a job that has a schedule; a part of one may stand alone."""
    body: dict[str, Any] = _given(options, *_PLAIN_FIELDS)
    parts = {
        "schedule": schedule_of(options, changes=changes),
        "target": _given(options, "pool", "handler", "url", "max_concurrency"),
        "retry_policy": _given(options, "max_attempts", "base_s", "cap_s", "jitter_percent", "retry_on", "no_retry_on"),
        "catch_up": _given(options, "policy", "last", "max_lateness_s"),
        "unsafe_sign_off": _given(options, "who", "why"),
        "side_effects": list(options["side_effects"]),
        "secret_fields": list(options["secret_fields"]),
        "resources": [_resource(text) for text in options["resources"]],
    }
    body |= {name: part for name, part in parts.items() if part}
    if options["payload_json"] is not None:
        body["payload"] = read_json(options["payload_json"], "--payload")
    if options["certificate"] is not None:
        body["certificate"] = read_json(options["certificate"].read(), "--certificate")
    return body


def schedule_of(options: Mapping[str, Any], *, changes: bool) -> Any:
    """The schedule that was given; None without one."""
    if options["schedule_json"] is not None:
        return read_json(options["schedule_json"], "--schedule")
    schedule = _given(options, *KINDS)
    if len(schedule) > 1:
        raise click.UsageError("give exactly one of --cron, --rate, --at, --delay, --rrule, --repeat and --schedule")
    more = _given(options, "zone", "seconds", *_PLAIN)
    if dst := _given(options, "gap", "fold"):
        more["dst"] = dst
    if options["calendars"] or options["on_excluded"]:
        exclude = {"exclude": list(options["calendars"])} if options["calendars"] else {}
        more["calendars"] = exclude | _given(options, "on_excluded")
    if not schedule and changes:
        return more or None
    if not schedule:
        if more:
            first = {"zone": "tz", "dst": "gap"}.get(next(iter(more)), next(iter(more)))
            raise click.UsageError(f"--{first} goes with --cron, --rate, --at, --rrule or --repeat")
        return None
    return schedule | more


def _given(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    found = {name: options[name] for name in names if options[name] not in (None, ())}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _resource(text: str) -> dict[str, Any]:
    name, sign, number = text.partition("=")
    if not sign or not number.isdecimal():
        raise click.UsageError(f"--resource {text!r}: write it as NAME=N, such as reporting-db=2")
    return {"name": name, "max_concurrency": int(number)}


def read_json(text: str, option: str) -> Any:
    try:
        return json_text.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from None
