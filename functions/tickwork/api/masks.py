"""What of a job's or timer's work people are shown, and what is meant by a request that sends masks back.

Owns who sees payloads: whoever may change what runs, and of viewers those whose team lets them. Refuses to know forms
and marks (`hiding`, `masking`). Protects: an answer has no payload that was not asked about here; and what stands is
never replaced by its mask.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tickwork.api.matrix import OPERATORS
from tickwork.api.work import as_asked, payload_text
from tickwork.api.work_answers import WorkShown
from tickwork.core.access.actors import Actor
from tickwork.core.access.hiding import masks_in, refuse_masks, restored, shown, stray_mask
from tickwork.core.access.masking import MASK, masked
from tickwork.core.ledger.work import Work
from tickwork.flows.access import registry
from tickwork.ports import Ports

_URL = "target.url"


def sees_payloads(ports: Ports, actor: Actor, team: str) -> bool:
    """Whether an actor, as what he is there, is shown what is in the payloads of a team."""
    return actor.role in OPERATORS or not registry.hides_payloads(ports, team)


def work_view(work: Work, *, sees_payload: bool) -> WorkShown:
    """A work as people are shown it: without its secrets, and of a payload that is kept apart its id. That is made of
    what is in it: where something short is marked in there, it could be guessed by it."""
    view = as_asked(work)
    given, apart = view.pop("payload", None), view.pop("payload_id", None)
    if given is not None and sees_payload:
        view["payload"] = shown(given, work.secret_fields)
    elif apart is not None and sees_payload and not work.secret_fields:
        view["payload_id"] = apart
    elif given is not None or apart is not None:
        view["payload_hidden"] = True
    if (url := view["target"].get("url")) is not None:
        view["target"]["url"] = masked(url)
    if found := [*masks_in(view["target"].get("url"), _URL), *masks_in(view.get("payload"), "payload")]:
        view["masked"] = found
    return view


def has_masks(given: Mapping[str, Any]) -> bool:
    """Whether a request says something by a mask that it was shown. A payload that is none is refused here."""
    return MASK in str(_url_of(given)) or _has_payload_masks(given)


def keeps_some(given: Mapping[str, Any]) -> bool:
    """Whether a change leaves some of the payload as it is."""
    return "payload" not in given or _has_payload_masks(given)


def _has_payload_masks(given: Mapping[str, Any]) -> bool:
    return MASK in (payload_text(given.get("payload")) or "")


def unmasked(given: Mapping[str, Any], standing: Work | None) -> dict[str, Any]:
    """The fields of a request with each mask taken for what it hides in the work that stands (None: there is none).
    InvalidField where one stands for nothing."""
    meant = dict(given)
    if not has_masks(given):
        return meant
    if (url := _url_of(given)) is not None and MASK in url:
        if standing is None or url != masked(standing.url):
            raise stray_mask(_URL)
        meant["target"] = {**given["target"], "url": standing.url}
    if standing is None or standing.payload is None:
        refuse_masks(given.get("payload"), "payload")
    elif "payload" in given:
        old = json.loads(standing.payload)
        meant["payload"] = restored(given["payload"], old, standing.secret_fields, "payload")
    return meant


def _url_of(given: Mapping[str, Any]) -> str | None:
    target = given.get("target")
    url = target.get("url") if isinstance(target, Mapping) else None
    return url if isinstance(url, str) else None
