"""What `tickwork jobs` does to a registered job without defining it anew: pause, resume, run, skip, unskip."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.definition_options import read_json
from tickwork.cli.job_facts import show_job
from tickwork.cli.output import say, show_json, with_api_options
from tickwork.client import ApiClient, path_of

_AT_RESUME = click.Choice(("skip", "latest", "all"))


@click.command("pause")
@click.argument("job_id", metavar="TEAM:NAME")
@click.option("--by", help="A note, behind the caller whom the credential proves.")
@click.option("--reason", required=True, help="Why; each occurrence that is skipped shows it.")
@click.option("--until", help="When it goes on by itself, such as 2026-12-01T06:00:00Z [when it is resumed].")
@click.option(
    "--at-resume", type=_AT_RESUME, default="skip", show_default=True,
    help="What becomes of what is due meanwhile: it is skipped; or it waits, and the newest runs then, or all.",
)  # fmt: skip
@with_api_options
def pause(
    job_id: str, api: str | None, as_json: bool, by: str | None, reason: str, until: str | None, at_resume: str
) -> None:
    """Skip a job's occurrences from now on, or keep them for then. Runs that were dispatched before go on."""
    body = {"reason": reason} | ({"by": by} if by else {}) | ({"until": until} if until else {})
    body |= {"at_resume": at_resume} if at_resume != "skip" else {}
    show_job(ApiClient(api).post(path_of("jobs", job_id, "pause"), body), as_json)


@click.command("resume")
@click.argument("job_id", metavar="TEAM:NAME")
@click.option("--by", help="A note, behind the caller whom the credential proves.")
@click.option("--at-resume", type=_AT_RESUME, help="What becomes of what has waited [as the pause says].")
@with_api_options
def resume(job_id: str, api: str | None, as_json: bool, by: str | None, at_resume: str | None) -> None:
    """Let a paused job run again from now on, and say what that starts. Again is a no-op."""
    body = ({"by": by} if by else {}) | ({"at_resume": at_resume} if at_resume else {})
    job = ApiClient(api).post(path_of("jobs", job_id, "resume"), body)
    if not job["changed"]:
        who = f": {job['resumed']['by']} resumed it at {job['resumed']['at']}" if job["resumed"] else ""
        say(f"{job_id} was not paused{who}", err=True)
    elif "starts" in job:
        starts = job["starts"]
        say(f"{'at least ' if starts['at_least'] else ''}{starts['count']} that have waited start now", err=True)
    for one in job.get("paused_by", ()):
        say(f"it stays paused with the {one['kind']} {one['name']}: tickwork pauses, tickwork resume", err=True)
    show_job(job, as_json)


@click.command("run")
@click.argument("job_id", metavar="TEAM:NAME")
@click.option("--reason", required=True, help="Why; the run's history shows it.")
@click.option("--by", help="A note, behind the caller whom the credential proves.")
@click.option("--payload", help="For this run alone, as JSON [the job's].")
@click.option("--beside", is_flag=True, help="Beside whatever else runs of the job, whatever its overlap says.")
@click.option("--no-wait", is_flag=True, help="Refused while another run has not ended, also where it would wait.")
@click.option("--client-key", help="What you call this request: again with it is answered with the first run.")
@with_api_options
def run(
    job_id: str,
    api: str | None,
    as_json: bool,
    payload: str | None,
    beside: bool,
    no_wait: bool,
    **options: str | None,
) -> None:
    """Run a job now, as a run of its own. Its schedule goes on, and so does a pause.

    \b
    tickwork jobs run payments:nightly-settlement --reason "the file came late"
    """
    body: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    body |= {} if payload is None else {"payload": read_json(payload, "--payload")}
    if beside and no_wait:
        raise click.UsageError("--beside has it run beside another run: leave out --no-wait")
    body |= {"overlap": "allow"} if beside else {}
    body |= {"overlap": "skip"} if no_wait else {}
    found = ApiClient(api).post(path_of("jobs", job_id, "run"), body)
    if as_json:
        show_json(found)
        return
    say(f"{found['occurrence']}: {'asked for' if found['created'] else 'asked for before'}, {found['status']}")


@click.command("skip")
@click.argument("occurrence", metavar="TEAM:NAME@TIME")
@click.option("--reason", required=True, help="Why; the record of the occurrence shows it.")
@click.option("--by", help="A note, behind the caller whom the credential proves.")
@with_api_options
def skip(occurrence: str, reason: str, by: str | None, api: str | None, as_json: bool) -> None:
    """Skip one coming occurrence, as `tickwork jobs next` shows it. Again is a no-op.

    \b
    tickwork jobs skip payments:nightly-settlement@2026-12-24T07:00:00Z --reason "the bank is closed"
    """
    job_id, at = _one_of(occurrence)
    body = {"scheduled_at": at, "reason": reason} | ({"by": by} if by else {})
    show_job(ApiClient(api).post(path_of("jobs", job_id, "skip"), body), as_json)


@click.command("unskip")
@click.argument("occurrence", metavar="TEAM:NAME@TIME")
@click.option("--by", help="A note, behind the caller whom the credential proves.")
@with_api_options
def unskip(occurrence: str, by: str | None, api: str | None, as_json: bool) -> None:
    """Take back that an occurrence is to be skipped. Again is a no-op."""
    job_id, at = _one_of(occurrence)
    body = {"scheduled_at": at} | ({"by": by} if by else {})
    job = ApiClient(api).post(path_of("jobs", job_id, "unskip"), body)
    if not job["changed"]:
        say(f"{occurrence} was not to be skipped", err=True)
    show_job(job, as_json)


def _one_of(occurrence: str) -> tuple[str, str]:
    job_id, _, at = occurrence.partition("@")
    if not at:
        raise click.UsageError("name the occurrence as TEAM:NAME@TIME, as `tickwork jobs next` shows it")
    return job_id, at
