"""The job of the lag benchmark: it does nothing. Beside it, this process notes when it received and called what.

A file of JSON lines, named by LAG_NOTES: {"received": [run ids]} or {"called": [run id]}, with `at_ms`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

from botocore.handlers import BUILTIN_HANDLERS

from tickwork.worker import App, Context

app = App()
_notes = os.open(os.environ["LAG_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def _note(what: str, run_ids: Sequence[str]) -> None:
    line = json.dumps({"at_ms": time.time_ns() // 1_000_000, what: run_ids})
    os.write(_notes, f"{line}\n".encode())  # one write of one line: appends of several threads do not mix


@app.job("noop")
def noop(ctx: Context) -> None:
    """Does nothing."""
    _note("called", [ctx.run_id])


def note_receipts(parsed: dict[str, Any], **_: object) -> None:
    """After a ReceiveMessage, before the worker sees its messages."""
    run_ids = [json.loads(message["Body"])["run_id"] for message in parsed.get("Messages", [])]
    if run_ids:
        _note("received", run_ids)


# What every botocore session of this process listens to: the worker makes its client after it has loaded this module.
BUILTIN_HANDLERS.append(("after-call.sqs.ReceiveMessage", note_receipts))
