"""Both doors of the deployed stack: a sample of the matrix through each, with keys that were made through the first.

The whole matrix runs through authorizer and handler in tests/unit/access. What the endpoint does not enforce is tested
there too, with the events that AWS sends: signatures, and limits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from localstack.deployment import Credentials, Deployment

from tests.e2e.caller import Caller
from tests.support.issuers import claims, public, token
from tests.support.site import Site, served
from tickwork.aws.tokens import DISCOVERY

TEAMS = ("e2e-doors", "e2e-others")
OWN, OTHER = TEAMS
TARGET = {"pool": "default", "handler": "receipt"}

SAMPLE = {
    # (method, path, body), and the roles that go so far
    ("GET", "/timers/{timer}", None): {"viewer", "operator", "owner", "platform"},
    ("GET", "/jobs?team={team}", None): {"viewer", "operator", "owner", "platform"},
    ("POST", "/timers", "timer"): {"owner", "platform"},
    ("DELETE", "/timers/{timer}", None): {"operator", "owner", "platform"},
    ("GET", "/keys?team={team}", None): {"owner", "platform"},
}
"""A timer of the other team, and one of a team that is not there, are asked for by the same paths."""


@pytest.fixture(scope="module")
def first(deployment: Deployment, client_role: Credentials) -> Caller:
    """Signed by a principal that the rules of `dev` make the platform: the first credential of an environment."""
    return Caller(deployment.api_url, client_role)


@pytest.fixture(scope="module")
def keys(first: Caller) -> dict[str, str]:
    """By role; the team's own, and one of the platform."""
    made = {
        role: first.ok("POST", "/keys", {"team": OWN, "role": role} | _pools(role))["key"]
        for role in ("viewer", "worker", "operator", "owner")
    }
    return made | {"platform": first.ok("POST", "/keys", {"team": "platform", "role": "platform"})["key"]}


def _pools(role: str) -> dict[str, Any]:
    return {"pools": ["default"]} if role == "worker" else {}


def _timer(caller: Caller, team: str) -> str:
    return str(caller.ok("POST", "/timers", {"team": team, "target": TARGET, "delay_s": 3_600})["timer_id"])


def _filled(path: str, timer: str, team: str) -> str:
    return path.replace("{timer}", timer).replace("{team}", team)


@pytest.mark.parametrize("asked", list(SAMPLE), ids=lambda one: f"{one[0]} {one[1].partition('?')[0]}")
def test_a_sample_of_the_matrix_holds_at_the_second_door(
    deployment: Deployment, first: Caller, keys: dict[str, str], asked: tuple[str, str, str | None]
) -> None:
    method, path, body = asked
    for role, key in keys.items():
        caller = Caller(deployment.key_api_url, key=key)
        for team in (OWN, OTHER):
            sent = {"team": team, "target": TARGET, "delay_s": 3_600} if body else None
            status, answer = caller.call(method, _filled(path, _timer(first, team), team), sent)
            if role not in SAMPLE[asked]:
                assert (status, answer["type"]) == (403, "urn:tickwork:problem:forbidden")
            elif team == OWN or role == "platform":
                assert status < 300, answer
            else:
                assert (status, answer["type"]) == (404, "urn:tickwork:problem:not-found")


def test_a_worker_with_a_key_leases_and_does_nothing_else(deployment: Deployment, keys: dict[str, str]) -> None:
    worker = Caller(deployment.key_api_url, key=keys["worker"])
    assert worker.call("POST", "/pools/default:lease", {"worker": "e2e"})[0] == 200
    assert worker.call("POST", "/pools/payments:lease", {"worker": "e2e"})[0] == 404
    assert worker.call("GET", f"/jobs?team={OWN}")[0] == 403


@pytest.mark.parametrize("shown", [None, "", "tw_e2e-doors_no", "x" * 60])
def test_who_shows_no_key_is_sent_away_in_the_words_of_the_gateway(deployment: Deployment, shown: str | None) -> None:
    caller = Caller(deployment.key_api_url, key=shown)
    status, answer = caller.call("GET", f"/jobs?team={OWN}")
    assert (status, "type" in answer) == (401 if shown is None else 403, False)


