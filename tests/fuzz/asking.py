"""Who asks: requests made by schemathesis from the committed document, each answer held to it. Runs in an environment
of its own (`requirements/fuzz.lock`), and knows nothing of tickwork but its document and what it is told (`world.py`).

Of each operation as many requests are made that its schema allows as such that it does not. Of those that it allows
most are aimed: ids of the caller's own things or of the other team's stand in for generated ones, over the document's
example, or nothing but refusals would ever be answered.
"""

from __future__ import annotations

import base64
import copy
import itertools
import json
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS: list[Any] = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ALL_MET_AFTER = 10_000
"""In so many requests each operation must have done once what it was asked, or the answers prove little."""
TOLD_MAX = 30
"""Failures that are told in full."""
LEARNED_MAX = 20
"""Values of a field that are kept of the answers, to be asked about."""
AIMED = ("team", "name", "pool", "job_id", "timer_id", "run", "calendar_id", "key_id", "ref", "timer_ids")
LEARNED = ("ref", "timer_id", "job_id", "cursor", "version", "held")
AIMS = ("generated", "own", "own", "own", "other", "mixed")
"""Whose ids stand in a request: half are about the caller's own things."""
MADE_MAX = 4
"""Names of what is made, so that some are made twice, and asked about later."""
REFUSED_ROLES_ONE_IN = 4
"""Of a role that an operation has refused: it is asked again, but not as often, or most answers would be that."""


@dataclass
class Caller:
    team: str
    role: str
    key: str

    @property
    def name(self) -> str:
        return f"{self.role} of {self.team}"


@dataclass
class Asking:
    """One session: who calls, what has been learned from answers, what was found."""

    url: str
    callers: list[Caller]
    things: dict[str, dict[str, Any]]
    marks: dict[str, list[str]]
    session: requests.Session = field(default_factory=requests.Session)
    learned: dict[tuple[str, str], deque[Any]] = field(default_factory=dict)
    refused: set[tuple[str, str]] = field(default_factory=set)
    """Operations with the roles that they are not for."""
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)

    def next_caller(self, operation: str, turns: Iterator[int]) -> tuple[Caller, int]:
        """Each in turn, those who are refused now and then."""
        for turn in turns:
            caller = self.callers[turn % len(self.callers)]
            if (operation, caller.role) not in self.refused or turn // len(self.callers) % REFUSED_ROLES_ONE_IN == 0:
                return caller, turn
        raise AssertionError("turns do not end")

    def ask(self, case: Case, caller: Caller) -> None:
        headers = {"Authorization": f"Bearer {caller.key}"}
        found = case.call(base_url=self.url, session=self.session, headers=headers)
        operation = name_of(case.operation)
        if found.status_code == 403:
            self.refused.add((operation, caller.role))
        self.statuses[caller.name, found.status_code] += 1
        self.succeeded[operation] += found.status_code < 300
        self.learn(caller, operation, found)
        checks = CHECKS if tells_of_each(found) else [*CHECKS, negative_data_rejection]
        self._hold(operation, "schemathesis", caller, partial(case.validate_response, found, checks=checks))
        for check in (no_failure, refused_by_document, silent_about_others):
            self._hold(operation, check.__name__, caller, partial(check, self, case, caller, found))

    def _hold(self, operation: str, check: str, caller: Caller, run: Callable[[], None]) -> None:
        try:
            run()
        except (FailureGroup, Failure, AssertionError) as error:
            one = error.exceptions[0] if isinstance(error, FailureGroup) else error
            kind = f"{operation}: {check}: {getattr(one, 'title', '')} {str(one)[:120]}"
            self.times[kind] += 1
            self.failures.setdefault(kind, f"{caller.name}\n{error}")

    # --- what is learned from answers -------------------------------------------------------------------------------

    def learn(self, caller: Caller, operation: str, found: Response) -> None:
        if found.status_code >= 400 or operation == "openapi_document":
            return
        for name, value in fields_of(found.json()):
            # A timer's id stands where a job's may, but is asked about by another route.
            if name in LEARNED and value is not None and not (name == "job_id" and ":t~" in value):
                kept = self.learned.setdefault((caller.team, name), deque(maxlen=LEARNED_MAX))
                kept.append(value)

    def known(self, team: str, name: str, turn: int) -> Any:
        """A value for a field that is a team's, or None."""
        kept = self.learned.get((team, name), ())
        thing = self.things.get(team, {}).get(name)
        choices = [*([thing] if thing is not None else []), *kept]
        return choices[turn % len(choices)] if choices else None


# --- aiming -------------------------------------------------------------------------------------------------------


