"""Specs that cost as much as a spec can: each is accepted or refused in bounded work.

Used by `benchmarks/bench_schedule.py`, which prints what the dearest of them take, and by the tests, which count
steps.
"""

from __future__ import annotations

from typing import Any

ALL_MINUTES = ",".join(map(str, range(60)))
ALL_HOURS = ",".join(map(str, range(24)))
ALL_DAYS = ",".join(map(str, range(1, 32)))
ZONES = (
    "America/New_York", "Europe/London", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca",
    "America/Santiago", "Africa/Cairo", "Pacific/Chatham", "Asia/Tokyo", "Pacific/Kiritimati", "America/Nuuk",
    "Europe/Dublin", "Asia/Almaty", "America/St_Johns", "Pacific/Honolulu", "Asia/Gaza", "Asia/Beirut",
    "America/Asuncion", "Pacific/Norfolk", "Pacific/Apia",
)  # fmt: skip
NEVER = "FREQ=DAILY;INTERVAL=999;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO"
RARE = "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO"


def nasty_specs() -> dict[str, dict[str, Any]]:
    """By a name that says what is dear about it."""
    return {
        "a leap day on a Monday": {"rrule": RARE},
        "twenty leap days on a Monday": {"any_of": [{"rrule": f"{RARE};BYHOUR={n}"} for n in range(20)]},
        "a rule that never comes": {"rrule": NEVER},
        "twenty rules, the last never comes": {
            "any_of": [{"rrule": f"{RARE};BYHOUR={n}"} for n in range(19)] + [{"rrule": NEVER}]
        },
        "all parts of a rule": {
            "rrule": f"FREQ=YEARLY;BYMONTH=1,2,3,4,5,6,7,8,9,10,11,12;BYMONTHDAY={ALL_DAYS};BYDAY=MO,-1FR,2TU;"
            f"BYHOUR={ALL_HOURS};BYMINUTE={ALL_MINUTES};BYSECOND={ALL_MINUTES}"
        },
        "positions in each week": {
            "rrule": f"FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR={ALL_HOURS};"
            f"BYSETPOS={','.join(map(str, range(1, 150)))}"
        },
        "twenty rules of all seconds": {
            "any_of": [
                {"rrule": f"FREQ=DAILY;INTERVAL={n};BYHOUR={ALL_HOURS};BYMINUTE={ALL_MINUTES};BYSECOND={ALL_MINUTES}"}
                for n in range(1, 21)
            ]
        },
        "twenty zones": {"any_of": [{"cron": "30 2 * * *", "zone": zone} for zone in ZONES]},
        "ten thousand counted": {"cron": "* * * * *", "zone": "America/New_York", "count": 10_000},
        "ten thousand leap days counted": {"cron": "0 0 29 2 *", "count": 10_000},
        "ten thousand leap Sundays counted": {"cron": "0 0 29 2 */7", "count": 10_000},
        "ten thousand of a rule counted": {"rrule": "FREQ=DAILY;INTERVAL=3;BYDAY=MO,WE,FR;COUNT=10000"},
        "five hundred of twenty counted": {
            "any_of": [{"cron": f"{n} {n} 29 2 *", "zone": zone} for n, zone in enumerate(ZONES)], "count": 500,
        },
        "ten thousand of twenty counted": {
            "any_of": [{"cron": f"{n} * * * *"} for n in range(20)], "count": 10_000,
        },
        "twenty times ten thousand counted": {
            "any_of": [{"cron": f"{n} * * * *", "count": 10_000} for n in range(20)]
        },
        "an interval of ten thousand seconds counted": {"rate": "1s", "count": 10_000},
        "twenty dates that never come": {"any_of": [{"cron": "0 0 30 2 *", "zone": zone} for zone in ZONES]},
        "five full fields of seconds": {
            "cron": f"{ALL_MINUTES} {ALL_MINUTES} {ALL_HOURS} {ALL_DAYS} 1-12 0-6", "seconds": True,
        },
        "a long list of a wrong name": {"cron": f"0 0 * * {','.join(['mondy'] * 150)}"},
        "a zone that is none": {"cron": "0 0 * * *", "zone": "Amerika/Argentinien/Buenos_Airos_" + "x" * 60},
        "an unknown key": {"cron": "0 0 * * *", "x" * 90: 1},
        "moved, once an hour": {
            "cron": "0 * * * *", "calendars": {"exclude": ["holidays"], "on_excluded": "next_working_day"},
        },
        "four hundred EXDATEs": {
            "rrule": "DTSTART:20260101T090000\nRRULE:FREQ=DAILY\nEXDATE:"
            + ",".join(f"2026{n // 28 % 12 + 1:02d}{n % 28 + 1:02d}T090000" for n in range(400))
        },
        "a thousand parts of nothing": {"rrule": "FREQ=DAILY;" + ";" * 1_000},
        "a repeat of a thousand months": {"repeat": "R9999/2026-01-31T00:00:00/P12M"},
    }  # fmt: skip
