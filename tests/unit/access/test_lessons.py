"""What others have run into with access (X1 to X13, the table of docs/access.md): each lesson has its tests, or a
sentence that says why not. Here are the tests that stand nowhere else."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.access.test_matrix import OWN, SCHEDULE, Stage, api_for, request
from tests.unit.access.test_pools import World
from tests.unit.access.test_pools_under_faults import fail
from tickwork.api.matrix import MATRIX
from tickwork.api.table import ROUTES
from tickwork.core.access.api_keys import PATTERN

ROOT = Path(__file__).parents[3]
LESSONS = [f"X{number}" for number in range(1, 14)]
REASON_CHARS_MIN = 25


def rows() -> dict[str, tuple[str, str]]:
    """The table of the page: (what holds it, what does not) by lesson."""
    page = (ROOT / "docs/access.md").read_text(encoding="utf-8")
    section = page.partition("## What others have run into")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| X"
    ]
    assert [row[0] for row in cells] == LESSONS
    return {name: (held, missing) for name, _, held, missing in cells}


def there_are() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)}


def test_every_lesson_has_tests_that_exist_or_a_sentence_that_says_why_not() -> None:
    known = there_are()
    for lesson, (held, missing) in rows().items():
        named = re.findall(r"`(test_\w+)`", held)
        assert set(named) <= known, (lesson, set(named) - known)
        assert named or len(missing) >= REASON_CHARS_MIN, lesson
        assert missing == "" or missing.startswith(("Not built: ", "Not here: ")), (lesson, missing)


# --- X2: the actor of this request ------------------------------------------------------------------------------


def test_who_replays_a_run_of_somebody_else_is_named_by_the_run_and_by_the_audit() -> None:
    world = World()
    created, replays = world.as_role("owner", "payments"), world.as_role("operator", "payments")
    body = {"team": "payments", "delay_s": 1, "target": {"pool": "default", "handler": "h"}}
    timer_id = created.call("POST", "/timers", body)[1]["timer_id"]
    world.pass_time(2)
    (message,) = world.sent("default")
    assert fail(world, message, "failed_permanent")["status"] == "dead"
    makers = {one.headers["authorization"][7:] for one in (created, replays)}
    assert len(makers) == 2
    order = {"team": "payments", "runs": [message["ref"]], "reason": "mended", "by": "somebody else"}
    assert replays.call("POST", "/dead-letters:replay", order)[1]["replayed"] == 1
    run = created.call("GET", f"/runs/{timer_id}")[1]
    entry = created.call("GET", "/audit", team=OWN, limit="1")[1]["entries"][0]
    (told,) = run["replays"]
    assert told["by"].startswith(entry["actor"])
    assert told["by"].endswith("(somebody else)")
    assert (entry["action"], entry["role"]) == ("runs.replayed", "operator")
    made = created.call("GET", "/timers/" + timer_id)[1]
    assert entry["actor"] != made.get("created_by", "")


# --- X3, X4: what the audit holds, and who reads it ---------------------------------------------------------------


def entries(api: ApiUnderTest) -> list[Any]:
    found: list[Any] = api.call("GET", "/audit", team=OWN, limit="200")[1]["entries"]
    return found


def test_the_audit_holds_changes_alone_and_each_says_something_else_before_than_after() -> None:
    stage = Stage()
    owner = api_for(stage, "key", "owner")
    before = len(entries(owner))
    for route in ROUTES:
        if route.method == "GET":
            path, _, query = request(stage, route, OWN)
            owner.call("GET", path, **query)
    path = f"/jobs/{OWN}:nightly"
    assert owner.call("POST", f"{path}/pause", {})[0] == 422, "without a reason nothing is paused"
    assert len(entries(owner)) == before, "neither a read nor a refusal is a change"
    asked = (("POST", "/pause", {"reason": "a release"}), ("PATCH", "", {"lease_s": 90}), ("POST", "/resume", {}))
    for method, what, body in asked:
        stage.ports.clock.sleep_ms(1_000)
        version = {"version": owner.call("GET", path)[1]["version"]} if method == "PATCH" else {}
        assert owner.call(method, path + what, body | version)[0] == 200
    found = entries(owner)
    assert [one["action"] for one in found[:3]] == ["job.resumed", "job.changed", "job.paused"]
    told = [(one["action"], change) for one in found for change in one["changes"]]
    assert told
    assert not [one for one in told if one[1]["before"] == one[1]["after"]]
    assert json.dumps(found[0]["changes"]) != json.dumps(found[2]["changes"])


def test_a_viewer_reads_his_teams_audit_with_what_was_done_to_runs() -> None:
    stage = Stage()
    ref = stage.things[OWN]["ref"]
    operator = api_for(stage, "key", "operator")
    stage.ports.clock.sleep_ms(1_000)
    assert operator.call("POST", "/runs:cancel", {"runs": [{"ref": ref}], "reason": "wrong"})[0] == 200
    viewer = api_for(stage, "key", "viewer")
    assert entries(viewer) == entries(api_for(stage, "key", "owner"))
    newest = entries(viewer)[0]
    assert (newest["action"], newest["role"]) == ("runs.cancelled", "operator")


# --- X6: between reading and owning -------------------------------------------------------------------------------

DEFINES = {"schedule", "target", "payload", "retry_policy", "spec", "dates"}


def test_an_operator_pauses_resumes_cancels_and_replays_and_defines_nothing() -> None:
    may = {route.name for route in ROUTES if "operator" in MATRIX[route.name].roles}
    assert {"pause_job", "resume_job", "cancel_runs", "cancel_timer", "replay_dead_letters"} <= may
    for route in ROUTES:
        if route.name == "run_job":
            continue  # of one run, and for owners: test_a_payload_of_its_own_is_given_by_owners
        if route.name in may and route.name != "preview_schedule":  # which keeps nothing
            assert not DEFINES & set(route.body.model_fields), route.name
    stage = Stage()
    operator = api_for(stage, "key", "operator")
    change = {"version": 1, "schedule": SCHEDULE}
    assert operator.call("PATCH", f"/jobs/{OWN}:nightly", change)[0] == 403
    assert operator.call("POST", f"/jobs/{OWN}:nightly/pause", {"reason": "a release"})[0] == 200


# --- X11: keys do not look like hashes ----------------------------------------------------------------------------


def test_the_scanners_pattern_has_no_false_hit_among_a_hundred_thousand_hashes() -> None:
    digests = [hashlib.sha256(str(number).encode()) for number in range(50_000)]
    text = " ".join([*(one.hexdigest() for one in digests), *(f"tw_{one.hexdigest()}" for one in digests)])
    assert re.search(PATTERN, text, re.ASCII) is None


# --- X12: the same shape for whoever only reads -------------------------------------------------------------------


@pytest.mark.parametrize("shows", [True, False])
def test_a_viewer_compares_a_job_with_his_file_as_an_owner_does_but_for_a_payload_that_his_team_hides(
    shows: bool,
) -> None:
    world = World()
    assert world.api.call("GET", "/teams/payments")[1]["version"] == 1
    body = {"contact": "ann", "version": 1, "viewers_see_payloads": shows, "runbook": "https://example.org"}
    assert world.api.call("PUT", "/teams/payments", body)[0] == 200
    world.ports.clock.sleep_ms(60_000)
    world.job("default", payload={"amount": 1})
    owner, viewer = (
        world.as_role(role, "payments").call("GET", "/jobs/payments:nightly")[1] for role in ("owner", "viewer")
    )  # type: ignore[arg-type]
    differ = {name for name in owner.keys() | viewer.keys() if owner.get(name) != viewer.get(name)}
    assert differ == (set() if shows else {"payload", "payload_hidden"})
