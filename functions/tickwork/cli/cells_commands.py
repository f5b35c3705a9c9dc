"""`tickwork cells`: list, place, take-back."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of


@click.group("cells")
def cells_group() -> None:
    """Cells: slices set apart, and whose new items lie in which. For the platform's team."""


@cells_group.command("list")
@with_api_options
def list_(api: str | None, as_json: bool) -> None:
    """The cells of the environment, and what is placed in them."""
    found = ApiClient(api).get("/cells")
    if as_json:
        show_json(found)
        return
    columns = {
        "CELL": lambda one: one["cell"],
        "SHARDS": lambda one: one["shards"],
        "SLICES": lambda one: one["slices"],
        "PLACED IN IT": lambda one: ", ".join(_placed_in(found, one)) or None,
    }
    show_table(found["cells"], columns, "there is no cell")


def _placed_in(found: Any, cell: Any) -> list[str]:
    own = [one["of"] for one in found["placements"] if one["cell"] == cell["cell"]]
    return own + (["whoever is not placed"] if cell["home"] and not _are_all_placed(found) else [])


def _are_all_placed(found: Any) -> bool:
    return any(one["of"] == "all" for one in found["placements"])


@cells_group.command("place")
@click.argument("cell")
@click.option("--team", help="Whose; without it: of all who have no placement of their own.")
@click.option("--reason", default="", help="Why, for the audit.")
@with_api_options
def place(cell: str, team: str | None, reason: str, api: str | None, as_json: bool) -> None:
    """Have what is written anew lie in CELL. What is pending stays where it is, and is served there."""
    answer = ApiClient(api).call("PUT", _placement(team), {"cell": cell, "reason": reason})
    if as_json:
        show_json(answer)
    else:
        say(f"what is new of {_whose(answer)} lies in {answer['cell']}, within half a minute everywhere")


@cells_group.command("take-back")
@click.option("--team", help="Whose; without it: that of all who have no placement of their own.")
@click.option("--reason", default="", help="Why, for the audit.")
@with_api_options
def take_back(team: str | None, reason: str, api: str | None, as_json: bool) -> None:
    """Take a placement back: what is new lies where it would without."""
    answer = ApiClient(api).delete(_placement(team), **({"reason": reason} if reason else {}))
    if as_json:
        show_json(answer)
    else:
        say(f"{_whose(answer)} is not placed by itself any more" if team else "what is new lies in the home cell again")


def _placement(team: str | None) -> str:
    return path_of("placement") if team is None else path_of("teams", team, "placement")


def _whose(answer: Any) -> str:
    return "everybody else" if answer["of"] == "all" else str(answer["of"]).replace(":", " ")
