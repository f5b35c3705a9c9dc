"""What a job or timer asks to be done, from its body to `Work` and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import cast

from tickwork.api.fields import PAYLOAD_BYTES_MAX, PAYLOAD_LEVELS_MAX
from tickwork.api.work_answers import CertificateShown, SignOffShown, TargetShown, WorkShown
from tickwork.api.work_bodies import TargetIn, WorkIn
from tickwork.core.access.pools import is_pool_id, is_teams, resolve
from tickwork.core.errors import CallerError, InvalidField, PayloadTooLarge
from tickwork.core.ids import check_slug
from tickwork.core.ledger.items import values_of
from tickwork.core.ledger.lanes import is_lanes, plain_pool, pool_of
from tickwork.core.ledger.messages import compact_json
from tickwork.core.ledger.work import Resource, RetryPolicy, Work
from tickwork.core.runs.push_targets import parse_target
from tickwork.flows.access.pools import check_aim, no_such_pool
from tickwork.ports import PUSH_POOL, Layout, Ports


def work_of(
    body: WorkIn, layout: Layout, default_handler: str | None, certified: Mapping[str, str] | None = None
) -> Work:
    """The work a job or timer asks for. `certified`: what an earlier certificate of the same handler said."""
    pool, handler, url = _target(body, layout, default_handler)
    _check_certificate(body, handler, layout, certified)
    certificate = body.certificate.model_dump(include={"source_sha256", "verified_at"}) if body.certificate else None
    tags = tuple(
        Resource(check_slug(one.name, f"resources.{i}.name"), one.max_concurrency)
        for i, one in enumerate(body.resources)
    )
    return Work(
        pool,
        handler,
        payload_text(body.payload),
        lane=body.lane if is_lanes(body.lane) else "",
        lease_s=body.lease_s,
        retry=RetryPolicy.from_item(body.retry_policy.model_dump()),
        max_duration_s=body.max_duration_s,
        start_within_s=body.start_within_s,
        idempotency_class=body.idempotency_class,
        sign_off=body.unsafe_sign_off.model_dump() if body.unsafe_sign_off else None,
        side_effects=tuple(body.side_effects),
        secret_fields=tuple(body.secret_fields),
        certificate=certificate or certified,
        resources=tags + _cap(body.target, url, layout),
        url=url,
    )


def _check_certificate(body: WorkIn, handler: str, layout: Layout, certified: Mapping[str, str] | None) -> None:
    """A job with side effects shows that its code was tried twice for one run, where the environment demands it."""
    if body.certificate is None:
        if body.side_effects and layout.require_certificates and not certified:
            raise InvalidField(
                "jobs with side effects need a certificate here",
                field="certificate",
                remedy="run `tickwork verify MODULE:APP JOB --certificate FILE`, and send what it wrote",
            )
    elif body.certificate.job != handler:
        raise InvalidField(
            f"it is for {body.certificate.job[:80]!r}, the target's handler is {handler!r}",
            field="certificate.job",
            remedy="verify the job that the target names",
        )


def payload_text(payload: object) -> str | None:
    """The payload as compact JSON text, within the limit. Checked when it is created, not when it fires."""
    return None if payload is None else json_text(payload, "payload")


def json_text(value: object, field: str) -> str:
    """Compact JSON text that every store and reader on its way can take; else the refusal of `field`."""
    try:
        text = compact_json(value)
    except RecursionError:
        raise _too_deep(field) from None
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(
            f"the {field} has {size} bytes",
            field=field,
            remedy=f"keep it to {PAYLOAD_BYTES_MAX} bytes of JSON, or store it elsewhere and send a reference",
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidField("the text has half a surrogate pair", field=field, remedy="send valid Unicode") from None
    if _is_deep(value):
        raise _too_deep(field)
    return text


def _is_deep(value: object) -> bool:
    """Whether a value has more levels than every JSON reader on its way can follow. Level by level, not by
    recursion."""
    level = [value]
    for _ in range(PAYLOAD_LEVELS_MAX):
        level = [inner for one in level if isinstance(one, dict | list) for inner in _members(one)]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _members(one: dict[str, object] | list[object]) -> Iterable[object]:
    return one.values() if isinstance(one, dict) else one


def _too_deep(field: str) -> InvalidField:
    return InvalidField(
        "it is nested too deeply",
        field=field,
        remedy=f"keep it to {PAYLOAD_LEVELS_MAX} levels of lists and objects",
    )


def _target(body: WorkIn, layout: Layout, default_handler: str | None) -> tuple[str, str, str]:
    """(pool, handler, URL or ''). Whether the team may aim at a team's pool is asked when it does (`check_aim`)."""
    target = body.target
    if target.url is not None:
        if PUSH_POOL not in layout.pools:
            raise InvalidField(
                "this environment does not push", field="target.url", remedy="give a `pool`, and run a worker for it"
            )
        parse_target(target.url, allow_private=layout.push_private)
        return PUSH_POOL, PUSH_POOL, target.url
    pool = _pool(target.pool or "", body.team, layout)
    handler = target.handler or default_handler
    if handler is None:
        raise InvalidField("it is required", field="target.handler", remedy="name the worker's job function")
    return _laned(pool, body.lane, layout), check_slug(handler, "target.handler"), ""


