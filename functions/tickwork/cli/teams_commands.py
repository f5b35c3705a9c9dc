"""`tickwork teams`: create, set, show, list, delete, adopt."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from tickwork.cli.output import say, show_facts, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of

QUOTAS = ("creates_per_s", "pending_timers", "jobs", "payload_bytes", "keys")
DEFAULTS = ("dead_man_switch", "max_silence_s", "min_duration_s", "repeat_s", "second_route_after_s", "tags")
LOOKS_MAX, LOOK_EVERY_S = 20, 1.0
"""For a webhook's test: it is pushed within seconds."""
CALLS_MAX = 100
"""Of adopting: each registers a thousand."""
_KINDS = ("webhook", "topic", "email")


@click.group("teams")
def teams_group() -> None:
    """Teams: who answers for them, where they are paged, what they may use."""


def _with_content[F: Callable[..., Any]](command: F) -> F:
    """The options that say what a team is."""
    for option in reversed(
        (
            click.option("--contact", help="Who answers for it."),
            click.option("--runbook", help="Where it is written what to do when its jobs fail."),
            click.option(
                "--route",
                "routes",
                multiple=True,
                metavar="KIND=ADDRESS",
                help="Where it is paged: webhook=URL, topic=ARN or email=ADDRESS; may be given several times.",
            ),
            click.option(
                "--default",
                "defaults",
                multiple=True,
                metavar="FIELD=VALUE",
                help=f"What its jobs need not say: {', '.join(DEFAULTS)}; may be repeated.",
            ),
            click.option("--weight", type=int, help="Its part of what all teams want at once [1]."),
            click.option(
                "--viewers-see-payloads/--viewers-see-no-payloads",
                default=None,
                help="Whether those who may only look see what is in payloads [no].",
            ),
            click.option(
                "--quota", "quotas", multiple=True, metavar="NAME=NUMBER", help=f"A bound: {', '.join(QUOTAS)}."
            ),
        )
    ):
        command = option(command)
    return command


@teams_group.command("create")
@click.argument("team")
@click.option("--pool", "pools", multiple=True, metavar="NAME", help="With a pool of its own; may be given again.")
@_with_content
@with_api_options
def create(team: str, pools: Sequence[str], api: str | None, as_json: bool, **content: Any) -> None:
    """Register TEAM. Again with the same content is a no-op."""
    body, client = _content(**content), ApiClient(api)
    if "contact" not in body:
        raise click.UsageError("say who answers for it: --contact")
    answer = client.call("PUT", path_of("teams", team), body)
    made = [client.call("PUT", path_of("teams", team, "pools", pool), {})["pool"] for pool in pools]
    _show_put(answer, as_json=as_json)
    for pool in made:
        say(f"its pool {pool} is there: tickwork worker MODULE:APP --pool {pool}", err=True)


@teams_group.command("set")
@click.argument("team")
@_with_content
@with_api_options
def set_(team: str, api: str | None, as_json: bool, **content: Any) -> None:
    """Change what is given of TEAM, and nothing else. Routes that are given replace those there are."""
    client, given = ApiClient(api), _content(**content)
    standing = client.get(path_of("teams", team))
    kept = {name: standing[name] for name in ("version", "contact", "runbook", "defaults", "weight", "shared")}
    kept["routes"] = [{"kind": one["kind"], "address": one["address"]} for one in standing["routes"]]
    kept["quotas"] = {name: value for name, value in standing["quotas"].items() if value is not None}
    given["quotas"] = kept["quotas"] | given.get("quotas", {})
    given["defaults"] = kept["defaults"] | given.get("defaults", {})
    _show_put(client.call("PUT", path_of("teams", team), kept | given), as_json=as_json)


@teams_group.command("show")
@click.argument("team")
@with_api_options
def show(team: str, api: str | None, as_json: bool) -> None:
    """A team, whole."""
    found = ApiClient(api).get(path_of("teams", team))
    if as_json:
        show_json(found)
        return
    facts: dict[str, object] = {name: found[name] or None for name in ("team", "version", "contact", "runbook")}
    paged: dict[str, object] = {f"paged by {one['kind']}": _standing(one) for one in found["routes"]}
    facts |= paged or {"paged by": None}
    facts |= {"weight": found["weight"], "defaults": found["defaults"] or None}
    used = found.get("used") or {}
    facts |= {f"quota {name}": _use(used.get(name), value) for name, value in found["quotas"].items() if value}
    facts |= {f"shares {one['resource']}": ", ".join(one["teams"]) for one in found["shared"]}
    # A server of before has no such answer, and shows them.
    facts |= {"viewers see payloads": "yes" if found.get("viewers_see_payloads", True) else "no"}
    facts |= {"registered": f"{found['created_at']} by {found['created_by']}"}
    facts |= {"changed": f"{found['changed_at']} by {found['changed_by']}"}
    show_facts(facts)


def _use(used: int | None, value: int) -> str:
    """What is used of a quota. Of an API that does not say it, the quota."""
    return str(value) if used is None else f"{used} of {value} used ({used * 100 // value}%)"


def _standing(route: Any) -> str:
    said = f"{route['address']}: {route['state']}"
    return f"{said} ({route['detail']})" if route["detail"] else said


