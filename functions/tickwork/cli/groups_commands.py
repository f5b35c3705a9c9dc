"""`tickwork groups`: cancel a group, look at one. Listing and pausing: `--group` of timers, jobs, pause and resume."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.output import say, show_facts, show_json, with_api_options
from tickwork.client import ApiClient


@click.group("groups")
def groups_group() -> None:
    """Groups: labels that jobs and timers of a team bear."""


@groups_group.command("cancel")
@click.argument("group", metavar="GROUP")
@click.option("--team", required=True)
@click.option("--reason", required=True, help="Why; each of what it ends shows it.")
@click.option("--by", help="A note, behind the caller whom the credential proves.")
@with_api_options
def cancel(*, group: str, team: str, reason: str, by: str | None, api: str | None, as_json: bool) -> None:
    """Cancel all timers and jobs of a group that have not started, however many. What runs goes on."""
    body: dict[str, Any] = {"team": team, "group": group, "reason": reason} | ({"by": by} if by else {})
    found = ApiClient(api).post("/groups:cancel", body)
    if as_json:
        show_json(found)
        return
    say(f"the group {group} of {team} is cancelled: nothing of it starts from now on")
    say("what is created or registered from now on is part of it anew", err=True)


@groups_group.command("show")
@click.argument("group", metavar="GROUP")
@click.option("--team", required=True)
@with_api_options
def show(*, group: str, team: str, api: str | None, as_json: bool) -> None:
    """How often a group was cancelled, by whom and why the last time, and whether it is paused."""
    found = ApiClient(api).get("/groups", team=team, group=group)
    if as_json:
        show_json(found)
        return
    gone, paused = found["cancelled"] or {}, found["paused"] or {}
    show_facts(
        {
            "group": f"{team}/{group}",
            "epoch": found["epoch"],
            "cancelled": gone.get("at"),
            "by": gone.get("by"),
            "reason": gone.get("reason"),
            "paused": paused.get("reason"),
        }
    )
