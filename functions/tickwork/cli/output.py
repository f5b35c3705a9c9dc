"""What commands print: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

type Row = Mapping[str, Any]

api_option = click.option("--api", metavar="URL", help="The API [TICKWORK_API_URL, or http://127.0.0.1:8787].")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")


def with_api_options[F: Callable[..., Any]](command: F) -> F:
    return api_option(json_option(command))


def show_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_table(rows: Sequence[Row], columns: Mapping[str, Callable[[Row], object]], empty: str) -> None:
    """A plain table, as wide as its content: it can be piped and cut."""
    if not rows:
        click.echo(empty)
        return
    cells = [[_text(value(row)) for value in columns.values()] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(columns)]
    for line in [list(columns), *cells]:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def show_facts(facts: Mapping[str, object]) -> None:
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        click.echo(f"{name.ljust(width)}  {_text(value)}")


def _text(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