def _laned(pool: str, lane: str, layout: Layout) -> str:
    """The pool whose queue is the lane's. Whether a team's is there is asked when it is aimed at (`check_aim`)."""
    found = pool_of(pool, lane)
    if found in layout.pools or (is_teams(pool) and is_pool_id(found)):
        return found
    remedy = f"the platform's team adds the pool {found} to the environment"
    if is_teams(pool):
        remedy = "give the pool a name of at most eleven characters a-z, 0-9 or '-', and make its lane's beside it"
    raise InvalidField(f"pool {plain_pool(pool, lane)[:80]!r} has no lane {lane}", field="lane", remedy=remedy)


def _pool(text: str, team: str, layout: Layout) -> str:
    try:
        pool = resolve(text, team, layout.pools, "target.pool")
    except InvalidField:
        raise no_such_pool(text, layout, "target.pool") from None
    if pool == PUSH_POOL:
        raise no_such_pool(text, layout, "target.pool")
    return pool


def check_target(ports: Ports, body: WorkIn, work: Work, until_ms: int = 0) -> None:
    """InvalidField when the team may not aim at the pool that it names; else the pool is waited for until then."""
    if work.lane:
        check_aim(ports, body.team, work.pool, pool_of(body.target.pool or "", work.lane), until_ms, "lane")
    else:
        check_aim(ports, body.team, work.pool, body.target.pool or "", until_ms)


def _cap(target: TargetIn, url: str, layout: Layout) -> tuple[Resource, ...]:
    """A push target's cap is a concurrency tag that all the team's pushes to its origin share."""
    if not url:
        return ()
    return (Resource(parse_target(url, allow_private=layout.push_private).resource, target.max_concurrency),)


def as_asked(work: Work) -> WorkShown:
    """Target, lease, policies and limits as a request says them, with the payload where it is inline: nothing is hidden
    in it, and it is shown to nobody (`masks.work_view` is)."""
    view = cast(
        "WorkShown",
        {
            "target": _target_shown(work),
            "lease_s": work.lease_s,
            "retry_policy": values_of(work.retry),
            "idempotency_class": work.idempotency_class,
        },
    )
    optional = {
        "lane": work.lane,
        "max_duration_s": work.max_duration_s,
        "start_within_s": work.start_within_s,
        "unsafe_sign_off": _known(work.sign_off, SignOffShown),
        "side_effects": list(work.side_effects),
        "secret_fields": list(work.secret_fields),
        "certificate": _known(work.certificate, CertificateShown),
        "resources": [
            {"name": one.name, "max_concurrency": one.max_concurrency}
            for one in work.resources
            if one.name != _cap_name(work)
        ],
    }
    view.update(cast("WorkShown", {name: value for name, value in optional.items() if value}))
    if work.payload is not None:
        view["payload"] = json.loads(work.payload)
    elif work.payload_id is not None:
        view["payload_id"] = work.payload_id
    return view


def _known(stored: Mapping[str, str] | None, shape: type) -> dict[str, str]:
    """What is stored, without what a newer version has added to it."""
    return {name: value for name, value in (stored or {}).items() if name in shape.__annotations__}


def _target_shown(work: Work) -> TargetShown:
    if not work.url:
        return {"pool": plain_pool(work.pool, work.lane), "handler": work.handler}
    # By name, not by place: the store gives the members of a map back in an order of its own.
    caps = [one.max_concurrency for one in work.resources if one.name == _cap_name(work)]
    shown_as: TargetShown = {"url": work.url}
    if caps:
        shown_as["max_concurrency"] = caps[0]
    return shown_as


def _cap_name(work: Work) -> str:
    """The tag that stands for the target's own cap. Empty without one, or where another version has taken a target
    that this one does not read: it is shown all the same, and costs no other job of a list."""
    try:
        return parse_target(work.url, allow_private=True).resource if work.url else ""
    except CallerError:
        return ""
