"""The OpenAPI document says what the table of routes says, in a form that tools can read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.support.http import ApiUnderTest
from tickwork.api.answers import Problem
from tickwork.api.fields import NoBody
from tickwork.api.problems import kinds_of
from tickwork.api.table import ROUTES

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[3] / "docs/openapi.json").read_text(encoding="utf-8"))
OPERATIONS = {one["operationId"]: one for path in DOCUMENT["paths"].values() for one in path.values()}


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(inner)


def test_the_api_serves_the_document_that_stands_in_docs(api: ApiUnderTest) -> None:
    assert api.call("GET", "/openapi.json") == (200, DOCUMENT)


def test_it_is_openapi_of_the_version_that_has_json_schema() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert {"info", "paths", "components", "servers"} <= set(DOCUMENT)
    assert {"title", "version"} <= set(DOCUMENT["info"])


def test_every_route_and_no_other_is_an_operation() -> None:
    described = {(method.upper(), path) for path, one in DOCUMENT["paths"].items() for method in one}
    assert described == {(route.method, route.path) for route in ROUTES}
    assert set(OPERATIONS) == {route.name for route in ROUTES}


def test_every_reference_leads_somewhere() -> None:
    references = [node["$ref"] for node in nodes(DOCUMENT) if isinstance(node.get("$ref"), str)]
    assert len(references) > 100
    for reference in references:
        target: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_an_operation_has_what_its_route_declares(route: Any) -> None:
    operation = OPERATIONS[route.name]
    kinds = kinds_of(route)
    parameters = {(one["in"], one["name"]) for one in operation.get("parameters", ())}

    assert operation["summary"]
    assert ("requestBody" in operation) == (route.body is not NoBody)
    assert {int(status) for status in operation["responses"]} == {*route.statuses, *(kind.status for kind in kinds)}
    assert parameters == {("path", part.name) for part in route.at} | {
        ("query", name) for name in route.query.model_fields
    }
    for kind in kinds:
        content = operation["responses"][str(int(kind.status))]["content"]["application/problem+json"]
        assert content["examples"][kind.slug] == {"$ref": f"#/components/examples/{kind.slug}"}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_an_example_of_a_body_is_one_and_each_answer_has_an_example(route: Any) -> None:
    operation = OPERATIONS[route.name]
    if route.body is not NoBody:
        route.body.model_validate(operation["requestBody"]["content"]["application/json"]["example"])
    if route.name != "openapi_document":  # its answer is the document
        for status in route.statuses:
            example = operation["responses"][str(status)]["content"]["application/json"]["example"]
            TypeAdapter(route.answer).validate_python(example)


def test_every_kind_of_problem_has_an_example_of_that_kind() -> None:
    for slug, example in DOCUMENT["components"]["examples"].items():
        TypeAdapter(Problem).validate_python(example["value"])
        assert example["value"]["type"] == f"urn:tickwork:problem:{slug}"
    assert len(DOCUMENT["components"]["examples"]) >= 13


def test_every_kind_of_problem_stands_in_the_table_of_the_api_page() -> None:
    page = (Path(__file__).parents[3] / "docs/api.md").read_text(encoding="utf-8")
    missing = [slug for slug in DOCUMENT["components"]["examples"] if f"`{slug}`" not in page]
    assert not missing


def test_what_stands_below_a_field_is_its_description() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["JobIn"]["properties"]["max_duration_s"]["description"].startswith("How long one attempt may take")
    assert schemas["TimerShown"]["properties"]["run_id"]["description"].startswith("The same on every attempt")


def test_a_parameter_takes_none_but_the_values_that_the_document_lists(api: ApiUnderTest) -> None:
    """Found by `make fuzz`: an empty `status` listed the runs of all."""
    asked = 0
    for path, one in DOCUMENT["paths"].items():
        parameters = [each for each in one.get("get", {}).get("parameters", ()) if each["in"] == "query"]
        needed = {each["name"]: "payments" for each in parameters if each["name"] == "team"}
        for name in (each["name"] for each in parameters if "enum" in each["schema"]):
            for value in ("", "other", " "):
                at = re.sub(r"{\w+}", "payments:nightly", path)
                status, problem = api.call("GET", at, **needed | {name: value})
                assert (status, problem["errors"][0]["field"]) == (422, name), (path, value)
                asked += 1
    assert asked > 3
