"""`tickwork pools`: create, list, show, share, delete."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.output import say, show_facts, show_json, show_table, with_api_options
from tickwork.client import ApiClient, path_of


@click.group("pools")
def pools_group() -> None:
    """Pools of a team: who takes its runs, and from which queue."""


def _path(team: str, name: str) -> str:
    return path_of("teams", team, "pools", name)


def _split(pool: str) -> tuple[str, str]:
    team, colon, name = pool.partition(":")
    if not colon:
        raise click.UsageError(f"{pool!r}: write TEAM:NAME")
    return team, name


@pools_group.command("create")
@click.argument("pool", metavar="TEAM:NAME")
@click.option("--worker", type=click.Choice(("process", "lambda", "lease")), default="process", show_default=True)
@click.option("--timeout", "timeout_s", type=int, metavar="S", help="Of a function: its time limit in seconds.")
@click.option("--share", "shared", multiple=True, metavar="TEAM", help="May aim at it too; may be given several times.")
@with_api_options
def create(
    *, pool: str, worker: str, timeout_s: int | None, shared: tuple[str, ...], api: str | None, as_json: bool
) -> None:
    """Make a pool with its queues. Again with the same content is a no-op."""
    body: dict[str, Any] = {"worker": worker, "shared_with": list(shared)}
    if timeout_s is not None:
        body["timeout_s"] = timeout_s
    answer = ApiClient(api).call("PUT", _path(*_split(pool)), body)
    if as_json:
        show_json(answer)
        return
    say(f"{pool} is there, with the queue {answer['queue']}")
    say(f"its jobs: --pool {answer['name']}; its workers: tickwork worker MODULE:APP --pool {answer['pool']}", err=True)


@pools_group.command("list")
@click.option("--team", required=True)
@with_api_options
def list_(team: str, api: str | None, as_json: bool) -> None:
    """The pools at which a team may aim."""
    found = ApiClient(api).get(path_of("teams", team, "pools"))
    if as_json:
        show_json(found)
        return
    rows = [one | {"from": "its own"} for one in found["pools"]]
    rows += [one | {"from": f"shared by {one['owner']}"} for one in found["shared"]]
    rows += [{"pool": name, "from": "the platform's"} for name in found["deployed"]]
    columns = {
        "POOL": lambda one: one["pool"],
        "NAME": lambda one: one.get("name"),
        "WHOSE": lambda one: one["from"],
        "WORKER": lambda one: one.get("worker"),
        "SHARED WITH": lambda one: ", ".join(one.get("shared_with", [])) or None,
    }
    show_table(rows, columns, f"team {team} has no pools")


@pools_group.command("show")
@click.argument("pool", metavar="TEAM:NAME")
@with_api_options
def show(pool: str, api: str | None, as_json: bool) -> None:
    """A pool, whole."""
    found = ApiClient(api).get(_path(*_split(pool)))
    if as_json:
        show_json(found)
    else:
        show_facts({name: ", ".join(value) if isinstance(value, list) else value for name, value in found.items()})


@pools_group.command("share")
@click.argument("pool", metavar="TEAM:NAME")
@click.option("--with", "more", multiple=True, metavar="TEAM", help="May aim at it from now on.")
@click.option("--not-with", "less", multiple=True, metavar="TEAM", help="May aim nothing new at it from now on.")
@with_api_options
def share(pool: str, more: tuple[str, ...], less: tuple[str, ...], api: str | None, as_json: bool) -> None:
    """Change with whom a pool is shared."""
    client, path = ApiClient(api), _path(*_split(pool))
    standing = client.get(path)
    body = {name: standing[name] for name in ("version", "worker", "timeout_s") if name in standing}
    body["shared_with"] = sorted({*standing["shared_with"], *more} - {*less})
    answer = client.call("PUT", path, body)
    if as_json:
        show_json(answer)
    else:
        say(f"{pool} is shared with {', '.join(answer['shared_with']) or 'nobody'}")


@pools_group.command("delete")
@click.argument("pool", metavar="TEAM:NAME")
@with_api_options
def delete(pool: str, api: str | None, as_json: bool) -> None:
    """Delete a pool with its queues, when nothing is pending for it."""
    answer = ApiClient(api).delete(_path(*_split(pool)))
    if as_json:
        show_json(answer)
    else:
        say(f"{pool} is deleted")
