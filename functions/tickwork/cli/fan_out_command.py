"""`tickwork fan-out`: one timer for each line of a file, spread over a window."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from tickwork.cli.output import say, show_facts, show_json, with_api_options
from tickwork.client import ApiClient
from tickwork.core.instants import SECOND_MS, iso, parse_iso
from tickwork.core.jobs.fan_outs import LINES_MAX, WINDOW_MAX_MS, is_id
from tickwork.core.ledger.lanes import LANES
from tickwork.core.schedule.duration import read_duration_s
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.fan_out import FanOut, LineRefused, Place, Stuck, keep_place, read_place

STARTS_AHEAD_MS = 60 * SECOND_MS
SAY_EVERY_S = 5.0


@click.command("fan-out")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True))
@click.option("--over", help="The window that the lines are spread over, such as 2h.")
@click.option("--start", "start", help="When it begins, such as 2026-12-01T06:00:00Z [in a minute].")
@click.option("--team", help="Whose timers.")
@click.option("--pool", help="The pool whose workers get the runs.")
@click.option("--handler", help="The job function in the worker.")
@click.option("--lane", type=click.Choice(LANES), help="P2 holds up nobody [P1].")
@click.option("--max-attempts", type=click.IntRange(1, 100), help="Of each run [the platform's].")
@click.option("--id", "fan_out_id", help="What it is called; its timers' keys begin with it [a new one].")
@click.option(
    "--place", "place_path", type=click.Path(path_type=Path), help="Where it is kept how far it is [FILE.place]."
)
@click.option(
    "--group/--no-group", "grouped", default=True, help="Label its timers with its name, to list and pause them by."
)
@click.option("--text", is_flag=True, help="Lines are text, and no JSON.")
@click.option("--parallel", type=click.IntRange(1, 32), default=4, show_default=True, help="Requests at once.")
@click.option("--cancel", is_flag=True, help="Cancel what was created and has not started.")
@click.option("--status", is_flag=True, help="Only say how far it is.")
@with_api_options
def fan_out_command(
    file: Path,
    place_path: Path | None,
    text: bool,
    parallel: int,
    cancel: bool,
    status: bool,
    api: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """One timer for each line of FILE (JSON; '-' is a generator's output), spread over a window. The same command again
    goes on where it ended, and creates nothing twice.

    \b
    tickwork fan-out users.jsonl --over 2h --team shop --pool default --handler mail --lane P2
    """
    place_path = place_path or _usual_place(file, options["fan_out_id"])
    place = read_place(place_path)
    if place is None and (cancel or status):
        raise click.UsageError(f"there is no {place_path}: name it with --place")
    if place is None:
        place = _begun(file, options)
        keep_place(place_path, place)
    elif not (cancel or status):
        _check_same(place, options)
    if not status:
        place = _carried_out(
            FanOut(ApiClient(api), place, _keeper(place_path), parallel), file, text=text, cancel=cancel
        )
    if as_json:
        show_json(_facts(place))
    else:
        show_facts(_facts(place))


def _usual_place(file: Path, fan_out_id: str | None) -> Path:
    if str(file) != "-":
        return file.with_name(f"{file.name}.place")
    if not fan_out_id:
        raise click.UsageError("a generator's fan-out needs --id, or --place: by that it is found again")
    return Path(f"{fan_out_id}.place")


def _begun(file: Path, options: dict[str, Any]) -> Place:
    missing = [f"--{name}" for name in ("over", "team", "pool", "handler") if not options[name]]
    if missing:
        raise click.UsageError(f"it has to be said first: {', '.join(missing)}")
    now_ms = time.time_ns() // 1_000_000
    length_ms = _length_ms(options["over"])
    start_ms = _instant_ms(options["start"]) if options["start"] else now_ms + STARTS_AHEAD_MS
    fan_out_id: str = options["fan_out_id"] or hashlib.sha256(f"{file.resolve()} {now_ms}".encode()).hexdigest()[:16]
    if not is_id(fan_out_id):
        raise click.UsageError("--id has small letters, digits, '.', '_' and '-', 63 at the most")
    lines = _lines_in(file)
    if lines > LINES_MAX:
        raise click.UsageError(f"{file} has {lines:,} lines, and a fan-out at most {LINES_MAX:,}: split it")
    work = _work(options) | ({"group": fan_out_id} if options["grouped"] else {})
    return Place(fan_out_id, start_ms // SECOND_MS * SECOND_MS, length_ms, work, lines)


def _work(options: dict[str, Any]) -> dict[str, Any]:
    work: dict[str, Any] = {
        "team": options["team"],
        "target": {"pool": options["pool"], "handler": options["handler"]},
    }
    work |= {"lane": options["lane"]} if options["lane"] else {}
    return work | ({"retry_policy": {"max_attempts": options["max_attempts"]}} if options["max_attempts"] else {})


def _check_same(place: Place, options: dict[str, Any]) -> None:
    """What is said again has to be what the fan-out is: its timers are known by what was said first."""
    if place.status not in ("running", "created"):
        raise click.UsageError(f"fan-out {place.fan_out_id} is {place.status}")
    said = {"target": {"pool": options["pool"], "handler": options["handler"]}, "team": options["team"]}
    other = [name for name in ("team", "lane") if options[name] and options[name] != place.work.get(name)]
    if options["pool"] and options["handler"] and said["target"] != place.work["target"]:
        other.append("target")
    if options["over"] and _length_ms(options["over"]) != place.length_ms:
        other.append("over")
    if options["start"] and _instant_ms(options["start"]) != place.start_ms:
        other.append("start")
    if other:
        raise click.UsageError(f"fan-out {place.fan_out_id} was begun with another {', '.join(other)}: leave it out")


def _length_ms(over: str) -> int:
    try:
        length_ms = int(read_duration_s(over, "over") * SECOND_MS)
    except ScheduleRefused as error:
        raise click.UsageError(f"--over: {error.detail}") from error
    if length_ms > WINDOW_MAX_MS:
        raise click.UsageError("--over: 366 days are the most")
    return length_ms


def _instant_ms(text: str) -> int:
    try:
        return parse_iso(text)
    except ValueError as error:
        raise click.UsageError(f"--start: {text!r} is no instant, such as 2026-12-01T06:00:00Z") from error


def _lines_in(file: Path) -> int:
    """0 for a generator: nobody knows yet."""
    if str(file) == "-":
        return 0
    with file.open("rb") as lines:
        return sum(1 for _ in lines)


def _payloads(lines: TextIO, *, text: bool) -> Iterator[object]:
    for number, line in enumerate(lines):
        stripped = line.rstrip("\r\n")
        if text:
            yield stripped
            continue
        try:
            yield json.loads(stripped)
        except ValueError as error:
            raise LineRefused(f"line {number + 1} is not JSON: {error} (--text takes it as it is)") from error


def _keeper(path: Path) -> Any:
    """Keeps the place after each round, and says now and then how far it is."""
    told_at = time.monotonic()

    def keep(place: Place) -> None:
        nonlocal told_at
        keep_place(path, place)
        if time.monotonic() - told_at >= SAY_EVERY_S:
            told_at = time.monotonic()
            of = f" of {place.lines:,}" if place.lines else ""
            say(f"{place.done:,}{of} lines", err=True)

    return keep


def _carried_out(fan_out: FanOut, file: Path, *, text: bool, cancel: bool) -> Place:
    lines: TextIO = sys.stdin if str(file) == "-" else file.open(encoding="utf-8", newline="\n")
    try:
        payloads = _payloads(lines, text=text)
        return fan_out.cancel(payloads) if cancel else fan_out.run(payloads)
    except (LineRefused, Stuck) as error:
        at = f"{fan_out.place.done:,} lines are done; the same command goes on from there"
        raise _Stopped(f"{error}\n  {at}") from error
    finally:
        if lines is not sys.stdin:
            lines.close()


class _Stopped(click.ClickException):
    exit_code = 2


def _facts(place: Place) -> dict[str, object]:
    window = f"{iso(place.start_ms)} to {iso(place.start_ms + place.length_ms)}"
    return {
        "fan_out": place.fan_out_id,
        "status": place.status,
        "window": window,
        "lines": place.lines or "not known",
        "done": place.done,
        "created": place.created,
        "there before": place.before,
        "due at once": place.late,
        "cancelled": place.cancelled,
    }
