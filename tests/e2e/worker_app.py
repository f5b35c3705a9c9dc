"""The job functions of the end-to-end test: each call leaves a receipt, with the worker's own clock."""

from __future__ import annotations

import json
import os
import time

from tickwork.worker import App, Context

app = App()


@app.job("receipt")
def leave_receipt(ctx: Context) -> None:
    line = json.dumps(
        {
            "run_id": ctx.run_id,
            "job_id": ctx.job_id,
            "attempt": ctx.attempt,
            "fire_at_ms": round(ctx.fire_at.timestamp() * 1_000),
            "called_at_ms": time.time_ns() // 1_000_000,
        }
    )
    receipts = os.open(os.environ["E2E_RECEIPTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(receipts, f"{line}\n".encode())  # one write of one line: appends of several threads do not mix
    finally:
        os.close(receipts)
