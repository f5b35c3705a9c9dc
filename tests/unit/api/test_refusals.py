"""What is wrong with a request is said in the same words: a thousand requests, and the whole answer to each.

`refusals.json` was recorded from the API before its routes were typed. `given` sets the stage; each entry of `refused`
is a request (`body`, or the text or the bytes of one) with its status and problem document. Add to it by hand, and
`python -m tests.unit.api.test_refusals` answers all of them anew: for words that are meant to change, seen in the diff.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest

FILE = Path(__file__).with_name("refusals.json")
CORPUS = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def stage() -> ApiUnderTest:
    """One for all: a request that is refused leaves nothing behind."""
    return _set_stage()


def _set_stage() -> ApiUnderTest:
    api = ApiUnderTest(fake_ports())
    for one in CORPUS["given"]:
        status, answer = api.call(one["method"], one["path"], one["body"])
        assert status in (200, 201), answer
    return api


def _sent(case: dict[str, Any]) -> object:
    if "base64" in case:
        return base64.b64decode(case["base64"])
    return case["raw"].encode() if "raw" in case else case.get("body")


@pytest.mark.parametrize("case", CORPUS["refused"], ids=lambda case: f"{case['method']} {case['path']}: {case['what']}")
def test_a_refusal_says_what_it_always_said(stage: ApiUnderTest, case: dict[str, Any]) -> None:
    found = stage.call(case["method"], case["path"], _sent(case), **case.get("query", {}))

    assert found == (case["status"], case["problem"])


def test_the_corpus_reaches_each_kind_of_refusal_by_a_caller() -> None:
    statuses = [case["status"] for case in CORPUS["refused"]]

    assert len(statuses) > 1_000
    assert {400, 404, 409, 412, 422} <= set(statuses)


def _record() -> None:
    stage = _set_stage()
    for case in CORPUS["refused"]:
        case["status"], case["problem"] = stage.call(case["method"], case["path"], _sent(case), **case.get("query", {}))
        assert case["status"] >= 400, case
    given, refused = (",\n".join(json.dumps(one) for one in CORPUS[part]) for part in ("given", "refused"))
    FILE.write_text(f'{{"given": [\n{given}\n],\n"refused": [\n{refused}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    _record()
