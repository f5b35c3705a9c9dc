"""`tickwork contract`: what jobs owe to people."""

from __future__ import annotations

import click

from tickwork.cli.output import show_json, show_table, with_api_options
from tickwork.client import ApiClient


@click.group("contract")
def contract_group() -> None:
    """The contract of jobs: owner, pager route, tags, dead-man's switch."""


@contract_group.command("check")
@click.option("--team", required=True)
@with_api_options
def check(team: str, api: str | None, as_json: bool) -> None:
    """What the jobs of a team lack. Nothing is stopped for it; exits with 1 where something is refused in new jobs.

    \b
    tickwork contract check --team payments
    """
    found = ApiClient(api).get_all("/contracts:check", "violations", team=team)
    if as_json:
        show_json(found)
    else:
        columns = {
            "JOB": lambda one: one["job_id"],
            "FIELD": lambda one: one["field"],
            "REFUSED NOW": lambda one: "yes" if one["refused"] else "",
            "WHAT": lambda one: one["detail"],
            "DO": lambda one: one["remedy"],
        }
        show_table(found, columns, f"the jobs of {team} keep their contracts")
    if any(one["refused"] for one in found):
        click.get_current_context().exit(1)
