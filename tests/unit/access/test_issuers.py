"""The rules from claims to teams: what they mean, what cannot be meant, and that none makes anybody the platform."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.issuers import AUDIENCE, URL, issuer
from tickwork.core.access.actors import Actor
from tickwork.core.access.issuers import (
    CHARS_MAX,
    NAME_CHARS_MAX,
    STANDINGS_MAX,
    ClaimRule,
    actor_of_claims,
    is_safe_url,
    parse_issuer,
    values_of_claim,
)
from tickwork.core.errors import Forbidden
from tickwork.settings import ENVIRONMENTS, BadSetting, Settings

BASE = f"issuer={URL} audience={AUDIENCE}"


def _standings(rules: str, **claims: Any) -> set[tuple[str, str, tuple[str, ...]]]:
    try:
        actor = actor_of_claims({"sub": "ann", **claims}, issuer(rules))
    except Forbidden:
        return set()
    return {(one.team, one.role, one.pools) for one in actor.standings}


@pytest.mark.parametrize(
    ("rules", "claims", "standings"),
    [
        ("groups=pay=>payments/owner", {"groups": ["pay"]}, {("payments", "owner", ())}),
        ("groups=pay=>payments/owner", {"groups": "pay"}, {("payments", "owner", ())}),
        ("groups=pay=>payments/owner", {"groups": ["payroll", "PAY", "pa"]}, set()),
        ("groups=pay*=>payments/owner", {"groups": ["payroll"]}, {("payments", "owner", ())}),
        ("groups=pay=>payments/worker:a+b", {"groups": ["pay"]}, {("payments", "worker", ("a", "b"))}),
        ("groups=Pay%20Team=>payments/owner", {"groups": ["Pay Team"]}, {("payments", "owner", ())}),
        ("groups=/pay/devs=>payments/owner", {"groups": ["/pay/devs"]}, {("payments", "owner", ())}),
        ("groups=CN=pay,OU=x=>payments/owner", {"groups": ["CN=pay,OU=x"]}, {("payments", "owner", ())}),
        ("scope=jobs:write=>payments/owner", {"scope": "openid jobs:write"}, {("payments", "owner", ())}),
        ("groups=jobs:write=>payments/owner", {"groups": "openid jobs:write"}, set()),
        ("email_verified=true=>payments/viewer", {"email_verified": True}, {("payments", "viewer", ())}),
        ("level=3=>payments/viewer", {"level": 3}, {("payments", "viewer", ())}),
        ("realm_access.roles=r=>payments/viewer", {"realm_access": {"roles": ["r"]}}, {("payments", "viewer", ())}),
        ("a.b=r=>payments/viewer", {"a.b": "r", "a": {"b": "x"}}, {("payments", "viewer", ())}),
        ("a.b.c=r=>payments/viewer", {"a": "text"}, set()),
        ("https://x.org/groups=g=>payments/viewer", {"https://x.org/groups": ["g"]}, {("payments", "viewer", ())}),
        ("cognito:groups=g=>payments/viewer", {"cognito:groups": ["g"]}, {("payments", "viewer", ())}),
        ("sub=repo:acme/pay:*=>payments/owner", {"sub": "repo:acme/pay:ref:main"}, {("payments", "owner", ())}),
        (
            "g=tw-{team}-own=>{team}/owner",
            {"g": ["tw-a-own", "tw-b.c-own"]},
            {("a", "owner", ()), ("b.c", "owner", ())},
        ),
        ("g={team}=>{team}/viewer", {"g": ["UPPER", "with blank", "", "-dash"]}, set()),
        ("groups=x=>payments/owner", {"groups": None}, set()),
        ("groups=x=>payments/owner", {"groups": {"x": 1}}, set()),
        ("groups=x=>payments/owner", {"groups": [["x"], {"x": "x"}, None, 1.5]}, set()),
    ],
)
def test_a_rule_means_what_it_says(rules: str, claims: dict[str, Any], standings: set[Any]) -> None:
    assert _standings(rules, **claims) == standings


def test_every_rule_that_matches_counts_and_none_twice() -> None:
    rules = "g=a=>payments/viewer g=a*=>payments/viewer g=b=>payments/operator h=c=>shop/owner"
    found = _standings(rules, g=["a", "a", "ab", "b"], h="c")
    assert found == {("payments", "viewer", ()), ("payments", "operator", ()), ("shop", "owner", ())}


def test_a_rule_that_names_its_team_by_the_claim_makes_nobody_the_platform() -> None:
    """Who may found a group with any name would rule all teams."""
    assert _standings("g=tw-{team}-owners=>{team}/owner", g=["tw-platform-owners", "tw-shop-owners"]) == {
        ("shop", "owner", ())
    }
    assert _standings("g=ops=>platform/platform", g=["ops"]) == {("platform", "platform", ())}


def test_more_groups_than_can_be_told_apart_are_refused_and_not_cut() -> None:
    groups = [f"tw-team{n}-owners" for n in range(STANDINGS_MAX)]
    assert len(_standings("g=tw-{team}-owners=>{team}/owner", g=groups)) == STANDINGS_MAX
    with pytest.raises(Forbidden, match="is the most"):
        actor_of_claims({"sub": "a", "g": [*groups, "tw-x-owners"]}, issuer("g=tw-{team}-owners=>{team}/owner"))


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"sub": "248289761001"}, "jwt:248289761001"),
        ({"sub": "1", "email": "ann@example.org"}, "jwt:ann@example.org"),
        ({"sub": "1", "email": ["ann@example.org"]}, "jwt:ann@example.org"),
        ({"sub": "1", "email": {"a": "b"}}, "jwt:1"),
        ({"sub": "a\nlocal\x1b[31m"}, "jwt:a?local?[31m"),
        ({"sub": "x" * 500}, f"jwt:{'x' * NAME_CHARS_MAX}"),
    ],
)
def test_a_bearer_is_called_by_the_claim_that_the_setting_names_in_one_line(said: dict[str, Any], name: str) -> None:
    actor = actor_of_claims({"g": "x", **said}, issuer("g=x=>payments/owner", "name=email"))
    assert actor == Actor(name, "payments", "owner")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"issuer={URL} g=a=>x/owner", "audience"),
        (f"audience={AUDIENCE} g=a=>x/owner", "issuer"),
        (BASE, "no rule"),
        ("g=a=>x/owner", "issuer"),
        ("issuer=http://login.example.org audience=a g=a=>x/owner", "https"),
        ("issuer=https://user:pw@login.example.org audience=a g=a=>x/owner", "https"),
        ("issuer=login.example.org audience=a g=a=>x/owner", "https"),
        (f"{BASE} keys=http://10.0.0.1/keys g=a=>x/owner", "https"),
        (f"{BASE} audience=b g=a=>x/owner", "given once"),
        (f"{BASE} colour=red g=a=>x/owner", "neither a rule"),
        (f"{BASE} g=a=>x/boss", "no rule"),
        (f"{BASE} g=a=>X/owner", "no rule"),
        (f"{BASE} g=a=>x", "no rule"),
        (f"{BASE} =a=>x/owner", "no rule"),
        (f"{BASE} g=a=>x/platform", "goes with the team"),
        (f"{BASE} g=a=>x/worker", "names its pools"),
        (f"{BASE} g=a=>x/owner:p", "names its pools"),
        (f"{BASE} g=a=>{{team}}/owner", "stands once"),
        (f"{BASE} g={{team}}=>x/owner", "stands once"),
        (f"{BASE} g={{team}}-{{team}}=>{{team}}/owner", "stands once"),
        (f"{BASE} g={{team}}=>{{team}}/platform", "goes with the team"),
        (f"{BASE} g=a*b=>x/owner", "at the end"),
        (f"{BASE} g={{team}}-*=>{{team}}/owner", "at the end"),
        (f"{BASE} {'g=a=>x/owner ' * 250}", str(CHARS_MAX)),
    ],
)
def test_a_setting_that_cannot_be_meant_does_not_start(text: str, why: str) -> None:
    with pytest.raises(BadSetting, match="TICKWORK_OIDC") as refused:
        Settings(oidc=text)
    assert why in str(refused.value)


def test_a_setting_says_all_of_an_issuer_and_none_takes_no_tokens() -> None:
    found = parse_issuer(f"{BASE} keys=https://login.example.org/keys name=email g=a*=>x/owner")
    assert found is not None
    assert (found.url, found.audience, found.keys_url) == (URL, AUDIENCE, "https://login.example.org/keys")
    assert (found.name_claim, found.rules) == ("email", (ClaimRule("g", "a*", "x", "owner"),))
    assert parse_issuer("  ") is None
    assert {one.settings().oidc for one in ENVIRONMENTS.values()} == {""}


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://login.example.org", True),
        ("https://login.example.org:8443/realms/acme", True),
        ("http://127.0.0.1:4711", True),
        ("http://localhost:4711/x", True),
        ("http://[::1]:80/", True),
        ("http://127.0.0.1.example.org", False),
        ("http://login.example.org", False),
        ("https://", False),
        ("https://a:99999", False),
        ("https://a/#b", False),
        ("file:///etc/passwd", False),
        ("ftp://login.example.org", False),
        ("//login.example.org", False),
        ("", False),
    ],
)
def test_keys_are_read_over_tls_or_from_this_machine(url: str, is_safe: bool) -> None:
    assert is_safe_url(url) is is_safe


def test_a_claim_that_is_not_there_has_no_values() -> None:
    assert values_of_claim({}, "groups") == []
    assert values_of_claim({"a": {"b": []}}, "a.b") == []
