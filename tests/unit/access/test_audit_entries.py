"""What an entry of the audit says, of whom and of what, and what never stands in one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.api.cursors import to_cursor
from tickwork.api.gate import KeyGate
from tickwork.core.access.actors import LOCAL
from tickwork.core.access.entries import Entry, Head, digest_of
from tickwork.core.access.masking import MASK, masked
from tickwork.core.instants import DAY_MS, MINUTE_MS, SECOND_MS
from tickwork.core.ledger.tables import AUDIT, CALENDARS, JOBS, PASSES
from tickwork.core.ledger.writes import Anyway, Put
from tickwork.flows.access import keys
from tickwork.ports import Layout, Ports
from tickwork.store.attributes import to_attributes
from tickwork.testing.memory import MemoryStore

LAYOUT = Layout(shards=1, slices=1, pools=("default",))
SCHEDULE = {"cron": "0 2 * * *"}
JOB = {"team": "payments", "name": "nightly", "schedule": SCHEDULE, "target": {"pool": "default", "handler": "h"}}
AT = "/jobs/payments:nightly"


class Desk:
    """An API over tables that one can look into; each request comes a minute after the one before."""

    def __init__(self) -> None:
        self.ports: Ports = fake_ports(MemoryStore(), LAYOUT)
        self.api = ApiUnderTest(self.ports)

    def do(self, method: str, path: str, body: object = None, **query: str) -> Any:
        self.ports.clock.sleep_ms(MINUTE_MS)
        status, answer = self.api.call(method, path, body, **query)
        assert status < 300, answer
        return answer

    def audit(self, **query: str) -> list[dict[str, Any]]:
        status, answer = self.api.call("GET", "/audit", **{"team": "payments", **query})
        assert status == 200, answer
        found: list[dict[str, Any]] = answer["entries"]
        return found

    def stored(self) -> list[Entry]:
        items, _ = self.ports.store.scan(AUDIT, limit=1_000, after=None)
        return [Entry.from_item(item) for item in items]

    def changed(self, entry: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        return {one["field"]: (one["before"], one["after"]) for one in entry["changes"]}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_each_change_of_a_job_is_one_entry_with_what_was_before_and_after(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    desk.do("PATCH", AT, {"version": 1, "lease_s": 90, "schedule": {"cron": "0 3 * * *"}})
    desk.do("POST", f"{AT}/pause", {"reason": "a release", "by": "ann"})
    desk.do("POST", f"{AT}/resume", {})
    desk.do("DELETE", AT)
    found = desk.audit(object="job:nightly")
    assert [one["action"] for one in found] == [
        "job.deleted",
        "job.resumed",
        "job.paused",
        "job.changed",
        "job.created",
    ]
    assert [(one["version_before"], one["version"]) for one in found[:-1]] == [(4, 5), (3, 4), (2, 3), (1, 2)]
    assert desk.changed(found[3]) == {"lease_s": (None, 90), "schedule.cron": ("0 2 * * *", "0 3 * * *")}
    assert desk.changed(found[2])["pause.by"] == (None, "local (ann)")
    assert desk.changed(found[1])["pause.reason"] == ("a release", None)
    assert desk.changed(found[0]) == {"status": ("active", "deleted")}
    made = desk.changed(found[4])
    assert made["schedule.cron"] == (None, "0 2 * * *")
    assert made["target.handler"] == (None, "h")


def test_an_entry_names_the_actor_of_this_request_and_where_it_came_from(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    wanted = keys.Wanted("payments", "operator", desk.ports.clock.now_ms() + DAY_MS)
    key, text = keys.create_key(desk.ports, wanted, LOCAL)
    desk.api = ApiUnderTest(desk.ports, KeyGate())
    desk.api.headers = {"Authorization": f"Bearer {text}", "User-Agent": f"curl {text}", "X-Forwarded-For": "6.6.6.6"}
    desk.api.context = {"http": {"sourceIp": "203.0.113.7"}, "requestId": "request-1"}
    desk.do("POST", f"{AT}/pause", {"reason": "a release"})
    entry = desk.audit(object="job:nightly")[0]
    assert (entry["actor"], entry["role"]) == (f"key:{key.key_id}", "operator")
    assert (entry["address"], entry["request_id"]) == ("203.0.113.7", "request-1")
    assert entry["agent"] == f"curl {MASK}"
    assert entry["at"] == "2026-10-30T00:02:00.000Z"


def test_the_same_request_again_leaves_no_second_entry(desk: Desk) -> None:
    for _ in range(2):
        desk.do("POST", "/jobs", JOB)
    for _ in range(2):
        desk.do("PATCH", AT, {"version": 1, "lease_s": 90})
    for _ in range(2):
        desk.do("POST", f"{AT}/pause", {"reason": "a release"})
    for _ in range(2):
        desk.do("POST", f"{AT}/resume", {})
    for _ in range(2):
        desk.do("DELETE", AT)
    assert len(desk.audit(object="job:nightly")) == 5


def test_a_payload_is_told_as_a_hash_that_is_the_same_for_the_same_and_no_plain_one(desk: Desk) -> None:
    small, large = {"card": "4111111111111111"}, {"note": "x" * 900}
    desk.do("POST", "/jobs", {**JOB, "payload": small})
    desk.do("PATCH", AT, {"version": 1, "payload": large})
    desk.do("PATCH", AT, {"version": 2, "payload": small})
    desk.do("PATCH", AT, {"version": 3, "lease_s": 90})
    unchanged, back, there, made = (desk.changed(one) for one in desk.audit(object="job:nightly"))
    assert "payload" not in unchanged
    assert there["payload"] == (made["payload"][1], back["payload"][0])
    assert back["payload"][1] == made["payload"][1] != there["payload"][1]
    other = Desk()
    other.ports.ids.unique()
    other.do("POST", "/jobs", {**JOB, "payload": small})
    assert other.changed(other.audit()[0])["payload"] != made["payload"], "another environment has another secret"
    told = repr([entry.to_item() for entry in desk.stored()])
    assert "4111111111111111" not in told
    assert "xxxx" not in told


def test_the_secret_of_the_hashes_is_made_once_and_shown_to_nobody(desk: Desk) -> None:
    desk.do("POST", "/jobs", {**JOB, "payload": 1})
    secret = desk.ports.store.get(PASSES, {"pass": "main#audit", "place": "payloads"})
    assert secret is not None
    assert len(secret["secret"]) == 64
    again = Desk()
    again.ports = replace(desk.ports, audit_known={})
    again.api = ApiUnderTest(again.ports)
    again.do("PATCH", AT, {"version": 1, "payload": 2})
    again.do("PATCH", AT, {"version": 2, "payload": 1})
    after, _, made = (desk.changed(one) for one in desk.audit(object="job:nightly"))
    assert after["payload"][1] == made["payload"][1]
    assert secret["secret"] not in repr(desk.audit())


@pytest.mark.parametrize(
    "text",
    [
        "tw_payments_" + "a" * 49,
        "AKIA" + "A" * 16,
        "ghp_" + "b" * 36,
        "xoxb-1234567890-abcdef",
        "sk_live_0123456789abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_DEF-1",
        "https://user:hunter22@example.com/hook",
        "https://example.com/hook?token=hunter22&x=1",
        "password=hunter22",
        "api_key: hunter22",
        "Authorization: Bearer hunter2222",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter22",
        "https://user:p@hunter22@example.com/hook",
        "https://hunter22hunter22@example.com/hook",
        "password='hunter22'",
        'password: "correct hunter22"',
        '{"api_key": "hunter22"}',
        "X-Api-Key: hunter22",
        "AWS_SECRET_ACCESS_KEY=hunter22",
        "PRIVATE-KEY=hunter22",
        "Authorization: token hunter22",
        "Authorization: hunter22",
        "Cookie: theme=dark; session=hunter22",
    ],
)
def test_a_credential_of_a_known_form_is_masked(desk: Desk, text: str) -> None:
    assert MASK in masked(text)
    assert "hunter22" not in masked(text)
    desk.do("POST", "/jobs", JOB)
    desk.do("POST", f"{AT}/pause", {"reason": f"see {text} there"})
    (entry,) = [one for one in desk.stored() if one.action == "job.paused"]
    assert text not in repr(entry.to_item())
    assert MASK in repr(entry.to_item())


@pytest.mark.parametrize(
    "text",
    [
        "a release",
        "version 3: nightly",
        "https://example.com/hook?x=1",
        "author: ann",
        "ssh://git@example.com/x",
        "a key: value",
    ],
)
def test_what_is_no_credential_is_told_as_it_is(text: str) -> None:
    assert masked(text) == text


def test_an_entry_stays_small_whatever_is_registered(desk: Desk) -> None:
    everything = {f"tag-{i:02d}-{'x' * 50}": i + 1 for i in range(5)}
    desk.do(
        "POST",
        "/jobs",
        {
            **JOB,
            "payload": "y" * 100_000,
            "resources": [{"name": name[:40], "max_concurrency": count} for name, count in everything.items()],
            "side_effects": [f"effect-{i}" for i in range(10)],
        },
    )
    (entry,) = desk.stored()
    assert len(repr(entry.to_item())) < 4_000


def test_the_job_carries_the_head_of_its_stream_and_each_entry_the_one_before(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    desk.do("PATCH", AT, {"version": 1, "lease_s": 90})
    first, second = sorted(desk.stored(), key=lambda entry: entry.place)
    item = desk.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    assert item is not None
    assert item["audit_head"] == second.head.as_text()
    assert Head.parse(second.follows) == first.head
    assert first.follows == ""
    for entry in (first, second):
        stored = entry.to_item()
        assert digest_of(stored) == entry.hash
        assert digest_of(stored | {"actor": "somebody"}) != entry.hash
        assert digest_of(stored | {"of a newer version": 1}) != entry.hash
        assert digest_of(stored | {"expires_at_s": 1}) == entry.hash, "how long it is kept may be changed"


def test_an_entry_is_kept_as_long_as_the_settings_say(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    (entry,) = desk.stored()
    assert entry.expires_at_s == entry.at_ms // SECOND_MS + LAYOUT.audit_s


def test_a_job_that_has_no_head_yet_begins_its_stream_at_its_next_change(desk: Desk) -> None:
    """An older version has registered it."""
    desk.do("POST", "/jobs", JOB)
    item = desk.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    assert item is not None
    del item["audit_head"]
    desk.ports.store.commit([Put(JOBS, item, Anyway("a test"))])
    desk.do("PATCH", AT, {"version": 1, "lease_s": 90})
    entry = max(desk.stored(), key=lambda one: one.at_ms)
    assert (entry.follows, entry.version_before, entry.version, entry.head.number) == ("", 1, 2, 1)


def test_a_head_that_cannot_be_read_keeps_no_change_from_being_made(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    item = desk.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    assert item is not None
    desk.ports.store.commit([Put(JOBS, item | {"audit_head": "v2 of a head"}, Anyway("a test"))])
    desk.do("PATCH", AT, {"version": 1, "lease_s": 90})
    entry = max(desk.stored(), key=lambda one: one.at_ms)
    assert (entry.follows, entry.head.number) == ("v2 of a head", 1)


def test_a_job_that_is_restored_to_an_older_state_can_be_changed_beside_what_it_does_not_know_of(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    old = desk.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    desk.do("PATCH", AT, {"version": 1, "lease_s": 90})
    assert old is not None
    desk.ports.store.commit([Put(JOBS, old, Anyway("a test: a table was restored"))])
    desk.do("PATCH", AT, {"version": 1, "lease_s": 91})
    assert sorted(entry.head.number for entry in desk.stored()) == [1, 2, 2]


def test_a_name_that_is_registered_again_goes_on_with_its_stream(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    desk.do("DELETE", AT)
    desk.do("POST", "/jobs", JOB)
    assert sorted(entry.head.number for entry in desk.stored()) == [1, 2, 3]


# --- reading --------------------------------------------------------------------------------------------------


def test_the_audit_is_paged_by_places_and_bounded_in_time(desk: Desk) -> None:
    for name in ("a", "b", "c", "d", "e"):
        desk.do("POST", "/jobs", {**JOB, "name": name})
    shown: list[str] = []
    query: dict[str, str] = {"team": "payments", "limit": "2"}
    for _ in range(4):
        _, page = desk.api.call("GET", "/audit", **query)
        shown += [one["object"] for one in page["entries"]]
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
    assert shown == [f"job:{name}" for name in "edcba"]
    between = desk.audit(since="2026-10-30T00:02:00Z", until="2026-10-30T00:04:00Z")
    assert [one["object"] for one in between] == ["job:c", "job:b"]
    assert desk.audit(actor="somebody") == []
    assert len(desk.audit(actor="local")) == 5


@pytest.mark.parametrize(
    "query",
    [
        {"object": "nightly"},
        {"object": "seal:entries"},
        {"object": "job:"},
        {"object": "job:a|b"},
        {"cursor": "x"},
        {"since": "yesterday"},
    ],
)
def test_what_names_nothing_is_refused(desk: Desk, query: dict[str, str]) -> None:
    status, _ = desk.api.call("GET", "/audit", **{"team": "payments", **query})
    assert status == 422


def test_a_cursor_of_another_teams_audit_is_none_of_this(desk: Desk) -> None:
    for name in ("a", "b"):
        desk.do("POST", "/jobs", {**JOB, "name": name, "team": "shop"})
    cursor = desk.api.call("GET", "/audit", team="shop", limit="1")[1]["cursor"]
    status, answer = desk.api.call("GET", "/audit", team="payments", cursor=cursor)
    assert (status, answer["errors"][0]["field"]) == (422, "cursor")


@pytest.mark.parametrize(
    ("path", "position"),
    [
        ("/audit", [1, "payments:job:a", "!"]),
        ("/audit", [1, "payments:job:a", "zz"]),
        ("/audit:verify", ["nowhere", 0, "-", "-"]),
        ("/audit:verify", ["seals", 0, "-", "!"]),
        ("/audit:verify", ["entries", 1, "shop:job:a", "1793318400000#0000000001#aaaaaaaa"]),
        ("/audit:verify", ["job", 0, "-", "shop:a"]),
    ],
)
def test_a_cursor_that_no_page_gave_is_refused(desk: Desk, path: str, position: list[Any]) -> None:
    status, answer = desk.api.call("GET", path, team="payments", cursor=to_cursor(position) or "")
    assert (status, answer["errors"][0]["field"]) == (422, "cursor")


# --- versions -------------------------------------------------------------------------------------------------


def test_a_job_is_shown_as_it_was_at_any_version(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    desk.do("PATCH", AT, {"version": 1, "lease_s": 90})
    desk.do("POST", f"{AT}/pause", {"reason": "a release"})
    desk.do("PATCH", AT, {"version": 3, "lease_s": 91})
    leases = [desk.do("GET", AT, version=str(version))["lease_s"] for version in (1, 2, 3, 4)]
    assert leases == [60, 90, 90, 91]
    first, now = desk.do("GET", AT, version="1"), desk.do("GET", AT, version="4")
    assert (first["version"], first["status"], first["next"]) == (1, "replaced", None)
    assert now == desk.do("GET", AT)
    desk.do("DELETE", AT)
    assert desk.do("GET", AT, version="2")["lease_s"] == 90
    assert desk.api.call("GET", AT)[0] == 404
    for version in ("6", "99"):
        status, answer = desk.api.call("GET", AT, version=version)
        assert (status, answer["errors"][0]["field"]) == (404, "version")


def test_looking_for_credentials_takes_no_longer_the_more_there_is_to_look_at() -> None:
    """Of a text only its beginning is told: what cannot be told is not searched."""
    from tickwork.core.access import diffs

    seen: list[int] = []

    def counting(text: str) -> str:
        seen.append(len(text))
        return text

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(diffs, "masked", counting)
        diffs.told("eyJ-" * 100_000)
    assert seen == [diffs.MASKED_CHARS_MAX]
    longest = "x" * 149 + " eyJ" + "a" * 4_000 + "." + "b" * 4_000 + ".c"
    assert "aaa" not in diffs.told(longest + "d" * 100_000)


@pytest.mark.parametrize("spec", [None, "gone", "text", 5, [], {"dates": 1.5}, {"dates": {"a": [0.25]}}])
def test_a_calendar_that_somebody_has_garbled_can_be_mended_and_the_entry_can_be_stored(desk: Desk, spec: Any) -> None:
    desk.do("PUT", "/calendars/payments:days", {"dates": ["2026-12-24"]})

    item = desk.ports.store.get(CALENDARS, {"calendar_id": "payments:days"})
    assert item is not None
    garbled = {name: value for name, value in item.items() if name != "spec"} | (
        {} if spec == "gone" else {"spec": spec}
    )
    desk.ports.store.commit([Put(CALENDARS, garbled, Anyway("a test"))])
    desk.do("PUT", "/calendars/payments:days", {"dates": ["2026-12-31"], "version": 1})
    for entry in desk.stored():
        to_attributes(entry.to_item())  # what DynamoDB does not take raises


@pytest.mark.parametrize(
    "head", ["9" * 5_000 + ".1.1.x", "99999999999999.1.1.x", f"1.{'9' * 14}.1.x", "1.1.1.", "¹.1.1.x"]
)
def test_a_head_that_is_none_of_ours_begins_a_new_chain(head: str) -> None:
    assert Head.parse(head) is None
