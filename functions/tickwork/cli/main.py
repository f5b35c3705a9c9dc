"""`tickwork`: the group that holds the commands, and what each kind of failure looks like.

Exit codes: 0 done; 2 refused (what to change is on stderr); 3 the API could not be reached; 1 anything else.
"""

from __future__ import annotations

import logging
from typing import IO, Any

import click

from tickwork.cli.audit_commands import audit_group
from tickwork.cli.backfills_commands import backfills_group
from tickwork.cli.calendars_commands import calendars_group
from tickwork.cli.cells_commands import cells_group
from tickwork.cli.contract_commands import contract_group
from tickwork.cli.cost_command import cost_command
from tickwork.cli.dead_letters_commands import dead_letters_group
from tickwork.cli.defaults_commands import defaults_group
from tickwork.cli.dev_command import dev_command, serve_group
from tickwork.cli.fan_out_command import fan_out_command
from tickwork.cli.groups_commands import groups_group
from tickwork.cli.herd_command import herd_command
from tickwork.cli.incidents_commands import incidents_group
from tickwork.cli.jobs_commands import jobs_group
from tickwork.cli.keys_commands import keys_group
from tickwork.cli.next_command import next_command
from tickwork.cli.output import say_lines, take_any_text
from tickwork.cli.pauses_commands import pause_command, pauses_command, resume_command
from tickwork.cli.pools_commands import pools_group
from tickwork.cli.push_secret_command import push_secret_command
from tickwork.cli.runs_commands import runs_group
from tickwork.cli.teams_commands import teams_group
from tickwork.cli.timers_commands import timers_group
from tickwork.cli.verify_command import verify_command
from tickwork.cli.worker_command import worker_command
from tickwork.client import ApiRefused, ApiUnreachable, BadApiUrl
from tickwork.local.plain import plain, plain_lines


class _Refused(click.ClickException):
    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        say_lines(self.message, err=True)


class _Unreachable(_Refused):
    exit_code = 3


class _Commands(click.Group):
    """Turns the client's errors into lines on stderr and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        logging.getLogger("urllib3").setLevel(logging.ERROR)  # it warns of each try; we tell what came of them
        take_any_text()
        try:
            return super().invoke(ctx)
        except ApiRefused as error:
            raise _Refused("\n".join(refusal_lines(error))) from error
        except BadApiUrl as error:
            raise _Refused(f"error: {plain(str(error))}\n  try: --api URL, or TICKWORK_API_URL") from error
        except ApiUnreachable as error:
            remedy = "is it running? `make run` starts one here; --api or TICKWORK_API_URL names another"
            raise _Unreachable(f"error: {plain(str(error))}\n  try: {remedy}") from error
        except click.ClickException as error:
            vars(error)["message"] = plain_lines(error.message)  # it may quote what others have sent
            raise


def refusal_lines(error: ApiRefused) -> list[str]:
    """A problem document as lines: each field at fault, and what to change."""
    faults = error.problem.get("errors") or [{"field": None, "detail": str(error), "remedy": ""}]
    lines = []
    for fault in faults:
        where = f"{fault['field']}: " if fault.get("field") else ""
        lines.append(f"error: {where}{fault['detail']}")
        if fault.get("remedy") and fault["remedy"] != fault["detail"]:
            lines.append(f"  try: {fault['remedy']}")
    return [plain(line) for line in lines]


@click.version_option(package_name="tickwork", message="%(prog)s %(version)s")
@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A serverless job scheduler: register work, see that it ran."""


for command in (
    jobs_group,
    backfills_group,
    timers_group,
    groups_group,
    fan_out_command,
    calendars_group,
    runs_group,
    dead_letters_group,
    keys_group,
    audit_group,
    teams_group,
    pools_group,
    pause_command,
    resume_command,
    pauses_command,
    cells_group,
    defaults_group,
    contract_group,
    incidents_group,
    next_command,
    herd_command,
    cost_command,
    worker_command,
    push_secret_command,
    verify_command,
    dev_command,
    serve_group,
):
    main.add_command(command)

if __name__ == "__main__":
    main()
