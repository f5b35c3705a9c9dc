"""`tickwork defaults`: show, publish, plan, roll-out, back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import click

from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.client import ApiClient

PLAN_CALLS_MAX = 1_000
"""A million jobs: each call looks at a thousand."""
SHOWN_MAX = 50
"""Jobs that a plan lists to a person; --json has them all."""
_RETRY = ("max_attempts", "base_s", "cap_s", "jitter_percent")


@click.group("defaults")
def defaults_group() -> None:
    """The platform's defaults: what jobs do of which their teams say nothing, by version."""


@defaults_group.command("show")
@with_api_options
def show(api: str | None, as_json: bool) -> None:
    """All versions, and for whom each is in force."""
    _show(ApiClient(api).get("/defaults"), as_json)


@defaults_group.command("publish")
@click.option("--reason", required=True, help="Why; it stands beside the version, and in the audit.")
@click.option("--max-attempts", type=int, help="Attempts before a run is dead-lettered.")
@click.option("--retry-base", "base_s", type=int, help="Seconds to wait after the first failure.")
@click.option("--retry-cap", "cap_s", type=int, help="Seconds to wait at most.")
@click.option("--retry-jitter", "jitter_percent", type=int)
@click.option("--tolerance", "tolerance_s", type=int, help="Seconds over which starts are spread, at most.")
@click.option("--overlap", type=click.Choice(("skip", "allow")), help="While another run has not ended.")
@click.option("--catch-up", "policy", type=click.Choice(("latest", "all", "last", "none")), help="After an outage.")
@click.option("--catch-up-last", "last", type=int, metavar="N", help="With --catch-up last: how many.")
@click.option("--max-lateness", "max_lateness_s", type=int, help="Seconds after which one is missed for good.")
@with_api_options
def publish(reason: str, api: str | None, as_json: bool, **options: Any) -> None:
    """Make a new version: the newest, with what is given. No job goes by it yet."""
    client = ApiClient(api)
    standing = client.get("/defaults")
    given = {name: value for name, value in options.items() if value is not None}
    newest = standing["versions"][-1]
    body: dict[str, Any] = {name: given[name] for name in ("tolerance_s", "overlap") if name in given}
    if retry := {name: given[name] for name in _RETRY if name in given}:
        body["retry_policy"] = newest["retry_policy"] | retry
    if catch_up := {name: given[name] for name in ("policy", "last", "max_lateness_s") if name in given}:
        body["catch_up"] = newest["catch_up"] | catch_up
    answer = client.post("/defaults", body | {"edition": standing["edition"], "reason": reason})
    _show(answer, as_json)
    say(
        f"version {answer['versions'][-1]['version']} is published; nobody goes by it: tickwork defaults plan", err=True
    )


def _with_coverage[F: Callable[..., Any]](command: F) -> F:
    version = click.option("--version", "number", type=int, required=True, help="Which version.")
    percent = click.option("--percent", type=click.IntRange(0, 100), default=0, show_default=True, help="Of all jobs.")
    teams = click.option("--team", "teams", multiple=True, metavar="TEAM", help="All of this team; may be repeated.")
    return version(percent(teams(command)))


@defaults_group.command("plan")
@_with_coverage
@with_api_options
def plan(number: int, percent: int, teams: Sequence[str], api: str | None, as_json: bool) -> None:
    """Who would change with a roll-out, in what, and from when on. Changes nothing."""
    found = _planned(ApiClient(api), number, percent, teams)
    if as_json:
        show_json(found)
        return
    columns = {
        "JOB": lambda one: one["job_id"],
        "FROM": lambda one: one["before"],
        "TO": lambda one: one["after"],
        "CHANGES": lambda one: ", ".join(one["policies"]),
        "AFTER": lambda one: one["from_after"],
    }
    show_table(found["jobs"][:SHOWN_MAX], columns, "no job would change")
    if len(found["jobs"]) > SHOWN_MAX:
        say(f"... and {len(found['jobs']) - SHOWN_MAX} more (--json lists all)")
    say("; ".join(f"{team}: {count}" for team, count in found["by_team"].items()), err=True)
    say(
        f"{len(found['jobs'])} of {found['looked_at']} jobs would change; {found['same']} would go by another version "
        f"and do the same; {found['unreadable']} cannot be read" + ("" if found["is_all"] else "; there are more jobs"),
        err=True,
    )


def _planned(client: ApiClient, number: int, percent: int, teams: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"jobs": [], "looked_at": 0, "same": 0, "unreadable": 0, "is_all": False}
    by_team, cursor = Counter[str](), None
    for _ in range(PLAN_CALLS_MAX):
        body = {"version": number, "percent": percent, "teams": list(teams), "cursor": cursor}
        page = client.post("/defaults:plan", body)
        found["jobs"] += page["jobs"]
        by_team.update(page["by_team"])
        for name in ("looked_at", "same", "unreadable"):
            found[name] += page[name]
        cursor = page["cursor"]
        if cursor is None:
            found["is_all"] = True
            break
    return found | {"by_team": dict(sorted(by_team.items()))}


@defaults_group.command("roll-out")
@_with_coverage
@click.option("--reason", required=True, help="Why; it stands in the audit.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_api_options
def roll_out(
    number: int, percent: int, teams: Sequence[str], reason: str, yes: bool, api: str | None, as_json: bool
) -> None:
    """Have a version be in force for these, and for nobody else. It counts from the occurrence on that each job plans
    next. Says first who would change, and asks."""
    client = ApiClient(api)
    edition = client.get("/defaults")["edition"]
    if not yes:
        found = _planned(client, number, percent, teams)
        click.confirm(f"{len(found['jobs'])} of {found['looked_at']} jobs would change. Go on?", abort=True, err=True)
    _roll_out(client, edition, number, percent, teams, reason, as_json)


@defaults_group.command("back")
@click.option("--version", "number", type=int, required=True, help="The version to take back.")
@click.option("--reason", required=True, help="Why; it stands in the audit.")
@with_api_options
def back(number: int, reason: str, api: str | None, as_json: bool) -> None:
    """Take a version back: whoever went by it goes by the one before it, from the occurrence on that he plans next. To
    go back to fewer, roll it out for fewer."""
    client = ApiClient(api)
    _roll_out(client, client.get("/defaults")["edition"], number, 0, (), reason, as_json)


def _roll_out(
    client: ApiClient, edition: int, number: int, percent: int, teams: Sequence[str], reason: str, as_json: bool
) -> None:
    body = {"edition": edition, "version": number, "percent": percent, "teams": list(teams), "reason": reason}
    _show(client.post("/defaults:roll-out", body), as_json)


def _show(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(answer)
        return
    columns = {
        "VERSION": lambda one: one["version"],
        "FOR": _covered,
        "RETRIES": lambda one: "{max_attempts} x {base_s}..{cap_s} s".format(**one["retry_policy"]),
        "TOLERANCE": lambda one: f"{one['tolerance_s']} s",
        "OVERLAP": lambda one: one["overlap"],
        "CATCH-UP": lambda one: " ".join(str(value) for value in one["catch_up"].values()),
        "WHY": lambda one: f"{one['reason']} ({one['by']})" if one["reason"] else None,
    }
    show_table(answer["versions"], columns, "")


def _covered(version: dict[str, Any]) -> str:
    parts = [f"{version['percent']}%"] if version["percent"] else []
    parts += version["teams"]
    by_birth = {0: "registered before", 1: "registered since"}
    return ", ".join([*parts, *([by_birth[version["version"]]] if version["version"] in by_birth else [])]) or "nobody"
