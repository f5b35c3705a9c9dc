"""`tickwork next`: when would this schedule be due?

Owns: the command's options. Refuses to know: anything about time beyond reading the clock when no instant was
given. Protects: with `--json`, standard output is the JSON list and nothing else; a refusal goes to standard
error with exit code 2, and leaves standard output empty.
"""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path
from typing import IO, Any

import click

from tickwork.cli import json_text
from tickwork.cli.output import say, say_lines, show_json
from tickwork.core.errors import CallerError
from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.core.schedule.calendars.calendar_spec import parse_calendar
from tickwork.core.schedule.cron.dialects import DIALECTS
from tickwork.core.schedule.engine import Schedule
from tickwork.core.schedule.instant import read_time
from tickwork.core.schedule.limits import FIRST_S, LAST_S, PREVIEW_MAX
from tickwork.core.schedule.parse import first_due, parse_schedule, read_schedule
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.shown.describe import describe
from tickwork.core.schedule.shown.occurrence import Occurrence
from tickwork.core.schedule.shown.preview import as_lines, as_rows, error_lines, preview
from tickwork.core.schedule.shown.second_reader import read_again
from tickwork.core.schedule.shown.surprises import warnings_of
from tickwork.core.schedule.walk import FOLDS, GAPS
from tickwork.local.plain import plain

_SPEC_OPTIONS = ("rate", "anchor", "at", "delay", "rrule", "repeat", "dialect", "start", "end")

_DASHED = re.compile(r"-(?:[^-A-Za-z]|[A-Za-z-]+ )")

_COUNT = 5


class _ExpressionFirst(click.Command):
    """A command whose argument may begin with a dash, as `-*/10 * * * *` in a crontab does: no option has a blank, a
    star or a digit after its dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {name for param in self.params if isinstance(param, click.Option) and not param.is_flag
                       for name in param.opts}  # fmt: skip
        values = {n + 1 for n, arg in enumerate(args) if arg in takes_value}
        dashed = [n for n, arg in enumerate(args) if n not in values and _DASHED.match(arg)]
        if dashed and "--" not in args:
            args = [arg for n, arg in enumerate(args) if n not in dashed] + ["--", *(args[n] for n in dashed)]
        return super().parse_args(ctx, args)


@click.command("next", cls=_ExpressionFirst)
@click.argument("expression", required=False)
@click.option("--tz", "--zone", "zone", metavar="ZONE", help="IANA time zone, such as Europe/Berlin [UTC].")
@click.option("--after", metavar="TIME", help="Occurrences strictly after this instant [now].")
@click.option("--before", metavar="TIME", help="Occurrences strictly before this instant, the latest first.")
@click.option("--prev", is_flag=True, help="Look back: occurrences before --after, --before or now.")
@click.option("--count", type=click.IntRange(1, PREVIEW_MAX), default=None, help="How many [5].")
@click.option("--json", "as_json", is_flag=True, help="A JSON list instead of text.")
@click.option("--gap", type=click.Choice(GAPS), help="A local time that is skipped by a change of clocks.")
@click.option("--fold", type=click.Choice(FOLDS), help="A local time that comes twice.")
@click.option("--seconds", is_flag=True, help="The expression has six fields, seconds first.")
@click.option("--dialect", type=click.Choice(DIALECTS), help="How to read the expression [cron].")
@click.option("--rate", metavar="PERIOD", help='A rate instead of an expression, such as "10 minutes".')
@click.option("--anchor", metavar="TIME", help="Where the rate is counted from [now].")
@click.option("--at", metavar="TIME", help="A single time.")
@click.option("--delay", metavar="PERIOD", help='A single time from now, such as "90s".')
@click.option("--rrule", metavar="RULE", help="An RFC 5545 recurrence rule.")
@click.option("--repeat", metavar="REPEAT", help="An ISO-8601 repeat, such as R/2026-01-01T00:00:00Z/PT6H.")
@click.option("--start", metavar="TIME", help="Nothing is due before.")
@click.option("--end", metavar="TIME", help="Nothing is due from here on.")
@click.option("--exclude", metavar="NAME", multiple=True, help="A calendar of --calendars to respect.")
@click.option("--on-excluded", metavar="HOW", help="skip or next_working_day [skip].")
@click.option("--calendars", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="JSON calendars.")
@click.option("--spec", type=click.Path(exists=True, dir_okay=False, allow_dash=True), help="A JSON schedule.")
@click.option("--job-id", default="", help="The job whose H values to use.")
def next_command(**options: Any) -> None:
    """Show when a schedule is due: UTC, local time, and a note where a change of clocks had a hand in it.

    \b
    tickwork next "0 2 * * *" --tz America/New_York --after 2026-11-01T00:00:00Z --count 5
    tickwork next --rate "10 minutes" --json
    """
    try:
        _show(options)
    except CallerError as error:
        raise _Refused("\n".join(plain(line) for line in error_lines(error))) from None


class _Refused(click.ClickException):
    """A refusal, in the words of the core, with exit code 2."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        say_lines(self.message, err=True)


