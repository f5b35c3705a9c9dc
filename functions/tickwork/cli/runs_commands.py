"""`tickwork runs`: did it run?"""

from __future__ import annotations

from datetime import timedelta

import click

from tickwork.cli.names import RUN_HELP, as_named, get_run, run_job_option
from tickwork.cli.output import Row, pause_words, show_facts, show_json, show_table, with_api_options
from tickwork.cli.paging import collect, time_limit_option
from tickwork.client import ApiClient, path_of

STATUSES = (
    "pending",
    "queued",
    "buffered",
    "running",
    "waiting",
    "succeeded",
    "dead",
    "expired",
    "skipped",
    "cancelled",
)


@click.group("runs")
def runs_group() -> None:
    """Run history."""


@runs_group.command("list")
@click.option("--job", "job_id", metavar="TEAM:NAME", help="Runs of one job, the newest nominal time first.")
@click.option("--team", help="Runs of one team.")
@click.option("--status", type=click.Choice(STATUSES), help="Of this status only.")
@click.option("--since", help="Look back to this instant [24 hours ago; of one job: to the first].")
@click.option("--until", help="Look back from this instant on [now].")
@click.option(
    "--order", type=click.Choice(("due", "ended")),
    help="By which instant [ended for dead, expired, skipped and cancelled runs; due for all others].",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True)
@time_limit_option
@with_api_options
def list_(
    job_id: str | None, limit: int, time_limit_s: float, api: str | None, as_json: bool, **filters: str | None
) -> None:
    """Runs, newest first.

    What has died, expired, was skipped or cancelled is found at once; all others are read minute by minute, and a long
    look back takes a while.
    """
    if job_id and (wrong := [name for name in ("team", "until", "order") if filters[name]]):
        raise click.UsageError(f"--job goes with --status, --since and --limit, not with --{wrong[0]}")
    path = path_of("jobs", job_id, "runs") if job_id else "/runs"
    runs = collect(ApiClient(api), path, "runs", limit=limit, time_limit_s=time_limit_s, query=filters)
    if as_json:
        show_json(runs)
    else:
        show_table(runs, RUN_COLUMNS, "no runs")


@runs_group.command("show", epilog=RUN_HELP)
@click.argument("run")
@run_job_option
@with_api_options
def show(run: str, job_id: str | None, api: str | None, as_json: bool) -> None:
    """One run: what became of it, attempt by attempt.

    \b
    tickwork runs show shop:nightly@2026-12-01T02:00:00Z
    tickwork runs show 5f0c... --job shop:nightly
    """
    found = get_run(ApiClient(api), run, job_id)
    if as_json:
        show_json(found)
        return
    found["overlong"], found["asked_by"] = _overlong(found), _asked_for(found)
    found["waits_for"] = pause_words(found)
    show_facts({name: found[field] for name, field in FACTS.items() if found.get(field) is not None})
    if found["attempts"]:
        show_table(found["attempts"], ATTEMPT_COLUMNS, "")


@runs_group.command("cancel", epilog=RUN_HELP)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--reason", required=True, help="Why; it stands in the run's history.")
@run_job_option
@with_api_options
def cancel(runs: tuple[str, ...], reason: str, job_id: str | None, api: str | None, as_json: bool) -> None:
    """Cancel runs, also ones in flight. Exit code 2 when one could not be cancelled.

    \b
    tickwork runs cancel shop:nightly@2026-12-01T02:00:00Z --reason "wrong price list"
    """
    client, answers = ApiClient(api), []
    for begin in range(0, len(runs), CANCEL_BATCH):
        named = [{"run": as_named(client, run, job_id)} for run in runs[begin : begin + CANCEL_BATCH]]
        answers += client.post("/runs:cancel", {"runs": named, "reason": reason})["runs"]
    if as_json:
        show_json(answers)
    else:
        show_table(answers, CANCEL_COLUMNS, "nothing to cancel")
    if not all(answer["accepted"] for answer in answers):
        raise click.exceptions.Exit(2)


def _cancel_outcome(answer: Row) -> object:
    if not answer["accepted"]:
        return answer["detail"]
    return "its worker is asked to stop" if answer["cancel_requested"] else answer["status"]


CANCEL_BATCH = 25
CANCEL_COLUMNS = {
    "RUN": lambda one: one.get("occurrence") or one.get("run"),
    "CANCELLED": lambda one: "yes" if one["accepted"] else "no",
    "OUTCOME": _cancel_outcome,
    "RUN ID": lambda one: one.get("run_id"),
}


def _overlong(run: Row) -> str | None:
    found = run.get("overlong")
    if not found:
        return None
    usual = "not known" if found["usual_s"] is None else f"{timedelta(seconds=found['usual_s'])} at the most"
    return f"for {timedelta(seconds=found['running_s'])}; usual: {usual}"


def _asked_for(run: Row) -> str | None:
    """Who has asked for a run, and why."""
    asked = run.get("asked_for")
    return f"by {asked['by']}: {asked['reason']}" if asked else None


def _outcome(run: Row) -> str:
    if run.get("overlong"):
        return f"{run['status']} ({_overlong(run)})"
    failed = next((a["error"] for a in reversed(run["attempts"]) if a["error"]), None)
    why = run["reason"] or (failed if run["status"] in ("waiting", "dead") else None)
    return f"{run['status']} ({why})" if why and why != run["status"] else str(run["status"])


RUN_COLUMNS = {
    "RUN": lambda run: run["occurrence"],
    "DUE": lambda run: run["fire_at"],
    "LAG S": lambda run: run["start_lag_s"] if run["started_at"] else None,
    "ATTEMPT": lambda run: run["attempt"] or None,
    "OUTCOME": _outcome,
    "RUN ID": lambda run: run["run_id"],
    "ASKED FOR": _asked_for,
}
FACTS = {
    "run": "occurrence",
    "asked for": "asked_by",
    "run_id": "run_id",
    "ref": "ref",
    "status": "status",
    "reason": "reason",
    "paused": "waits_for",
    "scheduled": "scheduled_at",
    "due": "fire_at",
    "start by": "start_by",
    "dispatched": "dispatched_at",
    "by": "dispatched_by",
    "started": "started_at",
    "ended": "ended_at",
    "worker": "worker",
    "attempt": "attempt",
    "overlong": "overlong",
    "lag_s": "lag_s",
    "start_lag_s": "start_lag_s",
    "retry_lag_s": "retry_lag_s",
    "retry_at": "retry_at",
    "lease_until": "lease_until",
    "cancel": "cancel_requested",
}
ATTEMPT_COLUMNS = {
    "ATTEMPT": lambda one: one["attempt"],
    "STARTED": lambda one: one["started_at"],
    "ENDED": lambda one: one["ended_at"],
    "OUTCOME": lambda one: one["outcome"],
    "ERROR": lambda one: one["error"] or None,
    "WORKER": lambda one: one["worker"],
}
