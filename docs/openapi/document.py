"""The OpenAPI 3.1 document of the table of routes (A4). Built when the documents are, never in a function.

Owns how a route, a model and a problem are said in OpenAPI. Refuses to know any single route: what is to be said of
one is said in the table, in its handler's docstring, or below a field of its model.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from docs.openapi.descriptions import with_descriptions
from docs.openapi.examples import Examples, play
from pydantic import TypeAdapter

from tickwork.api import decoding, problems
from tickwork.api.answers import Problem
from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.problems import Kind, kind_of, kinds_of
from tickwork.api.routing import AnyRoute
from tickwork.api.table import CHAPTERS, ROUTES
from tickwork.core import errors
from tickwork.core.access.api_keys import PATTERN

ROOT = Path(__file__).parents[2]
_REF = "#/components/schemas/{model}"

INTRODUCTION = (
    "Times are UTC. Unknown fields, unknown parameters and keys that stand twice are refused. An answer may have more "
    "fields in a later version: do not refuse what you do not know. Lists come with a `cursor`: hand it back for the "
    "next page. What is wrong is said by a problem document (RFC 9457): programs go by its `type`, and `errors` names "
    "each field at fault, with what to change. docs/api.md tells the rest."
)

type Json = dict[str, Any]


def document() -> Json:
    """The whole document, always in the same order."""
    examples = play()
    schemas, refs = _schemas()
    tags = {route.name: chapter for chapter, table in CHAPTERS.items() for route in table}
    paths: dict[str, Json] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, tags[route.name], refs, examples)
    return {
        "openapi": "3.1.0",
        "info": {"title": "tickwork", "version": _version(), "description": INTRODUCTION},
        "servers": [{"url": "http://127.0.0.1:8787", "description": SERVERS}],
        "security": [{}, {"sigv4": []}, {"key": []}, {"token": []}],
        "tags": [{"name": chapter} for chapter in CHAPTERS],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "examples": {kind.slug: _problem_example(kind, examples) for kind in all_kinds()},
            "securitySchemes": {"sigv4": _SIGV4, "key": _KEY, "token": _TOKEN},
        },
    }


SERVERS = "`make run`; deployed: the stack's `ApiUrl`, by signature, and `KeyApiUrl`, by key or token"
_SIGV4 = {
    "type": "apiKey",
    "in": "header",
    "name": "Authorization",
    "description": "Deployed: AWS Signature Version 4, service `execute-api`. Locally nothing is asked for.",
    "x-amazon-apigateway-authtype": "awsSigv4",
}
_KEY = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": PATTERN,
    "description": "An API key (docs/access.md): on one's own machine, and deployed at the stack's `KeyApiUrl`.",
}
_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "JWT",
    "description": "A token of the configured issuer (docs/access.md), RS256 or ES256, where an API key is taken.",
}


def all_kinds() -> list[Kind]:
    """Every kind of problem that the API can answer."""
    own = [problems.BAD_JSON, problems.NO_ROUTE, problems.BODY_TOO_LARGE, problems.OURS, problems.BUSY]
    of_callers = [kind_of(error) for error in _below(errors.CallerError)]
    return sorted({*own, *of_callers}, key=lambda kind: (kind.status, kind.slug))


def _below(error: type[errors.CallerError]) -> Iterable[type[errors.CallerError]]:
    for one in error.__subclasses__():
        if one.__module__ in (errors.__name__, decoding.__name__):
            yield one
            yield from _below(one)


def _version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


# --- schemas ----------------------------------------------------------------------------------------------------


def _schemas() -> tuple[Json, dict[tuple[str, str], Json]]:
    """Every model as a component, and for each (route, part) what refers to its own."""
    parts: list[tuple[Any, Any, TypeAdapter[Any]]] = [(("", "problem"), "serialization", TypeAdapter(Problem))]
    for route in ROUTES:
        parts.append(((route.name, "answer"), "serialization", TypeAdapter(route.answer)))
        if route.body is not NoBody:
            parts.append(((route.name, "body"), "validation", TypeAdapter(route.body)))
    found, rest = TypeAdapter.json_schemas(parts, ref_template=_REF)
    schemas = dict(sorted(rest["$defs"].items()))
    with_descriptions(schemas)
    schemas["Problem"]["description"] += " Kinds: " + ", ".join(f"`{kind.slug}`" for kind in all_kinds()) + "."
    _untitled(schemas)
    return schemas, {key: schema for (key, _), schema in found.items()}


def _untitled(schema: Any) -> None:
    """Takes away the titles that only say a name once more."""
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for inner in schema.values():
            _untitled(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _untitled(inner)


# --- operations -------------------------------------------------------------------------------------------------


def _operation(route: AnyRoute, tag: str, refs: Mapping[tuple[str, str], Json], examples: Examples) -> Json:
    summary, _, rest = (route.handler.__doc__ or "").partition("\n")
    operation: Json = {"operationId": route.name, "tags": [tag], "summary": summary.rstrip(".")}
    if rest.strip():
        operation["description"] = " ".join(rest.split())
    if parameters := [*_path_parameters(route), *_query_parameters(route)]:
        operation["parameters"] = parameters
    if route.body is not NoBody:
        content = {"schema": refs[route.name, "body"], "example": examples.bodies[route.name]}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    operation["responses"] = _answers(route, refs, examples) | _refusals(route)
    return operation


def _path_parameters(route: AnyRoute) -> list[Json]:
    return [
        {
            "name": part.name,
            "in": "path",
            "required": True,
            "description": part.describes,
            "schema": {"type": "string"},
            "example": part.example,
        }
        for part in route.at
    ]


def _query_parameters(route: AnyRoute) -> list[Json]:
    if route.query is NoQuery:
        return []
    schema = route.query.model_json_schema(ref_template=_REF)
    named = schema.get("$defs", {})
    with_descriptions({route.query.__name__: schema})
    parameters = []
    for name, field in schema["properties"].items():
        plain = _plain(field, named)
        parameter: Json = {"name": name, "in": "query", "required": name in schema.get("required", ())}
        if "description" in plain:
            parameter["description"] = plain.pop("description")
        parameters.append(parameter | {"schema": plain})
    return parameters


def _plain(field: Json, named: Json) -> Json:
    """A parameter's schema: what it refers to put in its place, and null, which no URL can say, left out."""
    plain = {name: value for name, value in field.items() if name not in ("title", "anyOf", "$ref", "default")}
    for one in field.get("anyOf", ()):
        if one != {"type": "null"}:
            plain |= _plain(one, named)
    if "$ref" in field:
        plain |= _plain(named[field["$ref"].rpartition("/")[2]], named)
    return plain | ({"default": field["default"]} if field.get("default") else {})


