"""`tickwork dev`: everything on this machine; and the processes that it is made of."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tickwork.cli.output import say

DEFAULT_PORT = 8787
DEFAULT_ENDPOINT_PORT = 4566
PORT = click.IntRange(1, 65_535)


@click.command("dev")
@click.option("--port", type=PORT, envvar="PORT", default=DEFAULT_PORT, show_default=True, help="Of the API.")
@click.option(
    "--endpoint-port", type=PORT, envvar="ENDPOINT_PORT", default=DEFAULT_ENDPOINT_PORT, show_default=True,
    help="Of the embedded AWS endpoint.",
)  # fmt: skip
@click.option(
    "--state", type=click.Path(file_okay=False, path_type=Path), default=Path(".tickwork"), show_default=True,
    help="Where state and logs are kept.",
)  # fmt: skip
@click.option("--demo/--no-demo", default=False, help="Register the demo's jobs and holds, and run its worker.")
@click.option(
    "--pool", "pools", multiple=True, metavar="NAME", help="A pool to have, beside `default`; may be repeated."
)
@click.option(
    "--worker", "workers", multiple=True, metavar="POOL=MODULE:APP",
    help="A worker of yours to run, started again when it dies; may be repeated.",
)  # fmt: skip
@click.option("--auth/--no-auth", envvar="AUTH", help="Ask for API keys, and print some at the first start.")
@click.option("--seconds", type=float, help="End by itself after this long.")
@click.option("--stop", is_flag=True, help="End the session that uses --state, wherever it runs, and wait for it.")
def dev_command(
    port: int,
    endpoint_port: int,
    state: Path,
    demo: bool,
    pools: tuple[str, ...],
    workers: tuple[str, ...],
    auth: bool,
    seconds: float | None,
    stop: bool,
) -> None:
    """Run tickwork on this machine: an AWS endpoint, the API, the windows, your workers, a live table. Ctrl-C ends it.

    Jobs are registered with `tickwork jobs create`, and kept in --state from session to session.
    """
    if port == endpoint_port:
        raise click.UsageError(f"--port and --endpoint-port are both {port}: each needs a port of its own")
    from tickwork.core.errors import TickworkError
    from tickwork.local.environment import endpoint_python
    from tickwork.local.occupancy import end_session_of
    from tickwork.local.pools import pool_and_app
    from tickwork.local.session import Session

    try:
        if stop:
            say(end_session_of(state))
            return
        session = Session(
            port=port,
            endpoint_port=endpoint_port,
            state=state,
            python=endpoint_python(say),
            demo=demo,
            pools=pools,
            workers=[pool_and_app(worker) for worker in workers],
            auth=auth,
        )
        session.run(seconds)
    except TickworkError as error:
        raise click.ClickException(str(error)) from error


@click.group("serve")
def serve_group() -> None:
    """The processes `tickwork dev` starts, one by one (they need AWS_ENDPOINT_URL and credentials)."""


@serve_group.command("api")
@click.option("--port", type=PORT, default=DEFAULT_PORT, show_default=True)
@click.option("--auth/--no-auth", help="Ask for API keys.")
def serve_api(port: int, auth: bool) -> None:
    """The API on 127.0.0.1."""
    from tickwork.local.serving import serve_api_until_told

    serve_api_until_told(port, auth=auth)


@serve_group.command("windows")
def serve_windows() -> None:
    """Ticker, scanners and reconciler."""
    from tickwork.local.serving import serve_windows_until_told

    serve_windows_until_told()


@serve_group.command("push")
@click.option("--threads", type=click.IntRange(1, 64), default=4, show_default=True)
def serve_push(threads: int) -> None:
    """Push runs to their URLs (the pool `push`; needs TICKWORK_PUSH_SECRETS)."""
    from tickwork.local.serving import serve_push_until_told
    from tickwork.settings import BadSetting

    try:
        serve_push_until_told(threads)
    except BadSetting as error:
        raise click.ClickException(str(error)) from error


@serve_group.command("watch")
def serve_watch() -> None:
    """The watchdog: tells owners whose jobs are silent."""
    from tickwork.local.serving import serve_watch_until_told

    serve_watch_until_told()


@serve_group.command("setup")
def serve_setup() -> None:
    """Create the tables and queues that are missing."""
    from tickwork.aws.provision import create_all
    from tickwork.aws.wiring import dynamodb_client, sqs_client
    from tickwork.settings import Settings

    settings = Settings.from_environ()
    create_all(dynamodb_client(), sqs_client(), settings)
    say(f"tables and queues of {settings.prefix} are there ({os.environ.get('AWS_ENDPOINT_URL', 'AWS')})")
