"""The table of the life of a run governs: whatever writes a status takes it from there, and fails without its pair."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs_world import World
from tickwork.core.errors import InvariantViolated
from tickwork.core.instants import iso
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.overlap import BUFFER_ONE
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.lifecycle import ABSENT, DEAD, PENDING, RUNNING, WAITING
from tickwork.core.ledger.work import RetryPolicy, Work
from tickwork.core.runs import putting_off
from tickwork.core.schedule import parse_schedule
from tickwork.flows.jobs import calendars, changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import asking, cancelling, dead_letters, worker_calls

PACKAGE = Path(lifecycle.__file__).parents[2]


def _create(world: World) -> None:
    world.timer()


def _start(world: World) -> None:
    world.must_start(world.timer())


def _complete(world: World) -> None:
    key = world.timer()
    world.complete(key, world.must_start(key).token)


def _beat(world: World) -> None:
    key = world.timer()
    token = world.must_start(key).token
    world.after(10)
    worker_calls.heartbeat(world.ports, key, token, 60)


def _fail(world: World) -> None:
    key = world.timer()
    world.fail(key, world.must_start(key).token)


def _start_again(world: World) -> None:
    key = world.timer()
    world.fail(key, world.must_start(key).token)
    world.must_start(key, message=world.until_retry(key))


def _die(world: World) -> None:
    key = world.timer(retry=RetryPolicy(1))
    world.fail(key, world.must_start(key).token)


def _replay(world: World) -> None:
    key = world.timer(retry=RetryPolicy(1))
    world.fail(key, world.must_start(key).token)
    dead_letters.replay_runs(world.ports, [key], dead_letters.Order("ops", "again", 10, world.clock.at_ms))


def _reclaim(world: World) -> None:
    key = world.timer()
    world.must_start(key, lease_s=30)
    world.after(31)
    world.must_start(key)


def _cancel(world: World) -> None:
    cancelling.cancel_run(world.ports, world.timer(60), "not wanted")


def _cancel_waiting(world: World) -> None:
    key = world.timer()
    world.fail(key, world.must_start(key).token)
    cancelling.cancel_run(world.ports, key, "not wanted")


def _ask_to_stop(world: World) -> None:
    key = world.timer()
    world.must_start(key)
    cancelling.cancel_run(world.ports, key, "not wanted")


def _cancel_lapsed(world: World) -> None:
    key = world.timer()
    world.must_start(key, lease_s=30)
    world.after(31)
    cancelling.cancel_run(world.ports, key, "not wanted")


def _expire(world: World) -> None:
    key = world.timer(start_within_s=30)
    world.after(31)
    world.start(key)


def _expire_waiting(world: World) -> None:
    """Its start was put off to the end of a freeze, and that is too late."""
    _freeze(world, 300, start_within_s=60)
    world.scan()
    message = next(body for body in world.outbox.bodies("ready-default") if "retry_ref" in body)
    world.start(parse_ref(message["ref"]), message=message)


def _hand_back(world: World) -> None:
    run = world.timer()
    worker_calls.hand_back(world.ports, run, world.must_start(run).token)


def _miss(world: World) -> None:
    """An outage of three occurrences that a job wants none of: the first one was pending, the others never were."""
    spec = parse_schedule({"rate": "1 hour"}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    new = NewJob("shop", "x", spec, Work("default", "job"), 0, CatchUp("none"), "f")
    registering.create_job(world.ports, new)
    world.after(3 * 3600 + 120)
    for _ in range(3):
        world.scan()
        world.after(1)


def _freeze(world: World, seconds: int, **work: Any) -> None:
    """A job of every minute whose last occurrence before a freeze of ten minutes is late: it is put off, for so many
    seconds at a time."""
    begin_ms = world.clock.at_ms // 60_000 * 60_000 + 120_000
    span = {"from": iso(begin_ms)[:16], "to": iso(begin_ms + 600_000)[:16]}
    calendars.put_calendar(world.ports, "shop", "freeze", {"zone": "UTC", "ranges": [span], "hard": True}, None)
    spec = {"cron": "* * * * *", "zone": "UTC", "calendars": {"exclude": ["freeze"]}}
    parsed = parse_schedule(spec, now_ms=world.clock.at_ms, job_id="shop:x").spec
    registering.create_job(world.ports, NewJob("shop", "x", parsed, Work("default", "job", **work), 0, CatchUp(), "f"))
    world.after(150)
    for _ in range(3):
        world.scan()
        world.after(seconds)


def _put_off(world: World) -> None:
    _freeze(world, 1)


def _put_off_again(world: World) -> None:
    """The freeze lasts longer than a start is put off for."""
    standing, putting_off.LOOK_AGAIN_MS = putting_off.LOOK_AGAIN_MS, 60_000
    try:
        _freeze(world, 70)
    finally:
        putting_off.LOOK_AGAIN_MS = standing


def _buffer(world: World) -> LedgerKey:
    """A job of every minute whose first run has not ended when the second is due: the first."""
    spec = parse_schedule({"rate": "1 minute"}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    new = NewJob("shop", "x", spec, Work("default", "job"), 0, CatchUp(), "f", overlap=BUFFER_ONE)
    job_id = registering.create_job(world.ports, new)[0].job_id
    first = world.until_due(job_id)
    world.until_due(job_id)
    return first


def _born_waiting(world: World) -> None:
    spec = parse_schedule({"rate": "1 hour"}, now_ms=world.clock.at_ms, job_id="shop:y").spec
    new = NewJob("shop", "y", spec, Work("default", "job"), 0, CatchUp(), "f", overlap=BUFFER_ONE)
    registering.create_job(world.ports, new)
    for _ in range(2):
        asking.ask_for_run(world.ports, asking.Wanted("shop:y", "ann", "a file came late"))


def _release(world: World) -> None:
    first = _buffer(world)
    world.complete(first, world.must_start(first).token)


def _drop(world: World) -> None:
    first = _buffer(world)
    changing.pause_job(world.ports, "shop:x", "ops", "maintenance")
    world.complete(first, world.must_start(first).token)


def _cancel_buffered(world: World) -> None:
    _buffer(world)
    registering.delete_job(world.ports, "shop:x")


FLOWS: dict[tuple[str, str], Callable[[World], object]] = {
    (ABSENT, lifecycle.MATERIALISE): _create,
    (ABSENT, lifecycle.SKIP): _miss,
    (ABSENT, lifecycle.BUFFER): _born_waiting,
    (PENDING, lifecycle.START): _start,
    (PENDING, lifecycle.SKIP): _miss,
    (PENDING, lifecycle.CANCEL): _cancel,
    (PENDING, lifecycle.SPEND): _start_again,
    (PENDING, lifecycle.EXPIRE): _expire,
    (PENDING, lifecycle.PUT_OFF): _put_off,
    (PENDING, lifecycle.BUFFER): _buffer,
    (lifecycle.BUFFERED, lifecycle.RELEASE): _release,
    (lifecycle.BUFFERED, lifecycle.SKIP): _drop,
    (lifecycle.BUFFERED, lifecycle.CANCEL): _cancel_buffered,
    (WAITING, lifecycle.START): _start_again,
    (WAITING, lifecycle.PUT_OFF): _put_off_again,
    (WAITING, lifecycle.CANCEL): _cancel_waiting,
    (WAITING, lifecycle.EXPIRE): _expire_waiting,
    (RUNNING, lifecycle.RECLAIM): _reclaim,
    (RUNNING, lifecycle.HEARTBEAT): _beat,
    (RUNNING, lifecycle.HAND_BACK): _hand_back,
    (RUNNING, lifecycle.SUCCEED): _complete,
    (RUNNING, lifecycle.RETRY_LATER): _fail,
    (RUNNING, lifecycle.BURY): _die,
    (RUNNING, lifecycle.REQUEST_CANCEL): _ask_to_stop,
    (RUNNING, lifecycle.CANCEL): _cancel_lapsed,
    (DEAD, lifecycle.REPLAY): _replay,
}
"""A flow that needs each pair. A pair that is added to the table is added here."""


def test_each_pair_of_the_table_has_a_flow_that_needs_it() -> None:
    assert FLOWS.keys() == lifecycle.TRANSITIONS.keys()


@pytest.mark.parametrize("pair", FLOWS, ids="-".join)
def test_a_flow_fails_without_its_pair_of_the_table(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    FLOWS[pair](World())  # with the whole table it is well

    others = {other: to for other, to in lifecycle.TRANSITIONS.items() if other != pair}
    monkeypatch.setattr(lifecycle, "TRANSITIONS", others)
    with pytest.raises(InvariantViolated, match=f"{pair[0]!r} cannot {pair[1]!r}"):
        FLOWS[pair](World())


# --- no status is written that does not come from the table ---------------------------------------------------

STATUSES = {status.upper() for status in lifecycle.MEANING}
STORING = {"Run", "Retry", "Look"}


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("core", "flows"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8"))


def _is_constant(node: ast.expr | None) -> bool:
    """Whether an expression spells a status of a run out, by its name or by its word."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "lifecycle" and node.attr in STATUSES
    if isinstance(node, ast.IfExp):
        return _is_constant(node.body) or _is_constant(node.orelse)
    return isinstance(node, ast.Constant) and node.value in lifecycle.MEANING


def written_constants(tree: ast.Module) -> list[int]:
    """The lines that write a status of their own: as the `status` of a mapping, or of a record that is stored."""
    found: list[int] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            values = zip(node.keys, node.values, strict=True)
            given = [value for key, value in values if isinstance(key, ast.Constant) and key.value == "status"]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in STORING:
            given = [*node.args, *(one.value for one in node.keywords if one.arg == "status")]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            place = node.targets[0].slice
            given = [node.value] if isinstance(place, ast.Constant) and place.value == "status" else []
        else:
            continue
        found += [node.lineno for value in given if _is_constant(value)]
    return found


def test_no_status_of_a_run_is_written_but_by_the_table() -> None:
    assert {path: lines for path, tree in _trees() if (lines := written_constants(tree))} == {}


@pytest.mark.parametrize(
    "planted",
    [
        'Update(T, k, c, set={"status": lifecycle.SUCCEEDED})',
        'changes["status"] = lifecycle.DEAD',
        "Run(key, lifecycle.SKIPPED)",
        'Run(key, status="skipped")',
        'changes = {"status": lifecycle.DEAD if x else lifecycle.after(a, b)}',
    ],
)
def test_a_planted_status_is_found(planted: str) -> None:
    assert written_constants(ast.parse(planted))
