"""What any version has stored, every later one reads, carries and writes back; what is garbled is Unreadable.

`tests/recorded/v*` holds items as each version wrote them. Each of their values is garbled here in some ways, one at a
time: the item is then `Unreadable`, or it is a record whose later use raises nothing but `Unreadable` or `BadSchedule`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.recorded import recording
from tests.recorded.differences import folders
from tests.support.fakes import NOW_MS
from tickwork.api.jobs.views import job_view
from tickwork.api.runs.views import run_view
from tickwork.core.access.api_keys import ApiKey
from tickwork.core.access.entries import Entry
from tickwork.core.access.pools import POOLS, SHARES, Pool, Share
from tickwork.core.access.seals import Seal
from tickwork.core.access.teams import PAUSES, REGISTERED, Team
from tickwork.core.dispatch import backlog, chain, slices
from tickwork.core.dispatch.set_aside import SetAside
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import BadSchedule
from tickwork.core.jobs import changes, occurrences
from tickwork.core.jobs.definitions import Definition, Job, Next
from tickwork.core.jobs.pauses import pause_at, pause_in_force
from tickwork.core.jobs.scopes import PausedScope
from tickwork.core.jobs.versions import JobVersion
from tickwork.core.ledger import items
from tickwork.core.ledger.items import Record, Unreadable
from tickwork.core.ledger.keys import LedgerKey, is_wait_place, parse_ref
from tickwork.core.ledger.messages import ReadyMessage, Tick, read_ready
from tickwork.core.ledger.records import Look, Retry, Run, Stands, due_from
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Item, Update
from tickwork.core.runs import cancellations, endings, replays, slots
from tickwork.core.runs.attempts import StartRequest, decide_start
from tickwork.core.runs.breaker import Breaker
from tickwork.core.runs.slots import Slot
from tickwork.core.schedule import describe, schedule_from_spec
from tickwork.core.watch.incidents import OPEN, Incident
from tickwork.flows.audit.history import RunView
from tickwork.flows.ledger.reading import read_calendar

FOLDERS = folders()


def _recorded(folder: Path, name: str) -> list[Item]:
    found: list[Item] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _kind_of(table: str, item: Item) -> type[Record]:
    if table == "timers":
        return type(due_from(item))
    if table == "resources":
        return Breaker if item["slot"] == "breaker" else Slot
    if table == "teams":
        return OF_TEAMS[item["cell"]]
    if table == "audit":
        return Seal if "lines" in item else Entry
    kinds: dict[str, type[Record]] = {"jobs": Job, "leases": SliceLease, "set_aside": SetAside}
    return (kinds | {"job_versions": JobVersion, "keys": ApiKey})[table]


OF_TEAMS: dict[str, type[Record]] = {PAUSES: PausedScope, POOLS: Pool, SHARES: Share, REGISTERED: Team, OPEN: Incident}
"""What lies in partitions of the table `teams` and is a record."""


def _is_made_anew(item: Item) -> bool:
    """Made anew whenever it is written, and nothing rests on it; or no record."""
    if "cell" in item and item["cell"] not in OF_TEAMS:
        return True
    return is_wait_place(item.get("slot", "")) or str(item.get("resource", "")).endswith("#@creates")


RECORDS = [
    pytest.param(kind, item, id=f"{folder.name}-{table}-{number}-{item.get('status', '')}")
    for folder in FOLDERS
    for table in ("jobs", "timers", "leases", "resources", "set_aside", "job_versions", "keys", "audit", "teams")
    if (folder / f"{table}.json").exists()
    for number, item in enumerate(_recorded(folder, table))
    if not _is_made_anew(item)
    for kind in [_kind_of(table, item)]
]
CALENDARS = [item for folder in FOLDERS for item in _recorded(folder, "calendars")]


# --- read and written back ------------------------------------------------------------------------------------


def _place(item: Item) -> Item:
    return {name: item[name] for name in ("resource", "slot") if name in item}


def _mappings(value: Any) -> Iterator[Item]:
    """A mapping, and all mappings inside it."""
    if isinstance(value, dict):
        yield value
    inner: Any = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from _mappings(one)


@pytest.mark.parametrize(("kind", "item"), RECORDS)
def test_what_was_stored_is_read_and_written_as_it_was(kind: type[Record], item: Item) -> None:
    assert _place(item) | kind.from_item(item).to_item() == item


@pytest.mark.parametrize(("kind", "item"), RECORDS)
def test_what_a_newer_version_has_added_anywhere_is_read_and_written_back(kind: type[Record], item: Item) -> None:
    newer = copy.deepcopy(item)
    for place in list(_mappings(newer)):
        if place and "reporting-db" not in place and "push.example.com" not in place:  # names, not attributes
            place["of_a_newer_version"] = {"since": [1, "two"]}
    assert _place(item) | kind.from_item(newer).to_item() == newer


def test_this_version_still_writes_what_its_records_say() -> None:
    stored = {name: _recorded(FOLDERS[-1], name) for name in recording.record()}
    assert recording.record() == stored, "raise VERSION in tests/recorded/recording.py and record anew"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_messages_of_every_version_are_read(folder: Path) -> None:
    for body in _recorded(folder, "ready_messages"):
        assert read_ready(json.dumps(body | {"of_a_newer_version": 1}))["ref"] == body["ref"]
    for body in _recorded(folder, "ticks"):
        assert Tick.from_json(json.dumps(body | {"of_a_newer_version": 1})).second == body["second"]


@pytest.mark.parametrize("item", CALENDARS, ids=lambda item: item["calendar_id"])
def test_a_calendar_with_attributes_of_a_newer_version_is_read_and_one_with_other_content_is_refused(
    item: Item,
) -> None:
    assert read_calendar(item | {"changed_by": "ops"}) == read_calendar(item)
    with pytest.raises(BadSchedule):
        read_calendar(item | {"spec": item["spec"] | {"moon": ["full"]}})


def test_every_record_is_written_and_read_by_its_fields() -> None:
    """A field that is written and never read back would be lost here: each is given a value of its own."""
    run = Run(
        LedgerKey("main", 0, NOW_MS, "shop", "x", NOW_MS),
        "running",
        work=recording.FULL,
        attempts=({**_attempt(), "error_class": "OSError"},),
        slots=("mail#0001",),
        guarded=True,
        start_by_ms=9,
        hard=True,
        put_off=({"attempt": 1, "calendar": "freeze", "since_ms": 1, "until_ms": 2},),
        replays=({"by": "a", "reason": "b", "at_ms": 1, "after_attempt": 1, "died_of": "c"},),
        **dict.fromkeys(("attempt", "token", "lease_until_ms", "started_at_ms", "ended_at_ms", "stop_at_ms"), 7),
        handed_back=7,
        held_by={"run_id": "a", "occurrence": "shop:x@2026-12-01T00:00:00Z", "status": "running"},
        interrupted=2,
        beside=True,
        released_at_ms=9,
        behind="main#0000#30000000|1800000000#shop#x#1800000000",
        replaced_by="shop:x@2026-12-01T01:00:00Z",
        definition=3,
        defaults=2,
        epoch=4,
        stands_for=Stands(64, 1_024, "02931"),
        **dict.fromkeys(("retry_at_ms", "dispatched_at_ms", "first_dispatched_at_ms", "created_at_ms"), 8),
        **{
            name: name
            for name in (
                "claim",
                "worker",
                "dispatched_by",
                "reason",
                "cancel_requested",
                "created_by",
                "cancelled_by",
                "because",
                "group",
            )
        },
    )
    assert all(value for value in items.values_of(run).values()), "a field was added: give it a value here"
    assert Run.from_item(run.to_item()) == run


def _attempt() -> Any:
    return dict.fromkeys(("attempt", "token", "started_at_ms", "ended_at_ms"), 1) | dict.fromkeys(
        ("worker", "outcome", "error"), "x"
    )


# --- changed --------------------------------------------------------------------------------------------------


def _newer_job() -> Item:
    (item,) = (copy.deepcopy(one) for one in _recorded(FOLDERS[-1], "jobs") if one["name"] == "full")
    for place in (item, item["work"], item["work"]["retry"], item["catch_up"]):
        place["of_a_newer_version"] = 1
    return item


def test_a_change_of_a_job_keeps_what_a_newer_version_has_stored_inside_its_parts() -> None:
    job = Job.from_item(_newer_job())
    asked = Definition("shop", "full", job.schedule, Work("default", "other", lease_s=33), fingerprint="new")

    write = changes.change_writes(job, job.defined_as(asked), "main", NOW_MS, 60)[0]

    assert isinstance(write, Update)
    assert write.set["work"]["of_a_newer_version"] == write.set["work"]["retry"]["of_a_newer_version"] == 1
    assert write.set["catch_up"] == {"of_a_newer_version": 1}
    assert write.set["work"]["handler"] == "other"
    assert "of_a_newer_version" not in {*write.set, *write.remove}, "a partial write leaves what it does not know"


def test_a_pause_keeps_what_a_newer_version_has_stored_in_older_pauses() -> None:
    (item,) = (copy.deepcopy(one) for one in _recorded(FOLDERS[-1], "jobs") if one["name"] == "plain")
    for pause in item["pauses"]:
        pause["ticket"] = "OPS-1"
    job = Job.from_item(item)

    assert [pause["ticket"] for pause in changes.pause_write(job, job).set["pauses"]] == ["OPS-1"] * len(job.pauses)


# --- garbled --------------------------------------------------------------------------------------------------

MISSING = object()
WAYS: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "flag": True,
    "negative": -1,
    "huge": 10**30,
    "fraction": 1.5,
    "empty text": "",
    "other text": "2026-13-45 \x00 garbage",
    "empty list": [],
    "list": [["x"], 7],
    "empty mapping": {},
    "mapping": {"x": {"y": 1}},
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*path, name)
        yield from _places(one, (*path, name))


def garblings(item: Item) -> Iterator[tuple[str, Item]]:
    """The item with each of its values garbled in each way, one at a time."""
    for path in _places(item):
        for way, value in WAYS.items():
            garbled = copy.deepcopy(item)
            place = garbled
            for name in path[:-1]:
                place = place[name]
            if path[-1] == "payload" and isinstance(value, str):
                continue  # JSON text of a team's own: it is checked when it comes in, and not read again
            if value is MISSING:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            yield f"{path} {way}", garbled


def _use_job(item: Item) -> None:
    job = replace(Job.from_item(item), calendars={"holidays": replace(read_calendar(CALENDARS[0]), name="holidays")})
    job.to_item()
    occurrences.named_calendars(job)
    occurrences.planned_with(job)
    pause_at(job.pauses, NOW_MS)
    pause_in_force(job.pauses, NOW_MS)
    job_view(job, NOW_MS, sees_payload=True)
    run = Run(LedgerKey("main", 0, NOW_MS, "shop", "x", NOW_MS), "running", attempt=1)
    endings.end_attempt(run, endings.Failure("failed", error_class="x.ValueError"), job.work, NOW_MS, 60)
    ReadyMessage(run.key, job.work, 1, NOW_MS, "test").to_json()
    describe(schedule_from_spec(job.schedule))
    due = job.next or Next(NOW_MS, NOW_MS, 0)
    for now_ms in (due.fire_at_ms, due.fire_at_ms + 7_200_000):
        step = chain.plan_step(job, due, now_ms, 4)
        chain.step_writes(job, job.occurrence_key("main", due), step, now_ms, 60)


def _use_run(item: Item) -> None:
    run = Run.from_item(item)
    run.to_item()
    run_view(RunView(run, run.status))
    work = run.work or Work("default", "job")
    decide_start(run, StartRequest(run.key, "claim-17", "w", 60), work, NOW_MS, 60)
    cancellations.decide_cancel(run, "why", NOW_MS, 60)
    replays.decide_replay(run, "ops", "why", NOW_MS, NOW_MS, guarded=False)
    endings.recorded_outcome(run, 1)
    ReadyMessage(run.key, work, run.attempt + 1, NOW_MS, "test").to_json()
    if run.status == "running":
        endings.end_attempt(run, endings.lapsed(run), work, NOW_MS, 60)


def _use_retry(item: Item) -> None:
    parse_ref(Retry.from_item(item).run_ref)


def _use_look(item: Item) -> None:
    parse_ref(Look.from_item(item).run_ref)


def _use_lease(item: Item) -> None:
    lease = SliceLease.from_item(item)
    lease.to_item()
    slices.has_tick(lease, NOW_MS // 1000)
    slices.note_ticks(lease, [NOW_MS // 1000], NOW_MS // 1000)
    backlog.passed_through(lease)
    slices.taken(lease, "me", NOW_MS // 1000, NOW_MS)


def _use_slot(item: Item) -> None:
    if item.get("slot") == "breaker":
        Breaker.from_item(item)
        return
    slot = Slot.from_item(item)
    parse_ref(slot.holder)
    slots.is_orphan(slot, None)


def _use_calendar(item: Item) -> None:
    calendar = read_calendar(item)
    calendar.excluded_until_s(NOW_MS // 1000)
    calendar.reason(NOW_MS // 1000)


def _one_of_each(table: str) -> list[Any]:
    """One item for each set of attributes: the others would be garbled in the same ways."""
    stored = [item for item in _recorded(FOLDERS[-1], table) if not _is_made_anew(item)]
    found = {tuple(sorted(item)): item for item in stored}
    return list(found.values())


USES: list[tuple[str, Callable[[Item], None], list[Any]]] = [
    ("jobs", _use_job, _one_of_each("jobs")),
    ("runs", _use_run, [item for item in _one_of_each("timers") if "run_ref" not in item]),
    ("retries", _use_retry, [item for item in _one_of_each("timers") if "run_ref" in item and "attempt" in item]),
    ("looks", _use_look, [item for item in _one_of_each("timers") if "run_ref" in item and "attempt" not in item]),
    ("leases", _use_lease, _one_of_each("leases")),
    ("slots", _use_slot, _one_of_each("resources")),
    ("calendars", _use_calendar, _one_of_each("calendars")),
]


@pytest.mark.parametrize(("use", "stored"), [use[1:] for use in USES], ids=[use[0] for use in USES])
def test_a_garbled_item_is_unreadable_or_a_bad_schedule_and_never_another_error(
    use: Callable[[Item], None], stored: list[Item]
) -> None:
    tried, escaped = 0, []
    for item in stored:
        use(item)  # as it was stored, it is well
        for what, garbled in garblings(item):
            tried += 1
            try:
                with suppress(Unreadable, BadSchedule):
                    use(garbled)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not get out
                escaped.append(f"{what}: {error!r}")
    assert escaped == []
    assert tried > 100
