"""`tickwork jobs`: create, list, show, delete."""

from __future__ import annotations

import json
from typing import Any

import click

from tickwork.cli.output import show_facts, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of


@click.group("jobs")
def jobs_group() -> None:
    """Registered jobs: what runs when."""


@jobs_group.command("create")
@click.argument("job_id", metavar="TEAM:NAME")
@click.option("--cron", help='Five fields, such as "0 2 * * *".')
@click.option("--rate", help='Such as "10 minutes".')
@click.option("--at", help="A single instant, such as 2026-12-01T09:00:00Z.")
@click.option("--delay", help='A single time from now, such as "90s".')
@click.option("--schedule", "schedule_json", help="The whole schedule as JSON, for all that it can say.")
@click.option("--tz", "--zone", "zone", help="IANA time zone [UTC].")
@click.option("--pool", required=True, help="The pool whose workers get the runs.")
@click.option("--handler", help="The job function in the worker [the job's name].")
@click.option("--payload", "payload_json", help="JSON, handed to the job function.")
@click.option("--tolerance", "tolerance_s", type=int, help="Spread the start over this many seconds.")
@click.option("--exact-reason", help="Why the job must be exact (needed for cron with --tolerance 0).")
@click.option("--lease", "lease_s", type=int, help="Seconds a worker may go without a heartbeat [60].")
@click.option("--max-attempts", type=int, help="Attempts before the run is dead-lettered [5].")
@with_api_options
def create(job_id: str, api: str | None, as_json: bool, **options: Any) -> None:
    """Register a job. Again with the same content is a no-op.

    \b
    tickwork jobs create payments:nightly-settlement --cron "0 2 * * *" --tz America/New_York --pool payments
    """
    job = ApiClient(api).post("/jobs", _body(job_id, options))
    for warning in job["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    _show(job, as_json)


def _body(job_id: str, options: dict[str, Any]) -> dict[str, Any]:
    team, colon, name = job_id.partition(":")
    if not colon:
        raise click.UsageError("write the job as TEAM:NAME, such as payments:nightly-settlement")
    body: dict[str, Any] = {
        "team": team,
        "name": name,
        "schedule": _schedule(options),
        "target": {"pool": options["pool"]} | ({"handler": options["handler"]} if options["handler"] else {}),
    }
    if options["payload_json"] is not None:
        body["payload"] = read_json(options["payload_json"], "--payload")
    if options["max_attempts"] is not None:
        body["retry_policy"] = {"max_attempts": options["max_attempts"]}
    kept = ("tolerance_s", "exact_reason", "lease_s")
    return body | {name: options[name] for name in kept if options[name] is not None}


def _schedule(options: dict[str, Any]) -> Any:
    if options["schedule_json"] is not None:
        return read_json(options["schedule_json"], "--schedule")
    schedule = {kind: options[kind] for kind in ("cron", "rate", "at", "delay") if options[kind] is not None}
    if len(schedule) != 1:
        raise click.UsageError("give exactly one of --cron, --rate, --at, --delay and --schedule")
    return schedule | ({"zone": options["zone"]} if options["zone"] else {})


def read_json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from None


@jobs_group.command("list")
@click.option("--team", required=True)
@with_api_options
def list_(team: str, api: str | None, as_json: bool) -> None:
    """A team's jobs."""
    jobs = ApiClient(api).get_all("/jobs", "jobs", team=team)
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
@with_api_options
def show(job_id: str, api: str | None, as_json: bool) -> None:
    """One job."""
    _show(ApiClient(api).get(path_of("jobs", job_id)), as_json)


@jobs_group.command("delete")
@click.argument("job_id", metavar="TEAM:NAME")
@with_api_options
def delete(job_id: str, api: str | None, as_json: bool) -> None:
    """Delete a job and cancel its pending occurrence. Again is a no-op."""
    answer = ApiClient(api).delete(path_of("jobs", job_id))
    if as_json:
        show_json(answer)
    else:
        click.echo(f"{job_id}: {'deleted' if answer['changed'] else 'was deleted before'}")


def _show(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(job)
        return
    facts = {
        "job": job["job_id"],
        "status": job["status"],
        "schedule": short_schedule(job["schedule"]),
        "next": job["next"] and f"{job['next']['fire_at']} (nominal {job['next']['scheduled_at']})",
        "last": job["last"] and f"{job['last']['status']} {job['last']['scheduled_at']}",
        "target": f"{job['target']['handler']} in pool {job['target']['pool']}",
        "tolerance": f"{job['tolerance_s']} s",
        "retries": f"{job['retry_policy']['max_attempts']} attempts",
        "version": job["version"],
    }
    show_facts(facts | ({"reason": job["reason"]} if job.get("reason") else {}))


def short_schedule(spec: dict[str, Any]) -> str:
    """A schedule in a table's cell: its own words where it has one kind, else JSON."""
    for kind in ("cron", "rate", "at"):
        if kind in spec:
            zone = spec.get("zone", "UTC")
            return f"{kind} {spec[kind]}" + (f" {zone}" if zone != "UTC" else "")
    return json.dumps(spec, ensure_ascii=False)
