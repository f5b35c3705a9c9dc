"""Every worker this repository ships keeps the rules of the wire protocol, and a worker that breaks one is found."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.faulty_worker import FAULTS
from tickwork.conformance.bench import ASKS_FOR_WORK, LAMBDA, LEASE, SQS
from tickwork.conformance.worker import Result, run_all

ROOT = Path(__file__).parents[2]
PYTHON = shlex.quote(sys.executable)
SDK = f"{PYTHON} -m tickwork.cli.main worker tickwork.conformance.jobs:app --pool conformance"
PARALLEL = 3
PORT = int(os.environ.get("TICKWORK_TEST_PORT", "0"))

FOUND_BY = {
    "deletes_before_complete": "completes_then_deletes",
    "runs_declined_runs": "deletes_a_duplicate",
    "deletes_held_runs": "keeps_a_held_run",
    "never_beats": "beats_each_third",
    "ignores_failed_beats": "stops_after_two_failed_beats",
    "completes_a_lost_run": "stops_after_two_failed_beats",
    "trusts_the_lease_it_asked_for": "trusts_the_lease_of_the_answer",
    "lets_messages_reappear": "beats_each_third",
    "takes_more_than_it_can_run": "takes_only_what_it_can_run",
    "keeps_what_it_received_too_late": "gives_back_what_it_has_not_started",
    "forgets_a_complete": "repeats_a_complete",
    "uses_one_claim_for_all": "keeps_a_held_run",
    "dies_of_a_bad_message": "survives_a_bad_message",
    "starts_what_it_cannot_run": "leaves_an_unknown_handler",
}


def broken(results: list[Result]) -> dict[str, str | None]:
    return {result.name: result.broken for result in results if result.broken is not None}


NODE = shutil.which("node")
NODE_WORKER = ROOT / "examples" / "node-worker" / "worker.mjs"


@pytest.mark.parametrize(
    ("mode", "command", "rules"),
    [
        (SQS, SDK, 20),
        (LEASE, f"{SDK} --lease --lease-s 3", 15),
        (
            LAMBDA,
            f"{PYTHON} -m tickwork.conformance.event_source tickwork.conformance.lambda_jobs:handler",
            13,
        ),
        pytest.param(
            LEASE,
            f"{NODE} {shlex.quote(str(NODE_WORKER))}",
            15,
            marks=pytest.mark.skipif(NODE is None, reason="needs Node"),
        ),
    ],
    ids=["the SDK's worker on a queue", "the SDK's worker over HTTP", "a Lambda worker", "the Node worker"],
)
def test_it_keeps_every_rule(mode: str, command: str, rules: int) -> None:
    results = run_all(command, mode, port=PORT, parallel=PARALLEL, tries=2)
    assert broken(results) == {}
    assert len(results) >= rules


def test_each_planted_fault_has_a_rule_that_finds_it() -> None:
    assert FOUND_BY.keys() == FAULTS.keys()


@pytest.mark.parametrize(("fault", "rule"), FOUND_BY.items())
def test_a_worker_that_breaks_a_rule_is_found(fault: str, rule: str) -> None:
    results = run_all(f"{PYTHON} -m tests.support.faulty_worker {fault}", SQS, port=PORT, only=rule)
    assert broken(results).keys() == {rule}
    assert broken(results) != {rule: ASKS_FOR_WORK}, "it did not run at all"
