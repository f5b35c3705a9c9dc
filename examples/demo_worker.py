"""The worker of `make run`: three job functions of a payments team.

The books are an SQLite file. `run_id` is the key of each entry, so a run that is delivered twice books once.
"""

import os
import sqlite3
from contextlib import closing

from tickwork.worker import App, Context

app = App()
_BOOKS = os.environ.get("DEMO_BOOKS", ".tickwork/demo-books.sqlite")


def _book(ctx: Context, what: str) -> bool:
    """Enter a run into the books; False when it stands there already."""
    with closing(sqlite3.connect(_BOOKS, timeout=10)) as books, books:
        books.execute("CREATE TABLE IF NOT EXISTS entries (run_id TEXT PRIMARY KEY, what TEXT, token INTEGER)")
        entered = books.execute(
            "INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT (run_id) DO NOTHING", (ctx.run_id, what, ctx.token)
        )
        return entered.rowcount == 1


@app.job("settlement")
def settle(ctx: Context) -> None:
    """Send the night's settlement to the bank: a no-op when this run has sent it before."""
    _book(ctx, f"settlement of {ctx.payload['ledger']} for {ctx.scheduled_at:%Y-%m-%d}")


@app.job("rate-feed")
def fetch_rates(ctx: Context) -> None:
    _book(ctx, f"rates at {ctx.scheduled_at:%H:%M:%S}")


@app.job("hold-expired")
def release_seat(ctx: Context) -> None:
    _book(ctx, f"seat {ctx.payload['seat']} is free again")
