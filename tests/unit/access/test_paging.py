"""A pager route counts when a test message has got through it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fakes import FakePager, fake_ports
from tests.support.http import ApiUnderTest
from tickwork.aws.paging import SnsPager
from tickwork.core.instants import MINUTE_MS
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Anyway, Delete
from tickwork.flows.dispatch.windows import run_window
from tickwork.ports import PUSH_POOL, Layout
from tickwork.testing.memory import MemoryStore

HOOK = "https://hooks.example.org/payments"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:env-pager-payments"
TEST = ("POST", "/teams/payments/routes:test")


class World:
    def __init__(self, *pools: str) -> None:
        self.tables = MemoryStore()
        self.ports = fake_ports(self.tables, Layout(shards=1, slices=1, pools=pools or ("default", PUSH_POOL)))
        self.api = ApiUnderTest(self.ports)
        assert isinstance(self.ports.pager, FakePager)
        self.pager = self.ports.pager

    def team(self, **routes: str) -> None:
        told = [{"kind": kind, "address": address} for kind, address in routes.items()]
        assert self.api.call("PUT", "/teams/payments", {"contact": "ann", "routes": told})[0] == 200

    def test(self) -> dict[str, Any]:
        return self._by_kind(self.api.call(*TEST))

    def shown(self) -> dict[str, Any]:
        return self._by_kind(self.api.call("GET", "/teams/payments"))

    def _by_kind(self, answer: tuple[int, Any]) -> dict[str, Any]:
        assert answer[0] == 200, answer
        return {route["kind"]: route for route in answer[1]["routes"]}

    def posted(self) -> dict[str, Any]:
        """The message to the pusher."""
        self.ports.clock.sleep_ms(2_000)
        run_window(self.ports, 0, self.ports.clock.now_ms() // 1_000)
        (message,) = (one for name, one in self.ports.sender.sent if name == f"ready-{PUSH_POOL}")  # type: ignore[attr-defined]
        found: dict[str, Any] = json.loads(message.body)
        return found

    def answered(self, outcome: str, **more: str) -> None:
        """As the pusher records what the URL has answered."""
        ref = self.posted()["ref"]
        start = {"worker": "push", "runs": [{"ref": ref, "claim": "12345678"}]}
        token = self.api.call("POST", "/runs:start", start)[1]["runs"][0]["token"]
        done = {"ref": ref, "token": token, "outcome": outcome} | more
        assert self.api.call("POST", "/runs:complete", {"runs": [done]})[1]["runs"][0]["accepted"]


def test_a_webhook_is_proven_by_a_message_that_the_pusher_gets_through() -> None:
    world = World()
    world.team(webhook=HOOK)
    assert world.shown()["webhook"]["state"] == "untested"
    assert world.test()["webhook"]["state"] == "waiting"
    message = world.posted()
    assert (message["url"], message["payload"]["kind"]) == (HOOK, "test")


@pytest.mark.parametrize(("outcome", "state"), [("succeeded", "proven"), ("failed", "failed")])
def test_what_the_url_has_answered_is_what_the_route_is_worth(outcome: str, state: str) -> None:
    world = World()
    world.team(webhook=HOOK)
    world.test()
    world.answered(outcome, **({} if outcome == "succeeded" else {"error": "status 500"}))
    found = world.shown()["webhook"]
    assert (found["state"], found["detail"]) == (state, None if state == "proven" else "status 500")


def test_a_test_is_worth_as_long_as_its_record_lives() -> None:
    world = World()
    world.team(webhook=HOOK)
    world.test()
    world.answered("succeeded")
    (item,) = world.tables.scan(TIMERS, limit=9, after=None)[0]
    world.tables.commit([Delete(TIMERS, {"pk": item["pk"], "sk": item["sk"]}, Anyway("its time to live is over"))])
    assert world.shown()["webhook"]["state"] == "untested"


def test_an_address_that_has_not_confirmed_shows_as_such_and_counts_for_nothing() -> None:
    world = World()
    world.team(email="ann@example.org", topic=TOPIC)
    found = world.test()
    assert (found["email"]["state"], found["topic"]["state"]) == ("unconfirmed", "proven")
    world.pager.confirmed.add("ann@example.org")
    assert world.shown()["email"]["state"] == "unconfirmed", "nobody has looked since"
    assert world.test()["email"]["state"] == "proven"


def test_an_address_that_does_not_confirm_is_mailed_once_an_hour_however_often_it_is_tested() -> None:
    """It may be a stranger's, whom somebody wants to flood."""
    world = World()
    world.team(email="ann@example.org")
    for _ in range(50):
        world.ports.clock.sleep_ms(MINUTE_MS)
        assert world.test()["email"]["state"] == "unconfirmed"
    assert world.pager.asked == ["ann@example.org"]
    world.ports.clock.sleep_ms(20 * MINUTE_MS)
    world.test()
    assert len(world.pager.asked) == 2
    world.pager.confirmed.add("ann@example.org")
    assert world.test()["email"]["state"] == "proven", "whether it has confirmed is looked at each time"


def test_who_may_not_be_asked_is_not_subscribed() -> None:
    calls: list[str] = []

    class Client:
        def create_topic(self, **_: Any) -> Any:
            return {"TopicArn": TOPIC}

        def list_subscriptions_by_topic(self, **_: Any) -> Any:
            return {"Subscriptions": []}

        def subscribe(self, **asked: Any) -> None:
            calls.append(asked["Endpoint"])

    pager = SnsPager(Client, "env")
    assert pager.page("payments", "email", "ann@example.org", "s", "t", asks=False).state == "unconfirmed"
    assert calls == []
    assert pager.page("payments", "email", "ann@example.org", "s", "t").state == "unconfirmed"
    assert calls == ["ann@example.org"]


def test_a_topic_that_is_not_there_has_failed_and_says_why() -> None:
    world = World()
    world.team(topic=TOPIC)
    world.pager.broken.add(TOPIC)
    assert (world.test()["topic"]["state"], world.shown()["topic"]["detail"]) == ("failed", "no such topic")


def test_a_route_that_is_changed_is_untested_and_one_that_comes_back_is_what_it_was() -> None:
    world = World()
    world.team(topic=TOPIC)
    world.test()
    body = {"contact": "ann", "routes": [{"kind": "email", "address": "ann@example.org"}], "version": 1}
    assert world.api.call("PUT", "/teams/payments", body)[0] == 200
    assert world.shown()["email"]["state"] == "untested"
    body = {"contact": "ann", "routes": [{"kind": "topic", "address": TOPIC}], "version": 2}
    assert world.api.call("PUT", "/teams/payments", body)[0] == 200
    assert world.shown()["topic"]["state"] == "proven"


def test_where_nothing_is_pushed_a_webhook_has_failed() -> None:
    world = World("default")
    world.team(webhook=HOOK)
    assert world.test()["webhook"]["state"] == "failed"


def test_a_list_of_teams_reads_no_tests() -> None:
    world = World()
    world.team(topic=TOPIC)
    world.test()
    assert world.api.call("GET", "/teams")[1]["teams"][0]["routes"] == [{"kind": "topic", "address": TOPIC}]
