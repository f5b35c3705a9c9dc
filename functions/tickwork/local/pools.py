"""Which pools a session has: those it was asked for, those of its workers, and those that its state has had before.

Protects: no start forgets a pool that something waits for. A timer of a pool that is left out would have no queue to go
to.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tickwork.core.errors import TickworkError
from tickwork.ports import PUSH_POOL
from tickwork.settings import BadSetting, Settings

DEFAULT_POOL = "default"
BEFORE_THEY_WERE_NOTED = ("default", "payments", PUSH_POOL)
"""Those of a state that an older version made."""


class BadWorker(TickworkError):
    """A worker to start that does not say which pool it serves."""


def pool_and_app(text: str) -> tuple[str, str]:
    """`orders=shop.jobs:app`: the pool `orders`, and the app that serves it. Without a pool: `default`."""
    pool, told, app = text.partition("=")
    pool, app = (pool, app) if told else (DEFAULT_POOL, pool)
    if ":" not in app:
        raise BadWorker(f"--worker {text}: say POOL=MODULE:APP, as in orders=shop.jobs:app")
    return pool, app


def noted(state: Path, asked: Iterable[str], settings: Settings) -> Settings:
    """The settings with the pools of this session, which the state then knows. BadSetting for a name that is none."""
    kept = state / "pools"
    had: tuple[str, ...] = BEFORE_THEY_WERE_NOTED if (state / "aws").exists() else ()
    if kept.exists():
        had = tuple(kept.read_text(encoding="utf-8").split())
    names = dict.fromkeys((*asked, *had, DEFAULT_POOL, PUSH_POOL))
    try:
        settings = settings.with_pools(names)
    except BadSetting as error:
        raise BadSetting(f"{error} (pools are named by --pool and --worker)") from error
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept.write_text("\n".join(names) + "\n", encoding="utf-8")
    return settings
