"""Upgrade and roll back under load on the local endpoint: nothing that was accepted is lost, by either version.

The parts of both versions are processes on one endpoint, replaced one kind after the other, each time with old and new
side by side for a while, as functions are while CloudFormation changes them: windows first, then the API, then workers;
back in the opposite order.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.machine import eventually, free_port
from tests.upgrade.versions import ROOT, Version, previous_commit, sources_of, why_not_there
from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.core.instants import SECOND_MS, iso
from tickwork.local import endpoint
from tickwork.local.endpoint import Endpoint
from tickwork.settings import Settings

SETTINGS = Settings(prefix="tickwork-upgrade", shards=4, slices=2, pools="default", retention_days=7)
WORKER = Path(__file__).with_name("worker_app.py")
STAGE_S = float(os.environ.get("UPGRADE_STAGE_S", "12"))
"""How long each stage lasts under load."""
TOGETHER_S = 4.0
"""How long old and new stand side by side."""
SETTLES_WITHIN_S = 120
PERIOD_S = 5


@dataclass
class Load:
    """Creates timers without a pause, through whichever API answers, and remembers which were accepted."""

    apis: list[ApiClient]
    accepted: list[str] = field(default_factory=list)
    unanswered: int = 0
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        number = 0
        while not self.ending.wait(0.25):
            number += 1
            target = {"pool": "default", "handler": "note"}
            wanted = [
                {"team": "up", "delay_s": delay_s, "target": target, "client_key": f"{number}-{delay_s}"}
                for delay_s in (0, 2, 25)
            ]
            self.accepted += [one["timer_id"] for one in self._create(wanted)]

    def _create(self, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The same wish to the other version when one does not answer: its key makes it one timer."""
        for _ in range(60):
            for api in self.apis:
                try:
                    answer = api.post("/timers:batch", {"timers": wanted})
                except ApiUnreachable:
                    self.unanswered += 1
                    continue
                return list(answer["timers"])
            time.sleep(0.2)
        raise AssertionError("no API has answered for a long time")


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[tuple[Version, Version]]:
    """(previous, present) on a fresh endpoint, nothing started."""
    commit = previous_commit()
    if why := why_not_there(commit):
        pytest.skip(why)
    old_functions = sources_of(commit, tmp_path / "previous", "functions") / "functions"
    with Endpoint(
        python=endpoint.default_python(), port=free_port(), state=tmp_path / "aws", log=tmp_path / "endpoint.log"
    ) as running:
        environ = endpoint.client_environ(running.port) | SETTINGS.to_environ() | {"NOTES": str(tmp_path / "notes")}
        old = Version("old", old_functions, free_port(), environ, tmp_path)
        new = Version("new", ROOT / "functions", free_port(), environ, tmp_path)
        try:
            yield old, new
        finally:
            old.stop()
            new.stop()


def answers(version: Version) -> bool:
    try:
        ApiClient(version.url, auth="none").call("GET", "/health", repeat=False)
    except (ApiUnreachable, ApiRefused):
        return False
    return True


def start(version: Version, part: str) -> None:
    match part:
        case "api":
            version.start("api", "serve", "api", "--port", str(version.port))
            eventually(lambda: answers(version), bool, within_s=60)
        case "windows":
            version.start("windows", "serve", "windows")
        case "worker":
            version.start("worker", "worker", f"{WORKER}:app", "--pool", "default")


def replace_parts(gone: Version, come: Version, order: tuple[str, ...]) -> None:
    """One kind of part after the other, old and new together for a while."""
    for part in order:
        start(come, part)
        time.sleep(TOGETHER_S)
        gone.stop(part)


BEFORE: dict[str, Any] = {"catch_up": {"policy": "all"}}
ALL = BEFORE | {"overlap": "allow"}
"""Each occurrence runs, however late. The previous version may know of no overlap, and then allows it."""


def register(
    api: ApiClient, name: str, schedule: dict[str, Any], says: dict[str, Any] = ALL, *, team: str = "up"
) -> None:
    target = {"pool": "default", "handler": "note"}
    api.post("/jobs", {"team": team, "name": name, "schedule": schedule, "target": target} | says)


def freeze_soon(api: ApiClient) -> None:
    """What only the new version writes: a hard calendar, and a job that is late when its freeze has begun."""
    now_ms = int(time.time() * SECOND_MS)
    span = {"from": iso(now_ms + 8_000)[:19], "to": iso(now_ms + 30_000)[:19]}
    api.call("PUT", "/calendars/up:freeze", {"ranges": [span], "zone": "UTC", "hard": True})
    register(api, "frozen", {"rate": "7 seconds", "calendars": {"exclude": ["freeze"]}})


STEADY: dict[str, Any] = {"rate": f"{PERIOD_S} seconds"}
FOLLOWED = {"retry_policy": {"max_attempts": 7, "base_s": 2}, **ALL}


def use_what_is_new(api: ApiClient) -> None:
    """What only the new version knows: versions of the defaults, with jobs that follow one and pin one; a skip; and a
    team that is paused, whose occurrences wait for the end of that."""
    published = api.post("/defaults", {"edition": 0, "reason": "cards are often back", **FOLLOWED})
    wanted = {"edition": published["edition"], "version": 2, "teams": ["up"], "reason": "all of it"}
    api.post("/defaults:roll-out", wanted)
    register(api, "follows", STEADY, {})
    register(api, "pins", {"rate": "1 hour"}, {"defaults_version": 2, "max_duration_s": 50})
    upcoming = api.get("/jobs/up%3Apins/next")["occurrences"][0]["scheduled_at"]
    api.post("/jobs/up%3Apins/skip", {"scheduled_at": upcoming, "reason": "a holiday"})
    register(api, "waits", STEADY, team="still")
    api.post("/pauses", {"team": "still", "reason": "a deployment", "at_resume": "all"})


