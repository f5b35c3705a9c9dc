"""The worker of the upgrade test: notes which run it did."""

from __future__ import annotations

import os
from typing import Any

from tickwork.worker import App, Context

app = App()


@app.job("note")
def note(ctx: Context, _: Any) -> None:
    line = f"{ctx.run_id}\n".encode()
    handle = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)
