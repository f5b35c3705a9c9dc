"""Principals of AWS: which team and role each is mapped to, and what is told to one that is mapped to none."""

from __future__ import annotations

import pytest

from tests.support.doors import signed_by
from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.api.gate import DeployedGate
from tickwork.core.access.actors import BY_CHARS_MAX, LOCAL, Actor, Rule, actor_of_principal, parse_rules, principal_of
from tickwork.core.errors import Forbidden
from tickwork.settings import ENVIRONMENTS, EVERY_PRINCIPAL, BadSetting, Settings

ROLE = "arn:aws:sts::123456789012:assumed-role/PaymentsDeploy/ann@example.org"


@pytest.mark.parametrize(
    ("arn", "principal"),
    [
        (ROLE, "PaymentsDeploy/ann@example.org"),
        ("arn:aws:iam::123456789012:user/teams/payments/ci", "ci"),
        ("arn:aws:iam::123456789012:root", "root"),
        ("arn:aws:sts::123456789012:federated-user/bob", "federated-user:bob"),
        ("", "unknown"),
    ],
)
def test_a_principal_is_named_by_its_role_and_session_or_its_user(arn: str, principal: str) -> None:
    assert principal_of(arn) == principal


def test_the_first_rule_that_matches_counts() -> None:
    rules = parse_rules("PaymentsDeploy=>payments/owner Payments*=>payments/viewer *=>platform/platform")
    assert actor_of_principal(ROLE, rules) == Actor("iam:PaymentsDeploy/ann@example.org", "payments", "owner")
    assert actor_of_principal(ROLE.replace("Deploy", "Look"), rules).role == "viewer"
    assert actor_of_principal("arn:aws:iam::1:user/ci", rules).role == "platform"


def test_a_name_without_a_star_matches_no_longer_name() -> None:
    (rule,) = parse_rules("Payments=>payments/owner")
    assert rule.matches("Payments/any-session")
    assert not rule.matches("PaymentsDeploy/any-session")
    assert not rule.matches("Other/Payments")


def test_a_principal_that_no_rule_names_hears_what_was_seen_and_tried() -> None:
    """X7"""
    api = ApiUnderTest(fake_ports(), DeployedGate(parse_rules("Ops=>platform/platform Shop*=>shop/owner")))
    api.authorizer = {"iam": {"userArn": ROLE}}
    status, problem = api.call("GET", "/jobs", team="payments")
    assert status == 403
    assert "'PaymentsDeploy/ann@example.org'" in problem["detail"]
    assert "Ops, Shop*" in problem["detail"]


def test_a_principal_without_a_name_is_no_named_one() -> None:
    """That none is named at all, the gate refuses (test_door.py)."""
    with pytest.raises(Forbidden):
        actor_of_principal("", parse_rules("Ops=>platform/platform"))


LONG_PATH = "a" * 380
PRETENDERS = (
    "arn:aws:sts::123456789012:federated-user/PaymentsDeploy",
    "arn:aws:iam::123456789012:user/a:assumed-role/PaymentsDeploy/x",
    "arn:aws:iam::123456789012:user/a:role/PaymentsDeploy/x",
    *(f"arn:aws:iam::123456789012:user/{LONG_PATH[:length]}/PaymentsDeploy/bob" for length in range(300, 381)),
    f"arn:aws:iam::123456789012:user/{'a' * 512}/PaymentsDeploy/bob",
    f"arn:aws:sts::123456789012:assumed-role/PaymentsDeploy/{'s' * 800}",
    "arn:aws:sts::123456789012:assumed-role/Other/PaymentsDeploy",
    "PaymentsDeploy:",
)


@pytest.mark.parametrize("arn", PRETENDERS, ids=lambda arn: arn[13:80])
def test_nobody_gets_a_roles_name_who_may_choose_his_own_or_a_path(arn: str) -> None:
    """Whoever may make a user, or sign one in, is not thereby whom he calls it."""
    with pytest.raises(Forbidden):
        actor_of_principal(arn, parse_rules("PaymentsDeploy=>payments/owner PaymentsDeploy/*=>payments/owner"))


def test_a_federated_user_is_named_with_his_kind() -> None:
    (rule,) = parse_rules("federated-user:bob=>payments/viewer")
    assert rule.matches(principal_of("arn:aws:sts::123456789012:federated-user/bob"))
    assert not rule.matches(principal_of("arn:aws:sts::123456789012:assumed-role/federated-user/bob"))


