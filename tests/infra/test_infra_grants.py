"""Grants and code, held against each other: what the template allows is what the source calls, no more, no less."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
from aws_cdk.assertions import Template
from infra.grants import CONSUME

from tests.infra.callgraph import FUNCTIONS, PUSH_SECRET, TEAMS_POOLS, TEAMS_TOPICS, needs_of, reachable
from tickwork.core.access.pools import pool_id
from tickwork.core.ledger import tables
from tickwork.core.ledger.queues import ready_queue

NAMES = ("api", "authorizer", "ticker", "scanner", "reconciler", "pusher", "watchdog")
TEAMS_SERVED = ("api", "scanner", "reconciler", "pusher", "watchdog")
EVENT_SOURCE = {
    "scanner": {(f"sqs:{action}", "ticks") for action in CONSUME},
    "pusher": {(f"sqs:{action}", "ready-*") for action in CONSUME},
}


def _statements(template: Template, name: str) -> list[dict[str, Any]]:
    roles = template.find_resources("AWS::IAM::Role")
    (role,) = (role for logical_id, role in roles.items() if logical_id.startswith(f"Functions{name}Role"))
    return [s for policy in role["Properties"]["Policies"] for s in policy["PolicyDocument"]["Statement"]]


def _granted(template: Template, name: str) -> set[tuple[str, str]]:
    resources = template.to_json()["Resources"]
    return {
        (action, _resource(resources, arn))
        for statement in _statements(template, name)
        for action in _listed(statement["Action"])
        for arn in _listed(statement["Resource"])
        if not action.startswith("logs:")
    }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _resource(resources: dict[str, Any], arn: Any) -> str:
    """The name the code has for what an ARN in the template means: `TIMERS`, `TIMERS/BY_JOB`, `ticks`, `ready-*`,
    the secret."""
    if "Fn::Join" in arn and ("sqs" in json.dumps(arn) or "sns" in json.dumps(arn)):
        return str(arn["Fn::Join"][1][-1]).rpartition(":tickwork-prod-")[2]
    if "Fn::Join" in arn:
        table, index = arn["Fn::Join"][1]
        name = _resource(resources, table)
        (found,) = (one for one in getattr(tables, name).indexes if one.name == index.removeprefix("/index/"))
        return f"{name}/{_constant_of(found)}"
    if "Ref" in arn:
        assert resources[arn["Ref"]]["Type"] == "AWS::SecretsManager::Secret"
        return PUSH_SECRET
    properties = resources[arn["Fn::GetAtt"][0]]["Properties"]
    if "QueueName" in properties:
        name = str(properties["QueueName"]).removeprefix("tickwork-prod-")
        return "ready-*" if name.startswith("ready-") else name
    return _constant_of(tables.TABLES_BY_NAME[str(properties["TableName"]).removeprefix("tickwork-prod-")])


def _constant_of(value: tables.Table | tables.Index) -> str:
    return next(name for name, one in vars(tables).items() if one == value)


@pytest.mark.parametrize("name", NAMES)
def test_a_function_may_do_what_its_code_does_and_nothing_else(prod: Template, name: str) -> None:
    needed = needs_of(name)
    # The pusher takes from its own queue alone.
    both = {"sqs:SendMessage", "sqs:GetQueueUrl"} if name == "pusher" else {action for action, _ in needed}
    needed |= {(action, TEAMS_POOLS) for action, queue in needed if queue == "ready-*" and action in both}
    assert _granted(prod, name) == needed | EVENT_SOURCE.get(name, set())


@pytest.mark.parametrize("name", NAMES)
def test_no_grant_has_a_star_but_for_the_queues_that_teams_make(prod: Template, name: str) -> None:
    stars = {
        _resource(prod.to_json()["Resources"], arn)
        for statement in _statements(prod, name)
        for arn in _listed(statement["Resource"])
        if "*" in json.dumps(arn)
    }
    assert "*" not in json.dumps([statement["Action"] for statement in _statements(prod, name)])
    topics = {TEAMS_TOPICS} if name in ("api", "watchdog") else set()
    assert stars == topics | ({TEAMS_POOLS} if name in TEAMS_SERVED else set())


def test_who_makes_and_deletes_queues_reaches_those_of_teams_and_no_deployed_one(template: Template) -> None:
    names = [str(one["Properties"]["QueueName"]) for one in template.find_resources("AWS::SQS::Queue").values()]
    assert len(names) >= 8
    for name in NAMES:
        for statement in _statements(template, name):
            if {"sqs:CreateQueue", "sqs:SetQueueAttributes", "sqs:DeleteQueue"} & set(_listed(statement["Action"])):
                assert name == "api"
                (pattern,) = (str(arn["Fn::Join"][1][-1]).rpartition(":")[2] for arn in _listed(statement["Resource"]))
                assert not [one for one in names if fnmatchcase(one, pattern)]
                assert fnmatchcase(f"tickwork-prod-{ready_queue(pool_id('payments', 'fast'))}-dlq", pattern) or (
                    not pattern.startswith("tickwork-prod-")
                )


def test_every_ready_queue_is_reached_from_every_function_that_sends(prod: Template) -> None:
    queues = prod.find_resources("AWS::SQS::Queue")
    ready = {i for i, q in queues.items() if "-ready-" in q["Properties"]["QueueName"] and "dlq" not in i.lower()}
    for name in ("api", "scanner", "reconciler", "pusher"):
        statements = [s for s in _statements(prod, name) if "sqs:SendMessage" in s["Action"]]
        reached = {arn["Fn::GetAtt"][0] for s in statements for arn in _listed(s["Resource"]) if "Fn::GetAtt" in arn}
        assert ready < reached


def test_pushes_are_taken_by_the_pusher_alone_and_it_takes_nothing_else(prod: Template) -> None:
    """The code names ready queues by their pool; here is which pools each function takes from."""
    queues = prod.find_resources("AWS::SQS::Queue")
    taken = {
        name: {
            str(queues[arn["Fn::GetAtt"][0]]["Properties"]["QueueName"]).removeprefix("tickwork-prod-")
            for statement in _statements(prod, name)
            if {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"} & set(statement["Action"])
            for arn in _listed(statement["Resource"])
            if "Fn::GetAtt" in arn
        }
        for name in NAMES
    }
    assert taken == {
        "api": {"ready-default", "ready-payments"},
        "authorizer": set(),
        "ticker": set(),
        "scanner": {"ticks"},
        "reconciler": set(),
        "pusher": {"ready-push"},
        "watchdog": set(),
    }


def test_only_the_pusher_reads_the_secret(template: Template) -> None:
    readers = {
        logical_id
        for kind in ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        for logical_id, one in template.find_resources(kind).items()
        if "secretsmanager" in json.dumps(one)
    }
    assert len(readers) == 1
    assert readers.pop().startswith("FunctionspusherRole")


def test_a_team_may_make_its_calls_and_a_worker_only_a_workers(prod: Template) -> None:
    policies = {
        one["Properties"]["ManagedPolicyName"].removeprefix("tickwork-prod-"): _routes(one)
        for one in prod.find_resources("AWS::IAM::ManagedPolicy").values()
    }
    calls = {"POST/runs:start", "POST/runs:heartbeat", "POST/runs:complete"}
    assert policies == {
        # Every route, so also /runs:cancel, /dead-letters, /dead-letters:replay and /calendars.
        "client": {"*/*"},
        "worker-default": calls | {"POST/pools/default:lease"},
        "worker-payments": calls | {"POST/pools/payments:lease"},
    }


def _routes(policy: dict[str, Any]) -> set[str]:
    return {
        arn["Fn::Join"][1][-1].removeprefix("/$default/")
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "execute-api:Invoke" in statement["Action"]
        for arn in _listed(statement["Resource"])
    }


def test_the_reader_of_the_source_finds_its_way_to_the_depths() -> None:
    found = {(module, getattr(node, "name", "")) for module, node in reachable("scanner.handler")}
    assert ("tickwork.core.dispatch.slices", "fence") in found
    assert ("tickwork.flows.dispatch.creating", "prepare_slices") in found
    assert ("tickwork.flows.jobs.registering", "create_job") not in found


def test_no_table_is_reached_behind_the_readers_back() -> None:
    """Every use of a boto3 client is in a place the reader knows: the store, the queues, the secrets, wiring."""
    users = {
        path.relative_to(FUNCTIONS / "tickwork").as_posix()
        for path in (FUNCTIONS / "tickwork").rglob("*.py")
        if re.search(r"(?:import|from) boto", path.read_text(encoding="utf-8"))
    }
    reached = {
        module.removeprefix("tickwork.").replace(".", "/") + ".py"
        for name in NAMES
        for module, _ in reachable(f"{name}.handler")
    }
    assert users & reached == {
        "store/dynamodb.py",
        "store/failures.py",
        "aws/paging.py",
        "aws/queue_making.py",
        "aws/sqs.py",
        "aws/wiring.py",
        "aws/secrets.py",
    }
