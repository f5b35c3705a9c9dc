"""What fails for one run, target or message costs that one only (F14): its neighbours in a batch go on, and so does the
loop."""

from __future__ import annotations

import json
import random
import ssl
import string
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue
from tests.support.runs_world import World
from tests.unit.runs.test_pushing import PushWorld

from tickwork.aws.push_http import SocketPoster
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Anyway, Put
from tickwork.core.runs.push_targets import Target, parse_target
from tickwork.core.runs.pushes import Answer, judge, retry_after_s
from tickwork.flows.runs.pushing import push_batch, push_some
from tickwork.ports import InMessage, Ports

Entries = list[dict[str, Any]]


def garble(world: World, key: LedgerKey, **changes: Any) -> None:
    item = {name: value for name, value in (world.item(key) | changes).items() if value is not None}
    world.store.commit([Put(TIMERS, item, Anyway("of a newer version, or broken"))])


def call(world: World, path: str, entries: Entries) -> Entries:
    body = {"runs": entries} | ({"worker": "w"} if path == "/runs:start" else {})
    status, answer = ApiUnderTest(world.ports).call("POST", path, body)
    assert status == 200, answer
    runs: Entries = answer["runs"]
    return runs


GARBLED = [{"status": "in_tongues"}, {"status": None}, {"attempts": 7}, {"work": {"pool": "p"}}, {"work": "?"}]


@pytest.mark.parametrize("changes", GARBLED, ids=json.dumps)
@pytest.mark.parametrize("path", ["/runs:start", "/runs:heartbeat", "/runs:complete"])
def test_an_entry_that_cannot_be_worked_on_fails_alone(world: World, path: str, changes: dict[str, Any]) -> None:
    keys = [world.timer(max_duration_s=600) for _ in range(3)]
    if path != "/runs:start":
        for key in keys:
            world.must_start(key)
    garble(world, keys[1], **changes)
    of_call: dict[str, dict[str, Any]] = {
        "/runs:start": {"lease_s": 60},
        "/runs:heartbeat": {"token": 1, "lease_s": 60},
        "/runs:complete": {"token": 1, "outcome": "failed"},
    }
    entries = [{"ref": key.ref, **of_call[path]} for key in keys]
    if path == "/runs:start":
        entries = [entry | {"claim": f"claim-of-{n}"} for n, entry in enumerate(entries)]
    first, broken, last = call(world, path, entries)
    verb = "granted" if path == "/runs:start" else "accepted"
    assert (first[verb], last[verb]) == (True, True)
    assert not broken.get(verb)
    assert not broken["discard"], "its message brings it back when it can be read"


def test_what_is_unreadable_is_told_as_such_and_a_fault_of_ours_with_its_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = world.timer(max_duration_s=60)
    garble(world, key, status="in_tongues")
    entry = {"ref": key.ref, "claim": "claim-of-one", "lease_s": 60}
    (answer,) = call(world, "/runs:start", [entry])
    assert (answer["reason"], answer["retry_after_s"]) == ("unreadable", 300)
    assert world.signals.counts["scheduler.set_aside_total"] == 1

    def broken(*_: Any) -> Any:
        raise KeyError("ours")

    monkeypatch.setattr("tickwork.core.runs.attempts.first_start", broken)
    call(world, "/runs:start", [entry])
    assert world.signals.counts["runs.internal_errors_total"] == 1
    assert "KeyError" in str(world.signals.lines[-1][1]["traceback"])


def test_runs_leased_before_a_broken_one_reach_their_worker(world: World) -> None:
    queue = WorldQueue(world)
    p = world.ports
    world.ports = Ports(p.clock, p.store, p.sender, p.signals, p.ids, p.layout, queue)
    keys = [world.timer(max_duration_s=600) for _ in range(3)]
    world.after(1)
    world.scan()
    garble(world, keys[1], status="in_tongues")
    status, answer = ApiUnderTest(world.ports).call("POST", "/pools/default:lease", {"worker": "w", "max": 5})
    assert status == 200
    assert sorted(run["ref"] for run in answer["runs"]) == sorted([keys[0].ref, keys[2].ref])
    assert not queue.gone


