"""`tickwork jobs`: create, list, show, update, pause, resume, run, skip, unskip, delete."""

from __future__ import annotations

from typing import IO, Any

import click

from tickwork.cli import schedule_changes
from tickwork.cli.definition_options import KINDS, definition_of, read_json, with_definition_options
from tickwork.cli.job_acts import pause, resume, run, skip, unskip
from tickwork.cli.job_facts import short_schedule, show_job
from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of
from tickwork.core.schedule.limits import PREVIEW_MAX


@click.group("jobs")
def jobs_group() -> None:
    """Registered jobs: what runs when."""


@jobs_group.command("create")
@click.argument("job_id", metavar="TEAM:NAME")
@with_definition_options
@click.option("--file", type=click.File(encoding="utf-8"), help="The fields of POST /jobs as JSON (- for stdin).")
@with_api_options
def create(job_id: str, file: IO[str] | None, api: str | None, as_json: bool, **options: Any) -> None:
    """Register a job. Again with the same content is a no-op.

    \b
    tickwork jobs create payments:nightly-settlement --cron "0 2 * * *" --tz America/New_York --pool payments
    tickwork jobs create shop:feed --rate "1 hour" --url https://shop.example/feed --max-duration 30

    An option counts before what --file says of the same field.
    """
    _show_with_warnings(ApiClient(api).post("/jobs", _body(job_id, file, options)), as_json)


