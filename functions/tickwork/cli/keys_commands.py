"""`tickwork keys`: create, list, rotate, revoke."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of

ROLES = ("viewer", "worker", "operator", "owner", "platform")
days_option = click.option("--expires", "days", type=int, metavar="DAYS", help="Days until it expires [365].")


@click.group("keys")
def keys_group() -> None:
    """API keys of a team."""


@keys_group.command("create")
@click.option("--team", required=True, help="Whose; `platform` reaches every team.")
@click.option("--role", type=click.Choice(ROLES), required=True)
@click.option("--pools", help="Of a worker's key: the pools it may lease from, with commas between.")
@click.option("--name", default="", help="What it is for.")
@days_option
@with_api_options
def create(
    team: str, role: str, pools: str | None, name: str, days: int | None, api: str | None, as_json: bool
) -> None:
    """Make a key, and print it: it cannot be shown again."""
    body: dict[str, Any] = {"team": team, "role": role, "name": name} | _days(days)
    if pools:
        body["pools"] = [pool.strip() for pool in pools.split(",")]
    # Sent once: a repetition would make a second key, of which nobody knew.
    _show_new(ApiClient(api).post("/keys", body, repeat=False), as_json=as_json)


@keys_group.command("rotate")
@click.argument("key_id")
@days_option
@with_api_options
def rotate(key_id: str, days: int | None, api: str | None, as_json: bool) -> None:
    """Make a key like KEY_ID. Both are valid: put the new one in place, then revoke the old one."""
    answer = ApiClient(api).post(path_of("keys", key_id, "rotate"), _days(days), repeat=False)
    _show_new(answer, as_json=as_json)
    if not as_json:
        say(f"{key_id} stays valid until you revoke it: tickwork keys revoke {key_id}", err=True)


@keys_group.command("revoke")
@click.argument("key_id")
@with_api_options
def revoke(key_id: str, api: str | None, as_json: bool) -> None:
    """Revoke a key: within a minute it opens nothing any more. Again is a no-op."""
    answer = ApiClient(api).delete(path_of("keys", key_id))
    if as_json:
        show_json(answer)
    else:
        say(f"{key_id} is revoked" if answer["changed"] else f"{key_id} was revoked at {answer['revoked_at']}")


@keys_group.command("list")
@click.option("--team", required=True)
@with_api_options
def list_(team: str, api: str | None, as_json: bool) -> None:
    """A team's keys, with their last use and their end."""
    found = ApiClient(api).get("/keys", team=team)["keys"]
    if as_json:
        show_json(found)
        return
    columns = {
        "KEY": lambda one: one["key_id"],
        "ROLE": lambda one: one["role"],
        "STATUS": lambda one: one["status"],
        "EXPIRES": lambda one: one["expires_at"][:10],
        "LAST USED": lambda one: one["last_used_at"],
        "FOR": lambda one: one["name"] or None,
    }
    show_table(found, columns, f"team {team} has no keys")
    for one in found:
        if one["warning"]:
            say(f"warning: {one['key_id']}: {one['warning']}", err=True)


def _days(days: int | None) -> dict[str, int]:
    return {} if days is None else {"expires_in_days": days}


def _show_new(answer: Any, *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
        return
    say(answer["key"])
    say(
        f"{answer['key_id']}: {answer['role']} of {answer['team']}, until {answer['expires_at'][:10]}. "
        "It is not shown again: keep it where secrets are kept, and set TICKWORK_API_KEY to it",
        err=True,
    )
