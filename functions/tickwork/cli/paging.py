"""Reading a list page by page: what is said meanwhile, and when to stop.

A list of what has succeeded, or waits, is read minute by minute (docs/api.md): a long look back may take many pages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from tickwork.cli.output import say
from tickwork.client import ApiClient

PAGE = 200
QUIET_S = 2.0
"""A list that takes longer says how far it has come, and again after as long."""
TIME_LIMIT_S = 60

time_limit_option = click.option(
    "--time-limit",
    "time_limit_s",
    type=click.FloatRange(min=0),
    default=TIME_LIMIT_S,
    show_default=True,
    help="Seconds to read on for; 0: to the end.",
)


def collect(
    client: ApiClient,
    path: str,
    name: str,
    *,
    limit: int,
    time_limit_s: float = TIME_LIMIT_S,
    query: Mapping[str, object] | None = None,
    page_max: int = PAGE,
    now_s: Callable[[], float] = time.monotonic,
) -> list[dict[str, Any]]:
    """The first `limit` entries of a list. One that takes long says on stderr how far it is, and stops at its time."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    began = told = now_s()
    while True:
        page = client.get(path, limit=min(page_max, limit - len(found)), cursor=cursor, **(query or {}))
        found += page[name]
        cursor = page["cursor"]
        if cursor is None or len(found) >= limit:
            return found
        reached = page.get("reached")
        if time_limit_s and now_s() - began >= time_limit_s:
            say(_stopped(time_limit_s, reached, len(found)), err=True)
            return found
        if now_s() - told >= QUIET_S:
            told = now_s()
            say(f"... {len(found)} found, all up to {reached or 'here'} looked at", err=True)


def _stopped(time_limit_s: float, reached: str | None, count: int) -> str:
    where = f" at {reached}" if reached else ""
    return (
        f"warning: stopped after {time_limit_s:g} s{where}, with {count} found: this is not all. Read on with a larger "
        "--time-limit (0: to the end), or ask for less (--since, --until)"
    )
