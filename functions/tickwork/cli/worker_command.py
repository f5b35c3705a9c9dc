"""`tickwork worker`: run the job functions of an App against a pool's ready queue."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickwork.cli.output import api_option
from tickwork.core.access.pools import pool_id
from tickwork.core.ledger.lanes import LANES, P1, pool_of

if TYPE_CHECKING:
    from tickwork.client import ApiClient
    from tickwork.worker import App
    from tickwork.worker.clock import WorkerClock
    from tickwork.worker.lanes import LaneSource
    from tickwork.worker.process import Worker
    from tickwork.worker.sources import SqsSource


@click.command("worker")
@click.argument("app_at", metavar="MODULE:APP")
@click.option("--pool", required=True, help="The pool to pull from; a team's own also as TEAM:NAME.")
@click.option(
    "--lane", "lanes", multiple=True, type=click.Choice(LANES), help="A lane of the pool; may be given again [P1]."
)
@click.option("--concurrency", type=click.IntRange(1, 1_000), default=8, show_default=True, help="Runs at once.")
@click.option("--grace", "grace_s", type=float, default=20.0, show_default=True, help="Seconds runs get at shutdown.")
@click.option("--prefix", help="Begins the queues' names [TICKWORK_PREFIX, or tickwork-dev].")
@click.option("--lease", "over_http", is_flag=True, help="Lease runs over HTTP: needs no AWS credentials.")
@click.option("--lease-s", type=click.IntRange(1, 900), default=60, show_default=True, help="With --lease: its length.")
@api_option
def worker_command(
    *,
    app_at: str,
    pool: str,
    lanes: Sequence[str],
    concurrency: int,
    grace_s: float,
    prefix: str | None,
    over_http: bool,
    lease_s: int,
    api: str | None,
) -> None:
    """Pull runs of a pool and run them. MODULE is a module or a .py file.

    \b
    tickwork worker examples/demo_worker.py:app --pool payments
    tickwork worker examples/demo_worker.py:app --pool default --lease    (beside `make run`)
    tickwork worker examples/demo_worker.py:app --pool payments --lane P0 --lane P1
    """
    # Imported here: `tickwork --help` should not wait for boto3.
    from tickwork.aws.sqs import QueueClosed
    from tickwork.client import ApiClient
    from tickwork.local.signals import log_lines_to_stderr
    from tickwork.worker.clock import WorkerClock
    from tickwork.worker.lanes import LanedSource
    from tickwork.worker.logs import RunNames
    from tickwork.worker.process import Worker, WorkerOptions, worker_name
    from tickwork.worker.sources import LONG_POLL_S, LeaseSource, Source

    log_lines_to_stderr()
    if ":" in pool:
        pool = pool_id(*pool.split(":", 1))
    for handler in logging.getLogger().handlers:
        handler.addFilter(RunNames())
    app = load_app(app_at)
    client, clock, stopping = ApiClient(api), WorkerClock(), threading.Event()

    def source_of(lane: str) -> LaneSource:
        if not over_http:
            return _queue_source(prefix, pool_of(pool, lane), client, stopping, clock, app.names)
        return LeaseSource(
            pool=pool_of(pool, lane),
            worker=worker_name(),
            api=client,
            stopping=stopping,
            clock=clock,
            lease_s=lease_s,
            wait_s=LONG_POLL_S,
            handlers=app.names,
        )

    asked = tuple(dict.fromkeys(lanes)) or (P1,)
    sources = {lane: source_of(lane) for lane in asked}
    source: Source = sources[asked[0]] if len(asked) == 1 else LanedSource(sources)
    worker = Worker(app, source, client, WorkerOptions(concurrency, grace_s), stopping, clock)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: worker.stop())
    try:
        _run(worker)
    except QueueClosed as error:
        raise _closed(f"of pool {pool}", error) from None


def _run(worker: Worker) -> None:
    """Until it is stopped. A job that does not stop holds its thread, and with it the process, also when the worker has
    ended with an error: leave without it, before its run is another's."""
    try:
        is_clean = worker.run()
    except Exception:
        if not worker.active():
            raise
        logging.getLogger("tickwork.worker").exception("worker failed")
        is_clean = False
    if not is_clean:
        sys.stderr.flush()
        os._exit(1)


def _queue_source(
    prefix: str | None,
    pool: str,
    api: ApiClient,
    stopping: threading.Event,
    clock: WorkerClock,
    handlers: Sequence[str],
) -> SqsSource:
    from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

    from tickwork.aws.wiring import sqs_client
    from tickwork.ports import ready_queue
    from tickwork.settings import Settings
    from tickwork.worker.process import worker_name
    from tickwork.worker.sources import SqsSource

    name = f"{prefix or Settings.from_environ().prefix}-{ready_queue(pool)}"
    try:
        sqs = sqs_client(long_poll=True)
    except NoRegionError as error:
        raise _no_aws(name, error) from None
    try:
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except sqs.exceptions.QueueDoesNotExist:
        raise click.UsageError(f"there is no queue {name!r}: check --pool, --prefix and the region") from None
    except ClientError as error:
        raise _closed(name, error) from None
    except (NoCredentialsError, EndpointConnectionError) as error:
        raise _no_aws(name, error) from None
    return SqsSource(
        queue_url=url,
        sqs=sqs,
        control=sqs_client(),
        api=api,
        worker=worker_name(),
        stopping=stopping,
        clock=clock,
        handlers=handlers,
    )


def _no_aws(queue: str, error: Exception) -> click.UsageError:
    return click.UsageError(
        f"the queue {queue!r} cannot be reached: {str(error).rstrip('.')}; give AWS's region and credentials, "
        "or take runs over the API with --lease, as beside `make run`"
    )


def _closed(queue: str, error: Exception) -> click.UsageError:
    return click.UsageError(
        f"the queue {queue!r} does not answer this worker: {str(error).rstrip('.')}; see that it is there, and that "
        "the credentials have the policy of its pool"
    )


def load_app(app_at: str) -> App:
    """The App that `module:name` or `path/file.py:name` names."""
    from tickwork.worker import App

    return load_named(app_at, App)


def load_named[T](app_at: str, kind: type[T]) -> T:
    """What `module:name` or `path/file.py:name` names."""
    place, colon, name = app_at.rpartition(":")
    if not colon or not place:
        raise click.UsageError("write it as MODULE:NAME or path/to/file.py:NAME")
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    except ImportError as error:
        raise click.UsageError(f"{place} cannot be imported: {error}") from error
    found = getattr(module, name, None)
    if not isinstance(found, kind):
        raise click.UsageError(f"{place} has no {kind.__name__} named {name!r}")
    return found


def _load_module(name: str) -> object:
    sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def _load_file(path: Path) -> object:
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path.absolute()):
        return known
    spec = importlib.util.spec_from_file_location(path.stem, path.absolute())
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.absolute().parent))  # as Python does for a file: it may import its neighbours
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
