"""What cron does not have but its descendants do: `H`, and the letters `L`, `W` and `#` in the day fields.

Owns: their grammar and normal form. Refuses to know: which days they stand for in a month (see `days`).
Protects: `H` is the same for a job for ever, because it is resolved once and stored as a number; letters are
read only when asked for, because schedulers number the weekdays beside them differently.
"""

from __future__ import annotations

from hashlib import sha256

from tickwork.core.schedule.cron.field_kind import (
    DOM,
    DOW,
    FieldKind,
    bad,
    is_number,
    parse_range,
    parse_value,
    wrapped_values,
)
from tickwork.core.schedule.cron.names import DAY_NAMES
from tickwork.core.schedule.refusal import ScheduleRefused


def parse_hashed(kind: FieldKind, item: str, body: str, step: int | None, job_id: str) -> tuple[str, int]:
    """`H`, `H/n`, `H(a-b)`, `H(a-b)/n`: a value that is the same for a job for ever, and spread over jobs."""
    low, high = kind.low, 28 if kind is DOM else 6 if kind is DOW else kind.high  # the 28th: in every month
    inner = body[1:]
    if inner:
        if not (inner.startswith("(") and inner.endswith(")") and "-" in inner):
            raise bad(kind, "bad_hash", f"{item!r} is not understood", "write H, H/15, H(0-29) or H(0-29)/10")
        low, high = _hashed_range(kind, item, inner[1:-1], step, job_id)
    if not job_id:
        raise bad(kind, "hash_without_job", f"{item!r} is derived from the job's id", "give a job id, or a number")
    number = _job_number(kind, job_id)
    if step is None:
        value = low + number % (high - low + 1)
        return str(value), 1 << value
    first = low + number % min(step, high - low + 1)
    return f"{first}-{high}/{step}", sum(1 << value for value in range(first, high + 1, step))


def _job_number(kind: FieldKind, job_id: str) -> int:
    return int.from_bytes(sha256(f"H|{kind.key}|{job_id}".encode()).digest()[:8])


def _hashed_range(kind: FieldKind, item: str, body: str, step: int | None, job_id: str) -> tuple[int, int]:
    """The range that is hashed into. One that runs backwards is refused, with what the job would get in the wrapping
    range: the list of its values would be a run for each of them."""
    try:
        low, high, _ = parse_range(kind, item, body, 1)
        return low, high
    except ScheduleRefused as error:
        if error.reason != "reversed_range":
            raise
    values = wrapped_values(kind, body)
    if job_id:
        first = _job_number(kind, job_id) % min(step or len(values), len(values))
        chosen = values[first :: step or len(values)]
        proposal = ",".join(map(str, chosen))
        remedy = f"write {proposal}, which is what the job's id gives when the range wraps around"
    else:
        proposal = f"H({values[0]}-{6 if kind is DOW else kind.high})" + ("" if step is None else f"/{step}")
        remedy = f"write a range that does not wrap around, such as {proposal}"
    raise bad(kind, "reversed_range", f"the range {body!r} runs backwards", remedy, proposal)


def has_letter(kind: FieldKind, item: str) -> bool:
    """Whether an item of a day field is one of `L`, `W`, `#` rather than a value or a name."""
    folded = item.casefold()
    if "#" in folded:
        return True
    if kind is DOM:
        return folded == "w" or (folded[:1] == "l") or (folded[-1:] == "w" and folded[:-1].isdigit())
    return folded in ("l", "w") or (folded[-1:] == "l" and (folded[:-1] in DAY_NAMES or folded[:-1].isdigit()))


def parse_letter(kind: FieldKind, item: str, whole: str, *, allowed: bool) -> str:
    """The normal form of `L`, `L-3`, `15W`, `LW`, `L-3W` (day of month), `5L`, `fri#2` (day of week)."""
    if not allowed:
        sign = next(sign for sign in ("#", "L", "W") if sign in item.upper())
        raise bad(
            kind, f"unsupported_{sign}", f"{whole!r}: {sign} is not plain cron, and its meaning varies",
            'ask for it with "dialect": "extended" (weekdays from 0 = Sunday), or write plain days',
        )  # fmt: skip
    upper = item.upper()
    if kind is DOM:
        if upper in ("L", "LW"):
            return upper
        before = upper.removeprefix("L-").removesuffix("W")
        if upper.startswith("L-") and is_number(before) and 1 <= int(before) <= 30:
            return f"L-{int(before)}{upper[-1] if upper[-1] == 'W' else ''}"
        if upper.endswith("W") and is_number(upper[:-1]) and 1 <= int(upper[:-1]) <= 31:
            return f"{int(upper[:-1])}W"
        raise bad(kind, "bad_value", f"{item!r} is not understood", "write L, L-3, LW, L-3W or 15W")
    if upper == "L":
        raise bad(kind, "bad_value", "L alone is no weekday", "write 6 for Saturday, or 5L for the last Friday", "6")
    if upper.endswith("L"):
        return f"{parse_value(kind, item[:-1], item) % 7}L"
    day, _, nth = item.partition("#")
    if not is_number(nth) or not 1 <= int(nth) <= 5:
        raise bad(kind, "bad_value", f"{item!r}: a month has no such week", "write a number from 1 to 5 after #")
    return f"{parse_value(kind, day, item) % 7}#{int(nth)}"
