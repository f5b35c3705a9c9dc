"""What of payloads people are shown: nothing secret, to nobody; and to viewers nothing, unless their team says so.

A mask that is sent back in its place stands for what it hides, and is stored nowhere. Workers get what was registered.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue
from tests.unit.access.test_matrix import OWN, SCHEDULE, Stage, _World, api_for, request
from tickwork.api.matrix import MATRIX, OPERATORS, READERS
from tickwork.api.table import ROUTES
from tickwork.core.access.actors import LOCAL, ROLES, Role
from tickwork.core.access.hiding import masks_in, shown
from tickwork.core.access.masking import MASK, is_credentials_name
from tickwork.core.errors import Throttled
from tickwork.core.instants import DAY_MS, SECOND_MS
from tickwork.core.ledger.tables import JOBS, TEAMS
from tickwork.core.ledger.writes import Anyway, Update
from tickwork.flows.access import keys, registry
from tickwork.flows.dispatch.windows import run_window
from tickwork.ports import Layout
from tickwork.testing.memory import MemoryStore

TARGET = {"pool": "default", "handler": "h"}
PAYLOAD = {"card": {"number": "4111-1111", "owner": "ann"}, "day": 1}
SECRET = {"team": "shop", "target": TARGET, "payload": PAYLOAD, "secret_fields": ["card.number"]}
JOB = SECRET | {"name": "charge", "schedule": {"rate": "1 hour"}}
HIDDEN = {"card": {"number": MASK, "owner": "ann"}, "day": 1}
AT = "/jobs/shop:charge"


class Desk:
    """The API of one machine, over tables and queues in memory."""

    def __init__(self) -> None:
        ports = fake_ports(MemoryStore(), Layout(shards=1, slices=1, pools=("default", "push")))
        self.ports = replace(ports, receiver=WorldQueue(_World(ports.clock, ports.sender)))  # type: ignore[arg-type]
        self.api = ApiUnderTest(self.ports)

    def do(self, method: str, path: str, body: object = None, **query: str) -> Any:
        status, answer = self.api.call(method, path, body, **query)
        assert status < 300, answer
        return answer

    def stored(self) -> Any:
        item = self.ports.store.get(JOBS, {"job_id": "shop:charge"})
        assert item is not None
        return json.loads(item["work"]["payload"])

    def refused(self, method: str, path: str, body: object) -> str:
        before = self.ports.store.scan(JOBS, limit=100, after=None)
        status, problem = self.api.call(method, path, body)
        assert (status, problem["type"]) == (422, "urn:tickwork:problem:invalid-field"), problem
        assert self.ports.store.scan(JOBS, limit=100, after=None) == before
        return str(problem["errors"][0]["field"])


@pytest.fixture
def desk() -> Desk:
    return Desk()


# --- what is hidden ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "secret", "seen"),
    [
        ({"a": {"b": 1, "c": 2}}, ["a.b"], {"a": {"b": MASK, "c": 2}}),
        ({"a": {"b": {"d": 1}, "c": 2}}, ["a.b"], {"a": {"b": MASK, "c": 2}}),
        ({"a": [{"b": 1, "c": 2}, {"b": None}]}, ["a.b"], {"a": [{"b": MASK, "c": 2}, {"b": MASK}]}),
        ({"a": {"x": {"b": 1}, "y": {"b": 2, "c": 3}}}, ["a.*.b"], {"a": {"x": {"b": MASK}, "y": {"b": MASK, "c": 3}}}),
        ({"a": 1, "b": [2]}, ["*"], {"a": MASK, "b": MASK}),
        ({"a": "1", "b": 2}, ["a.b.c"], {"a": MASK, "b": 2}),
        ([{"a": 1}, [{"a": 2}], 3], ["a"], [{"a": MASK}, [{"a": MASK}], MASK]),
        ("4111", ["card.number"], MASK),
        ({"b": 1}, ["a"], {"b": 1}),
        ({"a": 1}, ["a", "a.b"], {"a": MASK}),
        ({"password": "p", "API-Key": 5, "on": True}, [], {"password": MASK, "API-Key": MASK, "on": True}),
        ({"auth": {"as": ["x", 1.5, None, True]}}, [], {"auth": {"as": [MASK, MASK, None, True]}}),
        (
            {"Authorization": "x", "cookie": "y", "author": "z"},
            [],
            {"Authorization": MASK, "cookie": MASK, "author": "z"},
        ),
        ({"to": "https://a:b@c.example/?token=x"}, [], {"to": f"https://{MASK}@c.example/?token={MASK}"}),
        ({"AKIAABCDEFGHIJKLMNOP": 1}, [], {MASK: 1}),
        (["https://hooks.slack.com/services/T0123/B0123/abc"], [], [f"https://hooks.slack.com/services/{MASK}"]),
    ],
)
def test_what_is_marked_or_has_the_name_or_form_of_a_credential_is_hidden(
    payload: Any, secret: list[str], seen: Any
) -> None:
    assert shown(payload, secret) == seen


@pytest.mark.parametrize(
    "name",
    ["access_key", "API-KEY", "privateKey", "secretkey", "auth", "oauth", "passwd", "password", "passphrase", "pwd",
     "client_secret", "sig", "X-Amz-Signature", "accessToken", "authorization", "Proxy-Authorization", "cookie",
     "Set-Cookie"],
)  # fmt: skip
def test_a_credentials_name_hides_what_stands_under_it(name: str) -> None:
    assert shown({name: "x"}, []) == {name: MASK}


def test_a_name_that_only_begins_like_a_credentials_hides_nothing() -> None:
    assert not any(map(is_credentials_name, ("tokens_used", "author", "secretary", "passwordless", "key", "design")))


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "a\n", ".".join("a" * 11), "x" * 201])
def test_a_path_that_is_none_is_refused(desk: Desk, path: str) -> None:
    assert desk.refused("POST", "/jobs", JOB | {"secret_fields": [path]}) == "secret_fields.0"


def test_each_answer_that_shows_a_payload_hides_its_secrets_and_says_where(desk: Desk) -> None:
    timer = SECRET | {"delay_s": 600}
    made = desk.do("POST", "/timers", timer)
    at = f"/timers/{made['timer_id']}"
    answers = [
        made,
        desk.do("POST", "/jobs", JOB),
        desk.do("POST", "/jobs", JOB),
        desk.do("GET", AT),
        *desk.do("GET", "/jobs", team="shop")["jobs"],
        desk.do("POST", f"{AT}/pause", {"reason": "a release"}),
        desk.do("POST", f"{AT}/resume", {}),
        desk.do("PATCH", AT, {"version": 3, "lease_s": 90}),
        desk.do("GET", AT, version="1"),
        *desk.do("POST", "/timers:batch", {"timers": [timer]})["timers"],
        desk.do("GET", at),
        *desk.do("GET", "/timers", team="shop")["timers"],
        desk.do("DELETE", at),
    ]
    assert len(answers) == 14  # the list has two timers
    for answer in answers:
        assert answer["payload"] == HIDDEN
        assert (answer["masked"], answer["secret_fields"]) == (["payload.card.number"], ["card.number"])


def test_an_answer_without_a_secret_says_nothing_of_masks(desk: Desk) -> None:
    answer = desk.do("POST", "/jobs", JOB | {"secret_fields": []})
    assert answer["payload"] == PAYLOAD
    assert answer.keys().isdisjoint({"masked", "secret_fields", "payload_hidden"})


def test_a_worker_gets_the_payload_as_it_was_registered(desk: Desk) -> None:
    desk.do("POST", "/timers", SECRET | {"delay_s": 0})
    long = {"card": {"number": "4111-1111"}, "text": "x" * 500}
    apart = desk.do("POST", "/timers", SECRET | {"delay_s": 0, "payload": long})
    assert apart.keys().isdisjoint({"payload", "payload_id"})  # the id is made of what is in it
    assert apart["payload_hidden"] is True
    desk.ports.clock.sleep_ms(SECOND_MS)
    run_window(desk.ports, 0, desk.ports.clock.now_ms() // SECOND_MS)
    runs = desk.do("POST", "/pools/default:lease", {"max": 10})["runs"]
    assert sorted((run["payload"] for run in runs), key=str) == [PAYLOAD, long]


def test_a_credential_in_the_url_of_a_push_is_hidden_and_pushed_to(desk: Desk) -> None:
    url = "https://hooks.example.com/orders?token=hunter22"
    job = desk.do("POST", "/jobs", JOB | {"target": {"url": url}})
    assert job["target"]["url"] == f"https://hooks.example.com/orders?token={MASK}"
    assert job["masked"] == ["target.url", "payload.card.number"]
    changed = desk.do("PATCH", AT, {"version": 1, "target": job["target"] | {"max_concurrency": 3}})
    assert (changed["version"], changed["target"]["max_concurrency"]) == (2, 3)
    item = desk.ports.store.get(JOBS, {"job_id": "shop:charge"})
    assert item is not None
    assert item["work"]["url"] == url
    other = f"https://evil.example.com/orders?token={MASK}"
    assert desk.refused("PATCH", AT, {"version": 2, "target": {"url": other}}) == "target.url"
    assert desk.refused("POST", "/jobs", JOB | {"name": "new", "target": {"url": other}}) == "target.url"
    timer = SECRET | {"delay_s": 60, "target": {"url": other}}
    assert desk.refused("POST", "/timers", timer) == "target.url"


# --- what is sent back ------------------------------------------------------------------------------------------


def test_a_job_sent_back_as_it_is_shown_changes_nothing(desk: Desk) -> None:
    """As export and apply do, and a diff that compares what it has with what is shown."""
    shown_job = desk.do("POST", "/jobs", JOB)
    again = {name: shown_job[name] for name in (*JOB, "lease_s", "retry_policy", "catch_up", "tolerance_s")}
    assert again["payload"] == HIDDEN
    status, answer = desk.api.call("POST", "/jobs", again)
    assert (status, answer["version"]) == (200, 1)
    fields = {name: again[name] for name in again if name not in ("team", "name")}
    answer = desk.do("PATCH", AT, fields | {"version": 1})
    assert (answer["version"], answer["changed"]) == (1, False)
    assert desk.stored() == PAYLOAD


def test_a_change_beside_a_mask_keeps_what_it_hides(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    sent = {"card": {"number": MASK, "owner": "bob"}, "night": 2}
    change = {"version": 1, "payload": sent}
    answer = desk.do("PATCH", AT, change)
    assert (answer["version"], answer["payload"]) == (2, sent)
    assert desk.stored() == {"card": {"number": "4111-1111", "owner": "bob"}, "night": 2}
    assert desk.do("PATCH", AT, change) == answer  # the first answer was lost: the repetition is known


def test_a_change_beside_what_a_credentials_name_hides_keeps_it_however_deep_it_stands(desk: Desk) -> None:
    payload = {"auth": {"as": {"user": "ann", "key": 5}, "on": True}, "to": "https://a:hunter22@b.example/", "n": 1}
    job = desk.do("POST", "/jobs", JOB | {"payload": payload, "secret_fields": []})
    assert job["payload"]["auth"] == {"as": {"user": MASK, "key": MASK}, "on": True}
    sent = job["payload"] | {"n": 2, "auth": {"as": {"user": MASK, "key": 6}, "on": False}}
    desk.do("PATCH", AT, {"version": 1, "payload": sent})
    assert desk.stored() == payload | {"n": 2, "auth": {"as": {"user": "ann", "key": 6}, "on": False}}


def test_a_change_with_masks_is_known_again_by_what_it_meant(desk: Desk) -> None:
    """Also where nothing is shown of it any more: the payload has become one that is kept apart."""
    job = JOB | {"schedule": SCHEDULE, "target": {"pool": "default", "handler": "h"}}
    desk.do("POST", "/jobs", job)
    desk.do("PATCH", AT, {"version": 1, "payload": HIDDEN | {"text": "x" * 500}})
    whole = job | {"payload": PAYLOAD | {"text": "x" * 500}}
    status, answer = desk.api.call("POST", "/jobs", whole)
    assert (status, answer["version"]) == (200, 2)


def test_a_mask_that_was_sent_for_an_older_version_is_told_of_the_version(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    desk.do("PATCH", AT, {"version": 1, "payload": {"day": 2}})
    status, problem = desk.api.call("PATCH", AT, {"version": 1, "payload": HIDDEN})
    assert (status, problem["type"]) == (412, "urn:tickwork:problem:version-conflict")


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"number": MASK}, "payload.number"),
        ({"card": MASK}, "payload.card"),
        ({"card": {"number": MASK, "pin": MASK}}, "payload.card.pin"),
        ({"card": {"number": f"x{MASK}"}}, "payload.card.number"),
        ({"card": {"owner": MASK}}, "payload.card.owner"),
        ({"card": [{"number": MASK}]}, "payload.card.0.number"),
        ({"card": {"number": [MASK]}}, "payload.card.number.0"),
        ({MASK: 1}, f"payload.{MASK}"),
        (MASK, "payload"),
    ],
)
def test_a_mask_that_stands_for_nothing_is_refused_and_named(desk: Desk, payload: Any, field: str) -> None:
    desk.do("POST", "/jobs", JOB)
    assert desk.refused("PATCH", AT, {"version": 1, "payload": payload}) == field
    assert desk.refused("POST", "/jobs", JOB | {"payload": payload}) == field
    timer = SECRET | {"delay_s": 60, "payload": payload}  # of what is new, the first mask is one too many
    first = masks_in(payload, "payload")[0]
    assert desk.refused("POST", "/jobs", JOB | {"name": "other", "payload": payload}) == first
    assert desk.refused("POST", "/timers", timer) == first
    batch = {"timers": [SECRET | {"delay_s": 60}, timer]}
    assert desk.refused("POST", "/timers:batch", batch) == f"timers.1.{first}"


def test_a_mask_of_a_job_that_is_deleted_or_keeps_its_payload_apart_stands_for_nothing(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    long = {"card": {"number": "4111-1111"}, "text": "x" * 500}
    desk.do("PATCH", AT, {"version": 1, "payload": long})
    assert desk.refused("PATCH", AT, {"version": 2, "payload": HIDDEN}) == "payload.card.number"
    desk.do("PATCH", AT, {"version": 2, "payload": PAYLOAD})
    desk.do("DELETE", AT)
    assert desk.refused("POST", "/jobs", JOB | {"payload": HIDDEN}) == "payload.card.number"


def test_in_a_list_a_mask_stands_for_what_it_hides_only_while_the_whole_list_is_as_it_was_shown(desk: Desk) -> None:
    payload = {"to": [{"who": "ann", "token": "a"}, {"who": "bob", "token": "b"}], "n": 1}
    job = desk.do("POST", "/jobs", JOB | {"payload": payload, "secret_fields": []})
    ann, bob = job["payload"]["to"]
    desk.do("PATCH", AT, {"version": 1, "payload": {"to": [ann, bob], "n": 2}})
    assert desk.stored() == payload | {"n": 2}
    for entries in ([bob, ann], [bob], [ann, bob, ann], [ann, bob | {"who": "eve"}]):
        assert desk.refused("PATCH", AT, {"version": 2, "payload": {"to": entries}}).startswith("payload.to.")


def test_a_value_that_only_looks_like_what_was_shown_is_another_one(desk: Desk) -> None:
    """In Python true is 1: an object that was sent with the one in the place of the other is not taken for the old."""
    desk.do("POST", "/jobs", JOB)
    desk.do("PATCH", AT, {"version": 1, "payload": HIDDEN | {"day": True}})
    assert desk.stored() == PAYLOAD | {"day": True}
    assert desk.stored()["day"] is True


def test_a_mark_is_taken_away_only_with_a_payload_that_is_sent_whole(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    for marks in ([], None, ["card.owner"]):
        assert desk.refused("PATCH", AT, {"version": 1, "secret_fields": marks}) == "secret_fields"
        sent = {"version": 1, "secret_fields": marks, "payload": HIDDEN}
        assert desk.refused("PATCH", AT, sent) == "secret_fields"
    more = desk.do("PATCH", AT, {"version": 1, "secret_fields": ["card.number", "day"]})
    assert more["payload"] == HIDDEN | {"day": MASK}
    url = {"url": "https://hooks.example.com/orders"}  # what the target says has nothing to do with it
    desk.do("PATCH", AT, {"version": 2, "payload": {"card": {"number": "4111"}, "text": "x" * 500}})
    assert desk.refused("PATCH", AT, {"version": 3, "secret_fields": []}) == "secret_fields"  # it is kept apart
    desk.do("PATCH", AT, {"version": 3, "payload": PAYLOAD})
    bare = desk.do("PATCH", AT, {"version": 4, "secret_fields": [], "payload": {"day": 2}, "target": url})
    assert bare["payload"] == {"day": 2}
    assert desk.do("PATCH", AT, {"version": 5, "payload": None, "secret_fields": ["a"]})["version"] == 6
    assert desk.do("PATCH", AT, {"version": 6, "secret_fields": []})["version"] == 7  # nothing is hidden by it


def test_a_mark_that_is_set_later_hides_what_earlier_versions_have_there(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB | {"secret_fields": []})
    desk.do("PATCH", AT, {"version": 1, "secret_fields": ["card.number"]})
    assert desk.do("GET", AT, version="1")["payload"] == HIDDEN
    desk.do("PATCH", AT, {"version": 2, "secret_fields": [], "payload": {"day": 2}})
    desk.do("PATCH", AT, {"version": 3, "secret_fields": ["day"], "payload": {"day": 3}})
    desk.do("PATCH", AT, {"version": 4, "secret_fields": [], "payload": {"day": 4}})
    for version in ("1", "2"):
        assert desk.do("GET", AT, version=version)["payload"] == HIDDEN | {"day": MASK}
    assert desk.do("GET", AT, version="3")["payload"] == {"day": MASK}
    assert desk.do("GET", AT)["payload"] == {"day": 4}
    desk.do("DELETE", AT)
    assert desk.do("GET", AT, version="1")["payload"] == HIDDEN | {"day": MASK}


def test_a_mark_of_an_earlier_version_alone_hides_nothing_later(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    desk.do("PATCH", AT, {"version": 1, "secret_fields": [], "payload": PAYLOAD})
    desk.do("PATCH", AT, {"version": 2, "lease_s": 90})
    assert desk.do("GET", AT, version="2")["payload"] == PAYLOAD
    assert desk.do("GET", AT, version="1")["payload"] == HIDDEN


def test_the_order_of_marks_makes_no_other_request(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB | {"secret_fields": ["a", "b"]})
    assert desk.api.call("POST", "/jobs", JOB | {"secret_fields": ["b", "a", "b"]})[0] == 200
    assert desk.do("PATCH", AT, {"version": 1, "secret_fields": ["b", "a"]})["version"] == 1


def test_a_payload_with_masks_that_is_nested_too_deeply_is_refused_as_such(desk: Desk) -> None:
    payload: Any = MASK
    for _ in range(400):
        payload = {"a": payload}
    for method, path, body in (("POST", "/jobs", JOB), ("POST", "/timers", SECRET | {"delay_s": 60})):
        assert desk.refused(method, path, body | {"payload": payload}) == "payload"
    desk.do("POST", "/jobs", JOB)
    assert desk.refused("PATCH", AT, {"version": 1, "payload": payload}) == "payload"


def test_masks_are_found_wherever_they_stand() -> None:
    assert masks_in({"a": [1, {"b": f"x {MASK}"}], MASK: {"c": 1}, "d": MASK}, "p") == ["p.a.1.b", f"p.{MASK}", "p.d"]


# --- who sees payloads ------------------------------------------------------------------------------------------


def _stage(shows: bool | None, role: Role) -> Stage:
    """Payments has a payload in each of its things. `shows`: whether it lets viewers see them; None: it is not even
    registered any more."""
    stage = Stage()
    said = {"payload": {"say": "plain-canary", "pin": "secret-canary"}, "secret_fields": ["pin"]}
    long = {"payload": {"x": "plain-canary" * 50}}
    stage.do("PATCH", f"/jobs/{OWN}:nightly", said | {"version": 1})
    stage.do("POST", "/jobs", {"team": OWN, "name": "apart", "schedule": SCHEDULE, "target": TARGET} | long)
    made = stage.do("POST", "/timers", {"team": OWN, "delay_s": 600, "target": TARGET} | said)
    stage.things[OWN]["timer_id"] = made["timer_id"]
    if shows is None:
        key = {"cell": "@teams", "team": OWN}
        stage.ports.store.commit([Update(TEAMS, key, Anyway("a test"), remove=("hides_payloads",))])
        stage.ports.registry.clear()
    else:
        stage.do("PUT", f"/teams/{OWN}", {"contact": "ann", "version": 1, "viewers_see_payloads": shows})
    stage.keys = {role: stage._key(role)}
    return stage


WITH_PAYLOADS = {"get_job", "list_jobs", "get_timer", "list_timers"}
"""Of what a viewer may read."""


@pytest.mark.parametrize("shows", [False, True, None], ids=["not shown", "shown", "never said"])
@pytest.mark.parametrize("door", ["key", "jwt", "iam"])
def test_a_viewer_sees_payloads_only_where_his_team_lets_him_and_nobody_sees_secrets(
    door: str, shows: bool | None
) -> None:
    for role in ROLES:
        stage = _stage(shows, role)
        seen = set()
        for route in (one for one in ROUTES if role in MATRIX[one.name].roles and one.method == "GET"):
            path, body, query = request(stage, route, OWN)
            text = json.dumps(api_for(stage, door, role).call(route.method, path, body, **query)[1])
            assert "secret-canary" not in text, (role, route.name)
            if "plain-canary" in text:
                seen.add(route.name)
            elif route.name in WITH_PAYLOADS:
                assert '"payload_hidden": true' in text
                assert '"payload_id"' not in text
        sees = role in OPERATORS or (role == "viewer" and shows is not False)
        assert seen == (WITH_PAYLOADS if sees else set()), role


@pytest.mark.parametrize("shows", [False, True])
def test_a_viewer_of_the_platform_sees_of_each_team_what_its_own_viewers_see(shows: bool) -> None:
    stage = _stage(shows, "viewer")
    wanted = keys.Wanted("platform", "viewer", stage.ports.clock.now_ms() + DAY_MS)
    stage.keys["viewer"] = keys.create_key(stage.ports, wanted, LOCAL)[1]
    job = api_for(stage, "key", "viewer").call("GET", f"/jobs/{OWN}:nightly")[1]
    assert ("payload" in job, "payload_hidden" in job) == (shows, not shows)


def test_what_an_operator_does_shows_him_payloads_without_their_secrets() -> None:
    stage = _stage(False, "operator")
    for route in (one for one in ROUTES if "operator" in MATRIX[one.name].roles and one.method != "GET"):
        path, body, query = request(stage, route, OWN)
        status, answer = api_for(stage, "key", "operator").call(route.method, path, body, **query)
        assert status < 500
        assert "secret-canary" not in json.dumps(answer), route.name
        assert "payload_hidden" not in json.dumps(answer), route.name


def test_a_team_registered_from_now_on_shows_its_viewers_no_payloads_until_it_says_so(desk: Desk) -> None:
    team = desk.do("PUT", "/teams/shop", {"contact": "ann"})
    assert team["viewers_see_payloads"] is False
    assert desk.do("PUT", "/teams/shop", {"contact": "ann"})["version"] == 1
    team = desk.do("PUT", "/teams/shop", {"contact": "ann", "version": 1, "viewers_see_payloads": True})
    assert (team["version"], team["viewers_see_payloads"]) == (2, True)
    kept = desk.do("PUT", "/teams/shop", {"contact": "bob", "version": 2})
    assert (kept["version"], kept["viewers_see_payloads"]) == (3, True)  # a client that knows of no such thing


def test_a_team_that_is_adopted_goes_on_as_before(desk: Desk) -> None:
    desk.do("POST", "/jobs", JOB)
    desk.do("POST", "/teams:adopt", {"contact": "ann", "dry_run": False})
    assert desk.do("GET", "/teams/shop")["viewers_see_payloads"] is True
    assert not registry.hides_payloads(desk.ports, "shop")


@pytest.mark.parametrize("stored", [1, "no", {}, [], None])
def test_what_somebody_has_garbled_hides(desk: Desk, stored: Any) -> None:
    desk.do("PUT", "/teams/shop", {"contact": "ann"})
    key = {"cell": "@teams", "team": "shop"}
    desk.ports.store.commit([Update(TEAMS, key, Anyway("a test"), set={"hides_payloads": stored})])
    desk.ports.registry.clear()
    assert registry.hides_payloads(desk.ports, "shop")


def test_while_it_is_not_known_what_a_team_lets_its_viewers_see_they_see_nothing() -> None:
    stage = _stage(True, "viewer")
    api = api_for(stage, "key", "viewer")
    assert api.call("GET", f"/jobs/{OWN}:nightly")[0] == 200

    busy = stage.ports.store
    real = busy.get_many

    def get_many(table: Any, keys: Any) -> Any:
        if table is TEAMS:
            raise Throttled("busy")
        return real(table, keys)

    stage.ports.registry.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(busy, "get_many", get_many)
        status, answer = api.call("GET", f"/jobs/{OWN}:nightly")
    assert (status, answer["type"]) == (503, "urn:tickwork:problem:busy")


def test_the_roles_that_see_payloads_are_those_that_may_change_what_runs() -> None:
    assert frozenset({"viewer"}) == READERS - OPERATORS