def aimed(asking: Asking, case: Case, caller: Caller, aim: str, turn: int, kept: list[str]) -> Case:
    """The case with ids of things that are there. `kept`: which fields of a generated body stay as they are."""
    if aim == "generated":
        return case
    teams = sorted(asking.things)
    own = caller.team if caller.team in teams else teams[turn % 2]
    other = teams[1 - teams.index(own)]
    turns = itertools.cycle([own] if aim == "own" else [other] if aim == "other" else [own, other])
    _aim_url(asking, case, caller, turns, turn)
    example = _example(case)
    if isinstance(example, dict) and isinstance(case.body, dict):
        body = copy.deepcopy(example) | {name: case.body[name] for name in kept if name in case.body}
        case.body = _aim_body(asking, body, turns, turn)
    return case


def _aim_url(asking: Asking, case: Case, caller: Caller, turns: Iterator[str], turn: int) -> None:
    team, path = next(turns), dict(case.path_parameters or {})
    for name in path:
        found = asking.known(team, name, turn)
        if name == "run" and turn % 2:
            found = asking.known(team, "ref", turn)
        if name == "pool" and turn % 3:
            found = "default"
        if name == "name" and turn % 2:
            found = f"made-{turn % MADE_MAX}"
        if name == "team" and caller.role == "platform" and turn % 2 and "name" not in path:
            found = f"team-{turn % MADE_MAX}"
        path[name] = path[name] if found is None else found
    case.path_parameters = path
    names = {one["name"] for one in case.operation.definition.raw.get("parameters", ()) if one["in"] == "query"}
    query = dict(case.query or {}) if turn % 4 == 0 else {}
    if "team" in names and turn % 7:
        query["team"] = next(turns)
    if "cursor" in names and turn % 3 == 0 and (cursor := asking.known(next(turns), "cursor", turn)) is not None:
        query["cursor"] = cursor
    if "limit" in names and turn % 2:
        query["limit"] = 1
    case.query = query


def _example(case: Case) -> Any:
    content = case.operation.definition.raw.get("requestBody", {}).get("content", {})
    return content.get("application/json", {}).get("example")


def _aim_body(asking: Asking, node: Any, turns: Iterator[str], turn: int) -> Any:
    if isinstance(node, list):
        return [_aim_body(asking, one, turns, turn) for one in node]
    if not isinstance(node, dict):
        return node
    team = next(turns)
    if {"ref", "token"} <= node.keys() and (held := asking.known(team, "held", turn)) is not None:
        return node | held
    if turn % 2:  # made anew, or on what is there
        node = {name: value for name, value in node.items() if name not in ("version", "calendars")}
    return {name: _aim_field(asking, name, value, (team, turns), turn) for name, value in node.items()}


def _aim_field(asking: Asking, name: str, value: Any, teams: tuple[str, Iterator[str]], turn: int) -> Any:
    team, turns = teams
    if name == "pool":
        return ("default", "payments", asking.known(team, "pool", turn))[turn % 3]
    if name in ("shared_with", "pools"):
        return [] if name == "shared_with" else ["default"]
    if name == "timer_ids":
        return [asking.known(next(turns), "timer_id", turn + one) for one in range(3)]
    if name == "name" and turn % 2:
        return f"made-{turn % MADE_MAX}"
    if name in AIMED or name == "version":
        found = asking.known(team, name, turn)
        return value if found is None else found
    return _aim_body(asking, value, turns, turn)


# --- own checks ---------------------------------------------------------------------------------------------------


def no_failure(_: Asking, __: Case, ___: Caller, found: Response) -> None:
    """schemathesis takes a 500 that is in the document for an answer like any other."""
    assert found.status_code < 500, f"status {found.status_code}: {found.text[:300]}"


def refused_by_document(_: Asking, case: Case, __: Caller, found: Response) -> None:
    """A refusal is a problem document of a type that the operation declares for its status."""
    if found.status_code < 400:
        return
    declared = case.operation.definition.raw["responses"].get(str(found.status_code), {})
    slugs = declared.get("content", {}).get("application/problem+json", {}).get("examples", {})
    kind = found.json().get("type")
    assert kind in {f"urn:tickwork:problem:{slug}" for slug in slugs}, f"{found.status_code} of type {kind!r}"
    assert found.json().get("status") == found.status_code


def tells_of_each(found: Response) -> bool:
    """A worker's batch with some entries at fault is answered with 200, and each entry's own fate (A10)."""
    return found.status_code == 200 and '"reason": "invalid"' in found.text


