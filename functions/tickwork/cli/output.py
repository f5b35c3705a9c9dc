"""What commands print: a table for people, JSON for programs.

Nothing else in this package prints: what others have sent must not reach a terminal as it came (`plain.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from typing import Any

import click

from tickwork.local.plain import plain, plain_json, plain_lines

type Row = Mapping[str, Any]

api_option = click.option("--api", metavar="URL", help="The API [TICKWORK_API_URL, or http://127.0.0.1:8787].")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")


def with_api_options[F: Callable[..., Any]](command: F) -> F:
    return api_option(json_option(command))


def take_any_text() -> None:
    """A terminal that lacks a letter is shown its number: a table must not end at a name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(text: str, *, err: bool = False) -> None:
    """A line."""
    click.echo(plain(text), err=err)


def say_lines(text: str, *, err: bool = False) -> None:
    """Lines of our own making: see `plain_lines`."""
    click.echo(plain_lines(text), err=err)


def show_json(value: object) -> None:
    click.echo(plain_json(value, indent=2))


def show_table(rows: Sequence[Row], columns: Mapping[str, Callable[[Row], object]], empty: str) -> None:
    """A plain table, as wide as its content: it can be piped and cut."""
    if not rows:
        say(empty)
        return
    cells = [[_text(value(row)) for value in columns.values()] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(columns)]
    for line in [list(columns), *cells]:
        say("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def show_facts(facts: Mapping[str, object]) -> None:
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        say(f"{name.ljust(width)}  {_text(value)}")


def _text(value: object) -> str:
    if value is None:
        return "-"
    return plain(value) if isinstance(value, str) else plain_json(value)


def pause_words(run: Row) -> str | None:
    """The pause that keeps a run from starting."""
    if (pause := run.get("paused_by")) is None:
        return None
    until = pause["until"] or "it is resumed"
    return f"with the {pause['kind']} {pause['name']}, by {pause['by']}: {pause['reason']} (until {until})"
