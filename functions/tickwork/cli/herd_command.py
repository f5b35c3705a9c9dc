"""`tickwork herd`: how many occurrences are due in each minute of the next days, before and after jitter, and whose.

Reads the definitions through the API, as whoever calls may see them, and counts here. Refuses to know more: what is
paused or finished is left out, and said.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tickwork.cli.herd_svg import svg
from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of
from tickwork.core.errors import BadSchedule
from tickwork.core.instants import DAY_MS, iso, parse_iso
from tickwork.core.jobs.herd import DAYS_MAX, PEAKS_MAX, Due, Forecast, Peak, forecast, peaks
from tickwork.core.jobs.herd_dates import Mark, marks, note_of
from tickwork.core.schedule import TOLERANCE_S, Calendar, parse_calendar, schedule_from_spec

PAGE = 200
TEAMS_PAGES_MAX, JOBS_PAGES_MAX = 100, 10_000
"""Two million jobs."""
_BARS = " ▁▂▃▄▅▆▇█"
_HOURS = 24


@click.command("herd")
@click.option("--days", type=click.IntRange(1, DAYS_MAX), default=14, show_default=True)
@click.option("--from", "begin", metavar="INSTANT", help="The first minute [now].")
@click.option("--team", "teams", multiple=True, metavar="TEAM", help="Only of this one; may be repeated [all you see].")
@click.option("--peaks", "count", type=click.IntRange(1, PEAKS_MAX), default=5, show_default=True)
@click.option("--svg", "picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw it into this file, too.")
@with_api_options
def herd_command(
    days: int,
    begin: str | None,
    teams: Sequence[str],
    count: int,
    picture: Path | None,
    api: str | None,
    as_json: bool,
) -> None:
    """How many occurrences are due in each minute of the next days, before and after jitter: the highest peaks, who
    makes them, and what would make them lower.

    \b
    tickwork herd --days 14
    tickwork herd --days 31 --from 2026-12-20T00:00:00Z --team payments --svg herd.svg
    """
    try:
        begin_ms = parse_iso(begin) if begin else int(time.time() * 1_000)
    except ValueError as error:
        raise click.UsageError("--from is an instant, such as 2026-12-20T00:00:00Z") from error
    left_out: Counter[str] = Counter()
    jobs = list(_read(ApiClient(api), teams, left_out))
    found = forecast(jobs, begin_ms, days)
    dates = marks([job.schedule for job in jobs], found.begin_ms, days)
    highest = peaks(found, count, TOLERANCE_S)
    if picture is not None:
        picture.write_text(svg(found, highest, dates), encoding="utf-8")
    if as_json:
        show_json(as_told(found, highest, dates, len(jobs), left_out))
        return
    for line in plot(found):
        say(line)
    _show(highest, dates)
    summary = ", ".join(f"{number} {why}" for why, number in sorted(left_out.items()))
    say(f"{len(jobs)} jobs counted" + (f"; left out: {summary}" if summary else ""), err=True)


def _read(client: ApiClient, teams: Sequence[str], left_out: Counter[str]) -> Iterator[Due]:
    calendars: dict[str, Calendar | None] = {}
    for team in teams or _teams(client):
        for job in _pages(client, "/jobs", "jobs", JOBS_PAGES_MAX, team=team):
            if job["status"] != "active":
                left_out[job["status"]] += 1
                continue
            try:
                schedule = schedule_from_spec(job["schedule"])
                named = {name: _calendar(client, team, name, calendars) for name in schedule.calendar_names}
                known = {name: one for name, one in named.items() if one is not None}
                if len(known) < len(named):
                    raise BadSchedule("a calendar of it is not there", field="calendars")
                yield Due(job["job_id"], schedule, job["tolerance_s"], known)
            except BadSchedule:
                left_out["unreadable"] += 1


def _teams(client: ApiClient) -> Iterator[str]:
    yield from (one["team"] for one in _pages(client, "/teams", "teams", TEAMS_PAGES_MAX))


def _pages(client: ApiClient, path: str, name: str, pages_max: int, **query: str) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    for _ in range(pages_max):
        page = client.get(path, limit=PAGE, cursor=cursor, **query)
        yield from page[name]
        cursor = page["cursor"]
        if cursor is None:
            return


def _calendar(client: ApiClient, team: str, name: str, known: dict[str, Calendar | None]) -> Calendar | None:
    calendar_id = name if ":" in name else f"{team}:{name}"
    if calendar_id not in known:
        shown = client.get(path_of("calendars", calendar_id))
        spec = {key: value for key, value in shown.items() if key not in ("calendar_id", "changed_at")}
        known[calendar_id] = parse_calendar({**spec, "name": name})
    return known[calendar_id]


# --- shown ------------------------------------------------------------------------------------------------------


def plot(found: Forecast) -> Iterator[str]:
    """Two lines a day: the highest minute of each hour (UTC), by nominal times and by fire times."""
    top = max((*found.before, *found.after, 1))
    yield f"the highest minute of each hour (UTC), before and after jitter; the full bar is {top}"
    first = found.begin_ms // DAY_MS
    for day in range(first, (found.minute_ms(len(found.after)) - 1) // DAY_MS + 1):
        for name, counts in (("before", found.before), ("after", found.after)):
            hours = [_highest(found, counts, day * DAY_MS + hour * DAY_MS // _HOURS) for hour in range(_HOURS)]
            bars = "".join(" " if high is None else _bar(high, top) for high in hours)
            label = iso(day * DAY_MS)[:10] if name == "before" else ""
            yield f"{label:<10} {name:<6} |{bars}| {max((high or 0 for high in hours), default=0)}"


def _highest(found: Forecast, counts: list[int], hour_ms: int) -> int | None:
    """None outside of what is forecast."""
    low = (hour_ms - found.begin_ms) // 60_000
    part = counts[max(0, low) : max(0, low + 60)]
    return max(part) if part else None


def _bar(high: int, top: int) -> str:
    return _BARS[-(-high * (len(_BARS) - 1) // top)]


def _show(highest: Sequence[Peak], dates: Sequence[Mark]) -> None:
    columns = {
        "PEAK (UTC)": lambda one: iso(one["at_ms"]),
        "DAYS": lambda one: one["days"],
        "BEFORE": lambda one: one["before"],
        "AFTER": lambda one: one["after"],
        "EXACT": lambda one: one["exact"],
        "WHO": lambda one: ", ".join(f"{team} {count}" for team, count in one["teams"]),
        "WHEN": lambda one: note_of(one["at_ms"], dates) or None,
    }
    show_table([asdict(peak) for peak in highest], columns, "nothing is due")
    for peak in highest:
        for advice in peak.advice:
            say(f"{iso(peak.at_ms)}: {advice.do} ({advice.jobs} jobs): {advice.height} instead of {peak.after}")
    for mark in dates:
        say(f"{iso(mark.at_ms)}: {mark.what}")


def as_told(
    found: Forecast, highest: Sequence[Peak], dates: Sequence[Mark], jobs: int, left_out: Mapping[str, int]
) -> dict[str, Any]:
    """The forecast for programs: counts by minute from `begin` on."""
    told = [{**asdict(peak), "at": iso(peak.at_ms)} for peak in highest]
    for one in told:
        del one["at_ms"]
    return {
        "begin": iso(found.begin_ms),
        "jobs": jobs,
        "left_out": dict(left_out),
        "peaks": told,
        "dates": [{"at": iso(mark.at_ms), "what": mark.what} for mark in dates],
        "before": found.before,
        "after": found.after,
    }
