"""How a person names runs and timers on the command line, and what the API is asked for by it."""

from __future__ import annotations

import re
from typing import Any

import click

from tickwork.client import ApiClient, path_of

RUN_HELP = "A RUN is a timer's id, TEAM:NAME@TIME with the nominal time, a ref, or (with --job) a run_id."

_RUN_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)

run_job_option = click.option("--job", "job_id", metavar="TEAM:NAME", help="The job that a run_id is of.")


def get_run(client: ApiClient, name: str, job_id: str | None) -> dict[str, Any]:
    """The run of a name."""
    found: dict[str, Any] = client.get(path_of("runs", name), job_id=job_id)
    return found


def as_named(client: ApiClient, name: str, job_id: str | None) -> str:
    """A name that every call takes: a bare run_id is looked up with its job."""
    if job_id is not None and _RUN_ID.fullmatch(name):
        return str(get_run(client, name, job_id)["ref"])
    return name


def timer_id_of(client: ApiClient, name: str) -> str:
    """The id of a timer by any name of its run."""
    if "|" not in name and "@" not in name:
        return name
    run = get_run(client, name, None)
    if "@" in run["occurrence"]:
        raise click.UsageError(f"{name} is a run of the job {run['job_id']}, and no timer: see `tickwork runs --help`")
    return str(run["job_id"])
