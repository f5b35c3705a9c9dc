"""`tickwork incidents`: which jobs are silent, and saying that one has heard."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of

_KIND = click.option("--kind", type=click.Choice(("silent", "unreadable")), default="silent", show_default=True)


@click.group("incidents")
def incidents_group() -> None:
    """Jobs that are silent for too long."""


@incidents_group.command("list")
@click.option("--team", required=True)
@with_api_options
def list_(team: str, api: str | None, as_json: bool) -> None:
    """The open incidents of a team."""
    found = ApiClient(api).get_all("/incidents", "incidents", team=team)
    if as_json:
        show_json(found)
        return
    columns = {
        "JOB": lambda one: one["job_id"],
        "KIND": lambda one: one["kind"],
        "SINCE": lambda one: one["since"],
        "EXPECTED BY": lambda one: one["expected_by"],
        "TOLD": lambda one: one["tells"],
        "ACKNOWLEDGED": _acknowledged,
        "WHY": lambda one: one["why"],
    }
    show_table(found, columns, f"no job of {team} is silent")


def _acknowledged(one: Any) -> str | None:
    said = one.get("acknowledged")
    if said is None:
        return None
    return f"by {said['by']}: {said['reason']}" + (f" (until {said['until']})" if said["until"] else "")


@incidents_group.command("acknowledge")
@click.argument("job_id", metavar="TEAM:NAME")
@click.option("--reason", required=True, help="What you have heard, or are doing.")
@click.option("--until", help="Snooze it: told again from then on, such as 2026-12-01T06:00:00Z [when it is over].")
@click.option("--by", help="A note, behind the caller whom the credential proves.")
@_KIND
@with_api_options
def acknowledge(job_id: str, api: str | None, as_json: bool, **said: str | None) -> None:
    """Say that you have heard: nobody is told again before it is over, or until --until. Again is a no-op."""
    body = {name: value for name, value in said.items() if value is not None}
    found = ApiClient(api).post(path_of("incidents", job_id, "acknowledge"), body)
    if as_json:
        show_json(found)
    else:
        say(f"{job_id}: acknowledged, until {found['acknowledged']['until'] or 'it succeeds again'}")
