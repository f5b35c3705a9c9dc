"""`tickwork audit`: who changed what."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Any

import click

from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.cli.paging import collect, time_limit_option
from tickwork.client import ApiClient

WORDS_MAX = 100


@click.group("audit", invoke_without_command=True)
@click.option("--job", "job_id", metavar="TEAM:NAME", help="Only what was done to this job.")
@click.option("--object", "thing", metavar="KIND:NAME", help="Only to this, as calendar:holidays; with --team.")
@click.option("--team", help="Whose audit. Left out: the job's team.")
@click.option("--actor", help="Only what this one did.")
@click.option("--since", metavar="INSTANT", help="From then on.")
@click.option("--until", metavar="INSTANT", help="Before then.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@time_limit_option
@with_api_options
@click.pass_context
def audit_group(ctx: click.Context, /, **options: Any) -> None:
    """Who changed what, when, from where and how, newest first."""
    if ctx.invoked_subcommand is None:
        _list(**options)


def _list(
    job_id: str | None,
    thing: str | None,
    team: str | None,
    actor: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    time_limit_s: float,
    api: str | None,
    as_json: bool,
) -> None:
    if job_id is not None:
        owner, _, name = job_id.partition(":")
        if thing is not None or not name or team not in (None, owner):
            raise click.UsageError("--job is TEAM:NAME, of that team, and goes without --object")
        team, thing = owner, f"job:{name}"
    if team is None:
        raise click.UsageError("say whose audit: --team TEAM, or --job TEAM:NAME")
    query = {"team": team, "object": thing, "actor": actor, "since": since, "until": until}
    found = collect(ApiClient(api), "/audit", "entries", limit=limit, time_limit_s=time_limit_s, query=query)
    if as_json:
        show_json(found)
        return
    columns = {
        "AT": lambda one: one["at"],
        "WHO": lambda one: one["actor"],
        "WHAT": lambda one: one["action"],
        "OBJECT": lambda one: one["object"] if not one["object"].startswith("call:") else None,
        "VERSION": lambda one: one.get("version"),
        "HOW": _how,
    }
    show_table(found, columns, f"nothing is known of team {team} here: no entry, or none that is kept any more")
    if any("result" in one and one["result"] is None for one in found):
        say("'end unknown': the call died, or is not over yet; all or a part of it may be done", err=True)


@audit_group.command("verify")
@click.option("--team", required=True, help="Whose audit.")
@with_api_options
def verify(team: str, api: str | None, as_json: bool) -> None:
    """Look for entries that were edited or removed, and for changes that left none. Exit code 1 when the audit is
    broken."""
    client, found, checked, page = ApiClient(api), [], Counter[str](), None
    while page is None or page["cursor"] is not None:
        page = client.get("/audit:verify", team=team, cursor=page["cursor"] if page else None)
        found += page["findings"]
        checked.update(page["checked"])
    broken = sum(one["is_broken"] for one in found)
    if as_json:
        show_json({**page, "findings": found, "checked": checked, "cursor": None})
    else:
        _show_findings(found)
        say(", ".join(f"{count} {what}" for what, count in checked.items()) + " looked at", err=True)
        say(f"sealed through {page['sealed_through'] or 'nothing yet'}; last seal {page['seal'] or '-'}", err=True)
        say(f"{broken} findings of an audit that is broken" if broken else "nothing is edited, and nothing is missing")
    if broken:
        raise SystemExit(1)


def _show_findings(found: list[dict[str, Any]]) -> None:
    columns = {name.upper(): itemgetter(name) for name in ("kind", "object", "detail", "entry")}
    if found:
        show_table(found, columns, "")


def _how(entry: dict[str, Any]) -> str:
    """What changed, in a table's cell; --json has it all."""
    words = [f"{one['field']}: {_short(one['before'])} -> {_short(one['after'])}" for one in entry["changes"]]
    words += [f"{name}={_short(value)}" for name, value in (entry.get("facts") or {}).items()]
    if "result" in entry:
        result = entry["result"]
        words.append("end unknown" if result is None else " ".join(f"{name}={n}" for name, n in result.items()))
    text = "; ".join(words)
    return text if len(text) <= WORDS_MAX else f"{text[: WORDS_MAX - 3]}..."


def _short(value: object) -> str:
    return "-" if value is None else str(value)
