"""A worker whose side effect is a row for each time its code ran, so that a test can count."""

import os
import sqlite3
import time
from contextlib import closing

from tickwork.worker import App, Context

app = App()


@app.job("effect")
def effect(ctx: Context) -> None:
    with closing(sqlite3.connect(os.environ["EFFECTS"], timeout=30)) as effects, effects:
        effects.execute("CREATE TABLE IF NOT EXISTS effects (run_id TEXT, attempt INTEGER, token INTEGER)")
        effects.execute("INSERT INTO effects VALUES (?, ?, ?)", (ctx.run_id, ctx.attempt, ctx.token))
    if ctx.payload:
        time.sleep(ctx.payload["work_s"])
