"""Random schedules, drawn so that calendars, bounds, changes of clocks and each other's edges meet."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.oracle.clocks import DAY, clock
from tests.oracle.days import WEEK
from tests.oracle.model import Case

ZONES = (
    "UTC", "America/New_York", "Europe/London", "Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll",
    "Africa/Casablanca", "America/Santiago", "Africa/Cairo", "Pacific/Chatham", "Asia/Tokyo", "Pacific/Kiritimati",
    "America/Nuuk", "Europe/Dublin", "Asia/Almaty", "America/St_Johns", "Pacific/Honolulu",
)  # fmt: skip
NOW_MS = round(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1000
YEARS = range(2024, 2031)


def draw_case(rng: random.Random) -> Case:
    """A schedule with what it names. Half of them have calendars."""
    if rng.random() < 0.15:
        return moved_about_clocks(rng)
    calendars = tuple(_calendar(rng, number) for number in range(rng.choice([0, 1, 1, 1, 2, 3]) * rng.randint(0, 1)))
    spec = _union(rng) if rng.random() < 0.15 else _single(rng, bounded=True)
    if calendars:
        moves = rng.random() < 0.55
        if moves and not _may_move(spec):
            spec = _sparse(rng)
        spec["calendars"] = {
            "exclude": [calendar["name"] for calendar in calendars],
            "on_excluded": "next_working_day" if moves else "skip",
        }
    return Case(spec, calendars, NOW_MS + rng.choice([0, 0, 400]))


def moved_about_clocks(rng: random.Random) -> Case:
    """A job of the small hours, moved off the days about a change of clocks."""
    zone = rng.choice([key for key in ZONES if len(clock(key).changes()) > 8])
    hour = rng.choice(["1", "2", "2", "3", "1-3/2"])
    spec: dict[str, Any] = {"cron": f"{rng.choice(['0', '30', '15'])} {hour} * * {_dow(rng)}", "zone": zone}
    if rng.random() < 0.3:
        change = rng.choice(clock(zone).changes()[4:])
        start = text_of(clock(zone).local(change) + rng.randrange(-4, 5) * 1_800).replace("-", "").replace(":", "")
        spec = {"rrule": f"DTSTART;TZID={zone}:{start}\nRRULE:FREQ=DAILY;INTERVAL={rng.choice([1, 1, 7])}"}
    spec |= _dst(rng)
    if rng.random() < 0.4:
        _bound(rng, spec)
    weekly = rng.choice([["sat"], ["sun"], ["sat", "sun"], ["fri", "sat"], ["thu"], ["wed"]])
    spec["calendars"] = {"exclude": ["off"], "on_excluded": "next_working_day"}
    return Case(spec, ({"name": "off", "zone": zone, "weekly": weekly},), NOW_MS)


def draw_edges(rng: random.Random, case: Case, edges: list[int]) -> list[tuple[int, int]]:
    """Windows of 40 days about edges of the schedule, and a whole year."""
    chosen = rng.sample(edges, min(3, len(edges)))
    windows = [(edge - 20 * DAY, edge + 20 * DAY) for edge in chosen]
    year = rng.choice(YEARS)
    begin = round(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    return [*windows, (begin - 1, begin + 366 * DAY)]


def edges_of(case: Case, closed_edges: list[int]) -> list[int]:
    """Instants at which something of the schedule begins, ends or changes."""
    found = list(closed_edges)
    for spec in (case.spec, *case.spec.get("any_of", ())):
        for key in ("start", "end", "anchor", "at"):
            if key in spec:
                found.append(_near(spec[key]))
        if "rrule" in spec:
            found.append(_near(spec["rrule"].partition(":")[2].partition("\n")[0]))
            until = spec["rrule"].partition("UNTIL=")[2].partition(";")[0].partition("\n")[0]
            found += [_near(until)] if until else []
        if "zone" in spec or "TZID=" in str(spec.get("rrule")):
            zone = spec.get("zone") or spec["rrule"].partition("TZID=")[2].partition(":")[0]
            found += clock(zone).changes()
        if "count" in spec and "start" not in spec:
            found.append(NOW_MS // 1000)
    low, high = NOW_MS // 1000, round(datetime(2030, 11, 1, tzinfo=UTC).timestamp())
    inside = [at for at in found if low <= at < high]
    return inside or [NOW_MS // 1000 + 100 * DAY]


def _near(text: str) -> int:
    digits = "".join(char for char in text if char.isdigit())
    return round(datetime(int(digits[:4]), int(digits[4:6]), int(digits[6:8]), tzinfo=UTC).timestamp())


# --- schedules ------------------------------------------------------------------------------------------------------


def _single(rng: random.Random, *, bounded: bool) -> dict[str, Any]:
    make = rng.choices((_cron, _rrule, _rate, _at), (45, 40, 10, 5))[0]
    spec = make(rng)
    if bounded and rng.random() < 0.4:
        _bound(rng, spec)
    return spec


def _union(rng: random.Random) -> dict[str, Any]:
    members = [_single(rng, bounded=rng.random() < 0.3) for _ in range(rng.randint(2, 4))]
    spec: dict[str, Any] = {"any_of": members}
    if rng.random() < 0.3:
        _bound(rng, spec)
    return spec


def _sparse(rng: random.Random) -> dict[str, Any]:
    """One that is due seldom enough to be moved."""
    minute, hour = rng.choice(["0", "30", "15"]), rng.choice(["2", "9", "0,23", "1,3", "8-18/3", "22"])
    spec: dict[str, Any] = {"cron": f"{minute} {hour} {rng.choice(['*', '*', '1,15', '5', '31'])} * {_dow(rng)}"}
    spec |= _zone(rng) | _dst(rng)
    if rng.random() < 0.4:
        spec = _rrule(rng)
    if rng.random() < 0.4:
        _bound(rng, spec)
    return spec


def _may_move(spec: dict[str, Any]) -> bool:
    if "any_of" in spec:
        return False  # members may come as close as they like
    if "cron" in spec:
        minute, hour = spec["cron"].split()[:2]
        return minute.isdigit() and (hour == "*" or hour.isdigit())
    return "rate" not in spec or not spec["rate"].endswith("m")


def _cron(rng: random.Random) -> dict[str, Any]:
    minute = rng.choice(["0", "30", "15,45", "*/15", "*/20", "5-50/9", str(rng.randrange(60)), "59", "0", "30"])
    hour = rng.choice(
        ["*", "*/2", "0-4", "1,2", "2,3", "0", "1", "2", "3", "23", "0,23", "9", "17", "1-5/2", str(rng.randrange(24))]
    )
    dom = rng.choice(["*"] * 7 + ["*/2", "24-31", "1-9", "1-31/10", "5", "13", "31", "29"])
    month = rng.choice(["*"] * 8 + ["3-4", "9-11", "*/2", "2"])
    spec: dict[str, Any] = {"cron": f"{minute} {hour} {dom} {month} {_dow(rng)}"}
    if rng.random() < 0.15:
        day = rng.choice([("L", "*"), ("L-3", "*"), ("LW", "*"), ("15W", "*"), ("L-2W", "*"), ("*", "5L"), ("*", "1#5"),
                          ("*", "2#1"), ("1W", "*")])  # fmt: skip
        spec = {"cron": f"{minute} {hour} {day[0]} {month} {day[1]}", "dialect": "extended"}
    return spec | _zone(rng) | _dst(rng)


def _dow(rng: random.Random) -> str:
    return rng.choice(["*"] * 7 + ["0", "6-7", "*/2", "1-5", "0,6", "5", "1"])


def _zone(rng: random.Random) -> dict[str, Any]:
    return {"zone": rng.choice(ZONES)}


def _dst(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.6:
        return {}
    return {"dst": {"gap": rng.choice(["run_after", "skip", "shift"]), "fold": rng.choice(["first", "second", "both"])}}


def _rate(rng: random.Random) -> dict[str, Any]:
    spec = {"rate": rng.choice(["90m", "6h", "1d", "7d", "25h", "36h"]), "anchor": _instant(rng)}
    return spec | _zone(rng)


def _at(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {"at": _instant(rng)} | _zone(rng)
    zone = rng.choice(ZONES[1:6])
    change = rng.choice([at for at in clock(zone).changes() if at > NOW_MS // 1000] or [NOW_MS // 1000 + 99 * DAY])
    local = clock(zone).local(change - DAY) + DAY + rng.randrange(-6, 6) * 1_800
    dst = {"gap": rng.choice(["run_after", "shift"]), "fold": rng.choice(["first", "second"])}
    return {"at": text_of(local), "zone": zone, "dst": dst}


def _bound(rng: random.Random, spec: dict[str, Any]) -> None:
    start = _moment(rng)
    if rng.random() < 0.6 and "start" not in spec:
        spec["start"] = text_of(start) + "Z"
    if rng.random() < 0.6:
        spec["end"] = text_of(start + rng.randrange(20, 900) * DAY + rng.choice([0, 9, 17]) * 3_600) + "Z"
    if rng.random() < 0.4 and "rrule" not in spec:
        spec["count"] = rng.randint(1, 60)


def _moment(rng: random.Random) -> int:
    return NOW_MS // 1000 + rng.randrange(1, 2_000) * DAY + rng.choice([0, 0, 9 * 3_600, 14 * 3_600 + 1_800])


def _instant(rng: random.Random) -> str:
    return text_of(_moment(rng)) + "Z"


def text_of(seconds: int) -> str:
    return (datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat()


# --- RRULEs ---------------------------------------------------------------------------------------------------------


def _rrule(rng: random.Random) -> dict[str, Any]:
    zone = rng.choice(ZONES)
    start = _moment(rng) + rng.choice([0, 1, 2, 3, 23]) * 3_600 + rng.choice([0, 1_800, 900])
    if rng.random() < 0.3 and clock(zone).changes():
        change = rng.choice([at for at in clock(zone).changes() if at > NOW_MS // 1000] or [start])
        start = clock(zone).local(change) + rng.randrange(-4, 5) * 1_800
    parts = _parts(rng)
    compact = text_of(start).replace("-", "").replace(":", "")
    if rng.random() < 0.25:  # an instant; where clocks go back, of either pass
        head, own_zone = f"DTSTART:{compact}Z", {"zone": zone}
    else:
        head, own_zone = f"DTSTART;TZID={zone}:{compact}", {}
    end = rng.random()
    if end < 0.2:
        parts["COUNT"] = str(rng.randint(1, 40))
    elif end < 0.4:
        until = text_of(start + rng.randrange(10, 900) * DAY + rng.randrange(48) * 1_800)
        compact = until.replace("-", "").replace(":", "")
        parts["UNTIL"] = compact + "Z" if rng.random() < 0.7 else compact[:8]
    text = ";".join(f"{key}={value}" for key, value in parts.items())
    lines = [head, f"RRULE:{text}"]
    if rng.random() < 0.15 and not head.endswith("Z"):
        left_out = (text_of(start + rng.randrange(0, 60) * DAY) for _ in range(3))
        lines.append("EXDATE:" + ",".join(one.replace("-", "").replace(":", "") for one in left_out))
    return {"rrule": "\n".join(lines)} | own_zone | _dst(rng)


def _parts(rng: random.Random) -> dict[str, str]:
    freq = rng.choice(["DAILY", "WEEKLY", "WEEKLY", "MONTHLY", "MONTHLY", "YEARLY"])
    parts = {"FREQ": freq}
    if rng.random() < 0.4:
        parts["INTERVAL"] = str(rng.choice([2, 3, 5, 13] if freq != "YEARLY" else [2, 3]))
    if rng.random() < 0.25:
        parts["BYMONTH"] = ",".join(map(str, sorted(rng.sample(range(1, 13), rng.randint(1, 4)))))
    if rng.random() < 0.55:
        parts["BYDAY"] = _weekdays(rng, freq)
    if freq != "WEEKLY" and rng.random() < 0.25:
        parts["BYMONTHDAY"] = ",".join(map(str, rng.sample([*range(1, 32), *range(-8, 0)], rng.randint(1, 6))))
    if freq == "YEARLY" and rng.random() < 0.25:
        counted = any(char.isdigit() for char in parts.get("BYDAY", ""))
        key, highest = ("BYYEARDAY", 366) if counted or rng.random() < 0.5 else ("BYWEEKNO", 53)
        pool = [*range(1, highest + 1), *range(-highest, 0)]
        parts[key] = ",".join(map(str, rng.sample(pool, rng.randint(1, 5))))
    if rng.random() < 0.3:
        parts["BYHOUR"] = ",".join(map(str, sorted(rng.sample(range(24), rng.randint(1, 3)))))
    if rng.random() < 0.2:
        parts["BYMINUTE"] = rng.choice(["0", "0,30", "15"])
    if len(parts) > 1 and "BYDAY" in parts and rng.random() < 0.35:
        parts["BYSETPOS"] = rng.choice(["1", "-1", "2", "1,-1", "-2", "3,1"])
    if rng.random() < 0.4:
        parts["WKST"] = rng.choice(WEEK)
    return parts


def _weekdays(rng: random.Random, freq: str) -> str:
    days = rng.sample(WEEK, rng.randint(1, 4))
    if freq in ("DAILY", "WEEKLY"):
        return ",".join(days)
    numbers = ["", "", "1", "-1", "2", "-2", "5", "4"] + (["20", "-10"] if freq == "YEARLY" else [])
    return ",".join(rng.choice(numbers) + day for day in days)


# --- calendars ------------------------------------------------------------------------------------------------------


def _calendar(rng: random.Random, number: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": f"c{number}", "zone": rng.choice(ZONES)}
    if rng.random() < 0.6:
        spec["weekly"] = rng.choice([
            ["sat", "sun"], ["fri", "sat"], ["sun"], ["mon"], ["wed", "sat", "sun"], ["sat"],
            [{"from": "fri 18:00", "to": "mon 06:00"}], [{"from": "sat 22:00", "to": "sun 06:00"}],
            [{"from": f"{day} 22:00", "to": f"{then} 04:00"}
             for day, then in zip(("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
                                  ("tue", "wed", "thu", "fri", "sat", "sun", "mon"), strict=True)],
            [{"from": "sun 01:45", "to": "sun 02:45"}], [{"from": "sun 00:30", "to": "sun 03:00"}, "sat"],
        ])  # fmt: skip
    if rng.random() < 0.6:
        spec["holidays"] = rng.choice([
            ["12-25", "01-01", "easter-2", "nov thu#4", "may mon#last"],
            [{"rule": "12-25", "observed": "next_weekday"}, {"rule": "12-26", "observed": "next_weekday"},
             {"rule": "01-01", "observed": "next_weekday"}, "easter+1"],
            [{"rule": "12-24", "observed": "nearest_weekday"}, {"rule": "12-25", "observed": "nearest_weekday"},
             {"rule": "12-26", "observed": "nearest_weekday"}, {"rule": "01-01", "observed": "nearest_weekday"}],
            ["sep mon#1", {"rule": "07-04", "observed": "nearest_weekday"}, "02-29", "mar sun#5", "feb mon#5"],
        ])  # fmt: skip
    if rng.random() < 0.4:
        spec["dates"] = [text_of(_moment(rng))[:10] for _ in range(rng.randint(1, 8))]
    if rng.random() < 0.5 or len(spec) == 2:
        spec["ranges"] = [_range(rng) for _ in range(rng.randint(1, 4))]
    return spec


def _range(rng: random.Random) -> dict[str, str]:
    start = _moment(rng)
    if rng.random() < 0.4:
        return {"from": text_of(start)[:10], "to": text_of(start + rng.choice([0, 3, 10, 28, 40]) * DAY)[:10]}
    end = start + rng.choice([1, 6, 12, 60, 400]) * 3_600 + rng.choice([0, 300, 1_740])
    return {"from": text_of(start)[:16], "to": text_of(end)[:16]}