ACCOUNT = "123456789012"


@pytest.mark.parametrize(
    ("arn", "rule", "is_matched"),
    [
        # A role's path is in its own ARN, and not in that of a session of it, which is what API Gateway names.
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/Deploy/i-0abc", "Deploy=>payments/owner", True),
        (f"arn:aws:iam::{ACCOUNT}:role/teams/payments/Deploy", "Deploy=>payments/owner", True),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/Deploy/i-0abc", "teams/payments/Deploy=>payments/owner", False),
        # One session of a role, or a kind of them.
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/Deploy/ci", "Deploy/ci=>payments/owner", True),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/Deploy/ci-2", "Deploy/ci=>payments/owner", False),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/Deploy/ci-2", "Deploy/ci-*=>payments/owner", True),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/Deployer/ci", "Deploy/*=>payments/owner", False),
        # People of IAM Identity Center: the permission set with its suffix, and the address of who signed in.
        (
            f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_Payments_0a1b2c3d4e5f6a7b/ann@example.org",
            "AWSReservedSSO_Payments_*=>payments/operator",
            True,
        ),
        (
            f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_PaymentsAdmin_0a1b2c3d4e5f6a7b/ann@example.org",
            "AWSReservedSSO_Payments_*=>payments/operator",
            False,
        ),
        # Service-linked and other partitions.
        (f"arn:aws-cn:sts::{ACCOUNT}:assumed-role/Deploy/x", "Deploy=>payments/owner", True),
        (f"arn:aws:iam::{ACCOUNT}:user/teams/payments/ci", "ci=>payments/owner", True),
        # Case counts, and so does the beginning.
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/deploy/x", "Deploy=>payments/owner", False),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/XDeploy/x", "Deploy*=>payments/owner", False),
    ],
)
def test_what_api_gateway_names_is_matched_by_role_session_and_user(arn: str, rule: str, is_matched: bool) -> None:
    api = ApiUnderTest(fake_ports(), DeployedGate(parse_rules(rule)))
    api.authorizer = signed_by(arn)
    status, answer = api.call("GET", "/jobs", team="payments")
    assert status == (200 if is_matched else 403), answer


def test_a_session_that_calls_itself_like_a_role_is_not_that_role() -> None:
    api = ApiUnderTest(fake_ports(), DeployedGate(parse_rules("Ops=>platform/platform")))
    api.authorizer = signed_by(f"arn:aws:sts::{ACCOUNT}:assumed-role/Guest/Ops")
    assert api.call("GET", "/jobs", team="payments")[0] == 403


def test_a_worker_rule_names_its_pools() -> None:
    assert parse_rules("W=>payments/worker:a+b") == (Rule("W", "payments", "worker", ("a", "b")),)


@pytest.mark.parametrize(
    "text",
    [
        "W=>payments/worker",
        "X=>payments/owner:a",
        "X=>payments/platform",
        "X=>payments/boss",
        "X",
        "=>a/owner",
        "X=>A/owner",
    ],
)
def test_a_rule_that_cannot_be_meant_does_not_start(text: str) -> None:
    with pytest.raises(BadSetting, match="TICKWORK_PRINCIPALS"):
        Settings(principals=text)


def test_an_environment_that_says_nothing_lets_every_iam_caller_do_everything_as_before() -> None:
    for environment in ENVIRONMENTS.values():
        settings = Settings.from_environ(environment.settings().to_environ())
        actor = actor_of_principal(ROLE, parse_rules(settings.principals))
        assert (actor.team, actor.role, actor.is_walled) == ("platform", "platform", False)
    assert Settings.from_environ({}).principals == EVERY_PRINCIPAL


def test_the_actor_comes_first_whatever_a_client_writes_and_is_never_longer_than_by_was() -> None:
    actor = Actor("iam:" + "x" * 60, "payments", "operator")
    assert LOCAL.signs(None) == LOCAL.signs("local") == "local"
    assert LOCAL.signs("key:platform:1234") == "local (key:platform:1234)"
    assert actor.signs("y" * 80).startswith(actor.name)
    assert len(actor.signs("y" * 80)) == BY_CHARS_MAX
