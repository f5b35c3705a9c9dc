"""`tickwork verify`: deliver a job's run twice, crash it after its effects, and show what differs."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickwork.cli import json_text
from tickwork.cli.output import say, show_json
from tickwork.cli.worker_command import load_app, load_named

if TYPE_CHECKING:
    from tickwork.worker.effects import Effects


@click.command("verify")
@click.argument("app_at", metavar="MODULE:APP")
@click.argument("job")
@click.option("--payload", default="null", help="The payload, as JSON.")
@click.option("--sqlite", "databases", multiple=True, type=click.Path(path_type=Path), help="Watch this database file.")
@click.option("--folder", "folders", multiple=True, type=click.Path(path_type=Path), help="Watch the files in here.")
@click.option("--effects", "named", multiple=True, metavar="MODULE:NAME", help="Watch this RecordedEffects of yours.")
@click.option("--http/--no-http", "watch_http", default=True, help="Watch HTTP requests that change something.")
@click.option("--certificate", type=click.Path(path_type=Path), help="Write what was found to this file.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def verify_command(
    app_at: str,
    job: str,
    payload: str,
    databases: tuple[Path, ...],
    folders: tuple[Path, ...],
    named: tuple[str, ...],
    watch_http: bool,
    certificate: Path | None,
    as_json: bool,
) -> None:
    """Run a job's own code as at-least-once delivery may: once, twice, crashed and delivered again. Exit code 0 when
    the side effects are the same each time. They are real: point the job at a test system.

    \b
    DEMO_BOOKS=books.sqlite tickwork verify examples/demo_worker.py:app settlement \\
        --payload '{"ledger": "cards"}' --sqlite books.sqlite
    """
    from tickwork.worker.app import App
    from tickwork.worker.context import UnknownHandler
    from tickwork.worker.effects import FolderEffects, HttpEffects, RecordedEffects, SqliteEffects
    from tickwork.worker.verifying import verify

    app: App = load_app(app_at)
    effects: list[Effects] = [SqliteEffects(path) for path in databases]
    effects += [FolderEffects(path) for path in folders]
    effects += [load_named(place, RecordedEffects) for place in named]
    effects += [HttpEffects()] if watch_http else []
    try:
        report = verify(app, job, json_text.loads(payload), effects)
    except (UnknownHandler, ValueError) as error:
        raise click.UsageError(str(error)) from error
    found = report.to_json(datetime.now(UTC))
    if certificate is not None:
        certificate.write_text(json.dumps(found, indent=2) + "\n")
    if as_json:
        show_json(found | {"lines": report.lines()})
    else:
        for line in report.lines():
            say(line)
    sys.exit(0 if report.ok else 1)
