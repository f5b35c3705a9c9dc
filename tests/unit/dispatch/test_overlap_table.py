"""The table of overlap (docs/schedules.md), as data: what becomes of what is due, by policy, by what holds, by when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.runs_world import World
from tests.unit.dispatch.test_overlap import EVERY_S, changed_to, expired, job_of, lost, queued, running, waiting
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.overlap import ALLOW, BUFFER_ONE, CANCEL_OTHER, SKIP
from tickwork.core.ledger.keys import LedgerKey
from tickwork.flows.jobs import changing

STATES = {"queued": queued, "running": running, "waiting": waiting, "lost": lost, "expired": expired}

TABLE = """
policy     holder    on_time  late     after_outage                           paused  changed
allow      none      fires    fires    skipped_outage,skipped_outage,fires    paused  fires
allow      queued    fires    fires    skipped_outage,skipped_outage,fires    paused  fires
allow      running   fires    fires    skipped_outage,skipped_outage,fires    paused  fires
allow      waiting   fires    fires    skipped_outage,skipped_outage,fires    paused  fires
allow      lost      fires    fires    skipped_outage,skipped_outage,fires    paused  fires
allow      expired   fires    fires    skipped_outage,skipped_outage,fires    paused  fires
skip       none      fires    fires    skipped_outage,skipped_outage,fires    paused  fires
skip       queued    overlap  overlap  skipped_outage,skipped_outage,overlap  paused  overlap
skip       running   overlap  overlap  skipped_outage,skipped_outage,overlap  paused  overlap
skip       waiting   overlap  overlap  skipped_outage,skipped_outage,overlap  paused  overlap
skip       lost      overlap  overlap  skipped_outage,skipped_outage,overlap  paused  overlap
skip       expired   fires    fires    skipped_outage,skipped_outage,fires    paused  fires
buffer_one none      fires    fires    skipped_outage,skipped_outage,fires    paused  fires
buffer_one queued    waits    waits    skipped_outage,skipped_outage,waits    paused  waits
buffer_one running   waits    waits    skipped_outage,skipped_outage,waits    paused  waits
buffer_one waiting   waits    waits    skipped_outage,skipped_outage,waits    paused  waits
buffer_one lost      waits    waits    skipped_outage,skipped_outage,waits    paused  waits
buffer_one expired   fires    fires    skipped_outage,skipped_outage,fires    paused  fires
buffer_one buffered  overlap  overlap  skipped_outage,skipped_outage,overlap  paused  overlap
cancel_other none     fires    fires    skipped_outage,skipped_outage,fires    paused  fires
cancel_other queued   fires    fires    skipped_outage,skipped_outage,fires    paused  fires
cancel_other running  waits    waits    skipped_outage,skipped_outage,waits    paused  waits
cancel_other waiting  fires    fires    skipped_outage,skipped_outage,fires    paused  fires
cancel_other lost     fires    fires    skipped_outage,skipped_outage,fires    paused  fires
cancel_other expired  fires    fires    skipped_outage,skipped_outage,fires    paused  fires
cancel_other buffered waits    waits    skipped_outage,skipped_outage,waits    paused  waits
"""


def cases() -> list[tuple[str, str, str, str]]:
    names, *rows = (line.split() for line in TABLE.strip().splitlines())
    return [(row[0], row[1], when, fate) for row in rows for when, fate in zip(names[2:], row[2:], strict=True)]


def held(world: World, policy: str, holder: str) -> str:
    """A job whose holder is in that state when the next one is about to be due."""
    job_id = job_of(world, policy, start_within_s=30 if holder == "expired" else 0)
    if holder == "none":
        return job_id
    first = world.until_due(job_id)
    STATES["running" if holder == "buffered" else holder](world, first)
    if holder == "buffered":
        world.until_due(job_id)
    return job_id


def fate(world: World, key: LedgerKey) -> str:
    run = world.run(key)
    if run.status == "skipped":
        return "paused" if run.reason.startswith("paused by") else run.reason
    return {"pending": "fires" if world.messages(key) else "pending", "buffered": "waits"}[run.status]


@pytest.mark.parametrize(("policy", "holder", "when", "wanted"), cases())
def test_what_is_due_meets_the_fate_that_the_table_has(policy: str, holder: str, when: str, wanted: str) -> None:
    world = World()
    buffering = ALLOW if holder != "buffered" else BUFFER_ONE
    other = {ALLOW: SKIP, SKIP: ALLOW, BUFFER_ONE: buffering, CANCEL_OTHER: buffering}[policy]
    job_id = held(world, other if when == "changed" else policy, holder)
    if when == "changed" and other != policy:
        changed_to(world, job_id, policy)
    if when == "paused":
        changing.pause_job(world.ports, job_id, "ann", "deploy")
    due = world.next_key(job_id)
    missed = 3 if when == "after_outage" else 1
    late_ms = {"late": 30_000, "after_outage": 2 * 60_000 + 10_000}.get(when, 0)
    world.clock.at_ms = due.fire_at_ms + late_ms
    for _ in range(missed + 1):
        world.scan()
        world.after(1)
    times = [due.scheduled_at_ms + number * EVERY_S * SECOND_MS for number in range(missed)]
    passed = [replace(due, scheduled_at_ms=at_ms, fire_at_ms=at_ms) for at_ms in times]
    assert [fate(world, key) for key in passed] == wanted.split(",")