def change(api: ApiClient, job_id: str) -> None:
    """By the previous version."""
    path = f"/jobs/{quote(job_id, safe='')}"
    api.call("PATCH", path, {"version": api.get(path)["version"], "lease_s": 90})


def assert_carried_along(old: ApiClient, new: ApiClient) -> None:
    """What only the new version knows stands where the previous one has written, and counts again when it is back."""
    for name in ("follows", "pins"):
        change(old, f"up:{name}")
    follows, pins = new.get("/jobs/up%3Afollows"), new.get("/jobs/up%3Apins")
    assert (follows["lease_s"], pins["lease_s"]) == (90, 90)
    assert set(follows["policies"].values()) == {"default@2"}, follows["policies"]
    assert follows["retry_policy"]["max_attempts"] == FOLLOWED["retry_policy"]["max_attempts"]
    assert (pins["defaults_version"], pins["policies"]["retry_policy"]) == (2, "default@2")
    assert [one["reason"] for one in pins["skips"]] == ["a holiday"]
    planned_by = Counter(run.get("defaults_version") for run in runs_of(new, "up:follows"))
    assert planned_by[2], "a run goes on showing what it was planned by, whoever has ended it"
    assert new.get("/defaults")["versions"][2]["teams"] == ["up"]
    assert [one["name"] for one in new.get("/pauses")["pauses"]] == ["still"]


def assert_resumes(api: ApiClient) -> None:
    """The previous version leaves a row of a pause alone for up to an hour: what waits in it goes when it is over."""
    resumed = api.post("/pauses:resume", {"team": "still"})
    assert resumed["starts"]["count"] > STAGE_S // PERIOD_S
    first = [one["scheduled_at"] for one in resumed["starts"]["first"]]
    eventually(
        lambda: {run["status"] for run in runs_of(api, "still:waits") if run["scheduled_at"] in first},
        lambda found: found == {"succeeded"},
        within_s=SETTLES_WITHIN_S,
        every_s=3,
    )
    assert_unbroken(api, "still:waits")


@pytest.mark.timeout(600)
def test_an_upgrade_and_a_roll_back_under_load_lose_nothing(
    versions: tuple[Version, Version], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = versions
    old.run("serve", "setup")
    for part in ("api", "windows", "worker"):
        start(old, part)
    apis = [ApiClient(old.url, auth="none"), ApiClient(new.url, auth="none")]
    for number in range(4):
        register(apis[0], f"steady-{number}", STEADY, BEFORE)
    load = Load(apis)
    loading = threading.Thread(target=load.run)
    loading.start()
    try:
        time.sleep(STAGE_S)
        new.run("serve", "setup")
        replace_parts(old, new, ("windows", "api", "worker"))
        freeze_soon(apis[1])
        use_what_is_new(apis[1])
        time.sleep(STAGE_S)
        assert {run["status"] for run in runs_of(apis[1], "still:waits")} <= {"pending", "waiting"}, "it is paused"
        replace_parts(new, old, ("worker", "api", "windows"))
        time.sleep(STAGE_S)
    finally:
        load.ending.set()
        loading.join(60)

    accepted = list(dict.fromkeys(load.accepted))
    statuses = eventually(
        lambda: Counter(status_of(apis[0], timer_id) for timer_id in accepted),
        lambda found: found.keys() == {"succeeded"},
        within_s=SETTLES_WITHIN_S,
        every_s=3,
    )
    notes = (tmp_path / "notes").read_text(encoding="utf-8").split()
    with capsys.disabled():
        print(f"\n{len(accepted)} timers accepted, {statuses['succeeded']} succeeded, 0 lost")
        print(f"{load.unanswered} calls unanswered; {len(notes) - len(set(notes))} of {len(notes)} effects doubled")
    assert len(accepted) > 3 * STAGE_S
    for number in range(4):
        assert_unbroken(apis[0], f"up:steady-{number}")
    assert_unbroken(apis[0], "up:follows")
    for part in ("api", "windows"):
        start(new, part)
    assert_carried_along(*apis)
    assert_resumes(apis[1])
    frozen = runs_of(apis[0], "up:frozen")
    assert frozen, "the previous version goes on with what only the present one writes"
    assert {run["status"] for run in frozen[3:]} <= {"succeeded", "skipped"}


def status_of(api: ApiClient, timer_id: str) -> str:
    return str(api.call("GET", f"/timers/{quote(timer_id, safe='')}")["status"])


def runs_of(api: ApiClient, job_id: str) -> list[dict[str, Any]]:
    """Newest first."""
    return list(api.get(f"/jobs/{quote(job_id, safe='')}/runs", limit=100)["runs"])


def assert_unbroken(api: ApiClient, job_id: str) -> None:
    """Each occurrence from the first to the newest is there, and all but the last few have come to an end."""
    runs = runs_of(api, job_id)
    times = [datetime.fromisoformat(run["scheduled_at"]).timestamp() for run in runs]
    assert all(later - earlier == PERIOD_S for later, earlier in itertools.pairwise(times)), times
    assert {run["status"] for run in runs[3:]} == {"succeeded"}, Counter(run["status"] for run in runs)
