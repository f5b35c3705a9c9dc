"""The job `conformance` for workers of this SDK. In other languages it is to be written alike."""

from __future__ import annotations

import json
import time
import urllib.request

from pydantic import BaseModel

from tickwork.worker import App, Context, FailPermanently
from tickwork.worker.context import StopJob

app = App()

STEP_S = 0.02


class Errand(BaseModel):
    """Where to report, how long to work, how to end: `succeed`, `fail`, `fail_permanently`."""

    report: str
    work_s: float = 0.0
    then: str = "succeed"


@app.job("conformance")
def conformance(ctx: Context, errand: Errand) -> None:
    """Report `began`, work, report `ended`; report `stopped` when told to stop. It never asks whether it has to."""
    _report(ctx, errand, "began")
    try:
        until_s = time.monotonic() + errand.work_s
        while time.monotonic() < until_s:
            time.sleep(STEP_S)
    except StopJob:
        _report(ctx, errand, "stopped")
        raise
    _report(ctx, errand, "ended")
    if errand.then == "fail":
        raise RuntimeError("told to fail")
    if errand.then == "fail_permanently":
        raise FailPermanently("told to fail for good")


def _report(ctx: Context, errand: Errand, event: str) -> None:
    body = json.dumps({"event": event, "run_id": ctx.run_id, "attempt": ctx.attempt, "token": ctx.token}).encode()
    request = urllib.request.Request(errand.report, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5):
        pass
