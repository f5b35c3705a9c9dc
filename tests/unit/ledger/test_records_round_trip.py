"""What a record writes of a field, it reads back: each field of each record, so that a new one is held too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from tickwork.core.access.api_keys import ApiKey
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.jobs.overlap import Buffer
from tickwork.core.jobs.pauses import Pause
from tickwork.core.jobs.versions import JobVersion
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.cells import Placement
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Look, Retry, Run
from tickwork.core.ledger.work import Work

KEY = LedgerKey("main", 3, 1_800_000_005_000, "payments", "rates", 1_800_000_000_000)
BARE = {
    Work: Work("payments", "rates"),
    Run: Run(KEY),
    Retry: Retry(KEY, KEY.ref, 2),
    Look: Look(KEY, KEY.ref),
    Job: Job("payments", "rates", {"rate": "10 minutes"}, Work("payments", "rates")),
    JobVersion: JobVersion("payments", "rates", {"rate": "10 minutes"}, Work("payments", "rates")),
    Pause: Pause("ann", "maintenance", 1),
    SliceLease: SliceLease("main#0001"),
    Placement: Placement("team:payments"),
    ApiKey: ApiKey("payments:0123456789abcdef", "payments", "viewer", "a" * 64),
}
TIMES = {"started_at_ms": 1, "ended_at_ms": 2}
ATTEMPT = TIMES | {"attempt": 1, "token": 1, "worker": "w", "outcome": "failed", "error": ""}
REPLAY = {"by": "ann", "reason": "again", "at_ms": 3, "after_attempt": 1, "died_of": "failed for good"}
PUT_OFF = {"attempt": 1, "calendar": "freeze", "since_ms": 1, "until_ms": 2}
LAST = {"run_id": KEY.run_id, "status": "dead", "scheduled_at_ms": 1_800_000_000_000, "ended_at_ms": 1_800_000_006_000}
CHOSEN: dict[str, Any] = {
    "key": KEY,
    "run_ref": KEY.ref,
    "behind": KEY.ref,
    "buffer": Buffer(KEY, KEY, 2),
    "status": lifecycle.SKIPPED,
    "attempts": (ATTEMPT,),
    "replays": (REPLAY,),
    "put_off": (PUT_OFF,),
    "last": LAST,
    "held_by": {"run_id": "run", "occurrence": "job@then", "status": lifecycle.RUNNING},
    "catch_up": CatchUp("last", 2, 90),
    "late_at": "30000000#0003#1800000005#payments",
    "live_at": "30000000#0003#1800000005#payments",
    "tick_map": "a7",
}
"""Values of fields that not every text or number may stand in."""
NOT_STORED = {("Job", name) for name in ("calendars", "applied", "spread", "cancelled_with")}
CASES = [(kind, one.name) for kind in BARE for one in fields(kind) if (kind.__name__, one.name) not in NOT_STORED]


def value_of(name: str, kind: Any) -> Any:
    return CHOSEN[name] if name in CHOSEN else sample(kind)


def sample(kind: Any) -> Any:
    """A value of that type, which is no field's default."""
    origin, inner = get_origin(kind), [one for one in get_args(kind) if one is not type(None)]
    if origin is UnionType:
        return sample(inner[0])
    if origin is tuple:
        return (sample(inner[0]),)
    if origin is Mapping or kind is Mapping:
        return {"who": "ann"}
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{one.name: value_of(one.name, hints[one.name]) for one in fields(kind)})
    return {str: "text", int: 97, bool: True, float: 0.5}[kind]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind.__name__}.{name}" for kind, name in CASES])
def test_a_field_that_is_written_is_read_back(kind: Any, name: str) -> None:
    value = value_of(name, get_type_hints(kind)[name])
    record = replace(BARE[kind], **{name: value})
    assert kind.from_item(record.to_item()) == record
    assert getattr(kind.from_item(record.to_item()), name) == value
