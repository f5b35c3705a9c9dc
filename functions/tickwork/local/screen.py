"""What the person at `tickwork dev` sees: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tickwork.client import DEFAULT_URL, ApiClient, ApiRefused, ApiUnreachable
from tickwork.core.instants import MINUTE_MS, iso

ROWS = 18
SHOWN_MINUTES = 3
"""How far the table looks back: a few partitions of the ledger each second, not its whole past."""

_STYLES = {"succeeded": "green", "running": "cyan", "queued": "yellow", "dead": "bold red", "waiting": "magenta"}


class Screen:
    """Polls the API's run history and shows the newest runs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = ApiClient(url, auth="none")
        self._console = Console(soft_wrap=True)
        self._live: Live | None = None
        self._told: set[tuple[str, str]] = set()

    def say(self, text: str) -> None:
        self._console.print(f"[bold]tickwork[/bold]  {text}", highlight=False)
        sys.stdout.flush()

    def hints(self) -> None:
        """What to try next, ready to be copied."""
        lines = [
            "",
            f"Try, in another terminal (`{self._first()}` first):",
            "  tickwork runs list --limit 10",
            '  tickwork next "0 2 * * *" --tz America/New_York --count 5',
            "  tickwork timers create --team payments --pool payments --handler hold-expired \\",
            """      --delay 5 --payload '{"seat": "1A"}'""",
            "  tickwork jobs show payments:nightly-settlement",
            f"  curl -s {self._url}/jobs/payments:rate-feed/runs",
            f"  curl -s '{self._url}/runs?status=succeeded&limit=3'",
            "Ctrl-C ends it; the state stays, and what comes due meanwhile is caught up at the next start.",
            "",
        ]
        self._console.print("\n".join(lines), highlight=False, markup=False)
        sys.stdout.flush()

    def _first(self) -> str:
        """What makes another terminal find the command, and this API where it is not at the usual port."""
        activate = ". .venv/bin/activate"
        return activate if self._url == DEFAULT_URL else f"{activate}; export TICKWORK_API_URL={self._url}"

    def update(self) -> None:
        """Show the runs of the last minutes as they now are."""
        since = iso(time.time_ns() // 1_000_000 - SHOWN_MINUTES * MINUTE_MS)
        try:
            runs = self._client.get("/runs", limit=100, since=since)["runs"]
        except (ApiRefused, ApiUnreachable) as error:
            self.say(f"the API does not answer: {error}")
            return
        if self._console.is_terminal:
            self._show_table(runs)
        else:
            self._tell_news(runs)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show_table(self, runs: list[dict[str, Any]]) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        table = Table("due", "job", "attempt", "lag s", "outcome", title=_counts(runs), title_justify="left")
        for run in runs[:ROWS]:
            style = _STYLES.get(run["status"], "dim")
            table.add_row(*_cells(run), style=style)
        self._live.update(table, refresh=True)

    def _tell_news(self, runs: list[dict[str, Any]]) -> None:
        """Without a terminal: one line for each run that has come to a new status."""
        for run in reversed(runs):
            news = (run["run_id"], run["status"])
            if news in self._told or run["status"] in ("pending", "queued", "running"):
                continue
            self._told.add(news)
            due, job, attempt, lag, outcome = _cells(run)
            self._console.print(f"due {due}  {outcome:<11} attempt {attempt}  lag {lag:>6} s  {job}", highlight=False)
        sys.stdout.flush()


def _cells(run: dict[str, Any]) -> tuple[str, str, str, str, str]:
    name = run["job_id"]
    if "~" in name:
        name = f"{run['team']}:timer {name.rsplit('~', 1)[-1][:6]}"
    lag = "-" if run["start_lag_s"] is None else f"{run['start_lag_s']:.2f}"
    outcome = run["status"] if run["reason"] in (None, run["status"]) else f"{run['status']} ({run['reason']})"
    return run["fire_at"][11:19], name, str(run["attempt"] or "-"), lag, outcome


def _counts(runs: list[dict[str, Any]]) -> str:
    by_status: dict[str, int] = {}
    for run in runs:
        by_status[run["status"]] = by_status.get(run["status"], 0) + 1
    counts = ", ".join(f"{n} {status}" for status, n in sorted(by_status.items()))
    return f"due in the last {SHOWN_MINUTES} minutes: {counts or 'nothing yet'}"