def test_a_revoked_key_hears_so_as_a_problem_document(deployment: Deployment, first: Caller) -> None:
    """It was never shown before, so nobody remembers it as valid; the minute is tested in virtual time."""
    made = first.ok("POST", "/keys", {"team": OWN, "role": "viewer"})
    first.ok("DELETE", f"/keys/{made['key_id']}")
    status, answer = Caller(deployment.key_api_url, key=made["key"]).call("GET", f"/jobs?team={OWN}")
    assert (status, answer["type"]) == (401, "urn:tickwork:problem:revoked-key")


def test_a_key_at_the_first_door_opens_nothing(deployment: Deployment, keys: dict[str, str]) -> None:
    """The endpoint lets any `Authorization` header pass there; AWS would not. So it is the API that refuses."""
    status, answer = Caller(deployment.api_url, key=keys["platform"]).call("GET", f"/jobs?team={OWN}")
    assert (status, answer["type"]) == (401, "urn:tickwork:problem:no-credential")


@pytest.fixture(scope="module")
def site(deployment: Deployment) -> Iterator[str]:
    """An issuer on this machine, which both functions are told of as a deployment would tell them."""
    with served(Site()) as site:
        documents = {"issuer": site.url, "jwks_uri": f"{site.url}/keys"}
        site.documents = {DISCOVERY: documents, "/keys": {"keys": [public("ES256", "first")]}}
        rules = f"groups={OWN}-look=>{OWN}/viewer groups={OTHER}-own=>{OTHER}/owner"
        before = {name: _told(deployment, name, f"issuer={site.url} audience=e2e {rules}") for name in TOLD}
        yield site.url
        for name, oidc in before.items():
            _told(deployment, name, oidc)


TOLD = ("api", "authorizer")


def _told(deployment: Deployment, function: str, oidc: str) -> str:
    """Give a function the setting; what it had."""
    client, name = deployment.client("lambda"), f"{deployment.settings.prefix}-{function}"
    variables = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    changed = {"Variables": variables | {"TICKWORK_OIDC": oidc}}
    client.update_function_configuration(FunctionName=name, Environment=changed)
    return str(variables["TICKWORK_OIDC"])


def _signed_in(deployment: Deployment, url: str, **more: Any) -> Caller:
    said = claims(int(time.time() * 1_000), iss=url, aud="e2e", **more)
    return Caller(deployment.key_api_url, key=token(said))


def test_somebody_of_two_teams_has_both_by_one_token(deployment: Deployment, first: Caller, site: str) -> None:
    caller = _signed_in(deployment, site, groups=[f"{OWN}-look", f"{OTHER}-own"])
    for team, method, wanted in ((OWN, "GET", 200), (OWN, "DELETE", 403), (OTHER, "GET", 200), (OTHER, "DELETE", 200)):
        assert caller.call(method, f"/timers/{_timer(first, team)}")[0] == wanted, (team, method)
    assert caller.call("GET", "/jobs?team=e2e-thirds")[0] == 404


def test_a_token_that_means_nothing_here_or_has_expired_hears_so(deployment: Deployment, site: str) -> None:
    status, answer = _signed_in(deployment, site, groups=["choir"]).call("GET", f"/jobs?team={OWN}")
    assert (status, "groups = 'choir'" in answer["detail"]) == (403, True)
    status, answer = _signed_in(deployment, site, groups=[f"{OWN}-look"], exp=1).call("GET", f"/jobs?team={OWN}")
    assert (status, answer["type"]) == (401, "urn:tickwork:problem:expired-token")


def test_a_token_of_another_issuer_is_sent_away_at_the_door(deployment: Deployment, site: str) -> None:
    other = _signed_in(deployment, f"{site}/other", groups=[f"{OWN}-look"])
    assert other.call("GET", f"/jobs?team={OWN}") == (403, {"message": "Forbidden"})


def test_a_signature_at_the_second_door_opens_nothing(deployment: Deployment, client_role: Credentials) -> None:
    assert Caller(deployment.key_api_url, client_role).call("GET", "/health")[0] == 403
