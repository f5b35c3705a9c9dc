"""Errors as RFC 9457 problem documents: what is wrong, with which field, and what to change."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel, ValidationError

from tickwork.api.decoding import DuplicateKey
from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.matrix import ANYBODY, MATRIX
from tickwork.api.routing import AnyRoute
from tickwork.core.errors import (
    BadToken,
    CallerError,
    ExpiredKey,
    ExpiredToken,
    Forbidden,
    InvalidField,
    MalformedKey,
    NotFound,
    QuotaExceeded,
    RevokedKey,
    Unauthenticated,
    UnknownKey,
    WorldError,
)
from tickwork.core.schedule.refusal import WORD_CHARS_MAX

PROBLEM_JSON = "application/problem+json"
RETRY_AFTER_S = 1
FAULTS_MAX = 20
TEXT_CHARS_MAX = 600


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem. Programs go by its slug."""

    status: int
    slug: str
    title: str

    @property
    def type(self) -> str:
        return f"urn:tickwork:problem:{self.slug}"


def kind_of(error: type[CallerError] | CallerError) -> Kind:
    return Kind(error.status, error.slug, error.title)


BAD_JSON = Kind(400, "malformed-json", "The body is not JSON")
NO_ROUTE = Kind(404, "no-such-path", "There is nothing at this path")
BODY_TOO_LARGE = Kind(413, "body-too-large", "The body is too large")
"""Said by whoever hands us the request: the embedded server, or the gateway in words of its own."""
OURS = Kind(500, "internal", "The service failed")
BUSY = Kind(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "The service is busy")


AT_THE_GATE = (
    Unauthenticated,
    MalformedKey,
    UnknownKey,
    ExpiredKey,
    RevokedKey,
    BadToken,
    ExpiredToken,
    Forbidden,
)
"""What any route may answer that asks who calls."""


def kinds_of(route: AnyRoute) -> list[Kind]:
    """All that a route may answer instead of doing what it was asked."""
    kinds = [kind_of(error) for error in route.errors]
    if (grant := MATRIX.get(route.name)) is not None and grant.roles != ANYBODY:
        kinds += [kind_of(error) for error in AT_THE_GATE]
        if grant.team.kind != "entries":  # of these each entry is told by itself
            kinds.append(kind_of(NotFound))
    if route.body is not NoBody:
        kinds += [BAD_JSON, kind_of(DuplicateKey), BODY_TOO_LARGE]
    if route.body is not NoBody or route.query is not NoQuery or route.at:
        kinds.append(kind_of(InvalidField))
    return sorted({*kinds, BUSY, OURS}, key=lambda kind: (kind.status, kind.slug))


def problem(
    kind: Kind,
    detail: str,
    errors: Iterable[dict[str, Any]] = (),
    quota: Mapping[str, Any] | None = None,
    **headers: str,
) -> Response[str]:
    """A problem document. `errors` lists the fields at fault, `quota` which one is used up."""
    body: dict[str, Any] = {"type": kind.type, "title": kind.title, "status": kind.status, "detail": _clipped(detail)}
    body |= {"quota": quota} if quota else {}
    listed = [{name: text and _clipped(text) for name, text in fault.items()} for fault in errors]
    if listed:
        body["errors"] = listed
    # A client's own text is shown to it: half a surrogate pair in it could not be sent.
    text = json.dumps(body, ensure_ascii=False).encode(errors="replace").decode()
    return Response(
        status_code=kind.status,
        content_type=PROBLEM_JSON,
        body=text,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def _clipped(text: str) -> str:
    """What a client sent is shown to it, but not megabytes of it: an answer over 6 MB never arrives."""
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX // 2]} ... {text[-TEXT_CHARS_MAX // 2 :]}"


def of_caller(error: CallerError) -> Response[str]:
    fault = {"field": error.field, "detail": error.detail, "remedy": error.remedy}
    detail = f"{error.detail}; {error.remedy}" if error.remedy else error.detail
    if isinstance(error, QuotaExceeded):
        quota = {"limit": error.limit, "value": error.value}
        return problem(kind_of(error), detail, [fault], quota, Retry_After=str(error.retry_after_s))
    if error.status == HTTPStatus.UNAUTHORIZED:
        return problem(kind_of(error), detail, [fault], WWW_Authenticate="Bearer")
    return problem(kind_of(error), detail, [fault])


def of_validation(error: ValidationError, model: type[BaseModel]) -> Response[str]:
    """The fields that pydantic found wrong, in one document: so many as a person can mend at a time."""
    found = error.errors(include_url=False, include_context=False)
    faults = [_fault(one, model) for one in found[:FAULTS_MAX]]
    detail = "; ".join(f"{fault['field']}: {fault['detail']}" for fault in faults[:3])
    return problem(kind_of(InvalidField), detail, faults)


def of_bad_json(error: json.JSONDecodeError) -> Response[str]:
    detail = f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    fault = {"field": None, "detail": detail, "remedy": "send one JSON object, in UTF-8"}
    return problem(BAD_JSON, detail, [fault])


def of_world(error: WorldError) -> Response[str]:
    """The world is busy; nothing is known to be wrong with the request."""
    return problem(
        BUSY,
        f"it could not be carried out now ({type(error).__name__}); repeat it, with the same client_key or name",
        Retry_After=str(RETRY_AFTER_S),
    )


def of_no_route(method: str, path: str) -> Response[str]:
    detail = f"there is nothing at {method} {path}"
    remedy = "see docs/api.md for the paths, and check the method"
    return problem(NO_ROUTE, detail, [{"field": None, "detail": detail, "remedy": remedy}])


def of_bug() -> Response[str]:
    return problem(OURS, "an error of ours: it has been logged; the request may be repeated")


def _fault(one: Any, model: type[BaseModel]) -> dict[str, Any]:
    path = ".".join(str(part) for part in one["loc"]) or None
    detail, remedy = str(one["msg"]), ""
    if one["type"] == "extra_forbidden":
        allowed = _fields_at(model, one["loc"][:-1])
        near = difflib.get_close_matches(str(one["loc"][-1])[:WORD_CHARS_MAX], allowed, n=1)
        detail = "there is no such field"
        remedy = f"did you mean {near[0]!r}?" if near else f"remove it; allowed are {', '.join(allowed)}"
    elif one["type"] == "missing":
        detail, remedy = "it is required", "add it"
    elif one["type"] == "value_error":
        detail = remedy = str(one["msg"]).removeprefix("Value error, ")
    else:
        remedy = f"{detail}; you sent {_as_sent(one['input'])}"
    return {"field": path, "detail": detail, "remedy": remedy}


def _as_sent(value: object) -> str:
    """A number as it was sent; of anything else its kind, for it may be long, or a secret."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _fields_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The fields allowed at a path of a model, as far as it leads through plain models and lists of them."""
    current: Any = model
    for part in path:
        if isinstance(part, int):
            continue
        annotation: Any = current.model_fields[str(part)].annotation
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        current = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)
        if current is None:
            return []
    return sorted(current.model_fields)
