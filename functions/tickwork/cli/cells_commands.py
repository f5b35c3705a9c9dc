"""`tickwork cells`: list, place, take-back."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.output import say, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of
from tickwork.core.ledger.lanes import LANES


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
@click.option("--team", help="Of whom; without it and --lane: of all that has no placement of its own.")
@click.option("--lane", type=click.Choice(LANES), help="In which lane, but of teams that have a placement.")
@click.option("--reason", default="", help="Why, for the audit.")
@with_api_options
def place(*, cell: str, team: str | None, lane: str | None, reason: str, api: str | None, as_json: bool) -> None:
    """Have what is written anew lie in CELL. What is pending stays where it is, and is served there."""
    body = {"cell": cell, "reason": reason} | ({"lane": lane} if lane else {})
    answer = ApiClient(api).call("PUT", _placement(team, lane), body)
    if as_json:
        show_json(answer)
    else:
        say(f"what is new of {_whose(answer)} lies in {answer['cell']}, within half a minute everywhere")


@cells_group.command("take-back")
@click.option("--team", help="Whose; without it and --lane: that of all that has none of its own.")
@click.option("--lane", type=click.Choice(LANES), help="Of which lane.")
@click.option("--reason", default="", help="Why, for the audit.")
@with_api_options
def take_back(*, team: str | None, lane: str | None, reason: str, api: str | None, as_json: bool) -> None:
    """Take a placement back: what is new lies where it would without."""
    query = {name: value for name, value in (("reason", reason), ("lane", lane)) if value}
    answer = ApiClient(api).delete(_placement(team, lane), **query)
    if as_json:
        show_json(answer)
    elif answer["placed_at"] is None:
        say(f"{_whose(answer)} was never placed: nothing is changed", err=True)
    else:
        say(
            f"{_whose(answer)} is not placed by itself any more"
            if team or lane
            else "what is new lies in the home cell again"
        )


def _placement(team: str | None, lane: str | None) -> str:
    if team and lane:
        raise click.UsageError("give --team or --lane: a team's placement goes before its lanes'")
    return path_of("teams", team, "placement") if team else path_of("placement")


def _whose(answer: Any) -> str:
    return "everybody else" if answer["of"] == "all" else str(answer["of"]).replace(":", " ")
