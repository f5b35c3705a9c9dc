"""`tickwork dead-letters`: what died, why, and running it again."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.names import RUN_HELP, as_named
from tickwork.cli.output import Row, say, show_json, show_table, with_api_options
from tickwork.cli.paging import collect, time_limit_option
from tickwork.client import ApiClient

PAGE = 100
PAGES_MAX = 1_000
"""Bounds one command to 100,000 dead letters; the next one goes on."""


@click.group("dead-letters")
def dead_letters_group() -> None:
    """Runs that ended without success: list them, replay them."""


def _with_filter(command: Any) -> Any:
    options = (
        click.option("--job", "job_id", metavar="TEAM:NAME", help="Of one job."),
        click.option("--error-class", help="Whose last attempt ended with this class of error."),
        click.option("--reason", "reason_contains", help="Whose reason contains this."),
        click.option("--error", "error_contains", help="Whose last error contains this."),
        click.option("--since", help="Died at this instant or later."),
        click.option("--until", help="Died before this instant."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@dead_letters_group.command("list")
@click.option("--team", required=True)
@_with_filter
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True)
@time_limit_option
@with_api_options
def list_(team: str, limit: int, time_limit_s: float, api: str | None, as_json: bool, **wanted: str | None) -> None:
    """Dead runs of a team, newest first, with the cause."""
    query = {"team": team, **wanted}
    runs = collect(ApiClient(api), "/dead-letters", "runs", limit=limit, time_limit_s=time_limit_s, query=query)
    if as_json:
        show_json(runs)
    else:
        show_table(runs, COLUMNS, "no dead letters")


@dead_letters_group.command("replay", epilog=RUN_HELP)
@click.argument("refs", nargs=-1, metavar="[RUN]...")
@click.option("--team", required=True)
@_with_filter
@click.option("--all", "everything", is_flag=True, help="All of the team's dead letters.")
@click.option("--by", "by", help="A note, behind the caller whom the credential proves.")
@click.option("--why", "reason", required=True, help="Why; both stand in the history of the run.")
@click.option("--per-second", type=click.IntRange(1, 1_000), default=10, show_default=True)
@click.option("--repeat-unsafe", is_flag=True, help="Of the RUNs, also runs of `unsafe` jobs.")
@click.option("--definition", help="`current`, or a version of the job: what they are to do [what they were fired by].")
@click.option("--dry-run", is_flag=True, help="Only count.")
@with_api_options
def replay(
    refs: tuple[str, ...], everything: bool, api: str | None, as_json: bool, dry_run: bool, **options: Any
) -> None:
    """Run dead letters again, with their own run_id: those that are named, or those of a filter.

    Exit code 2 when one could not be replayed.
    """
    fixed = {name: options.pop(name) for name in ("team", "reason", "per_second", "repeat_unsafe")} | {
        "dry_run": dry_run
    }
    if (by := options.pop("by")) is not None:
        fixed["by"] = by
    if (wanted_definition := options.pop("definition")) is not None:
        fixed["definition"] = int(wanted_definition) if wanted_definition.isdecimal() else wanted_definition
    wanted = {name: text for name, text in options.items() if text is not None}
    job_id = wanted.pop("job_id", None) if refs else None  # beside run_ids it says where they are
    if bool(refs) == bool(wanted or everything):
        raise click.UsageError("name the runs, or give a filter, or --all")
    client = ApiClient(api)
    refs = tuple(as_named(client, name, job_id) for name in refs)
    if refs:
        bodies = [fixed | {"runs": list(refs[begin : begin + PAGE])} for begin in range(0, len(refs), PAGE)]
        outcomes = [run for body in bodies for run in client.post("/dead-letters:replay", body)["runs"]]
    else:
        outcomes = _replay_found(client, fixed | {"filter": wanted})
    if as_json:
        show_json(outcomes)
    elif dry_run:
        say(f"{len(outcomes)} would be replayed")
    else:
        show_table(outcomes, OUTCOMES, "no dead letters match")
    if not dry_run and not all(one["replayed"] for one in outcomes):
        raise click.exceptions.Exit(2)


def _replay_found(client: ApiClient, body: dict[str, Any]) -> list[dict[str, Any]]:
    outcomes: list[dict[str, Any]] = []
    cursor = None
    for _ in range(PAGES_MAX):
        page = client.post(
            "/dead-letters:replay", body | {"replayed_before": len(outcomes)} | ({"cursor": cursor} if cursor else {})
        )
        outcomes += page["runs"]
        cursor = page["cursor"]
        if cursor is None:
            return outcomes
    say(f"warning: stopped after {PAGES_MAX} pages; repeat the command to go on", err=True)
    return outcomes


def _cause(run: Row) -> str:
    cause = run["cause"]
    return f"{cause['reason']}: {cause['error']}" if cause["error"] else str(cause["reason"])


COLUMNS = {
    "RUN": lambda run: run["occurrence"],
    "DUE": lambda run: run["fire_at"],
    "DIED": lambda run: run["died_at"],
    "ATTEMPTS": lambda run: run["attempt"],
    "CAUSE": _cause,
    "RUN ID": lambda run: run["run_id"],
}
OUTCOMES = {
    "RUN": lambda one: one["occurrence"],
    "REPLAYED": lambda one: "yes" if one["replayed"] else "no",
    "DUE": lambda one: one.get("due_at"),
    "WHY NOT": lambda one: f"held by {one['held_by']}" if one.get("held_by") else one.get("reason"),
    "RUN ID": lambda one: one["run_id"],
}
