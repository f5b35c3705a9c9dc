"""What `make templates-lint` makes of what cfn-lint and checkov find. They themselves are no part of the tests: with
their installation they take longer than all that CI has left (docs/deploy.md)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from aws_cdk.assertions import Template

from tests.infra.linting import ACCEPTED, KEYED, Answer, Finding, accepted, judged, name_of, resources_of

RESOURCES = {"dev": {"A", "B"}, "prod": {"A", "C"}}
ANSWER = Answer("R1", "a reason that is a sentence", frozenset({"dev", "prod"}), frozenset({"A", "B"}))
FOUND = [Finding("R1", "dev", "A"), Finding("R1", "dev", "B"), Finding("R1", "prod", "A")]


def test_findings_that_are_all_answered_are_no_fault_whichever_templates_lack_a_resource() -> None:
    assert judged(FOUND, [ANSWER], RESOURCES) == []
    assert judged([], [], RESOURCES) == []


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (Finding("R2", "dev", "A"), "new: R2 at A in dev"),
        (Finding("R1", "prod", "C"), "new: R1 at C in prod"),
        (Finding("R1", "staging", "A"), "new: R1 at A in staging"),
    ],
)
def test_a_finding_that_nobody_has_answered_is_a_fault(more: Finding, fault: str) -> None:
    assert judged([*FOUND, more], [ANSWER], RESOURCES) == [fault]


@pytest.mark.parametrize("gone", FOUND, ids=str)
def test_an_answer_whose_finding_is_gone_from_any_template_is_a_fault(gone: Finding) -> None:
    left = [one for one in FOUND if one != gone]
    assert judged(left, [ANSWER], RESOURCES) == [f"gone: R1 at {gone.at} in {gone.template}"]


def test_an_answer_about_a_resource_that_is_nowhere_is_a_fault() -> None:
    answer = Answer("R1", ANSWER.why, ANSWER.templates, ANSWER.at | {"Z"})
    assert judged(FOUND, [answer], RESOURCES) == ["R1: there is no Z any more"]


@pytest.mark.parametrize(
    "change", [{"why": "because"}, {"at": []}, {"in": []}], ids=["no reason", "no resource", "no template"]
)
def test_an_answer_that_says_nothing_is_refused(change: dict[str, object]) -> None:
    one = {"rule": "R1", "why": ANSWER.why, "in": ["dev"], "at": ["A"]}
    assert accepted(json.dumps([one])) == [Answer("R1", ANSWER.why, frozenset({"dev"}), frozenset({"A"}))]
    with pytest.raises(ValueError, match="say why, where"):
        accepted(json.dumps([one | change]))
    with pytest.raises(ValueError, match="accepted twice"):
        accepted(json.dumps([one, one | {"at": ["B", "A"]}]))


def test_a_resource_is_called_as_in_the_code() -> None:
    assert name_of("FunctionsapiFunctionD03CF54C") == "FunctionsapiFunction"
    assert name_of("Topic") == "Topic"


def test_what_is_accepted_is_about_resources_that_are_there(templates: dict[str, Template]) -> None:
    """Without the linters no more can be said; that is said in every run."""
    there = {name: resources_of(template.to_json()) for name, template in templates.items()}
    there[KEYED] = there["prod"]
    answers = accepted(ACCEPTED.read_text(encoding="utf-8"))
    assert answers
    for one in answers:
        assert one.templates <= there.keys()
        assert one.at <= set().union(*(there[template] for template in one.templates)), one.rule


def test_the_linters_are_pinned_by_hashes() -> None:
    lock = (Path(__file__).parents[2] / "requirements" / "templates.lock").read_text(encoding="utf-8")
    wanted = (Path(__file__).parents[2] / "requirements" / "templates.in").read_text(encoding="utf-8")
    for name in re.findall(r"^([\w-]+==[\d.]+)$", wanted, re.M):
        assert f"{name} \\\n    --hash=sha256:" in lock
