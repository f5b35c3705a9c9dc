"""What a route is: a method and a path, and the types of what goes in and what comes out, as one value.

The resolver, the reading of requests and the OpenAPI document all go by these values, so that none of them can say
something else than the others. Answers are TypedDicts: a type checker holds the code to them, the tests hold every
answer to them, and in production they cost nothing. Refuses to know what any route does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tickwork.api.fields import Body, Query
from tickwork.core.access.actors import Actor
from tickwork.core.errors import CallerError
from tickwork.core.ids import split_job_id
from tickwork.ports import Layout, Ports

_PARAMETER = re.compile(r"{(\w+)}")


@dataclass(frozen=True, slots=True)
class Call[B: Body, Q: Query]:
    """One request, read and checked: what a handler gets."""

    ports: Ports
    path: Mapping[str, str]
    query: Q
    body: B
    actor: Actor
    """Who calls, as it was proven."""
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class PathPart:
    """A part of the path that a client fills in. `check` raises a CallerError when it can be no such thing."""

    name: str
    describes: str
    example: str
    check: Callable[[str, Layout], object]


JOB_ID = PathPart(
    "job_id", "A job as `team:name`", "payments:card-settlement", lambda text, _: split_job_id(text, "job_id")
)


@dataclass(frozen=True, slots=True)
class Route[B: Body, Q: Query, A]:
    """One route. Its handler's name is its name, and the first line of the handler's docstring its summary."""

    method: str
    path: str
    """With what a client fills in in braces: `/jobs/{job_id}`."""
    handler: Callable[[Call[B, Q]], tuple[int, A]]
    """Returns the status and the answer."""
    body: type[B]
    query: type[Q]
    answer: type[A]
    statuses: Mapping[int, str] = field(default_factory=lambda: {200: "It is done."})
    """Of the answer: each with when it comes."""
    at: tuple[PathPart, ...] = ()
    errors: tuple[type[CallerError], ...] = ()
    """What it refuses beyond bodies, parameters and ids that are not valid."""

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def rule(self) -> str:
        """The path as the resolver writes it."""
        return _PARAMETER.sub(r"<\1>", self.path)


class BadRouteTable(Exception):
    """The table of routes contradicts itself: found when the API starts, not when a request comes."""


type AnyRoute = Route[Any, Any, Any]
type Table = Sequence[AnyRoute]


def checked(table: Table) -> Table:
    """The table itself. BadRouteTable names the first route that cannot stand in it."""
    for index, route in enumerate(table):
        before = table[:index]
        if (route.method, route.path) in {(one.method, one.path) for one in before}:
            raise BadRouteTable(f"{route.method} {route.path} stands twice")
        if route.name in {one.name for one in before}:
            raise BadRouteTable(f"two routes are called {route.name}")
        if set(_PARAMETER.findall(route.path)) != {part.name for part in route.at}:
            raise BadRouteTable(f"{route.method} {route.path}: `at` must name exactly what stands in braces")
    return table