def _answers(route: AnyRoute, refs: Mapping[tuple[str, str], Json], examples: Examples) -> Json:
    answers: Json = {}
    for status, when in route.statuses.items():
        content: Json = {"schema": refs[route.name, "answer"]}
        if (example := examples.answers.get((route.name, status))) is not None:
            content["example"] = example
        answers[str(status)] = {"description": when, "content": {"application/json": content}}
    return answers


def _refusals(route: AnyRoute) -> Json:
    refusals: Json = {}
    for kind in kinds_of(route):
        refusal = refusals.setdefault(str(int(kind.status)), {"description": "", "content": {}})
        refusal["description"] = "; ".join(filter(None, (refusal["description"], kind.title)))
        content = refusal["content"].setdefault(
            "application/problem+json", {"schema": {"$ref": _REF.format(model="Problem")}, "examples": {}}
        )
        content["examples"][kind.slug] = {"$ref": f"#/components/examples/{kind.slug}"}
        if kind.status in (429, problems.BUSY.status):
            seconds = {"description": "Repeat it after so many seconds.", "schema": {"type": "integer"}}
            refusal["headers"] = {"Retry-After": seconds}
    return refusals


def _problem_example(kind: Kind, examples: Examples) -> Json:
    return {"summary": kind.title, "value": examples.problems[kind.slug]}
