"""What a refusal proposes, written in the place of what was refused: is it accepted, and due when the person meant?

Each case is drawn from its meaning: a plain schedule that the oracle can read, and a text that says the same in a way
that is refused here (`python -m tests.oracle.proposals --refusals 20000`).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.oracle.clocks import DAY
from tests.oracle.draw import NOW_MS, ZONES
from tests.oracle.model import Case, Expected
from tickwork.core.schedule import ScheduleRefused, next_after, parse_schedule

JOB_ID = "team:job"
NAMES = {
    "day_of_week": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
    "month": ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
}
FIELDS = {"minute": (0, 59), "hour": (0, 23), "day_of_month": (1, 31), "month": (1, 12), "day_of_week": (0, 6)}
LONG = {
    "sunday": 0, "monday": 1, "tuesday": 2, "wednesday": 3, "thursday": 4, "friday": 5, "saturday": 6,
    "lun": 1, "lundi": 1, "lunes": 1, "montag": 1, "mardi": 2, "martes": 2, "mer": 3, "mie": 3, "mittwoch": 3, "jeu": 4,
    "jue": 4, "gio": 4, "ven": 5, "vie": 5, "freitag": 5, "sab": 6, "sam": 6, "samstag": 6, "dom": 0, "dim": 0,
    "sonntag": 0, "tues": 2, "thurs": 4, "weds": 3,
}  # fmt: skip
KEYS = {"zon": "zone", "timezone": "zone", "tz": "zone", "crn": "cron", "expression": "cron", "strt": "start"}


@dataclass(frozen=True)
class Wrong:
    """A spec that is refused, and the plain one that was meant (None: a run a day, some time in `within`)."""

    spec: dict[str, Any]
    meant: dict[str, Any] | None
    within: tuple[int, ...] = ()


@dataclass
class Tally:
    refusals: int = 0
    proposals: int = 0
    accepted_at_once: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.refusals} refusals, {self.proposals} proposals, {len(self.wrong)} of them refused or due at other "
            f"times; {self.accepted_at_once} texts were no error"
        )


def tally(count: int, seed: int) -> Tally:
    """Look at the proposals of `count` refusals."""
    found, rng = Tally(), random.Random(seed)
    while found.refusals < count:
        one = rng.choice(KINDS)(rng)
        try:
            parse_schedule(one.spec, now_ms=NOW_MS, job_id=JOB_ID)
        except ScheduleRefused as error:
            found.refusals += 1
            for proposal in proposals_of(one.spec, error):
                found.proposals += 1
                complaint = judge(one, proposal)
                if complaint:
                    found.wrong.append(f"{json.dumps(one.spec)}: {error.remedy!r}, {json.dumps(proposal)}: {complaint}")
            continue
        found.accepted_at_once += 1
    return found


def proposals_of(spec: dict[str, Any], error: ScheduleRefused) -> list[dict[str, Any]]:
    """The specs that a person would try: the proposal in the field's place, and what the remedy spells out."""
    found = [json.loads(text) for text in re.findall(r"\{.*\}", str(error.remedy)) if "..." not in text]
    written = [{**spec, **one} if set(one) <= {"cron", "zone"} and "dialect" not in spec else one for one in found]
    if error.reason == "zone_inside" or error.proposal is None:
        return written  # the proposal is the expression alone: the zone is beside it
    name = str(error.field).partition(".")[0]
    if error.reason == "unknown_key":
        return [{(error.proposal if key == name else key): value for key, value in spec.items()}]
    return [*written, {**spec, name: error.proposal}]


