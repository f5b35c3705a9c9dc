"""`tickwork runs`: did it run?"""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.output import Row, say, show_json, show_table, with_api_options
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


@runs_group.command("cancel")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--reason", required=True, help="Why; it stands in the run's history.")
@with_api_options
def cancel(runs: tuple[str, ...], reason: str, api: str | None, as_json: bool) -> None:
    """Cancel runs, also ones in flight. Exit code 2 when one could not be cancelled.

    \b
    A RUN is a timer's id, a run's ref, or TEAM:NAME@TIME with the nominal time:
    tickwork runs cancel shop:nightly@2026-12-01T02:00:00Z --reason "wrong price list"
    """
    client, answers = ApiClient(api), []
    for begin in range(0, len(runs), CANCEL_BATCH):
        named = [_named(run) for run in runs[begin : begin + CANCEL_BATCH]]
        answers += client.post("/runs:cancel", {"runs": named, "reason": reason})["runs"]
    if as_json:
        show_json(answers)
    else:
        show_table(answers, CANCEL_COLUMNS, "nothing to cancel")
    if not all(answer["accepted"] for answer in answers):
        raise click.exceptions.Exit(2)


def _named(run: str) -> dict[str, str]:
    if "|" in run:
        return {"ref": run}
    job_id, at, scheduled_at = run.partition("@")
    return {"job_id": job_id} | ({"scheduled_at": scheduled_at} if at else {})


def _cancel_outcome(answer: Row) -> object:
    if not answer["accepted"]:
        return answer["detail"]
    return "its worker is asked to stop" if answer["cancel_requested"] else answer["status"]


CANCEL_BATCH = 25
CANCEL_COLUMNS = {
    "RUN": lambda one: one.get("run_id") or one.get("job_id") or one.get("ref"),
    "CANCELLED": lambda one: "yes" if one["accepted"] else "no",
    "OUTCOME": _cancel_outcome,
}


def _collect(client: ApiClient, path: str, limit: int, filters: dict[str, str | None]) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = []
    cursor = None
    for _ in range(PAGES_MAX):
        page = client.get(path, limit=min(PAGE, limit - len(runs)), cursor=cursor, **filters)
        runs += page["runs"]
        cursor = page["cursor"]
        if cursor is None or len(runs) >= limit:
            return runs
    say(f"warning: stopped after {PAGES_MAX} pages; narrow it with --since", err=True)
    return runs


def _outcome(run: Row) -> str:
    failed = next((a["error"] for a in reversed(run["attempts"]) if a["error"]), None)
    why = run["reason"] or (failed if run["status"] in ("waiting", "dead") else None)
    return f"{run['status']} ({why})" if why and why != run["status"] else str(run["status"])


RUN_COLUMNS = {
    "JOB OR TIMER": lambda run: run["job_id"],
    "DUE": lambda run: run["fire_at"],
    "LAG S": lambda run: run["start_lag_s"] if run["started_at"] else None,
    "ATTEMPT": lambda run: run["attempt"] or None,
    "OUTCOME": _outcome,
    "RUN": lambda run: run["run_id"],
}
