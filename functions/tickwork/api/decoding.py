"""From the bytes of a request to the values its route declares, or to the refusal that says what to change.

Owns reading JSON as every reader of it understands it, and holding it to a model. Refuses to know what the values
mean. Protects: no request is understood in two ways (a key twice, NaN, a number past all bounds, an unknown field).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from tickwork.api.fields import Batch, Body, Query, Unread
from tickwork.core.errors import CallerError, InvalidField, InvariantViolated
from tickwork.core.texts import cleaned

DETAIL_CHARS_MAX = 300
"""Of what is wrong with one entry of a batch: an answer tells it for each."""
REF_CHARS_MAX = 400
"""As a ref may have: what an entry that cannot be read says instead of one is shown no longer."""


class DuplicateKey(CallerError):
    """A JSON object of the body has one key twice."""

    title = "A key stands twice"
    slug = "duplicate-key"


class Refused(Exception):
    """A body that its model does not allow. `problems` tells it field by field."""

    def __init__(self, error: ValidationError, model: type[BaseModel]) -> None:
        super().__init__(str(error))
        self.error, self.model = error, model


def read_body[Model: Body](model: type[Model], text: str) -> Model:
    """A request's body as its model. Raises JSONDecodeError, DuplicateKey or Refused."""
    return validated(model, read_json(text, any_number=model.ANY_NUMBER))


def validated[Model: Body](model: type[Model], found: object) -> Model:
    try:
        return model.model_validate(found)
    except ValidationError as error:
        spared = _spared(model, found, error)
        if spared is None:
            raise Refused(error, model) from error
        return spared


def _spared[Model: Body](model: type[Model], found: object, error: ValidationError) -> Model | None:
    """A batch without the entries that are at fault; None when something else is, or all of them are."""
    if not issubclass(model, Batch) or not isinstance(found, dict):
        return None
    unread = _unread(error, found)
    if not unread:
        return None
    left = [entry for place, entry in enumerate(found["runs"]) if place not in unread]
    return model.model_validate({**found, "runs": left}).without(unread)


def _unread(error: ValidationError, found: Mapping[str, Any]) -> dict[int, Unread]:
    """The entries of a batch that are at fault, if nothing else is, and not all of them are."""
    unread: dict[int, Unread] = {}
    for one in error.errors(include_url=False, include_context=False):
        place = one["loc"][1] if one["loc"][0] == "runs" and len(one["loc"]) > 1 else None
        if not isinstance(place, int):
            return {}
        entry = found["runs"][place]
        ref = entry.get("ref") if isinstance(entry, dict) else None
        where = ".".join(str(part) for part in one["loc"])
        detail = cleaned(f"{where}: {one['msg']}", DETAIL_CHARS_MAX)
        unread.setdefault(place, Unread(cleaned(ref, REF_CHARS_MAX) if isinstance(ref, str) else "", detail))
    return unread if len(unread) < len(found["runs"]) else {}


def read_query[Model: Query](model: type[Model], given: Mapping[str, str]) -> Model:
    """The query parameters; an unknown one is refused, for a misspelt filter would otherwise match everything."""
    for name in given:
        if name not in model.model_fields:
            allowed = ", ".join(sorted(model.model_fields)) or "none"
            raise InvalidField(f"there is no parameter {name!r}", field=name, remedy=f"allowed are {allowed}")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        # The fields of a query speak for themselves; what is left for pydantic to find is one that is not there.
        first = error.errors()[0]
        if first["type"] != "missing":
            raise Refused(error, model) from error
        missing = str(first["loc"][0])
        raise InvalidField("it is required", field=missing, remedy=f"add ?{missing}=") from None


def read_json(text: str, *, any_number: bool = False) -> object:
    """JSON as every reader of it understands it. Whatever is wrong with it is a JSONDecodeError, but a key that stands
    twice, which is a DuplicateKey: readers differ in which of the two they take. `any_number`: NaN and infinities are
    read, for a report whose wait is none is a report all the same."""
    twice: list[tuple[dict[str, Any], str]] = []

    def of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            # The last one counts: it is the outermost, or beside the others, and so still stands in what was read.
            twice[:] = [(found, _first_repeated(pairs))]
        return found

    try:
        constant, number = (float, float) if any_number else (_no_constant, _finite)
        read = json.loads(text, parse_constant=constant, parse_float=number, object_pairs_hook=of_pairs)
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deeply", "", 0) from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        raise json.JSONDecodeError("it has a number of more digits than can be read", "", 0) from None
    for where, key in twice:
        field = ".".join([*_path_to(read, where), key])
        raise DuplicateKey(f"the key {key!r} stands twice in one object", field=field, remedy="send it once")
    return read


def _first_repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    raise InvariantViolated("no key stands twice")


def _path_to(read: object, wanted: object) -> list[str]:
    """Where in a body an object stands. By iterators, one for each level: not by recursion, for a body may be deep, nor
    by a list of all that is still to look at, for it may have millions of members."""
    if read is wanted:
        return []
    path: list[str] = []
    levels = [_members(read)]
    while levels:
        found = next(levels[-1], None)
        if found is None:
            levels.pop()
            path = path[:-1]
            continue
        name, inner = found
        if inner is wanted:
            return [*path, name]
        path.append(name)
        levels.append(_members(inner))
    return []


def _members(one: object) -> Iterator[tuple[str, object]]:
    """The members of a list or an object that may hold what is looked for."""
    members = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
    return ((str(name), inner) for name, inner in members if isinstance(inner, dict | list))


def _no_constant(name: str) -> object:
    """Python reads NaN and Infinity, which are not JSON and no number one could fire at."""
    raise json.JSONDecodeError(f"{name} is not JSON", "", 0)


def _finite(digits: str) -> float:
    """Python reads 1e999 as infinity, and would write that as a word which is not JSON."""
    number = float(digits)
    if math.isinf(number):
        raise json.JSONDecodeError(f"{digits[:40]} is too large a number", "", 0)
    return number
