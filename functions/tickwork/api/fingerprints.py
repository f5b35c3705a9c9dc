"""What makes two requests the same request (A10): what they ask for, however and whenever it is written.

Owns the two fingerprints of a request. One is of its meaning: the order of keys, the spelling of instants, durations
and numbers, and defaults written out make no other request of it; it is taken without asking what time it is. The other
is of its words, as versions before this one took it: what they have stored is still recognised by that. Refuses to know
what a request does, and which parts it has beyond those that a job and a timer share.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tickwork.api.fields import Body
from tickwork.core.errors import BadSchedule
from tickwork.core.schedule import meaning_of
from tickwork.core.spelling import canonical

_SETS = ("side_effects", "secret_fields", "no_retry_on", "retry_on", "tags")
"""Lists whose order says nothing."""


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """By what a request is known again. Both are empty for one that cannot be read, and so never was accepted."""

    meaning: str = ""
    words: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(one for one in (self.meaning, self.words) if one)


def fingerprints_of(
    body: Body, meaning_in: Callable[[dict[str, Any]], Mapping[str, Any]], *kept: object
) -> Fingerprints:
    """Of a body whose fields other than defaults `meaning_in` gets, and brings into the one form that says the same.
    `kept`: what of a job as it stands belongs to the request too, where there is any."""
    try:
        meant = meaning_in(_shared(body.model_dump(exclude_defaults=True)))
        return Fingerprints(_hash(canonical([meant, *(kept if any(kept) else ())])), _of_words(body, *kept))
    except (RecursionError, ValueError):  # nested so deep, or a number so long, that no version has ever accepted it
        return Fingerprints()


def schedule_meaning(spec: Mapping[str, Any], job_id: str = "") -> dict[str, Any]:
    """What a schedule says. As it is written, where this version cannot read it: another may have accepted it."""
    try:
        return meaning_of(spec, job_id=job_id)
    except BadSchedule:
        return dict(spec)


def _of_words(body: Body, *kept: object) -> str:
    """As versions took it that stored nothing else: of the body as the client wrote it, without defaults."""
    text = body.model_dump_json(exclude_defaults=True)
    if any(kept):
        text += json.dumps(kept, sort_keys=True)
    return _hash(text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _shared(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a job and a timer have in common: sets in one order, and no part that says nothing."""
    meant = _sorted_sets(given)
    if "retry_policy" in meant:
        meant["retry_policy"] = _sorted_sets(meant["retry_policy"])
    if "resources" in meant:
        meant["resources"] = sorted(meant["resources"], key=lambda one: str(one["name"]))
    return {name: value for name, value in meant.items() if value != {} or name == "payload"}


def _sorted_sets(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: sorted(set(value)) if name in _SETS else value for name, value in given.items()}
