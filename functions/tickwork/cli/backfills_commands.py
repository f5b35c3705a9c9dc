"""`tickwork backfills`: create, list, show, pause, resume, cancel."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.output import Row, say, show_facts, show_json, show_table, with_api_options
from tickwork.client import ApiClient, new_client_key, path_of
from tickwork.core.jobs.backfills import CONCURRENCY_MAX
from tickwork.core.ledger.lanes import LANES

by_option = click.option("--by", help="A note, behind the caller whom the credential proves.")


@click.group("backfills")
def backfills_group() -> None:
    """Running a range of a job's past occurrences again."""


@backfills_group.command("create")
@click.argument("job_id", metavar="TEAM:NAME")
@click.option("--since", required=True, help="From this nominal time on.")
@click.option("--until", required=True, help="To before this one, which has passed.")
@click.option(
    "--outcomes", type=click.Choice(("none", "failed", "all")), default="none", show_default=True,
    help="What never ran; what failed, too; or all.",
)  # fmt: skip
@click.option("--concurrency", type=click.IntRange(1, CONCURRENCY_MAX), default=1, show_default=True)
@click.option(
    "--lane", type=click.Choice(LANES), help="Of its runs [P2, where the job's pool has that lane; else the job's]."
)
@click.option("--newest-first", is_flag=True, help="Begin with the newest [the oldest].")
@click.option("--reason", required=True, help="Why; each run's history shows it.")
@by_option
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_api_options
def create(
    job_id: str,
    api: str | None,
    as_json: bool,
    newest_first: bool,
    dry_run: bool,
    yes: bool,
    **options: str | int | None,
) -> None:
    """Run what was due in a range again, so many at a time. It is counted first, and asks whether that is meant.

    \b
    tickwork backfills create payments:report --since 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z --reason "a bug"
    """
    client, path = ApiClient(api), path_of("jobs", job_id, "backfills")
    body: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    body |= {"order": "newest_first"} if newest_first else {}
    counted = client.post(path, body | {"dry_run": True})
    if dry_run and as_json:
        show_json(counted)
        return
    if not as_json:
        show_facts(_counted(counted))
    if dry_run:
        return
    if not counted["matched"]:
        say("nothing is to be run", err=True)
        return
    if not yes:
        click.confirm(f"run {counted['matched']} again?", abort=True, err=True)
    made = client.post(path, body | {"token": counted["token"], "client_key": new_client_key()})
    _show(made, as_json)


def _counted(counted: Row) -> dict[str, object]:
    found, cost = counted["occurrences"], counted["cost"]
    every = ", ".join(f"{count} {name}" for name, count in found.items())
    facts = {
        "job": counted["job_id"],
        "occurrences": every,
        "to be run": f"{'about ' if counted.get('approximate') else ''}{counted['matched']}",
        "from": counted["first"],
        "to": counted["last"],
        "cost": f"{cost['write_units']} write units, ${cost['usd']:f}",
    }
    return facts | ({"takes": f"about {counted['takes_s']} s"} if counted["takes_s"] is not None else {})


@backfills_group.command("list")
@click.argument("job_id", metavar="TEAM:NAME")
@with_api_options
def list_(job_id: str, api: str | None, as_json: bool) -> None:
    """A job's backfills, the newest first."""
    found = ApiClient(api).get(path_of("jobs", job_id, "backfills"))["backfills"]
    if as_json:
        show_json(found)
        return
    columns = {
        "BACKFILL": lambda one: one["backfill_id"],
        "STATUS": lambda one: one["status"],
        "SINCE": lambda one: one["since"],
        "UNTIL": lambda one: one["until"],
        "DONE": lambda one: f"{one['launched'] - one['running']} of {one['matched']}",
        "BY": lambda one: one["by"],
    }
    show_table(found, columns, f"job {job_id} has no backfills")


@backfills_group.command("show")
@click.argument("backfill_id", metavar="BACKFILL")
@with_api_options
def show(backfill_id: str, api: str | None, as_json: bool) -> None:
    """One backfill, and how far it is."""
    _show(ApiClient(api).get(path_of("backfills", backfill_id)), as_json)


@backfills_group.command("pause")
@click.argument("backfill_id", metavar="BACKFILL")
@click.option("--reason", required=True, help="Why.")
@by_option
@with_api_options
def pause(backfill_id: str, reason: str, by: str | None, api: str | None, as_json: bool) -> None:
    """Launch nothing more until it is resumed."""
    body = {"reason": reason} | ({"by": by} if by else {})
    _show(ApiClient(api).post(path_of("backfills", backfill_id, "pause"), body), as_json)


@backfills_group.command("resume")
@click.argument("backfill_id", metavar="BACKFILL")
@by_option
@with_api_options
def resume(backfill_id: str, by: str | None, api: str | None, as_json: bool) -> None:
    """Go on with it."""
    _show(ApiClient(api).post(path_of("backfills", backfill_id, "resume"), {"by": by} if by else {}), as_json)


@backfills_group.command("cancel")
@click.argument("backfill_id", metavar="BACKFILL")
@click.option(
    "--runs", type=click.Choice(("leave", "cancel")), prompt="its runs that have started",
    help="What becomes of its runs that have started.",
)  # fmt: skip
@click.option("--reason", required=True, help="Why.")
@by_option
@with_api_options
def cancel(backfill_id: str, runs: str, reason: str, by: str | None, api: str | None, as_json: bool) -> None:
    """Launch nothing more, and cancel what has not started."""
    body = {"reason": reason, "runs": runs} | ({"by": by} if by else {})
    _show(ApiClient(api).post(path_of("backfills", backfill_id, "cancel"), body), as_json)


def _show(found: Row, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    ended = ", ".join(f"{count} {status}" for status, count in sorted(found["ended"].items()))
    facts = {
        "backfill": found["backfill_id"],
        "status": found["status"],
        "range": f"{found['since']} to {found['until']}",
        "outcomes": found["outcomes"],
        "runs": f"{'about ' if found.get('approximate') else ''}{found['matched']}",
        "ended": ended or "none",
        "running": found["running"],
        "not launched": found["left"],
        "by": f"{found['by']}: {found['reason']}",
    }
    stopped = found.get("stopped")
    show_facts(facts | ({"last said": f"by {stopped['by']}: {stopped['reason'] or 'go on'}"} if stopped else {}))
