"""The normal form of each kind of schedule, written from a user's spec.

Owns: `Request` (a spec, with when and for whom it is registered) and one function per kind.
Refuses to know: unions, bounds, calendars (see `normal`).
Protects: everything that depends on the moment of registration, on the job or on a default is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tickwork.core.schedule.cron.expression import parse_expression
from tickwork.core.schedule.duration import duration_text, read_duration_s
from tickwork.core.schedule.instant import in_range, local_text, read_instant_s, read_time, utc_text
from tickwork.core.schedule.recurrence import Context, from_iso_repeat, normal_rrule
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.spec_keys import flag_of, object_of, one_of, refuse_unknown
from tickwork.core.schedule.walk import FIXED_TIME, FOLDS, GAPS, ClockChanges, resolve
from tickwork.core.schedule.zone import Zone, zone_named


@dataclass(frozen=True, slots=True)
class Request:
    """A user's spec, registered at `now_ms` for `job_id` (may be empty), with its zone's name."""

    spec: Mapping[str, object]
    zone_key: str
    now_ms: int
    job_id: str

    @property
    def zone(self) -> Zone:
        return zone_named(self.zone_key)

    @property
    def has_zone(self) -> bool:
        """Whether the spec itself names the zone."""
        return "zone" in self.spec

    @property
    def now_s(self) -> int:
        """The present as a whole second, rounded up: never early."""
        return -(-self.now_ms // 1000)

    def instant_s(self, key: str) -> int:
        """The instant at `key`, or the wall time there in the schedule's zone."""
        time = read_time(self.spec[key], key)
        if time.offset_s is not None:
            return read_instant_s(self.spec[key], key)
        found = resolve(in_range(time.ceil_local_s(), key), self.zone, ClockChanges())
        assert found is not None  # `run_after` finds one for every wall time
        return found

    def dst(self) -> dict[str, str]:
        """The policies in force, written out so that a new default would not change a stored schedule."""
        dst = object_of(self.spec, "dst", '{"gap": "run_after", "fold": "first"}')
        refuse_unknown(dst, ("gap", "fold"), "dst.")
        return {
            "gap": one_of(dst.get("gap", FIXED_TIME.gap), GAPS, "dst.gap"),
            "fold": one_of(dst.get("fold", FIXED_TIME.fold), FOLDS, "dst.fold"),
        }


def _cron(request: Request) -> dict[str, Any]:
    spec = request.spec
    seconds = flag_of(spec, "seconds")
    expression = parse_expression(
        spec["cron"], seconds=seconds, letters=spec.get("dialect") == "extended", job_id=request.job_id
    )
    normal: dict[str, Any] = {"cron": expression.text, "zone": request.zone_key}
    if seconds:
        normal["seconds"] = True
    if expression.has_letters:
        normal["dialect"] = "extended"
    # A job that follows real time has no use for the policies; kept if given, so that the warning stays.
    if not expression.follows_real_time or "dst" in spec:
        normal["dst"] = request.dst()
    return normal


def _rate(request: Request) -> dict[str, Any]:
    period_s = read_duration_s(request.spec["rate"], "rate")
    if request.spec.get("anchor") is not None:
        anchor_s = request.instant_s("anchor")
    else:
        # Rounded down, so that "every 10 seconds" registered now is first due in 10 seconds, not in a fraction of one;
        # and a period on, for what is anchored at the present is due at once.
        anchor_s = in_range(request.now_ms // 1000 + period_s, "rate")
    return {"rate": duration_text(period_s), "anchor": utc_text(anchor_s), "zone": request.zone_key}


def _at(request: Request) -> dict[str, Any]:
    text = request.spec["at"]
    time = read_time(text, "at")
    if time.offset_s is not None:
        return {"at": utc_text(read_instant_s(text, "at")), "zone": request.zone_key}
    if "zone" not in request.spec:
        raise ScheduleRefused(
            "no_offset", f"{text!r} names no instant: no offset and no zone", field="at",
            remedy='end it with Z or an offset such as +02:00, or give "zone"',
        )  # fmt: skip
    in_range(time.local_s, "at")
    dst = request.dst()
    if dst["fold"] == "both":
        raise ScheduleRefused(
            "once", "an at is due once, and fold both would be twice", field="dst.fold",
            remedy='write "first" or "second", or join two of them with any_of',
        )  # fmt: skip
    return {"at": local_text(time.ceil_local_s()), "zone": request.zone_key, "dst": dst}


def _delay(request: Request) -> dict[str, Any]:
    key = "delay" if "delay" in request.spec else "delay_s"
    due_ms = request.now_ms + read_duration_s(request.spec[key], key) * 1000
    return {"at": utc_text(in_range(-(-due_ms // 1000), key)), "zone": request.zone_key}


def _rrule(request: Request) -> dict[str, Any]:
    spec = request.spec
    return normal_rrule(
        spec["rrule"], _context(request), start_local=spec.get("start_local"), exdate=spec.get("exdate")
    )


def _repeat(request: Request) -> dict[str, Any]:
    normal = from_iso_repeat(request.spec["repeat"], _context(request))
    if "rate" in normal and "dst" in request.spec:
        raise ScheduleRefused(
            "dst_unused", "the repeat has a fixed length, so no change of clocks touches it", field="dst",
            remedy="take out dst",
        )  # fmt: skip
    return normal


def _context(request: Request) -> Context:
    return Context(request.now_s, request.zone, request.has_zone, request.dst())


WRITERS: Final[Mapping[str, Callable[[Request], dict[str, Any]]]] = {
    "cron": _cron, "rate": _rate, "at": _at, "delay": _delay, "delay_s": _delay, "rrule": _rrule,
    "repeat": _repeat,
}  # fmt: skip
