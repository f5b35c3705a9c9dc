"""`tickwork cost`: what a month of my load costs, all in. Asks nobody: prices and amounts are in `tickwork.price`."""

from __future__ import annotations

from dataclasses import replace

import click

from tickwork.cli.output import json_option, say, show_json, show_table
from tickwork.core.ledger.cells import parse_cells
from tickwork.price.cost import bill_of, lines, same_around_eventbridge, total
from tickwork.price.loads import ENVIRONMENTS, Load, per_month, runs_per_month
from tickwork.price.prices import AS_OF, REGION


@click.command("cost")
@click.option("--jobs", type=click.IntRange(0, 10_000_000), default=0, help="Recurring jobs.")
@click.option("--every", default="1h", show_default=True, help="How often each of them runs: 30s, 5m, 1h, 1d.")
@click.option("--timers", default="0", show_default=True, help="One-shots: 5M/month, 100k/day, 20/second.")
@click.option("--env", "environment", type=click.Choice([*ENVIRONMENTS]), default="prod", show_default=True)
@click.option("--cells", default="", metavar="NAME:SHARDS/SLICES,...", help="Cells beside its own, as declared.")
@click.option("--create-batch", type=click.IntRange(1, 100), default=1, show_default=True, help="Timers in a call.")
@click.option(
    "--work-batch", type=click.IntRange(1, 25), default=1, show_default=True, help="Runs a worker reports in a call."
)
@click.option("--workers", type=click.IntRange(0, 100_000), default=1, show_default=True, help="Processes that poll.")
@click.option("--history-days", type=click.IntRange(1, 400), default=30, show_default=True)
@json_option
def cost_command(
    jobs: int,
    every: str,
    timers: str,
    environment: str,
    cells: str,
    create_batch: int,
    work_batch: int,
    workers: int,
    history_days: int,
    as_json: bool,
) -> None:
    """What a month costs at list prices, part by part, and beside EventBridge Scheduler."""
    try:
        load = Load(
            jobs=jobs,
            runs_per_job=runs_per_month(every),
            timers=per_month(timers),
            create_batch=create_batch,
            work_batch=work_batch,
            workers=workers,
            history_days=history_days,
        )
        beside = parse_cells(cells)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    shards, slices = sum(cell.shards for cell in beside), sum(cell.slices for cell in beside)
    settings = replace(ENVIRONMENTS[environment], cell_shards=shards, cell_slices=slices)
    bill, others = bill_of(load, settings), same_around_eventbridge(load)
    if as_json:
        parts = [{"part": name, "usd": round(dollars, 4)} for name, dollars in lines(bill)]
        whole = {"usd": round(total(bill), 2), "eventbridge_usd": round(total(others), 2), "runs": load.runs}
        show_json({"as_of": AS_OF, "region": REGION, **whole, "parts": parts})
        return
    rows = [{"part": name, "usd": f"{dollars:.2f}"} for name, dollars in lines(bill)]
    rows.append({"part": "together", "usd": f"{total(bill):.2f}"})
    show_table(rows, {"A MONTH": lambda row: row["part"], "$": lambda row: row["usd"]}, "nothing")
    say(f"{load.runs:,.0f} runs; EventBridge Scheduler with the same around it: {total(others):.2f} $")
    say(f"list prices of {REGION}, {AS_OF}, without free tier; durations are assumed (docs/price.md)")