def _show(options: dict[str, Any]) -> None:
    now_ms = time.time_ns() // 1_000_000
    after_ms, before_ms = _window(options, now_ms)
    spec = _spec(options)
    calendars = _read_calendars(options["calendars"])
    if after_ms is None and before_ms is None:
        # As when it is registered: it must still be due some day, and what is just past is due at once.
        schedule = parse_schedule(spec, now_ms=now_ms, job_id=options["job_id"])
        due_ms = first_due(schedule, now_ms)
        after_ms = now_ms if due_ms is None else min(now_ms, due_ms - 1)
    else:
        # As if it had been registered at the instant asked about: a preview of last year works.
        at_ms = after_ms if after_ms is not None else before_ms
        assert at_ms is not None
        schedule = read_schedule(spec, now_ms=at_ms, job_id=options["job_id"])
    count = options["count"] or _COUNT
    found = preview(schedule, count=count, after_ms=after_ms, before_ms=before_ms, calendars=calendars)
    warnings = [*warnings_of(schedule), *_second_reading(spec, schedule, now_ms if after_ms is None else after_ms)]
    _print(options, schedule, found, warnings)


def _window(options: dict[str, Any], now_ms: int) -> tuple[int | None, int | None]:
    """(after, before), one of which is None; both when no instant was given."""
    if options["after"] and options["before"]:
        raise ScheduleRefused(
            "two_instants", "--after and --before look in two directions", field="before", remedy="give one of them"
        )
    if options["before"]:
        return None, _instant_ms(options["before"], "before", up=True)
    if options["prev"]:
        return None, _instant_ms(options["after"], "after", up=True) if options["after"] else now_ms
    return (_instant_ms(options["after"], "after") if options["after"] else None), None


def _second_reading(spec: dict[str, Any], schedule: Schedule, after_ms: int) -> list[str]:
    reading = read_again(spec, schedule, after_ms)
    if reading.failure:
        logging.getLogger("tickwork").info("second reader failed", extra={"facts": {"why": reading.failure}})
    return [reading.warning] if reading.warning else []


def _print(options: dict[str, Any], schedule: Schedule, found: list[Occurrence], warnings: list[str]) -> None:
    if not options["as_json"]:
        say(describe(schedule))
    for warning in warnings:
        say(f"warning: {warning}", err=True)
    if options["as_json"]:
        show_json(as_rows(found))
    else:
        say_lines("\n".join(plain(line) for line in as_lines(found)) if found else "(nothing more)")


def _spec(options: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any]
    if options["spec"]:
        with click.open_file(options["spec"], encoding="utf-8") as file:
            spec = _json(file.read(), "spec")
        if not isinstance(spec, dict):
            raise ScheduleRefused(
                "bad_type", "the file holds no object", field="spec", remedy='write {"cron": "0 2 * * *"}'
            )
    else:
        spec = {} if options["expression"] is None else {"cron": options["expression"]}
    spec |= {key: options[key] for key in _SPEC_OPTIONS if options[key] is not None}
    if options["zone"] is not None:
        spec["zone"] = options["zone"]
    if options["seconds"]:
        spec["seconds"] = True
    dst = {key: options[key] for key in ("gap", "fold") if options[key] is not None}
    if dst:
        spec["dst"] = dst
    if options["exclude"] or options["on_excluded"]:
        spec["calendars"] = {"exclude": list(options["exclude"])}
        if options["on_excluded"]:
            spec["calendars"]["on_excluded"] = options["on_excluded"]
    return spec


def _read_calendars(path: Path | None) -> dict[str, Calendar]:
    if path is None:
        return {}
    content = _json(path.read_text(encoding="utf-8"), "calendars")
    entries = content if isinstance(content, list) else [content]
    found = [parse_calendar(entry) for entry in entries]
    return {calendar.name: calendar for calendar in found}


def _json(text: str, field: str) -> Any:
    try:
        return json_text.loads(text)
    except ValueError as error:
        raise ScheduleRefused("bad_json", f"not JSON: {error}", field=field, remedy="write valid JSON") from None


def _instant_ms(text: str, field: str, *, up: bool = False) -> int:
    """Milliseconds; a finer fraction is rounded down, or up for an instant to look back from."""
    moment = read_time(text, field)
    if moment.offset_s is None:
        raise ScheduleRefused(
            "no_offset", f"{text!r} has no offset, so it names no instant", field=field,
            remedy="end it with Z or with an offset like +02:00",
        )  # fmt: skip
    # The first and last days of the calendar cannot be computed; looking from there is looking from the edge.
    seconds = min(max(moment.local_s - moment.offset_s, FIRST_S), LAST_S)
    whole_ms, rest = divmod(moment.nanoseconds, 1_000_000)
    return seconds * 1000 + whole_ms + (1 if up and rest else 0)