@jobs_group.command("update")
@click.argument("job_id", metavar="TEAM:NAME")
@with_definition_options
@click.option("--change", "change_json", help="Fields of the API as JSON, such as '{\"max_duration_s\": 600}'.")
@click.option("--version", type=int, help="The version you have read; refused when it has moved on [the latest].")
@click.option("--yes", is_flag=True, help="Do not ask when the next occurrences become others.")
@click.option("--dry-run", is_flag=True, help="Only show how the next occurrences would change.")
@with_api_options
def update(
    job_id: str,
    api: str | None,
    as_json: bool,
    change_json: str | None,
    version: int | None,
    yes: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Change a job; what is left out stays as it is, also in the schedule. Its pending occurrence moves with that.

    Shows the next occurrences before and after, and asks when they differ.

    \b
    tickwork jobs update payments:nightly-settlement --cron "30 2 * * *"
    """
    more = {} if change_json is None else read_json(change_json, "--change")
    if not isinstance(more, dict):
        raise click.UsageError("--change is a JSON object of fields")
    change = definition_of(options, changes=True)
    if both := sorted(change.keys() & more.keys()):
        raise click.UsageError(f"--change and another option both give {', '.join(both)}: say it in one of them")
    change |= more
    if not change:
        raise click.UsageError("say what to change")
    client, path = ApiClient(api), path_of("jobs", job_id)
    job = client.get(path)
    if "target" in change and "target" not in more:
        change["target"] = _with_handler(change["target"], job["target"])
    if "schedule" in change and "schedule" not in more and options["schedule_json"] is None:
        change["schedule"] = schedule_changes.merged(job["schedule"], change["schedule"])
    if dry_run:
        schedule_changes.rehearse(client, job, change, version, as_json)
        return
    if "schedule" in change:
        found = schedule_changes.difference(client, job, change["schedule"])
        schedule_changes.show(found)
        if not yes and not found.is_none:
            schedule_changes.ask()
    changed = client.patch(path, change | {"version": job["version"] if version is None else version})
    if not changed["changed"]:
        say(f"{job_id} says that already: nothing is changed", err=True)
    _show_with_warnings(changed, as_json)


def _body(job_id: str, file: IO[str] | None, options: dict[str, Any]) -> dict[str, Any]:
    team, colon, name = job_id.partition(":")
    if not colon:
        raise click.UsageError("write the job as TEAM:NAME, such as payments:nightly-settlement")
    body = _content(file) | definition_of(options)
    for key, here in (("team", team), ("name", name), ("job_id", job_id)):
        if body.pop(key, here) != here:
            raise click.UsageError(f"--file has another {key} than {here}")
    if "schedule" not in body:
        raise click.UsageError(
            f"say when: give one of {', '.join(f'--{kind}' for kind in KINDS)}, --schedule or --file"
        )
    if "target" not in body:
        raise click.UsageError("give --pool (whose workers get the runs) or --url (where they are pushed to)")
    return {"team": team, "name": name, **body}


def _with_handler(given: dict[str, Any], standing: dict[str, Any]) -> dict[str, Any]:
    """A pool named alone keeps the handler; the API would take it for a whole new target, with the default handler."""
    kept = {"handler": standing["handler"]} if "pool" in given and "handler" in standing else {}
    return kept | given


def _content(file: IO[str] | None) -> dict[str, Any]:
    found = {} if file is None else read_json(file.read(), "--file")
    if not isinstance(found, dict):
        raise click.UsageError("--file holds no JSON object: see docs/api.md, POST /jobs")
    return found


@jobs_group.command("list")
@click.option("--team", required=True)
@click.option("--group", help="Those that bear this label.")
@with_api_options
def list_(team: str, group: str | None, api: str | None, as_json: bool) -> None:
    """A team's jobs."""
    jobs = ApiClient(api).get_all("/jobs", "jobs", team=team, **({"group": group} if group else {}))
    if as_json:
        show_json(jobs)
        return
    columns = {
        "JOB": lambda job: job["job_id"],
        "STATUS": lambda job: job["status"],
        "SCHEDULE": lambda job: short_schedule(job["schedule"]),
        "NEXT": lambda job: job["next"] and job["next"]["fire_at"],
        "LAST": lambda job: job["last"] and f"{job['last']['status']} {job['last']['scheduled_at']}",
    }
    show_table(jobs, columns, f"team {team} has no jobs")


@jobs_group.command("show")
@click.argument("job_id", metavar="TEAM:NAME")
@click.option("--version", type=click.IntRange(min=1), help="Its definition as it was at this version.")
@with_api_options
def show(job_id: str, version: int | None, api: str | None, as_json: bool) -> None:
    """One job."""
    show_job(ApiClient(api).get(path_of("jobs", job_id), version=version), as_json)


@jobs_group.command("next")
@click.argument("job_id", metavar="TEAM:NAME")
@click.option("--count", type=click.IntRange(1, PREVIEW_MAX), default=5, show_default=True)
@click.option("--after", help="Occurrences after this instant [now].")
@with_api_options
def next_(job_id: str, count: int, after: str | None, api: str | None, as_json: bool) -> None:
    """A job's coming occurrences, as RUNs that can be cancelled, and what moves or skips them.

    `tickwork next` shows those of any schedule, registered or not.
    """
    found = ApiClient(api).get(path_of("jobs", job_id, "next"), count=count, after=after)
    rows = [{"occurrence": f"{job_id}@{one['scheduled_at']}", **one} for one in found["occurrences"]]
    if as_json:
        show_json(rows)
        return
    say(found["description"])
    for warning in found["warnings"]:
        say(f"warning: {warning}", err=True)
    columns = {
        "RUN": lambda one: one["occurrence"],
        "LOCAL": lambda one: f"{one['local']} {one['zone']}",
        "NOTE": lambda one: one["note"],
    }
    show_table(rows, columns, "no occurrence is to come")


@jobs_group.command("delete")
@click.argument("job_id", metavar="TEAM:NAME")
@click.option("--cancel-runs", is_flag=True, help="Cancel its runs too that have not ended. They go on otherwise.")
@click.option("--reason", help="Why; needed for a job that is tagged compliance or financial.")
@with_api_options
def delete(job_id: str, api: str | None, as_json: bool, cancel_runs: bool, reason: str | None) -> None:
    """Delete a job and cancel its pending occurrence. Again is a no-op.

    Runs that were fired before go on, with their retries, unless --cancel-runs is given.
    """
    query = {"cancel_runs": "true" if cancel_runs else None, "reason": reason}
    answer = ApiClient(api).delete(path_of("jobs", job_id), **query)
    if as_json:
        show_json(answer)
        return
    say(f"{job_id}: {'deleted' if answer['changed'] else 'was deleted before'}")
    say(_going_on(answer))


def _going_on(answer: dict[str, Any]) -> str:
    """What becomes of the runs of a deleted job."""
    runs, stopped = answer["runs"], answer.get("cancelled_runs")
    if stopped is not None:
        left = f", {stopped['left']} are left: repeat the command" if stopped["left"] else ""
        return f"{stopped['cancelled']} runs cancelled, {stopped['told_to_stop']} told to stop{left}"
    counts = {"queued": runs["queued"], "running": runs["running"], "waiting for a retry": runs["waiting"]}
    known = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    if not known:
        return "none of its runs is known to be under way"
    return f"its runs go on: {known}{' (and perhaps older ones)' if runs['more'] else ''}; --cancel-runs ends them"


def _show_with_warnings(job: dict[str, Any], as_json: bool) -> None:
    for warning in job["warnings"]:
        say(f"warning: {warning}", err=True)
    show_job(job, as_json)


for _act in (pause, resume, run, skip, unskip):
    jobs_group.add_command(_act)
