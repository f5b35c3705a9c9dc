"""From what a client sent to what the flows take: bodies, query parameters, cursors, payloads, schedules."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, get_type_hints

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from tickwork.api.models import Body, JobIn, TimerIn
from tickwork.api.work import shown, work_of
from tickwork.core.errors import BadSchedule, CallerError, InvalidField
from tickwork.core.ids import check_slug, split_job_id
from tickwork.core.instants import LATEST_INSTANT_MS, SECOND_MS, ceil_to_second, iso, parse_iso
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.ledger.items import without_defaults
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key, parse_ref
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import Schedule, default_tolerance_s, first_due, parse_schedule, schedule_from_spec
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import PUSH_POOL, Layout

PAGE_DEFAULT, PAGE_MAX = 20, 200
DELAY_S_MAX = 10**11


def body_of[Model: Body](app: APIGatewayHttpResolver, model: type[Model]) -> Model:
    """The request's body as a model. Raises JSONDecodeError or ValidationError, which become problem documents."""
    found = _read_json(app.current_event.decoded_body or "")
    app.append_context(model=model)  # type: ignore[no-untyped-call]
    return model.model_validate(found)


def _read_json(text: str) -> object:
    """JSON as every reader of it understands it. Whatever is wrong with it is a JSONDecodeError."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deeply", "", 0) from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        raise json.JSONDecodeError("it has a number of more digits than can be read", "", 0) from None


def _no_constant(name: str) -> object:
    """Python reads NaN and Infinity, which are not JSON and no number one could fire at."""
    raise json.JSONDecodeError(f"{name} is not JSON", "", 0)


def _finite(digits: str) -> float:
    """Python reads 1e999 as infinity, and would write that as a word which is not JSON."""
    number = float(digits)
    if math.isinf(number):
        raise json.JSONDecodeError(f"{digits[:40]} is too large a number", "", 0)
    return number


def json_response(body: object, status: int = 200) -> Response[str]:
    return Response(status, "application/json", json.dumps(body, ensure_ascii=False))


def query_of(app: APIGatewayHttpResolver, *allowed: str) -> dict[str, str]:
    """The query parameters; an unknown one is refused, for a misspelt filter would otherwise match everything."""
    given = dict(app.current_event.query_string_parameters or {})
    for name in given:
        if name not in allowed:
            raise InvalidField(
                f"there is no parameter {name!r}",
                field=name,
                remedy=f"allowed are {', '.join(sorted(allowed))}",
            )
    return given


def limit_of(query: dict[str, str], default: int = PAGE_DEFAULT, most: int = PAGE_MAX) -> int:
    return number_of(query, "limit", default, 1, most)


def number_of(query: dict[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise InvalidField(
            f"{text[:40]!r} is not allowed", field=name, remedy=f"give a whole number from {least} to {most}"
        )
    return int(text)


def instant_in(query: dict[str, str], name: str, default_ms: int) -> int:
    """An instant among the parameters."""
    text = query.get(name)
    if text is None:
        return default_ms
    try:
        return parse_iso(text)
    except (ValueError, OverflowError):
        raise InvalidField(
            f"{text[:40]!r} is not an instant", field=name, remedy="write it like 2026-11-01T00:00:00Z"
        ) from None


def team_of(query: dict[str, str]) -> str:
    if "team" not in query:
        raise InvalidField("it is required", field="team", remedy="add ?team=")
    return check_slug(query["team"], "team")


def to_cursor(position: object) -> str | None:
    """An opaque cursor; clients hand it back as it is."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def from_cursor(text: str | None, *shape: type) -> Any:
    """The position of a cursor (a list of the given types, or the one value); None without one."""
    if text is None:
        return None
    try:
        position = _read_json(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode())
    except (binascii.Error, ValueError):
        position = None
    parts = position if isinstance(position, list) else [position]
    if [type(part) for part in parts] != list(shape) or not all(_could_be_ours(part) for part in parts):
        raise not_a_cursor()
    return tuple(parts) if len(shape) > 1 else parts[0]


