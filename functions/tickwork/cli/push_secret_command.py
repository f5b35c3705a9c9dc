"""`tickwork push-secret`: what a team's receivers verify pushes with, derived from the masters."""

from __future__ import annotations

import click

from tickwork.cli.output import say


@click.command("push-secret")
@click.argument("team")
@click.option("--stored-at", metavar="ARN", help="Read the masters there (output PushSecretArn), with AWS credentials.")
def push_secret_command(team: str, stored_at: str | None) -> None:
    """The secrets of TEAM, one a line, the newest first: for its receivers, to be kept like a password.

    The masters come from TICKWORK_PUSH_SECRETS, or from Secrets Manager with --stored-at.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from tickwork.aws.secrets import read_secrets
    from tickwork.aws.wiring import secrets_client
    from tickwork.core.errors import CallerError
    from tickwork.core.ids import check_slug
    from tickwork.core.runs.pushes import team_secret
    from tickwork.settings import BadSetting, PushSecrets

    try:
        check_slug(team, "team")
        masters = read_secrets(secrets_client(), stored_at) if stored_at else PushSecrets.from_environ()
    except (BotoCoreError, ClientError, BadSetting, CallerError) as error:
        raise click.ClickException(str(error)) from error
    for master in masters.secrets:
        say(team_secret(master, team))
