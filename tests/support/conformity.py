"""Holds every answer of every test to what its route declares: the status, the fields and their types, and no others.

Production does not check its own answers; here each test of the API is a test of the declarations too.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from tickwork.api import problems
from tickwork.api.answers import Problem
from tickwork.api.routing import AnyRoute
from tickwork.api.table import ROUTES

_EXACTLY = ConfigDict(extra="forbid", strict=True)


def route_at(method: str, path: str) -> AnyRoute | None:
    """The route of a request, found without the resolver; None when there is none."""
    return next(
        (one for one in ROUTES if one.method == method and re.fullmatch(_pattern(one.path), path)),
        None,
    )


def _pattern(path: str) -> str:
    literals = re.split(r"{\w+}", path)
    return r"[^/]+".join(map(re.escape, literals))


def declared_answer(route: AnyRoute, status: int, answer: Any) -> None:
    """Raises when the route does not declare this answer."""
    if status >= 400:
        assert answer["type"] in {kind.type for kind in problems.kinds_of(route) if kind.status == status}, answer
        check_problem(answer)
        return
    assert status in route.statuses, (route.name, status)
    declared: Any = route.answer
    _adapter(declared).validate_python([answer])


def check_problem(answer: Any) -> None:
    _adapter(Problem).validate_python([answer])


def check(method: str, path: str, status: int, answer: Any) -> None:
    """Raises when the answer to a request is not one that the table of routes declares."""
    route = route_at(method, path)
    if route is not None:
        declared_answer(route, status, answer)
    else:
        assert (status, answer["type"]) == (404, problems.NO_ROUTE.type), answer
        check_problem(answer)


@cache
def _adapter(answer: Any) -> TypeAdapter[Any]:
    # Inside a list, for a TypedDict takes its configuration from what it stands in, and from nothing else.
    return TypeAdapter(list[answer], config=_EXACTLY)
