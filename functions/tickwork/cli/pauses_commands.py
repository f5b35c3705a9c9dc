"""`tickwork pause`, `resume`, `pauses`: of a team, a group, a pool, or a cell. Single jobs: `tickwork jobs pause`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.client import ApiClient
from tickwork.core.instants import iso

_AT_ONCE = 100
_UNSTARTED = ("pending", "queued", "waiting")
HOLDS_AFTER_S = 5.0
"""When a pause holds for all starts; and how long after a pass the next one begins."""


def _with_scope[F: Callable[..., Any]](command: F) -> F:
    """The options that say what is paused."""
    for option in reversed(
        (
            click.option("--team", help="Whose jobs and timers, or whose pool [the caller's own]."),
            click.option("--pool", help="Only what needs this pool of the team, or of the deployment."),
            click.option("--group", help="Only what of the team bears this label."),
            click.option("--cell", help="Everything in a cell, or in all ('*'); for the platform alone."),
            click.option("--by", help="A note, behind the caller whom the credential proves."),
        )
    ):
        command = option(command)
    return command


def _body(**named: str | None) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value}


@click.command("pause")
@_with_scope
@click.option("--reason", required=True, help="Why; each occurrence that is skipped shows it.")
@click.option("--until", help="When it ends by itself, such as 2026-12-01T06:00:00Z [when it is resumed].")
@click.option(
    "--at-resume",
    type=click.Choice(("skip", "latest", "all")),
    default="skip",
    show_default=True,
    help="What becomes of the occurrences of jobs that are due meanwhile. Timers wait.",
)
@click.option("--wait", is_flag=True, help="Until nothing of it runs any more.")
@with_api_options
def pause_command(
    *,
    team: str | None,
    pool: str | None,
    group: str | None,
    cell: str | None,
    by: str | None,
    reason: str,
    until: str | None,
    at_resume: str,
    wait: bool,
    api: str | None,
    as_json: bool,
) -> None:
    """Start nothing of a team, a group, a pool or the cell from now on. What was started goes on, with its retries."""
    body = _body(team=team, pool=pool, group=group, cell=cell, by=by) | {"reason": reason, "at_resume": at_resume}
    client = ApiClient(api)
    found = client.post("/pauses", body | ({"until": until} if until else {}))
    if wait:
        _wait_until_drained(client, _body(team=team, pool=pool, group=group, cell=cell))
    if as_json:
        show_json(found)
        return
    say(f"the {found['kind']} {found['name']} is paused until {found['until'] or 'it is resumed'}: {found['reason']}")
    say("nothing of it runs any more" if wait else "it holds for all starts within five seconds", err=True)


def _in_flight(client: ApiClient, scope: dict[str, Any]) -> Iterator[str]:
    """One pass, page by page."""
    cursor: str | None = None
    while True:
        page = client.get("/pauses/in-flight", cursor=cursor, **scope)
        yield from (one["occurrence"] for one in page["runs"])
        cursor = page["cursor"]
        if cursor is None:
            return


def _wait_until_drained(client: ApiClient, scope: dict[str, Any]) -> None:
    """Passes over what is in flight, until one finds nothing. The first begins when no start can come any more."""
    told = None
    while True:
        time.sleep(HOLDS_AFTER_S)
        running = list(_in_flight(client, scope))
        if not running:
            return
        if running != told:
            say(f"{len(running)} still run, such as {running[0]}", err=True)
            told = running


def _drop_waiting(client: ApiClient, team: str, *, pool: str | None, group: str | None) -> int:
    """Cancel the timers that have come due under a pause, pass by pass until one finds none: what comes due behind the
    last look runs. While the pause holds none of them starts. How many."""
    kind, name = ("pool", pool) if pool else ("group", group) if group else ("team", team)
    paused = client.get("/pauses", team=team)["pauses"]
    found = [one for one in paused if (one["kind"], one["owner"], one["name"]) == (kind, team, name)]
    dropped = 0
    while found:
        waiting = [timer for timer in _waiting(client, team, found[0]["from"]) if _lies_in(timer, pool, group)]
        if not waiting:
            break
        for begin in range(0, len(waiting), _AT_ONCE):
            ids = [timer["timer_id"] for timer in waiting[begin : begin + _AT_ONCE]]
            told = client.post("/timers:cancel", {"timer_ids": ids})["timers"]
            dropped += sum(one["cancelled"] for one in told)
    return dropped


def _waiting(client: ApiClient, team: str, since: str) -> Iterator[dict[str, Any]]:
    """The team's timers that are due and have not started."""
    now = iso(time.time_ns() // 1_000_000)
    for timer in client.get_all("/timers", "timers", team=team, since=since, until=now):
        if timer["status"] in _UNSTARTED and not timer["attempt"]:
            yield timer


def _lies_in(timer: dict[str, Any], pool: str | None, group: str | None) -> bool:
    return pool in (None, timer["target"].get("pool")) and group in (None, timer.get("group"))


@click.command("resume")
@_with_scope
@click.option("--dry-run", is_flag=True, help="Only say what that would start.")
@click.option("--drop-timers", is_flag=True, help="Cancel the timers that wait before, instead of having them run.")
@with_api_options
def resume_command(
    *,
    team: str | None,
    pool: str | None,
    group: str | None,
    cell: str | None,
    by: str | None,
    dry_run: bool,
    drop_timers: bool,
    api: str | None,
    as_json: bool,
) -> None:
    """Let a team, a group, a pool or the cell start again, and say what that starts. Again is a no-op."""
    body = _body(team=team, pool=pool, group=group, cell=cell, by=by) | ({"dry_run": True} if dry_run else {})
    if drop_timers:
        if not team or cell or dry_run:
            raise click.UsageError("--drop-timers goes with --team, and not with --cell or --dry-run")
        dropped = _drop_waiting(ApiClient(api), team, pool=pool, group=group)
        say(f"{dropped} timers that waited are cancelled", err=True)
    found = ApiClient(api).post("/pauses:resume", body)
    if as_json:
        show_json(found)
        return
    what, starts = f"the {found['kind']} {found['name']}", found["starts"]
    if not found["changed"] and not dry_run:
        who = f": {found['resumed']['by']} resumed it at {found['resumed']['at']}" if found["resumed"] else ""
        say(f"{what} was not paused{who}", err=True)
        return
    show_table(
        starts["first"],
        {"STARTS": lambda one: one["occurrence"], "DUE": lambda one: one["scheduled_at"]},
        "nothing of what was paused starts",
    )
    more = "at least " if starts["at_least"] else ""
    done = "would start" if dry_run else "start now"
    say(f"{what}: {more}{starts['count']} {done}", err=True)


@click.command("pauses")
@click.option("--team", help="Those of a team, of its pools, and of the platform [the caller's own].")
@with_api_options
def pauses_command(team: str | None, api: str | None, as_json: bool) -> None:
    """What is paused now, beyond single jobs."""
    found = ApiClient(api).get("/pauses", **({"team": team} if team else {}))["pauses"]
    if as_json:
        show_json(found)
        return
    columns = {
        "WHAT": lambda one: f"{one['kind']} {one['name']}",
        "SINCE": lambda one: one["from"],
        "UNTIL": lambda one: one["until"],
        "AT RESUME": lambda one: one["at_resume"],
        "BY": lambda one: one["by"],
        "REASON": lambda one: one["reason"],
    }
    show_table(found, columns, "nothing is paused, but perhaps single jobs: tickwork jobs list")