def _could_be_ours(part: object) -> bool:
    """Whether a cursor can hold it: the store refuses an empty key, and a number of forty digits."""
    return 0 <= part <= LATEST_INSTANT_MS if isinstance(part, int) else str(part).isascii() and part != ""


def after_name(query: dict[str, str], team: str) -> str | None:
    """The cursor of a list of a team's things by name: the id of the last one."""
    after: str | None = from_cursor(query.get("cursor"), str)
    if after is None:
        return None
    try:
        owner, _ = split_job_id(after)
    except InvalidField:
        owner = ""
    if owner != team:
        raise not_a_cursor()
    return after


def after_run(query: dict[str, str], job_id: str) -> tuple[int, str, str] | None:
    """The cursor of a job's runs: nominal instant and keys of the last one, which is a run of this very job."""
    after: tuple[int, str, str] | None = from_cursor(query.get("cursor"), int, str, str)
    if after is None:
        return None
    scheduled_at_ms, pk, sk = after
    try:
        key = parse_ledger_key(pk, sk)
    except ValueError:
        raise not_a_cursor() from None
    if (key.job_id, key.scheduled_at_ms) != (job_id, scheduled_at_ms):
        raise not_a_cursor()
    return after


def not_a_cursor() -> InvalidField:
    return InvalidField("this is not a cursor of this list", field="cursor", remedy="use the cursor of the last page")


def key_of(ref: str, field: str) -> LedgerKey:
    try:
        return parse_ref(ref)
    except ValueError:
        raise InvalidField(
            "this is not a run's ref", field=field, remedy="hand back the `ref` of the message"
        ) from None


@contextmanager
def fields_under(prefix: str, kind: type[CallerError] = CallerError) -> Iterator[None]:
    """Name the fields of errors by where the client wrote them: `schedule.cron.hour`, `timers.3.at`."""
    try:
        yield
    except kind as error:
        error.field = prefix if error.field in (None, prefix) else f"{prefix}.{error.field}"
        raise


_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def new_job(body: JobIn, layout: Layout, now_ms: int) -> tuple[NewJob, Schedule]:
    """A job to register, and its schedule with the warnings to show."""
    check_slug(body.team, "team")
    check_slug(body.name, "name")
    with fields_under("schedule"):
        schedule = parse_schedule(body.schedule, now_ms=now_ms, job_id=f"{body.team}:{body.name}")
    return _job_of(body, schedule, work_of(body, layout, body.name)), schedule


PLAIN = tuple(
    name for name, hint in get_type_hints(NewJob).items() if name in JobIn.model_fields and hint in (str, int, bool)
)
"""Fields of a job that a request gives as they are. A new one needs no more than the definition and the model."""


def _job_of(body: JobIn, schedule: Schedule, work: Work) -> NewJob:
    tolerance_s = default_tolerance_s(schedule) if body.tolerance_s is None else body.tolerance_s
    if body.tolerance_s == 0 and "cron" in body.schedule and not body.exact_reason:
        raise InvalidField(
            "a cron job with tolerance 0 adds to the herd at its minute",
            field="exact_reason",
            remedy="say why it must be exact, or leave tolerance_s out",
        )
    given = {name: value for name in PLAIN if (value := getattr(body, name)) is not None}
    return NewJob(
        schedule=schedule.spec,
        work=work,
        catch_up=CatchUp(**body.catch_up.model_dump()),
        fingerprint=_fingerprint(body),
        **given | {"tolerance_s": tolerance_s},
    )


def changed_job(job: Job, given: dict[str, Any], layout: Layout, now_ms: int) -> tuple[NewJob, Schedule]:
    """A registered job with the fields that a change gives, checked as a whole, and its schedule. A schedule that the
    change leaves alone is not read anew: its times may have passed, and that is no fault of the change. One that it
    replaces need not be readable any more."""
    body = JobIn.model_validate(_merged(_as_body(job), given))
    if "schedule" in given:
        schedule = parse_schedule(body.schedule, now_ms=now_ms, job_id=job.job_id)
    else:
        schedule = schedule_from_spec(job.schedule)
    handler = PUSH_POOL if body.target.url else body.target.handler or job.name
    is_same_code = (handler, body.target.url or "") == (job.work.handler, job.work.url)
    certified = job.work.certificate if is_same_code and "certificate" not in given else None
    work = work_of(body, layout, job.name, certified)
    payload_id = None if "payload" in given else job.work.payload_id
    if "payload" not in given:
        work = replace(work, payload=job.work.payload, payload_id=payload_id)
    new = _job_of(body, schedule, work)
    # What the request would be with its tolerance spelt out, and what it keeps without showing it: the same change
    # made of the job as it was and of the job as changed is then one, and a change that takes away is another.
    whole = body.model_copy(update={"tolerance_s": new.tolerance_s})
    return replace(new, fingerprint=_fingerprint(whole, payload_id, certified)), schedule


