"""`tickwork timers`: create and cancel one-shots."""

from __future__ import annotations

from typing import Any

import click

from tickwork.cli.definition_options import read_json
from tickwork.cli.names import timer_id_of
from tickwork.cli.output import pause_words, say, show_facts, show_json, show_table, with_api_options
from tickwork.cli.paging import collect, time_limit_option
from tickwork.cli.runs_commands import STATUSES
from tickwork.client import ApiClient, ApiUnreachable, new_client_key, path_of
from tickwork.core.ledger.lanes import LANES
from tickwork.core.schedule.duration import read_duration_s
from tickwork.core.schedule.refusal import ScheduleRefused

CANCEL_BATCH = 100


@click.group("timers")
def timers_group() -> None:
    """One-shot timers: fire once, at a time or after a delay."""


class Delay(click.ParamType[float]):
    """Seconds as a number, or a period as schedules have them."""

    name = "delay"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(value)
        except ValueError:
            pass
        try:
            return read_duration_s(value, "delay")
        except ScheduleRefused as error:
            self.fail(f"{error.detail}: write seconds, or a period such as 90s or 5m", param, ctx)


@timers_group.command("create")
@click.option("--team", required=True)
@click.option("--pool", required=True, help="The pool whose workers get the run.")
@click.option("--handler", required=True, help="The job function in the worker.")
@click.option("--delay", "delay_s", type=Delay(), metavar="PERIOD", help="Seconds from now, or such as 90s or 5m.")
@click.option("--at", help="An instant, such as 2026-12-01T09:00:00Z; without an offset it needs --tz.")
@click.option("--tz", "--zone", "zone", help="IANA time zone of --at.")
@click.option("--group", help="A label, to list and pause it by with others.")
@click.option("--lane", type=click.Choice(LANES), help="P0 goes first, P2 holds up nobody [P1].")
@click.option("--start-within", "start_within_s", type=int, help="Seconds after its time it may start [no bound].")
@click.option("--payload", "payload_json", help="JSON, handed to the job function.")
@click.option(
    "--secret-field", "secret_fields", multiple=True, metavar="PATH", help="Shown to nobody; may be repeated."
)
@click.option("--client-key", help="Makes a repeated call return the first timer [a new one].")
@with_api_options
def create(payload_json: str | None, pool: str, handler: str, api: str | None, as_json: bool, **options: Any) -> None:
    """Create a timer.

    \b
    tickwork timers create --team payments --pool payments --handler hold-expired --delay 15
    """
    body = {name: value for name, value in options.items() if value not in (None, ())}
    body["target"] = {"pool": pool, "handler": handler}
    if payload_json is not None:
        body["payload"] = read_json(payload_json, "--payload")
    key = body.setdefault("client_key", new_client_key())
    try:
        timer = ApiClient(api).post("/timers", body)
    except ApiUnreachable as error:
        again = f"it may have been created: to ask for the same timer again, add --client-key {key}"
        raise ApiUnreachable(f"{error}; {again}") from error
    for warning in timer.get("warnings", ()):
        say(f"warning: {warning}", err=True)
    if as_json:
        show_json(timer)
    else:
        names = {"timer": "timer_id", "fires": "fire_at", "run": "run_id", "status": "status"}
        show_facts({shown: timer[name] for shown, name in names.items()})


@timers_group.command("list")
@click.option("--team", required=True)
@click.option("--status", type=click.Choice(STATUSES), help="Of this status only.")
@click.option("--group", help="Those that bear this label, whenever they are due.")
@click.option("--since", help="Due at this instant or later [now; of a group the first].")
@click.option("--until", help="Due at this instant or before [a day after --since; of a group the last].")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True)
@time_limit_option
@with_api_options
def list_(limit: int, time_limit_s: float, api: str | None, as_json: bool, **query: str | None) -> None:
    """A team's timers that are to come, the soonest first."""
    found = collect(ApiClient(api), "/timers", "timers", limit=limit, time_limit_s=time_limit_s, query=query)
    if as_json:
        show_json(found)
        return
    columns = {
        "TIMER": lambda one: one["timer_id"],
        "DUE": lambda one: one["fire_at"],
        "STATUS": lambda one: one["status"],
        "TARGET": lambda one: one["target"].get("url") or one["target"].get("handler"),
        "RUN ID": lambda one: one["run_id"],
    }
    show_table(found, columns, "no timers are due in that time")


@timers_group.command("cancel")
@click.argument("timer_ids", nargs=-1, required=True, metavar="TIMER...")
@with_api_options
def cancel(timer_ids: tuple[str, ...], api: str | None, as_json: bool) -> None:
    """Cancel timers that have not started: by id, or by the ref of the run. Exit code 2 when one could not be."""
    client, answers = ApiClient(api), []
    for begin in range(0, len(timer_ids), CANCEL_BATCH):
        batch = [timer_id_of(client, name) for name in timer_ids[begin : begin + CANCEL_BATCH]]
        answers += client.post("/timers:cancel", {"timer_ids": batch})["timers"]
    if as_json:
        show_json(answers)
    else:
        columns = {
            "TIMER": lambda one: one["timer_id"],
            "CANCELLED": lambda one: "yes" if one["cancelled"] else "no",
            "WHY": lambda one: one.get("detail"),
        }
        show_table(answers, columns, "nothing to cancel")
    if not all(answer["cancelled"] for answer in answers):
        raise click.exceptions.Exit(2)


@timers_group.command("show")
@click.argument("timer")
@with_api_options
def show(timer: str, api: str | None, as_json: bool) -> None:
    """One timer, which is also the record of its run: by its id, or the ref of the run."""
    client = ApiClient(api)
    found = client.get(path_of("timers", timer_id_of(client, timer)))
    if as_json:
        show_json(found)
    else:
        names = ("timer_id", "run_id", "status", "fire_at", "attempt", "worker", "started_at", "ended_at", "lag_s")
        show_facts({name: found[name] for name in names} | {"paused": pause_words(found)})
