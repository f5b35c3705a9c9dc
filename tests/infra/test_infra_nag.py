"""AwsSolutions rules over the strictest environment. What is accepted is listed here, each with its reason."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk.assertions import Annotations, Match
from cdk_nag import AwsSolutionsChecks, NagPackSuppression, NagSuppressions
from infra.app import build_app
from infra.asset import Asset

ACCEPTED = {
    "Access/Client": (
        "AwsSolutions-IAM5",
        "a client may call every route of this one API and stage; the tenants' walls are drawn inside the API",
    ),
    **{
        f"Functions/{name}/Function": (
            "AwsSolutions-L1",
            "the runtime is pinned to the Python that the tests run and the packages are compiled for",
        )
        for name in ("api", "authorizer", "ticker", "scanner", "reconciler", "pusher", "watchdog")
    },
    **{
        f"Functions/{name}/Role": (
            "AwsSolutions-IAM5",
            "teams make queues, and have a topic, while the stack runs: the pattern fits theirs and no deployed one",
        )
        for name in ("api", "scanner", "reconciler", "pusher", "watchdog")
    },
    "PushSecret/Secret": (
        "AwsSolutions-SMG4",
        "receivers outside verify with what is derived from it: it rotates when the teams have their new secret",
    ),
}


def _findings(stack: cdk.Stack) -> set[str]:
    rules = Match.string_like_regexp("AwsSolutions-.*")
    annotations = Annotations.from_stack(stack)
    found = [*annotations.find_error("*", rules), *annotations.find_warning("*", rules)]
    return {f"{one.id.removeprefix('/tickwork-prod/')}: {str(one.entry.data)[:120]}" for one in found}


def _stack(package: Asset) -> cdk.Stack:
    app = build_app(package=package, context={"env": "prod"})
    cdk.Aspects.of(app).add(AwsSolutionsChecks(verbose=True))
    stack = app.node.find_child("tickwork-prod")
    assert isinstance(stack, cdk.Stack)
    return stack


def test_every_finding_of_the_security_rules_is_answered_with_a_reason(package: Asset) -> None:
    stack = _stack(package)
    for path, (rule, reason) in ACCEPTED.items():
        NagSuppressions.add_resource_suppressions_by_path(
            stack, f"/tickwork-prod/{path}/Resource", [NagPackSuppression(id=rule, reason=reason)]
        )
    assert _findings(stack) == set()


def test_nothing_is_accepted_that_was_not_found(package: Asset) -> None:
    found = {
        (finding.split("/Resource: ")[0], finding.split(": ")[1].split("[")[0])
        for finding in _findings(_stack(package))
    }
    assert found == {(path, rule) for path, (rule, _) in ACCEPTED.items()}