def _as_body(job: Job) -> dict[str, Any]:
    """The request that would register the job as it is. A tolerance that is the default follows the schedule."""
    body: dict[str, Any] = json.loads(json.dumps(shown(job.work)))
    for kept_apart in ("payload_id", "certificate"):
        body.pop(kept_apart, None)
    body |= {"schedule": dict(job.schedule), "catch_up": catch_up_shown(job.catch_up)}
    plain = {name: value for name in PLAIN if (value := getattr(job, name)) != ""}
    if _has_default_tolerance(job):
        plain.pop("tolerance_s", None)
    return body | plain


def _has_default_tolerance(job: Job) -> bool:
    """Of a schedule that cannot be read nobody knows: its tolerance then counts as chosen."""
    try:
        return job.tolerance_s == default_tolerance_s(schedule_from_spec(job.schedule))
    except BadSchedule:
        return False


def _merged(body: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    merged = dict(body)
    for name, value in given.items():
        if value is None and name != "payload":
            merged.pop(name, None)
        elif name in ("retry_policy", "catch_up") or (name == "target" and not {"pool", "url"} & value.keys()):
            merged[name] = {part: one for part, one in (merged[name] | value).items() if one is not None}
        else:
            merged[name] = value
    if given.get("catch_up") and given["catch_up"].get("policy", "last") != "last" and "last" not in given["catch_up"]:
        merged["catch_up"].pop("last", None)
    return merged


def new_timer(body: TimerIn, layout: Layout, now_ms: int, traceparent: str | None = None) -> NewTimer:
    """A timer to create. A `traceparent` that is none is ignored, as the W3C's rule is."""
    check_slug(body.team, "team")
    fire_at_ms = _fire_at(body, now_ms)
    work = work_of(body, layout, None)
    if traceparent is not None and _TRACEPARENT.fullmatch(traceparent):
        work = replace(work, traceparent=traceparent)
    return NewTimer(body.team, fire_at_ms, work, body.client_key, _fingerprint(body))


def _fire_at(body: TimerIn, now_ms: int) -> int:
    """When a timer fires, on a whole second and never early."""
    field = "at" if body.delay_s is None else "delay_s"
    if body.delay_s is not None:
        due_ms: int | None = ceil_to_second(now_ms + round(min(body.delay_s, DELAY_S_MAX) * SECOND_MS))
    else:
        schedule = parse_schedule({"at": body.at} | ({"zone": body.zone} if body.zone else {}), now_ms=now_ms)
        due_ms = first_due(schedule, now_ms)
    if due_ms is None:
        raise InvalidField("it has passed", field=field, remedy="give a later time, or a delay")
    if due_ms >= LATEST_INSTANT_MS:
        raise InvalidField("it is too far ahead", field=field, remedy="stay before the year 2150")
    return due_ms


def _fingerprint(body: Body, *kept: object) -> str:
    """Identifies what the client asked for, as it asked: the same delay asked twice is the same request. Defaults
    are left out, so that a field added later does not make an old request a new one. `kept`: what of the job as it
    stands belongs to the request too, where there is any."""
    text = body.model_dump_json(exclude_defaults=True)
    if any(kept):
        text += json.dumps(kept, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def when(instant_ms: int) -> str | None:
    return iso(instant_ms) if instant_ms else None


def catch_up_shown(catch_up: CatchUp) -> dict[str, Any]:
    return {"policy": catch_up.policy, **without_defaults(catch_up)}