def judge(one: Wrong, proposal: dict[str, Any]) -> str | None:
    """What is wrong with a proposal."""
    low = NOW_MS // 1000 + 60 * DAY
    high = low + 40 * DAY
    try:
        schedule = parse_schedule(proposal, now_ms=NOW_MS, job_id=JOB_ID)
    except ScheduleRefused as error:
        return f"it is refused: {error.detail}"
    got, at = [], next_after(schedule, low * 1000)
    while at is not None and at <= high * 1000 and len(got) < 1_000:
        got.append(at // 1000)
        at = next_after(schedule, at)
    if one.meant is None:
        days = {at // DAY for at in got}
        inside = all(at % DAY // 3_600 in one.within for at in got)
        return None if len(days) == len(got) == 40 and inside else f"it is due {len(got)} times in 40 days"
    right = Expected(Case(one.meant, (), NOW_MS), low, high).instants[:1_000]
    return None if got == right else f"it is due at {got[:3]}, and {right[:3]} was meant"


# --- what people write ------------------------------------------------------------------------------------------------


def _spec(parts: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"cron": " ".join(parts[name] for name in FIELDS), **more}


def _plain(rng: random.Random) -> dict[str, str]:
    """Five fields, one of which will be written in another way."""
    return {
        "minute": rng.choice(["0", "30", "15"]), "hour": rng.choice(["2", "9", "17"]),
        "day_of_month": "*", "month": "*", "day_of_week": "*",
    }  # fmt: skip


def _zone(rng: random.Random) -> dict[str, Any]:
    return {"zone": rng.choice(ZONES)} if rng.random() < 0.5 else {}


def _wrapped(low: int, high: int, first: int, last: int, step: int) -> list[int]:
    values, at = [], first
    while True:
        values.append(at)
        if at == last:
            return values[::step]
        at = at + 1 if at < high else low


def backwards(rng: random.Random) -> Wrong:
    name = rng.choice(list(FIELDS))
    low, high = FIELDS[name]
    last, first = sorted(rng.sample(range(low, high + 1), 2))
    step = rng.choice([1, 1, 1, 2, 3])
    parts, zone = _plain(rng), _zone(rng)
    values = _wrapped(low, high, first, last, step)
    wrong, right = dict(parts), dict(parts)
    show = NAMES[name].__getitem__ if name in NAMES and rng.random() < 0.5 else str
    wrong[name] = f"{show(first)}-{show(last)}" + (f"/{step}" if step > 1 else "")
    right[name] = ",".join(map(str, values))
    return Wrong(_spec(wrong, **zone), _spec(right, **zone))


def stepped(rng: random.Random) -> Wrong:
    name = rng.choice(list(FIELDS))
    low, high = FIELDS[name]
    first, step = rng.randint(low, high + (name == "day_of_week")), rng.randint(1, 15)
    parts, zone = _plain(rng), _zone(rng)
    if name in ("day_of_month", "day_of_week") and rng.random() < 0.4:
        parts["day_of_week" if name == "day_of_month" else "day_of_month"] = "1"
    wrong, right = dict(parts), dict(parts)
    wrong[name] = f"{first}/{step}"
    values = list(range(first, high + 1, step)) or [0]
    right[name] = ",".join(map(str, values))
    if name in ("minute", "hour") and first == low:
        right[name] = f"*/{step}"  # an interval: the whole round, from its beginning
    return Wrong(_spec(wrong, **zone), _spec(right, **zone))


def named(rng: random.Random) -> Wrong:
    word, value = rng.choice(list(LONG.items()))
    if len(word) > 5 and rng.random() < 0.6:
        cut = rng.randrange(1, len(word))
        word = (
            word[:cut] + word[cut + 1 :]
            if rng.random() < 0.5
            else word[: cut - 1] + word[cut] + word[cut - 1] + word[cut + 1 :]
        )
    parts = _plain(rng)
    return Wrong(_spec({**parts, "day_of_week": word}), _spec({**parts, "day_of_week": str(value)}))


def hashed(rng: random.Random) -> Wrong:
    last, first = sorted(rng.sample(range(24), 2))
    text = f"{rng.randrange(60)} H({first}-{last}) * * *"
    return Wrong({"cron": text}, None, tuple(_wrapped(0, 23, first, last, 1)))


def pasted(rng: random.Random) -> Wrong:
    parts, zone = _plain(rng), rng.choice(ZONES)
    plain = _spec(parts)
    text = plain["cron"]
    written = rng.choice([
        f"{text} /usr/bin/backup --all", f"-*/10 {text[text.index(' ') + 1:]}", f"0 {text}", f"{text} # nightly",
        f"CRON_TZ={zone} {text}", f"TZ={zone} {text}", f"{text} {zone}",
        f"{parts['minute']}, {int(parts['minute']) + 7} {text.split(' ', 1)[1]}",
    ])  # fmt: skip
    if written.startswith("-"):
        return Wrong({"cron": written}, {"cron": f"*/10 {text[text.index(' ') + 1 :]}"})
    if ", " in written:
        return Wrong({"cron": written}, {"cron": written.replace(", ", ",")})
    return Wrong({"cron": written}, {**plain, "zone": zone} if zone in written else plain)


def macro(rng: random.Random) -> Wrong:
    word, plain = rng.choice([
        ("@dayly", "0 0 * * *"), ("@Daily", "0 0 * * *"), ("@montly", "0 0 1 * *"), ("@weely", "0 0 * * 0"),
        ("@hourley", "0 * * * *"), ("@biweekly", ""), ("@bimonthly", ""), ("@quarterly", "0 0 1 1,4,7,10 *"),
        ("@weekdays", "0 0 * * 1-5"), ("@every_minute", "* * * * *"), ("@noon", "0 12 * * *"),
        ("@annualy", "0 0 1 1 *"),
    ])  # fmt: skip
    return Wrong({"cron": word}, {"cron": plain} if plain else None)


def interval(rng: random.Random) -> Wrong:
    count, unit = rng.randint(1, 50), rng.choice(["m", "h"])
    seconds = count * {"m": 60, "h": 3_600}[unit]
    anchor = NOW_MS // 1000 + seconds
    meant = {"rate": f"{count}{unit}", "anchor": _utc(anchor)}
    return Wrong({"cron": f"@every {count}{unit}"}, meant)


def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def foreign(rng: random.Random) -> Wrong:
    """A text of Quartz or EventBridge without its dialect."""
    parts = _plain(rng)
    first = rng.randint(0, 5)
    days = ",".join(str(day) for day in range(first, rng.randint(first, 6) + 1))
    theirs = ",".join(str(int(day) + 1) for day in days.split(","))
    time = f"{parts['minute']} {parts['hour']}"
    text = rng.choice([f"0 {time} ? * {theirs}", f"cron({time} ? * {theirs} *)", f"{time} ? * {theirs} *",
                       f"0 {time} ? * {theirs} *"])  # fmt: skip
    return Wrong({"cron": text}, _spec({**parts, "day_of_week": days}))


def foreign_backwards(rng: random.Random) -> Wrong:
    """A range that EventBridge would have to wrap around."""
    parts = _plain(rng)
    last, first = sorted(rng.sample(range(7), 2))
    days = ",".join(map(str, _wrapped(0, 6, first, last, 1)))
    text = f"cron({parts['minute']} {parts['hour']} ? * {first + 1}-{last + 1} *)"
    spec = {"cron": text} | ({"dialect": "eventbridge"} if rng.random() < 0.5 else {})
    return Wrong(spec, _spec({**parts, "day_of_week": days}))


def key(rng: random.Random) -> Wrong:
    plain = _spec(_plain(rng), zone=rng.choice(ZONES))
    written, right = rng.choice([(w, r) for w, r in KEYS.items() if r in plain])
    return Wrong({(written if name == right else name): value for name, value in plain.items()}, plain)


def place(rng: random.Random) -> Wrong:
    zone = rng.choice([zone for zone in ZONES if len(zone) > 8])
    cut = rng.randrange(2, len(zone))
    written = rng.choice([zone[:cut] + zone[cut + 1 :], zone.lower(), zone.partition("/")[2], zone.replace("_", " ")])
    parts = _plain(rng)
    return Wrong(_spec(parts, zone=written), _spec(parts, zone=zone))


KINDS = (
    backwards, backwards, stepped, stepped, named, hashed, pasted, macro, interval, foreign, foreign_backwards, key,
    place,
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--refusals", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = tally(arguments.refusals, arguments.seed)
    print(found)
    print("\n".join(found.wrong[:20]))
    return bool(found.wrong)


if __name__ == "__main__":
    sys.exit(main())
