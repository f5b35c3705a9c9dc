"""`tickwork runs`: did it run?"""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.output import Row, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of

PAGE = 200
PAGES_MAX = 500
"""A page may be empty and still have a cursor (it stands for minutes of the ledger): this bounds a long quiet past."""


@click.group("runs")
def runs_group() -> None:
    """Run history."""


@runs_group.command("list")
@click.option("--job", "job_id", metavar="TEAM:NAME", help="Runs of one job, the newest nominal time first.")
@click.option("--team", help="Runs of one team.")
@click.option("--status", help="pending, queued, running, waiting, succeeded, dead, skipped or cancelled.")
@click.option("--since", help="Look back to this instant [24 hours ago].")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True)
@with_api_options
def list_(job_id: str | None, limit: int, api: str | None, as_json: bool, **filters: str | None) -> None:
    """Runs, newest first."""
    if job_id and any(filters.values()):
        raise click.UsageError("--job goes with --limit only")
    path = path_of("jobs", job_id, "runs") if job_id else "/runs"
    runs = _collect(ApiClient(api), path, limit, filters)
    if as_json:
        show_json(runs)
    else:
        show_table(runs, RUN_COLUMNS, "no runs")


def _collect(client: ApiClient, path: str, limit: int, filters: dict[str, str | None]) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = []
    cursor = None
    for _ in range(PAGES_MAX):
        page = client.get(path, limit=min(PAGE, limit - len(runs)), cursor=cursor, **filters)
        runs += page["runs"]
        cursor = page["cursor"]
        if cursor is None or len(runs) >= limit:
            return runs
    click.echo(f"warning: stopped after {PAGES_MAX} pages; narrow it with --since", err=True)
    return runs


def _outcome(run: Row) -> str:
    failed = next((a["error"] for a in reversed(run["attempts"]) if a["error"]), None)
    why = run["reason"] or (failed if run["status"] in ("waiting", "dead") else None)
    return f"{run['status']} ({why})" if why else str(run["status"])


RUN_COLUMNS = {
    "JOB": lambda run: short_id(run["job_id"]),
    "DUE": lambda run: run["fire_at"],
    "LAG S": lambda run: run["start_lag_s"] if run["started_at"] else None,
    "ATTEMPT": lambda run: run["attempt"] or None,
    "OUTCOME": _outcome,
    "RUN": lambda run: run["run_id"],
}


def short_id(job_id: str) -> str:
    """A one-shot's id without the part that says where it is."""
    team, _, name = job_id.partition(":")
    return f"{team}:timer~{name.rsplit('~', 1)[-1][:8]}" if "~" in name else job_id
