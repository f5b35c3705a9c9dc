"""Schedules drawn onto the edges at which faults were found: few of each, each with a chance to show one.

Beside `draw`, which draws widely.
"""

from __future__ import annotations

import random
from typing import Any

from tests.oracle.clocks import DAY, clock
from tests.oracle.draw import NOW_MS, ZONES, moved_about_clocks, text_of
from tests.oracle.model import Case

CHANGING = [key for key in ZONES if len(clock(key).changes()) > 8]


def draw_sharp(rng: random.Random) -> Case:
    return rng.choice((
        moved_about_clocks, instants_in_the_repeated_hour, ends_close_to_a_run, freeze_close_to_a_run,
        two_ends, mixed_weekdays, counted_from_now, substitutes, far_ahead,
    ))(rng)  # fmt: skip


def _basic(local: int) -> str:
    return text_of(local).replace("-", "").replace(":", "")


def _repeated(rng: random.Random, place: str) -> int:
    """The instant of a change at which the clocks go back."""
    zone = clock(place)
    return rng.choice([at for at in zone.changes() if zone.offset(at) < zone.offset(at - 1) and at > NOW_MS // 1000])


def instants_in_the_repeated_hour(rng: random.Random) -> Case:
    place = rng.choice(CHANGING)
    back = _repeated(rng, place)
    if rng.random() < 0.5:
        start = back + rng.choice([-1_800, 0, 900, 1_800])
        rule = f"DTSTART:{_basic(start)}Z\nRRULE:FREQ={rng.choice(['DAILY', 'WEEKLY'])}"
        rule += rng.choice(["", ";COUNT=3"])
        spec: dict[str, Any] = {"rrule": rule, "zone": place}
    else:
        local = clock(place).local(back) + rng.choice([0, 900, 1_800])
        until = back + rng.randrange(-4, 5) * 900
        rule = f"DTSTART;TZID={place}:{_basic(local - 5 * DAY)}\nRRULE:FREQ=DAILY;UNTIL={_basic(until)}Z"
        spec = {"rrule": rule}
    return Case(spec | rng.choice([{}, {"dst": {"fold": "second"}}, {"dst": {"fold": "both"}}]), (), NOW_MS)


def ends_close_to_a_run(rng: random.Random) -> Case:
    day = NOW_MS // 1000 + rng.randrange(60, 1_800) * DAY
    end = text_of(day + 9 * 3_600 + rng.choice([5, 30, 90, 250])) + "Z"
    spec: dict[str, Any] = {"cron": "0 9 * * *", "start": text_of(day - 3 * DAY) + "Z", "end": end}
    calendars: tuple[dict[str, Any], ...] = ()
    if rng.random() < 0.5:
        spec["calendars"] = {"exclude": ["off"], "on_excluded": "next_working_day"}
        calendars = ({"name": "off", "dates": [text_of(day)[:10]]},)
    if rng.random() < 0.3 and not calendars:
        spec = {"any_of": [spec, {"cron": "0 9 * * 1", "end": text_of(day + 90 * DAY) + "Z"}]}
    return Case(spec, calendars, NOW_MS)


def freeze_close_to_a_run(rng: random.Random) -> Case:
    spec = {"cron": "59 17 * * *", "zone": rng.choice(ZONES), "calendars": {"exclude": ["f"], "on_excluded": "skip"}}
    day = NOW_MS // 1000 + rng.randrange(60, 1_800) * DAY
    local = day + 18 * 3_600 + rng.choice([0, 60, 180])
    ranges = [{"from": text_of(local)[:16], "to": text_of(local + 20 * 3_600)[:16]}]
    return Case(spec, ({"name": "f", "zone": spec["zone"], "ranges": ranges},), NOW_MS)


def two_ends(rng: random.Random) -> Case:
    day = NOW_MS // 1000 + rng.randrange(60, 1_800) * DAY
    until, end = (day + rng.randrange(2, 20) * DAY for _ in range(2))
    rule = f"DTSTART:{_basic(day)}Z\nRRULE:FREQ=DAILY;UNTIL={_basic(until)}Z"
    return Case({"rrule": rule, "end": text_of(end) + "Z"}, (), NOW_MS)


def mixed_weekdays(rng: random.Random) -> Case:
    day = NOW_MS // 1000 + rng.randrange(60, 1_800) * DAY
    rule = rng.choice([
        "FREQ=MONTHLY;BYDAY=MO,-1FR", "FREQ=YEARLY;BYMONTH=3,11;BYDAY=1MO,SU", "FREQ=WEEKLY;BYDAY=MO,TU,FR;BYSETPOS=1",
        "FREQ=WEEKLY;BYDAY=MO,WE,SU;BYSETPOS=2;WKST=WE", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SA;BYSETPOS=-1;WKST=SU",
    ])  # fmt: skip
    return Case({"rrule": f"DTSTART:{_basic(day + 9 * 3_600)}Z\nRRULE:{rule}"}, (), NOW_MS)


def counted_from_now(rng: random.Random) -> Case:
    spec = {"cron": rng.choice(["0 0 * * *", "0 * * * *", "0 0 1 * *"]), "count": rng.randint(1, 5)}
    return Case(spec, (), NOW_MS + rng.choice([0, 400]))


def substitutes(rng: random.Random) -> Case:
    how = rng.choice(["next_weekday", "nearest_weekday"])
    rules = [{"rule": rule, "observed": how} for rule in ("12-24", "12-25", "12-26")[rng.randint(0, 1) :]]
    calendar = {"name": "gb", "weekly": ["sat", "sun"], "holidays": [*rules, rng.choice(["feb mon#5", "mar fri#5"])]}
    spec = {"cron": "0 9 * 12 *", "calendars": {"exclude": ["gb"], "on_excluded": rng.choice(["skip"])}}
    return Case(spec, (calendar,), NOW_MS)


def far_ahead(rng: random.Random) -> Case:
    """A job whose zone is ahead of its calendar's, and three or more excluded days in a row."""
    day = NOW_MS // 1000 + rng.randrange(60, 1_800) * DAY
    off = {"name": "us", "zone": rng.choice(["America/New_York", "Pacific/Honolulu"]),
           "ranges": [{"from": text_of(day)[:10], "to": text_of(day + rng.randint(2, 6) * DAY)[:10]}]}  # fmt: skip
    spec = {"cron": f"0 1,3,5 {int(text_of(day + DAY)[8:10])} * *", "zone": rng.choice(["UTC", "Asia/Tokyo"])}
    return Case(spec | {"calendars": {"exclude": ["us"], "on_excluded": "next_working_day"}}, (off,), NOW_MS)
