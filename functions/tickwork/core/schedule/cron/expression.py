"""A whole cron expression: text in, five or six parsed fields out.

Owns: `@` macros, the number of fields, and recognising what belongs to other schedulers.
Refuses to know: zones, instants.
Protects: nothing foreign is read as something else: six or seven fields, a zone inside the text, letters from
a word processor are refused with what to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tickwork.core.schedule.cron import pasted
from tickwork.core.schedule.cron.characters import refuse_cron, split
from tickwork.core.schedule.cron.days import DayRule
from tickwork.core.schedule.cron.field import Field, parse_field
from tickwork.core.schedule.cron.field_kind import FIVE, SIX
from tickwork.core.schedule.cron.walltimes import WallTimes
from tickwork.core.schedule.refusal import ScheduleRefused, closest

MACROS: Final = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip


#: Macros of other schedulers, and words that are nearer to one of ours than to what they mean.
_KNOWN_ELSEWHERE: Final = {
    "@every_minute": "* * * * *", "@minutely": "* * * * *", "@every_hour": "@hourly", "@every_day": "@daily",
    "@quarterly": "0 0 1 1,4,7,10 *", "@semiannually": "0 0 1 1,7 *", "@biannually": "0 0 1 1,7 *",
    "@weekday": "0 0 * * 1-5", "@weekdays": "0 0 * * 1-5", "@weekend": "0 0 * * 0,6", "@weekends": "0 0 * * 0,6",
    "@noon": "0 12 * * *",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. `fields` are second (only when asked for), minute, hour, day-of-month, month,
    day-of-week; `text` is the normal form that is stored."""

    fields: tuple[Field, ...]

    @property
    def text(self) -> str:
        return " ".join(field.text for field in self.fields)

    @property
    def has_seconds(self) -> bool:
        return len(self.fields) == 6

    @property
    def follows_real_time(self) -> bool:
        """Debian cron's class: minute or hour begins with `*`."""
        minute, hour = self.fields[-5], self.fields[-4]
        return minute.is_star or hour.is_star

    @property
    def has_letters(self) -> bool:
        return any(field.letters for field in self.fields)

    def wall_times(self) -> WallTimes:
        """The compiled wall times; shared between expressions that have the same times of day."""
        minute, hour, dom, month, dow = self.fields[-5:]
        seconds = self.fields[0].bits if self.has_seconds else 1
        return WallTimes(_minutes(minute.bits, hour.bits), _values(seconds), _day_rule(dom, month, dow))


@lru_cache(maxsize=4096)
def _minutes(minute_bits: int, hour_bits: int) -> tuple[int, ...]:
    minutes = _values(minute_bits)
    return tuple(hour * 60 + minute for hour in _values(hour_bits) for minute in minutes)


@lru_cache(maxsize=4096)
def _values(bits: int) -> tuple[int, ...]:
    return tuple(value for value in range(bits.bit_length()) if bits >> value & 1)


def _day_rule(dom: Field, month: Field, dow: Field) -> DayRule:
    last, near = [], []
    for item in dom.letters:
        if item.endswith("W"):
            near.append(-int(item[2:-1] or 0) if item.startswith("L") else int(item[:-1]))
        else:
            last.append(int(item[2:] or 0))
    return DayRule(
        month_bits=month.bits,
        dom_bits=dom.bits,
        dow_bits=dow.bits,
        joined_by_and=dom.is_star or dow.is_star,
        last_days=tuple(last),
        near_weekdays=tuple(near),
        last_dows=tuple(int(item[0]) for item in dow.letters if item.endswith("L")),
        nth_dows=tuple((int(item[0]), int(item[2])) for item in dow.letters if "#" in item),
    )


def parse_expression(text: object, *, seconds: bool = False, letters: bool = False, job_id: str = "") -> Expression:
    """Parse a cron expression of five fields (six, seconds first, when `seconds`).

    Raises `ScheduleRefused` with `field` "cron" or "cron.<field>".
    """
    parts = split(text)
    if len(parts) == 1 and parts[0].startswith("@"):
        parts = (["0"] if seconds else []) + _macro(parts[0]).split(" ")
    kinds = SIX if seconds else FIVE
    if len(parts) != len(kinds) or parts[0].startswith("#"):
        raise _wrong_count(parts, seconds=seconds)
    if parts[0].startswith("-*"):
        raise pasted.leading_dash(parts)
    fields: list[Field] = []
    for number, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
        try:
            fields.append(parse_field(kind, part, job_id=job_id, letters=letters))
        except ScheduleRefused as error:
            if error.proposal is not None:
                error.proposal = " ".join([*parts[:number], error.proposal, *parts[number + 1 :]])
            raise
    return Expression(tuple(fields))


def _macro(text: str) -> str:
    if text in MACROS:
        return MACROS[text]
    if text == "@reboot":
        raise refuse_cron("reboot", "@reboot is no time: nothing here boots", "trigger the job from the deployment")
    plain = _KNOWN_ELSEWHERE.get(text.casefold())
    if plain is not None:
        raise refuse_cron("unknown_nickname", f"{text} is not known here", f"write {plain}", plain)
    guess = closest(text, MACROS)
    if guess is not None and (text[:2].casefold() != guess[:2] or any(char.isdigit() for char in text)):
        guess = None  # @biweekly is not @weekly
    raise refuse_cron(
        "unknown_nickname", f"{text!r} is no macro", f"write {guess or 'one of ' + ', '.join(MACROS)}", guess
    )


def _wrong_count(parts: list[str], *, seconds: bool) -> ScheduleRefused:
    if not parts:
        return refuse_cron("empty", "the expression is empty", 'write five fields, such as "0 2 * * *"')
    foreign = pasted.recognise(parts, seconds=seconds)
    if foreign is not None:
        return foreign
    if parts[0].startswith("@"):
        _macro(parts[0])
        return pasted.too_much(parts[1], parts[0])
    expected = "six fields (second first)" if seconds else "five fields"
    names = " ".join(kind.name for kind in (SIX if seconds else FIVE))
    reason = "too_many_fields" if len(parts) > (6 if seconds else 5) else "too_few_fields"
    return refuse_cron(reason, f"{expected} expected, got {len(parts)}", f"write: {names}")
