"""The keys of a session with walls: printed once, its own anew at each start, and never more of them."""

from __future__ import annotations

import pytest

from tests.support.fakes import fake_ports
from tickwork.core.access.api_keys import KEYS_PER_TEAM_MAX
from tickwork.core.errors import UnknownKey
from tickwork.flows.access import keys
from tickwork.flows.access.authenticating import KnownKeys
from tickwork.local import session_keys
from tickwork.ports import Layout


def test_keys_are_printed_at_the_first_start_and_hold_at_the_next() -> None:
    ports = fake_ports(layout=Layout(pools=("default", "payments", "push")))
    first = session_keys.make(ports, "payments")
    assert {role for _, role, _ in first.printed} == {"platform", "viewer", "worker", "operator", "owner"}
    assert all(text in "".join(session_keys.lines(first)) for _, _, text in first.printed)
    second = session_keys.make(ports, "payments")
    assert second.printed == ()
    for team, role, text in first.printed:
        actor = KnownKeys().actor_of(ports, text)
        assert (actor.team, actor.role) == (team, role)
        assert actor.pools == (("default", "payments") if role == "worker" else ())


def test_the_sessions_own_keys_are_those_of_this_start_however_many_there_were() -> None:
    ports = fake_ports()
    first = session_keys.make(ports, None)
    for _ in range(KEYS_PER_TEAM_MAX):
        last = session_keys.make(ports, None)
    assert len(keys.list_keys(ports, "platform")) == 3
    assert KnownKeys().actor_of(ports, last.worker).reaches("payments")
    with pytest.raises(UnknownKey):
        KnownKeys().actor_of(ports, first.platform)
