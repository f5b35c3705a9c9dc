"""What `tickwork jobs update` makes of a schedule: options replace what they name, and nothing else; and how the
occurrences to come differ by it, shown before anything is written.

Refuses to know how a schedule is read: what is due when, before and after, the API says.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tickwork.cli.output import Row, say, show_json
from tickwork.client import ApiClient, path_of
from tickwork.core.schedule.spec_keys import BOUND_KEYS, COMMON_KEYS, KINDS

SINGLE = ("at", "delay")
"""Kinds that are due once: what bounds a recurrence is not theirs."""

SHOWN = 5
"""Occurrences that are compared: the next few say what a person wants to know."""


def merged(standing: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The schedule of a job with what was given in its place: another expression keeps the zone, calendars, changes of
    clocks and bounds, as far as its kind has them; a zone alone keeps all else."""
    kind = next((name for name in given if name in KINDS), None)
    if kind is None:
        return _joined(standing, given)
    if "any_of" in standing:
        raise click.UsageError("the job joins several schedules: say the whole of what it is to be with --schedule")
    known = {*KINDS[kind], *COMMON_KEYS} - (set(BOUND_KEYS) if kind in SINGLE else set())
    kept = {name: value for name, value in standing.items() if name in known}
    if dropped := sorted(standing.keys() - kept.keys() - KINDS.keys() - {"anchor"}):
        say(f"left out, for it does not go with {kind}: {', '.join(dropped)}", err=True)
    return _joined(kept, given)


def _joined(standing: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Also of a part (dst, calendars) only what was given is replaced."""
    parts = {
        name: {**standing[name], **part}
        for name, part in given.items()
        if isinstance(part, dict) and isinstance(standing.get(name), dict)
    }
    return {**standing, **given, **parts}


def _part(standing: Any, given: Any) -> Any:
    """A part that is an object itself (the changes of clocks, the calendars) keeps what no option names."""
    return {**standing, **given} if isinstance(standing, Mapping) and isinstance(given, Mapping) else given


@dataclass(frozen=True, slots=True)
class Difference:
    """The next occurrences of a job as it stands, and as it would be."""

    schedule: Mapping[str, Any]
    before: Sequence[Row]
    after: Sequence[Row]
    warnings: Sequence[str]

    @property
    def is_none(self) -> bool:
        return [row["scheduled_at"] for row in self.before] == [row["scheduled_at"] for row in self.after]

    def as_json(self) -> dict[str, Any]:
        return {"schedule": dict(self.schedule), "before": list(self.before), "after": list(self.after)}


def difference(client: ApiClient, job: Mapping[str, Any], schedule: Mapping[str, Any]) -> Difference:
    """Asked of the API: with its calendars and zone data. It also refuses what is no schedule."""
    wanted = {"schedule": schedule, "team": job["team"], "job_id": job["job_id"], "count": SHOWN}
    after = client.post("/schedules:preview", wanted)
    return Difference(schedule, _coming(client, job), after["occurrences"], after["warnings"])


def _coming(client: ApiClient, job: Mapping[str, Any]) -> Sequence[Row]:
    """Of one whose schedule cannot be read any more, which is changed for that reason, there is nothing to show."""
    if job["status"] == "error":
        return []
    rows: Sequence[Row] = client.get(path_of("jobs", job["job_id"], "next"), count=SHOWN)["occurrences"]
    return rows


def rehearse(
    client: ApiClient, job: Mapping[str, Any], change: Mapping[str, Any], version: int | None, as_json: bool
) -> None:
    """Show what a change would do, and say what of it has not been tried: a person goes on by what is shown."""
    if version not in (None, job["version"]):
        raise click.UsageError(
            f"{job['job_id']} is at version {job['version']}, not {version}: the change would be refused"
        )
    if "schedule" in change:
        found = difference(client, job, change["schedule"])
    else:
        coming = _coming(client, job)
        found = Difference(job["schedule"], coming, coming, ())
    for warning in found.warnings:
        say(f"warning: {warning}", err=True)
    if untried := sorted(change.keys() - {"schedule"}):
        say(f"not tried, for the API checks it when it is written: {', '.join(untried)}", err=True)
    if as_json:
        show_json(found.as_json())
    else:
        show(found)


def show(found: Difference) -> None:
    """Side by side on standard error: what a program reads from standard output stays its answer."""
    if found.is_none:
        say(f"the next {len(found.after)} occurrences stay as they are", err=True)
        return
    rows = [("BEFORE", "AFTER")]
    for number in range(max(len(found.before), len(found.after))):
        rows.append((_local(found.before, number), _local(found.after, number)))
    width = max(len(left) for left, _ in rows)
    for left, right in rows:
        say(f"{left.ljust(width)}  {right}", err=True)


def ask() -> None:
    """Whether to go on; somebody has to be there to answer."""
    if not sys.stdin.isatty():
        raise click.UsageError("the next occurrences become others: say --yes, or look with --dry-run")
    click.confirm("Change it?", abort=True, err=True)


def _local(rows: Sequence[Row], number: int) -> str:
    if number >= len(rows):
        return "-"
    row = rows[number]
    note = f" ({row['note']})" if row["note"] else ""
    return f"{row['scheduled_at']} {row['local']} {row['zone']}{note}"
