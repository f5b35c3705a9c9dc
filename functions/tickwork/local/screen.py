"""What the person at `tickwork dev` sees: a live table on a terminal, lines elsewhere.

Knows no process. Protects the session from what it shows: nothing that somebody has sent is read as markup, and neither
a run that cannot be shown nor a terminal that has been closed ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tickwork.client import DEFAULT_URL, ApiClient, ApiRefused, ApiUnreachable
from tickwork.core.instants import MINUTE_MS, iso
from tickwork.local.plain import plain, plain_lines

ROWS = 18
SHOWN_MINUTES = 3
"""How far the table looks back: a few partitions of the ledger each second, not its whole past."""

_HINTS = (
    "tickwork jobs create mine:hello --rate '10 seconds' --pool default --handler hello",
    "tickwork worker jobs.py:app --pool default --lease",
    "tickwork timers create --team mine --pool default --handler hello --delay 5 --payload '{}'",
    "tickwork runs list --limit 10",
    "curl -s API_URL/jobs/mine:hello/runs",
)
_DEMO_HINTS = (
    "tickwork runs list --limit 10",
    'tickwork next "0 2 * * *" --tz America/New_York --count 5',
    "tickwork timers create --team payments --pool payments --handler hold-expired \\",
    """    --delay 5 --payload '{"seat": "1A"}'""",
    "tickwork jobs show payments:nightly-settlement",
    "curl -s API_URL/jobs/payments:rate-feed/runs",
    "curl -s 'API_URL/runs?status=succeeded&limit=3'",
)

_STYLES = {"succeeded": "green", "running": "cyan", "queued": "yellow", "dead": "bold red", "waiting": "magenta"}


class Screen:
    """Polls the API's run history and shows the newest runs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = ApiClient(url, auth="none")
        self._console = Console(soft_wrap=True)
        self._live: Live | None = None
        self._told: set[tuple[str, str]] = set()
        self._faults: set[str] = set()
        self._gone = False
        self._asks_for_keys = False

    def use_key(self, key: str) -> None:
        """From now on ask the API with a key, and say that one is asked for."""
        self._asks_for_keys = True
        self._client = ApiClient(self._url, auth="key", api_key=key)

    def say(self, text: str) -> None:
        self._show(lambda: self._console.print(Text.assemble(("tickwork", "bold"), "  ", plain_lines(text))))

    def hints(self, *, demo: bool) -> None:
        """What to try next, ready to be copied."""
        tries = _DEMO_HINTS if demo else _HINTS
        lines = ["", f"Try, in another terminal{self._first(demo)}:"]
        header = '-H "Authorization: Bearer $TICKWORK_API_KEY" ' if self._asks_for_keys else ""
        lines += [f"  {line}".replace("API_URL", self._url).replace("curl ", f"curl {header}") for line in tries]
        lines += ["Ctrl-C ends it; the state stays, and what comes due meanwhile is caught up at the next start.", ""]
        self._show(lambda: self._console.print(Text("\n".join(lines))))

    def _first(self, demo: bool) -> str:
        """What makes another terminal find the command of a clone, and this API where it is not at the usual port."""
        first = [". .venv/bin/activate"] if demo else []
        first += [] if self._url == DEFAULT_URL else [f"export TICKWORK_API_URL={self._url}"]
        first += ["export TICKWORK_API_KEY=tw_..."] if self._asks_for_keys else []
        return f" (`{'; '.join(first)}` first)" if first else ""

    def update(self) -> None:
        """Show the runs of the last minutes as they now are."""
        since = iso(time.time_ns() // 1_000_000 - SHOWN_MINUTES * MINUTE_MS)
        try:
            runs = self._client.get("/runs", limit=100, since=since)["runs"]
        except (ApiRefused, ApiUnreachable) as error:
            self.say(f"the API does not answer: {plain(str(error))}")
            return
        self._show(lambda: self._show_table(runs) if self._console.is_terminal else self._tell_news(runs))

    def close(self) -> None:
        if self._live is not None:
            self._show(self._live.stop)
            self._live = None

    def _show(self, act: Callable[[], object]) -> None:
        """Whoever watches may be gone: the terminal closed, the pipe's reader ended (rich then raises SystemExit)."""
        if self._gone:
            return
        try:
            act()
            self._console.file.flush()
        except (OSError, SystemExit):
            self._gone = True
        except Exception as error:  # noqa: BLE001 - the screen must not end what it shows
            if (told := repr(error)) not in self._faults:
                self._faults.add(told)
                self.say(f"the runs cannot be shown: {plain(told)}")

    def _show_table(self, runs: list[dict[str, Any]]) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        title = Text(_counts(runs))
        table = Table("due", "attempt", "lag s", "outcome", title=title, title_justify="left")
        table.add_column("run", overflow="fold")  # whole, on however many lines: it is there to be pasted
        for run in runs[:ROWS]:
            style = _STYLES.get(run["status"], "dim")
            table.add_row(*(Text(cell) for cell in _cells(run)), style=style)
        self._live.update(table, refresh=True)

    def _tell_news(self, runs: list[dict[str, Any]]) -> None:
        """Without a terminal: one line for each run that has come to a new status."""
        for run in reversed(runs):
            news = (run["run_id"], run["status"])
            if news in self._told or run["status"] in ("pending", "queued", "running"):
                continue
            self._told.add(news)
            due, attempt, lag, outcome, name = _cells(run)
            self._console.print(Text(f"due {due}  {outcome:<11} attempt {attempt}  lag {lag:>6} s  {name}"))


def _cells(run: dict[str, Any]) -> tuple[str, str, str, str, str]:
    lag = "-" if run["start_lag_s"] is None else f"{run['start_lag_s']:.2f}"
    outcome = run["status"] if run["reason"] in (None, run["status"]) else f"{run['status']} ({run['reason']})"
    return run["fire_at"][11:19], str(run["attempt"] or "-"), lag, plain(outcome), plain(run["occurrence"])


def _counts(runs: list[dict[str, Any]]) -> str:
    by_status: dict[str, int] = {}
    for run in runs:
        by_status[run["status"]] = by_status.get(run["status"], 0) + 1
    counts = ", ".join(f"{n} {status}" for status, n in sorted(by_status.items()))
    return plain(f"due in the last {SHOWN_MINUTES} minutes: {counts or 'nothing yet'}")
