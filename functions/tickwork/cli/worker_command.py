"""`tickwork worker`: run the job functions of an App against a pool's ready queue."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickwork.cli.output import api_option

if TYPE_CHECKING:
    from tickwork.worker import App


@click.command("worker")
@click.argument("app_at", metavar="MODULE:APP")
@click.option("--pool", required=True, help="The pool to pull from.")
@click.option("--concurrency", type=click.IntRange(1, 1_000), default=8, show_default=True, help="Runs at once.")
@click.option("--grace", "grace_s", type=float, default=30.0, show_default=True, help="Seconds runs get at shutdown.")
@click.option("--prefix", help="Begins the queues' names [TICKWORK_PREFIX, or tickwork-dev].")
@api_option
def worker_command(
    app_at: str, pool: str, concurrency: int, grace_s: float, prefix: str | None, api: str | None
) -> None:
    """Pull runs of a pool and run them. MODULE is a module or a .py file.

    \b
    tickwork worker examples/demo_worker.py:app --pool payments
    """
    # Imported here: `tickwork --help` should not wait for boto3.
    from tickwork.aws.wiring import sqs_client
    from tickwork.client import ApiClient
    from tickwork.dev.signals import log_lines_to_stderr
    from tickwork.ports import ready_queue
    from tickwork.settings import Settings
    from tickwork.worker.process import Worker, WorkerOptions

    log_lines_to_stderr()
    app = load_app(app_at)
    sqs = sqs_client(long_poll=True)
    name = f"{prefix or Settings.from_environ().prefix}-{ready_queue(pool)}"
    try:
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except sqs.exceptions.QueueDoesNotExist:
        raise click.UsageError(f"there is no queue {name!r}: check --pool and --prefix") from None
    worker = Worker(app, url, sqs, ApiClient(api), WorkerOptions(concurrency, grace_s))
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: worker.stop())
    if not worker.run():
        # A job that outlasted the grace holds its thread: leave without it, its lease will lapse.
        sys.stderr.flush()
        os._exit(1)


def load_app(app_at: str) -> App:
    """The App that `module:name` or `path/file.py:name` names."""
    from tickwork.worker import App

    place, colon, name = app_at.rpartition(":")
    if not colon or not place:
        raise click.UsageError("write it as MODULE:APP or path/to/file.py:APP")
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    except ImportError as error:
        raise click.UsageError(f"{place} can not be imported: {error}") from error
    app = getattr(module, name, None)
    if not isinstance(app, App):
        raise click.UsageError(f"{place} has no App named {name!r}")
    return app


def _load_module(name: str) -> object:
    sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def _load_file(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