# --- the pusher -----------------------------------------------------------------------------------------------


class PoisonedPoster:
    """One target's answer is more than the poster can take."""

    def __init__(self) -> None:
        self.posted: list[str] = []

    def post(self, target: Target, body: bytes, headers: Mapping[str, str], *, timeout_ms: int) -> Answer:
        self.posted.append(target.host)
        if target.host == "poison.example.com":
            raise ValueError("Invalid IPv6 URL")
        return Answer(204)


def poisoned(world: PushWorld) -> tuple[LedgerKey, LedgerKey]:
    world.pusher = type(world.pusher)(PoisonedPoster(), world.pusher.secrets)
    return world.push_timer(url="https://poison.example.com/"), world.push_timer()


def test_a_target_that_raises_does_not_end_the_pusher() -> None:
    world = PushWorld()
    bad, good = poisoned(world)
    world.push(2)
    assert world.run(good).status == lifecycle.SUCCEEDED
    assert world.run(bad).status == lifecycle.RUNNING, "lost when its lease lapses, and tried again"
    assert len(world.queue.gone) == 1
    world.after(10)
    assert push_some(world.ports, world.pusher, "push", wait_s=0) == 0, "it does not come back at once"


def test_a_message_that_raises_keeps_only_itself_in_its_batch() -> None:
    world = PushWorld()
    bad, good = poisoned(world)
    world.scan()
    found = world.queue.receive("ready-push", limit=10, wait_s=0, hide_s=60)
    batch = {json.loads(message.body)["ref"]: message for message in found}
    batch["deep"] = InMessage("handle/99==", "[" * 50_000)
    kept = push_batch(world.ports, world.pusher, "push", batch)
    assert sorted(kept) == sorted([bad.ref, "deep"])
    assert world.run(good).status == lifecycle.SUCCEEDED


# --- what receivers may answer ----------------------------------------------------------------------------------

HOSTILE = [
    "http://[",
    "http://[::1",
    "http://[v1.x]/",
    "//[",
    "http://a]b/",
    "http://x:99999999999/",
    "http://x:-1/",
    "http://\u2100.com/",
    "http://" + "a" * 300 + ".com/",
    "http://xn--\x00/",
    "\x00\x01\x02",
    "http:///",
    "http://@/",
    "http://%00/",
    "?" * 5_000,
    "javascript:alert(1)",
    "http://1.1.1.1.1/",
    "http://0x7f.1/",
    "\\\\host\\share",
    "http://[fe80::1%25eth0]/",
]


TLS = ssl.create_default_context()


class Redirecting(SocketPoster):
    """Answers every exchange with a redirect, without a socket. Names are looked at as ever."""

    def __init__(self, location: str) -> None:
        super().__init__(resolve=lambda *_: ["93.184.216.34"], tls=TLS)
        self._location = location

    def _exchange(self, target: Target, *_: Any) -> tuple[Answer, str]:
        assert self._addresses(target)
        return Answer(307), self._location


def follow(location: str) -> Answer:
    return Redirecting(location).post(parse_target("https://hooks.example.com/x"), b"{}", {}, timeout_ms=1_000)


@pytest.mark.parametrize("location", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_location_is_an_answer_not_an_error(location: str) -> None:
    assert follow(location).status == 0


def test_whatever_a_location_or_a_retry_after_says_is_an_answer_not_an_error() -> None:
    draw = random.Random(10)
    parts = ["http://", "https:", "//", "[", "]", "::1", "@", ":", "%", "#", "?", "..", "\\", "hooks.example.com"]
    parts += ["\x00", "\u2100", "é", "9" * 20, "-1", "Mon, 31 Feb 99999", "GMT", "+9999", *string.printable]
    for _ in range(4_000):
        text = "".join(draw.choices(parts, k=draw.randint(1, 8)))
        assert follow(text).status == 0, text
        assert retry_after_s(text, 0) >= 0, text
        judge(Answer(503, retry_after=text, detail=text), 0)
