"""The bounds of the schedule engine, each with its reason.

Owns: every number that limits a loop, a length or a range in this package.
Refuses to know: what is counted.
Protects: `next_after` is total and bounded in work, whatever somebody registered.
"""

from __future__ import annotations

from typing import Final

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400

#: Instants are computed inside the years 1 to 9999 of `datetime`, two days short of either end, so that no
#: offset (at most 26 hours from any other) carries a local time over the edge.
FIRST_S: Final = -62_135_596_800 + 2 * DAY_S
LAST_S: Final = 253_402_300_799 - 2 * DAY_S

#: No two local times of one instant differ by more than 26 hours (UTC-12 to UTC+14).
SLACK_S: Final = 2 * DAY_S

#: A forward jump of more than three hours is no daylight saving: Vixie cron's limit for making up a lost run.
GAP_MAKE_UP_MAX_S: Final = 3 * HOUR_S

#: The Gregorian calendar repeats after 400 years: a date not found in as many months never comes.
MONTHS_SEARCHED_MAX: Final = 400 * 12 + 1

#: Segments of constant offset looked at in one search. A search either finds something in its segment or
#: jumps close to the next naive match, so it looks at a handful; 64 leaves room for runs of lost matches.
SEGMENTS_WALKED_MAX: Final = 64

#: Sixty minutes written one by one take 169 characters; five such fields stay below this.
EXPRESSION_LENGTH_MAX: Final = 1_024

#: `any_of`: each member costs one search per occurrence.
MEMBERS_MAX: Final = 20

#: `count`: the last occurrence of a counted schedule is found by walking to it, once.
COUNT_MAX: Final = 10_000

#: `count`: occurrences looked at when a spec is registered, over all its members: each counts one search.
COUNTED_STEPS_MAX: Final = COUNT_MAX

#: A count that leads further is as good as none: nothing is dispatched from 2150 on.
COUNTED_UNTIL_S: Final = 5_680_281_600

#: EXDATE: a year and more of excepted days.
LEFT_OUT_MAX: Final = 400

#: Steps over excluded days and windows before a schedule counts as exhausted (five years of lost days).
EXCLUDED_STEPS_MAX: Final = 2_000

#: And how far they may lead: a date comes again on a given weekday within 40 years (over 2100).
EXCLUDED_SPAN_S: Final = 41 * 366 * DAY_S

#: Calendars that take over from one another at the end of an excluded stretch, before a search steps on.
ADJOINING_MAX: Final = 40

#: "The next working day" is looked for this far; later, the occurrence is dropped.
SHIFT_DAYS_MAX: Final = 31

#: What may be moved to the next working day is at least this far apart.
MOVABLE_GAP_MIN_S: Final = HOUR_S

#: Occurrences looked at to order the moved ones: five years of a daily job, twelve weeks of an hourly one.
SHIFT_STEPS_MAX: Final = 2_000

#: The first occurrence of a recurring schedule is still due when it lies this little in the past: it was meant for
#: "now", and clocks differ and requests travel.
START_GRACE_MS: Final = 2_000

#: A one-shot this much in the past is still accepted, and is due at once: clocks differ and requests travel.
PAST_GRACE_MS: Final = 60_000

#: The longest period of a rate and the longest delay: ten years.
PERIOD_S_MAX: Final = 3_653 * DAY_S

#: Occurrences a preview shows in one call.
PREVIEW_MAX: Final = 1_000