@teams_group.command("test")
@click.argument("team")
@with_api_options
def test(team: str, api: str | None, as_json: bool) -> None:
    """Send a test message by each pager route of TEAM: only one that gets through counts."""
    client, path = ApiClient(api), path_of("teams", team)
    # Sent once: a repetition would send second messages.
    found = client.post(f"{path}/routes:test", {}, repeat=False)
    for _ in range(LOOKS_MAX):
        if not any(one["state"] == "waiting" for one in found["routes"]):
            break
        time.sleep(LOOK_EVERY_S)
        found = client.get(path)
    if as_json:
        show_json(found["routes"])
        return
    columns = {
        "ROUTE": lambda one: one["kind"],
        "ADDRESS": lambda one: one["address"],
        "STATE": lambda one: one["state"],
        "WHY": lambda one: one["detail"],
    }
    show_table(found["routes"], columns, f"team {team} has no pager routes: tickwork teams set {team} --route ...")


@teams_group.command("list")
@with_api_options
def list_(api: str | None, as_json: bool) -> None:
    """The registered teams: with a team's own credential that one alone."""
    found = ApiClient(api).get_all("/teams", "teams")
    if as_json:
        show_json(found)
        return
    columns = {
        "TEAM": lambda one: one["team"],
        "CONTACT": lambda one: one["contact"],
        "PAGED BY": lambda one: ", ".join(route["kind"] for route in one["routes"]) or None,
        "WEIGHT": lambda one: one["weight"],
        "CHANGED": lambda one: one["changed_at"],
    }
    show_table(found, columns, "no team is registered")


@teams_group.command("delete")
@click.argument("team")
@with_api_options
def delete(team: str, api: str | None, as_json: bool) -> None:
    """Delete a team of which nothing lives: no job, calendar, valid key or pending timer."""
    answer = ApiClient(api).delete(path_of("teams", team))
    if as_json:
        show_json(answer)
    else:
        say(f"team {team} is deleted")


@teams_group.command("adopt")
@click.option("--contact", default="not said yet", show_default=True, help="Who answers for them until they say so.")
@click.option("--dry-run", is_flag=True, help="Only say which teams would be registered.")
@click.option("--keep-open", is_flag=True, help="Register them, and go on accepting what unknown teams create.")
@click.option("--reopen", is_flag=True, help="Accept again what unknown teams create.")
@with_api_options
def adopt(*, contact: str, dry_run: bool, keep_open: bool, reopen: bool, api: str | None, as_json: bool) -> None:
    """Register every team that has been seen creating something, and refuse unknown ones from then on."""
    refusing = False if reopen else None if keep_open else True
    body: dict[str, Any] = {"contact": contact, "dry_run": dry_run}
    if refusing is not None:
        body["refuse_unknown"] = refusing
    client, teams, answer = ApiClient(api), [], {}
    for _ in range(CALLS_MAX):
        answer = client.post("/teams:adopt", body)
        teams += answer["teams"]
        if dry_run or not answer["more"]:
            break
    if as_json:
        show_json({**answer, "teams": teams})
        return
    _show_adopted(teams, answer, refusing=refusing)


def _show_adopted(teams: Sequence[str], answer: Any, *, refusing: bool | None) -> None:
    for team in teams:
        say(team)
    done = "would be registered" if answer["dry_run"] else "are registered now"
    say(f"{len(teams)} {done}{', and there are more' if answer['more'] else ''}", err=True)
    if answer["dry_run"] and refusing is not None and refusing != answer["unknown_refused"]:
        say(f"unknown teams would be {'refused' if refusing else 'accepted'} from then on", err=True)
    else:
        say(f"unknown teams are {'refused' if answer['unknown_refused'] else 'accepted'}", err=True)


def _content(routes: Sequence[str], quotas: Sequence[str], defaults: Sequence[str], **plain: object) -> dict[str, Any]:
    """The fields of a team that were given."""
    body: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
    if routes:
        body["routes"] = [_route(text) for text in routes]
    if quotas:
        body["quotas"] = dict(_quota(text) for text in quotas)
    if defaults:
        body["defaults"] = dict(_default(text) for text in defaults)
    return body


def _route(text: str) -> dict[str, str]:
    kind, equals, address = text.partition("=")
    if kind not in _KINDS or not equals:
        raise click.UsageError(f"--route {text!r}: write {'=..., '.join(_KINDS)}=...")
    return {"kind": kind, "address": address}


def _default(text: str) -> tuple[str, Any]:
    """`none` takes one away; tags are given with commas."""
    name, equals, value = text.partition("=")
    if name not in DEFAULTS or not equals:
        raise click.UsageError(f"--default {text!r}: write {DEFAULTS[0]}=on ({', '.join(DEFAULTS)}), or =none")
    if value == "none":
        return name, None
    if name == "tags":
        return name, value.split(",")
    return name, int(value) if value.isascii() and value.isdigit() else value


def _quota(text: str) -> tuple[str, int | None]:
    """`none` takes a bound away."""
    name, _, number = text.partition("=")
    if name not in QUOTAS or not (number == "none" or (number.isascii() and number.isdigit())):
        raise click.UsageError(f"--quota {text!r}: write {QUOTAS[0]}=100 ({', '.join(QUOTAS)}), or =none")
    return name, None if number == "none" else int(number)


def _show_put(answer: Any, *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        say(f"team {answer['team']} is at version {answer['version']}")