def silent_about_others(asking: Asking, case: Case, caller: Caller, found: Response) -> None:
    """No answer to a team has anything of the other team that the request did not name (tenant-wall)."""
    if caller.team not in asking.marks or name_of(case.operation) == "openapi_document":
        return
    sent = f"{found.request.url} {found.request.body!r}"
    cursors = [value for name, value in fields_of(found.json()) if name == "cursor" and isinstance(value, str)]
    text = found.text + "".join(base64.urlsafe_b64decode(one + "=" * (-len(one) % 4)).decode() for one in cursors)
    for team in asking.marks.keys() - {caller.team}:
        told = [mark for mark in asking.marks[team] if mark in text and mark not in sent]
        assert not told, f"{caller.name} was told {told}: {found.text[:300]}"


def fields_of(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        if "ref" in node and isinstance(node.get("token"), int):
            yield "held", {"ref": node["ref"], "token": node["token"]}
        for name, value in node.items():
            yield name, value
            yield from fields_of(value)
    elif isinstance(node, list):
        for one in node:
            yield from fields_of(one)


# --- the session --------------------------------------------------------------------------------------------------


def fuzz(asking: Asking, operations: list[Any], count: int, number: int) -> int:
    """How many requests were made: at least `count`, of each operation about as many. What takes nothing can be asked
    in one way only; the next round makes up for it."""
    turns, made = itertools.count(), 0
    for round_no in itertools.count():
        each = max(1, (count - made) // (2 * len(operations)))
        for operation in operations:
            for mode in modes_of(operation):
                made += _fuzz_one(asking, operation, mode, each, number + round_no, turns)
        if made >= count:
            return made
    raise AssertionError("rounds do not end")


def modes_of(operation: Any) -> tuple[GenerationMode, ...]:
    """Of a request with nothing but a path none is wrong by its schema: any text may stand there, and is judged by the
    route."""
    raw = operation.definition.raw
    has_more = "requestBody" in raw or any(one["in"] != "path" for one in raw.get("parameters", ()))
    return (GenerationMode.NEGATIVE, GenerationMode.POSITIVE) if has_more else (GenerationMode.POSITIVE,)


def _fuzz_one(
    asking: Asking,
    operation: Any,
    mode: GenerationMode,
    count: int,
    number: int,
    turns: Iterator[int],
) -> int:
    """How many requests were made."""
    strategy = operation.as_strategy(generation_mode=mode)
    done = Counter[str]()
    fields = sorted(_properties(operation))
    keeping = st.lists(st.sampled_from(fields), max_size=2) if fields else st.just([])

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy, aim=st.sampled_from(AIMS), kept=keeping)
    def one(case: Case, aim: str, kept: list[str]) -> None:
        caller, turn = asking.next_caller(name_of(operation), turns)
        if mode is GenerationMode.POSITIVE:
            case = aimed(asking, case, caller, aim, turn, kept)
        asking.ask(case, caller)
        done["requests"] += 1

    one()
    return done["requests"]


def name_of(operation: Any) -> str:
    return str(operation.definition.raw["operationId"])


def _properties(operation: Any) -> list[str]:
    example = operation.definition.raw.get("requestBody", {}).get("content", {}).get("application/json", {})
    return list(example.get("example", {}))


def main(known: str, document: str, count: str, number: str, only: str) -> int:
    facts = json.loads(Path(known).read_text(encoding="utf-8"))
    schema = schemathesis.openapi.from_path(document)
    found = [one.ok() for one in schema.get_all_operations()]
    found.sort(key=lambda one: one.method.upper() == "DELETE")  # what is gone is asked about last
    operations = [one for one in found if only in ("", name_of(one))]
    asking = Asking(facts["url"], [Caller(**one) for one in facts["callers"]], facts["things"], facts["marks"])
    began = time.monotonic()
    made = fuzz(asking, operations, int(count), int(number))
    seconds = time.monotonic() - began
    print(f"{made} requests to {len(operations)} operations in {seconds:.0f} s, seed {number}")
    for caller in asking.callers:
        told = sorted((status, times) for (name, status), times in asking.statuses.items() if name == caller.name)
        print(f"  {caller.name}: " + ", ".join(f"{times} x {status}" for status, times in told))
    never = [name for name, times in asking.succeeded.items() if not times]
    print(f"operations that never did what they were asked: {', '.join(never) or 'none'}")
    for kind, text in list(asking.failures.items())[:TOLD_MAX]:
        print(f"\nFAILED {asking.times[kind]} times: {kind}\n{text}")
    print(f"{len(asking.failures)} kinds of failure")
    is_vacuous = bool(never) and int(count) >= ALL_MET_AFTER
    return int(bool(asking.failures) or is_vacuous)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
