"""One field of a cron expression: text in, matching values out.

Owns: the grammar of a field (numbers, names, ranges, steps, lists, `*`), its normal form, and what to say
when a field is wrong.
Refuses to know: the other fields, dates, zones.
Protects: a text has one meaning. Ranges that run backwards, a step without a range and step zero have several
live meanings in other schedulers, so they are refused with the form to use instead; digits are ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tickwork.core.schedule.refusal import ScheduleRefused, closest

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONG: Final = {
    **{n: n[:3] for n in ("january", "february", "march", "april", "june", "july", "august", "september",
                          "october", "november", "december", "sunday", "monday", "tuesday", "wednesday",
                          "thursday", "friday", "saturday")},
    "sept": "sep", "tues": "tue", "weds": "wed", "thur": "thu", "thurs": "thu",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldKind:
    """A position in the expression: its name (`key` in error paths), its range and its names."""

    key: str
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def allowed(self) -> str:
        """What a person may write here, in words."""
        text = f"{self.low}-{self.high}"
        if self.names:
            text += f", {self.names[0]}-{self.names[-1]}"
        return text + (" (0 and 7 are Sunday)" if self is DOW else "")


SECOND: Final = FieldKind("second", "second", 0, 59)
MINUTE: Final = FieldKind("minute", "minute", 0, 59)
HOUR: Final = FieldKind("hour", "hour", 0, 23)
DOM: Final = FieldKind("day_of_month", "day-of-month", 1, 31)
MONTH: Final = FieldKind("month", "month", 1, 12, _MONTHS)
DOW: Final = FieldKind("day_of_week", "day-of-week", 0, 7, _DAYS)

FIVE: Final = (MINUTE, HOUR, DOM, MONTH, DOW)
SIX: Final = (SECOND, *FIVE)


@dataclass(frozen=True, slots=True)
class Field:
    """A parsed field. `bits` has bit v set for each matching value v (Sunday is 0 only); `text` is the normal
    form; `is_star` says that the field begins with `*`, which is what cron's rules look at; `letters` are the
    items with `L`, `W` or `#`, already in normal form and not part of `bits`."""

    kind: FieldKind
    text: str
    bits: int
    is_star: bool
    letters: tuple[str, ...] = ()

    def values(self) -> tuple[int, ...]:
        """The matching values in order."""
        return tuple(v for v in range(self.kind.high + 1) if self.bits >> v & 1)

    @property
    def is_every(self) -> bool:
        """Whether every value matches."""
        every = range(self.kind.low, 7 if self.kind is DOW else self.kind.high + 1)
        return all(self.bits >> v & 1 for v in every)


def parse_field(kind: FieldKind, text: str, *, job_id: str = "", letters: bool = False) -> Field:
    """Parse one field. `job_id` resolves `H`; `letters` allows `L`, `W` and `#` in the day fields.

    Raises `ScheduleRefused` with the field's path, what is allowed, and the likely intent; `proposal` is then
    the text for the whole field.
    """
    texts: list[str] = []
    found: list[str] = []
    bits = 0
    items = text.split(",")
    for number, item in enumerate(items):
        try:
            if kind in (DOM, DOW) and _has_letter(kind, item):
                found.append(parse_letter(kind, item, text, allowed=letters))
                texts.append(found[-1])
                continue
            item_text, item_bits = _parse_item(kind, item, text, job_id)
        except ScheduleRefused as error:
            if error.proposal is not None:
                error.proposal = ",".join([*items[:number], error.proposal, *items[number + 1 :]])
            raise
        texts.append(item_text)
        bits |= item_bits
    if kind is DOW and bits >> 7 & 1:
        bits = (bits | 1) & 0x7F
    return Field(kind, ",".join(texts), bits, text.startswith(("*", "?")), tuple(found))


def _parse_item(kind: FieldKind, item: str, whole: str, job_id: str) -> tuple[str, int]:
    if not item:
        raise _bad(kind, "empty_item", f"{whole!r} has an empty list item", "take out the extra comma")
    body, slash, step_text = item.partition("/")
    step = _parse_step(kind, item, step_text) if slash else 1
    if body.upper().startswith("H") and body.casefold() not in _LONG:
        return _hashed(kind, item, body, step if slash else None, job_id)
    if body in ("*", "?"):
        if body == "?" and (slash or kind not in (DOM, DOW)):
            raise _bad(kind, "bad_value", f"'?' cannot stand in {item!r}", "write * instead of ?")
        low, high, name = kind.low, 6 if kind is DOW else kind.high, "*"
    elif "-" in body:
        low, high, name = _parse_range(kind, item, body, step)
    else:
        low = high = _parse_value(kind, body, item)
        name = str(low % 7 if kind is DOW else low)
        if slash:
            proposal = _step_proposal(kind, low, step)
            raise _bad(
                kind, "step_without_range", f"{item!r} steps from a single value, which has several meanings",
                f"write {proposal} to step to the end of the range, or {body} alone", proposal,
            )  # fmt: skip
    bits = sum(1 << value for value in range(low, high + 1, step))
    return (f"{name}/{step}" if slash else name), bits


def _step_proposal(kind: FieldKind, low: int, step: int) -> str:
    return f"*/{step}" if low == kind.low else f"{low}-{6 if kind is DOW else kind.high}/{step}"


def _parse_step(kind: FieldKind, item: str, text: str) -> int:
    if not _is_number(text):
        raise _bad(
            kind, "bad_step", f"the step of {item!r} is no number", "write the step as digits, such as */5"
        )
    step = int(text)
    if step == 0:
        raise _bad(kind, "step_zero", f"{item!r} has step zero", "use a step of at least 1, or leave it out")
    return step


def _parse_range(kind: FieldKind, item: str, body: str, step: int) -> tuple[int, int, str]:
    parts = body.split("-")
    if len(parts) != 2 or not all(parts):
        raise _bad(
            kind, "bad_range", f"{item!r} is no range", f"write two values from {kind.allowed()}, as in 1-5"
        )
    low, high = (_parse_value(kind, part, item) for part in parts)
    if kind is DOW and high == 0 and low > 0 and not parts[1][0].isdigit():
        high = 7  # mon-sun, sat-sun: by name, Sunday may end a week
    if low > high:
        proposal = _unwrapped(kind, low, high, step, by_name=not parts[0][0].isdigit())
        raise _bad(
            kind, "reversed_range", f"the range {body!r} runs backwards",
            f"if it is to wrap around, write {proposal}", proposal,
        )  # fmt: skip
    return low, high, f"{low}-{high}"


def _unwrapped(kind: FieldKind, low: int, high: int, step: int, *, by_name: bool) -> str:
    """The list that a wrapping range probably meant."""
    if step == 1 and kind is not DOW:
        parts = [(low, kind.high), (kind.low, high)]
        show = (lambda v: kind.names[v - kind.low]) if by_name and kind.names else str
        return ",".join(show(a) if a == b else f"{show(a)}-{show(b)}" for a, b in parts)
    size = kind.high - kind.low + (0 if kind is DOW else 1)
    values = [kind.low + (low - kind.low + i) % size for i in range(0, (high - low) % size + 1, step)]
    return ",".join(kind.names[v - kind.low] if by_name and kind.names else str(v) for v in values)


def _parse_value(kind: FieldKind, text: str, item: str) -> int:
    if _is_number(text):
        value = int(text)
        if kind.low <= value <= kind.high:
            return value
        remedy = f"allowed: {kind.allowed()}"
        if kind is HOUR and value == 24:
            remedy += "; midnight is 0"
        if kind is MINUTE and value == 60:
            remedy += "; the full hour is 0"
        raise _bad(kind, "out_of_range", f"{text} is out of range in {item!r}", remedy)
    folded = text.casefold()
    if folded in kind.names:
        return kind.names.index(folded) + kind.low
    raise _unknown_value(kind, text, item)


def _unknown_value(kind: FieldKind, text: str, item: str) -> ScheduleRefused:
    folded = text.casefold()
    guess = _LONG.get(folded) or (closest(folded, kind.names) if kind.names and folded.isalpha() else None)
    if guess in kind.names:
        reason = "bad_day_name" if kind is DOW else "bad_month_name"
        return _bad(
            kind, reason, f"{text!r} is no {kind.name} name", f"write {guess}", item.replace(text, str(guess))
        )
    if guess in _DAYS or guess in _MONTHS or folded in _DAYS or folded in _MONTHS:
        where = (
            "day-of-week (the last field)"
            if (guess or folded) in _DAYS
            else "month (the field before the last)"
        )
        return _bad(
            kind, "misplaced_name", f"{text!r} cannot stand in {item!r}", f"names belong to the {where} field"
        )
    if "~" in text:
        return _bad(
            kind,
            "bad_value",
            f"{item!r} asks for a random value",
            "use H: a value that stays the same for a job",
        )
    if folded[:1] in ("l", "w") or "#" in text:
        return _bad(kind, "bad_value", f"{item!r} is a day, not a {kind.name}", f"allowed: {kind.allowed()}")
    return _bad(
        kind,
        "bad_value",
        f"{text!r} is no {kind.name}",
        f"allowed: {kind.allowed()}, ranges, lists, * and */n",
    )


def _hashed(kind: FieldKind, item: str, body: str, step: int | None, job_id: str) -> tuple[str, int]:
    """`H`, `H/n`, `H(a-b)`, `H(a-b)/n`: a value that is the same for a job for ever, and spread over jobs."""
    low, high = kind.low, 28 if kind is DOM else 6 if kind is DOW else kind.high  # the 28th: in every month
    inner = body[1:]
    if inner:
        if not (inner.startswith("(") and inner.endswith(")") and "-" in inner):
            raise _bad(
                kind, "bad_hash", f"{item!r} is not understood", "write H, H/15, H(0-29) or H(0-29)/10"
            )
        low, high, _ = _parse_range(kind, item, inner[1:-1], 1)
    if not job_id:
        raise _bad(
            kind, "hash_without_job", f"{item!r} is derived from the job's id", "give a job id, or a number"
        )
    number = int.from_bytes(sha256(f"H|{kind.key}|{job_id}".encode()).digest()[:8])
    if step is None:
        value = low + number % (high - low + 1)
        return str(value), 1 << value
    first = low + number % min(step, high - low + 1)
    return f"{first}-{high}/{step}", sum(1 << value for value in range(first, high + 1, step))


def _has_letter(kind: FieldKind, item: str) -> bool:
    folded = item.casefold()
    if "#" in folded:
        return True
    if kind is DOM:
        return folded == "w" or (folded[:1] == "l") or (folded[-1:] == "w" and folded[:-1].isdigit())
    return folded in ("l", "w") or (folded[-1:] == "l" and (folded[:-1] in _DAYS or folded[:-1].isdigit()))


def parse_letter(kind: FieldKind, item: str, whole: str, *, allowed: bool) -> str:
    """The normal form of `L`, `L-3`, `15W`, `LW` (day of month), `5L`, `fri#2` (day of week)."""
    if not allowed:
        sign = next(sign for sign in ("#", "L", "W") if sign in item.upper())
        raise _bad(
            kind, f"unsupported_{sign}", f"{whole!r}: {sign} is not plain cron, and its meaning varies",
            'ask for it with "dialect": "extended" (weekdays from 0 = Sunday), or write plain days',
        )  # fmt: skip
    upper = item.upper()
    if kind is DOM:
        if upper in ("L", "LW"):
            return upper
        if upper.startswith("L-") and _is_number(upper[2:]) and 1 <= int(upper[2:]) <= 30:
            return f"L-{int(upper[2:])}"
        if upper.endswith("W") and _is_number(upper[:-1]) and 1 <= int(upper[:-1]) <= 31:
            return f"{int(upper[:-1])}W"
        raise _bad(kind, "bad_value", f"{item!r} is not understood", "write L, L-3, LW or 15W")
    if upper == "L":
        raise _bad(
            kind, "bad_value", "L alone is no weekday", "write 6 for Saturday, or 5L for the last Friday", "6"
        )
    if upper.endswith("L"):
        return f"{_parse_value(kind, item[:-1], item) % 7}L"
    day, _, nth = item.partition("#")
    if not _is_number(nth) or not 1 <= int(nth) <= 5:
        raise _bad(
            kind, "bad_value", f"{item!r}: a month has no such week", "write a number from 1 to 5 after #"
        )
    return f"{_parse_value(kind, day, item) % 7}#{int(nth)}"


def _is_number(text: str) -> bool:
    # str.isdigit() and int() accept the digits of every script.
    return text.isascii() and text.isdigit() and len(text) <= 4


def _bad(
    kind: FieldKind, reason: str, detail: str, remedy: str, proposal: str | None = None
) -> ScheduleRefused:
    return ScheduleRefused(
        reason, f"{kind.name} field: {detail}", field=f"cron.{kind.key}", remedy=remedy, proposal=proposal
    )
