"""`tickwork calendars`: put, show, list."""

from __future__ import annotations

from typing import IO

import click

from tickwork.cli.definition_options import read_json
from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of


@click.group("calendars")
def calendars_group() -> None:
    """Named days and hours on which nothing should start."""


@calendars_group.command("put")
@click.argument("calendar_id", metavar="TEAM:NAME")
@click.argument("content", metavar="FILE", type=click.File(encoding="utf-8"))
@click.option("--version", type=int, help="The version it replaces; leave it out for a new calendar.")
@with_api_options
def put(calendar_id: str, content: IO[str], version: int | None, api: str | None, as_json: bool) -> None:
    """Create a calendar from a JSON file (- for stdin), or replace a version of it.

    FILE may be what `show` printed, or one that `tickwork next --calendars` reads.
    """
    spec = read_json(content.read(), "FILE")
    if not isinstance(spec, dict):
        raise click.UsageError("FILE is no JSON object: see docs/schedules.md")
    for key, here in (("calendar_id", calendar_id), ("name", calendar_id.rpartition(":")[2])):
        if spec.pop(key, here) != here:
            raise click.UsageError(f"FILE has another {key} than {here}")
    spec.pop("changed_at", None)
    body = spec | ({"version": version} if version is not None else {})
    answer = ApiClient(api).call("PUT", path_of("calendars", calendar_id), body)
    if as_json:
        show_json(answer)
    else:
        say(f"{calendar_id} is at version {answer['version']}")


@calendars_group.command("show")
@click.argument("calendar_id", metavar="TEAM:NAME")
@with_api_options
def show(calendar_id: str, api: str | None, as_json: bool) -> None:  # noqa: ARG001 - it is JSON in any case
    """A calendar, as JSON that can be edited and put again."""
    show_json(ApiClient(api).get(path_of("calendars", calendar_id)))


@calendars_group.command("list")
@click.option("--team", required=True)
@with_api_options
def list_(team: str, api: str | None, as_json: bool) -> None:
    """A team's calendars."""
    found = ApiClient(api).get_all("/calendars", "calendars", team=team)
    if as_json:
        show_json(found)
        return
    columns = {
        "CALENDAR": lambda one: one["calendar_id"],
        "VERSION": lambda one: one["version"],
        "ZONE": lambda one: one.get("zone", "UTC"),
        "CHANGED": lambda one: one["changed_at"],
    }
    show_table(found, columns, f"team {team} has no calendars")
