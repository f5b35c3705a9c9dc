"""One field of a cron expression: text in, matching values out.

Owns: the grammar of a field (numbers, names, ranges, steps, lists, `*`), its normal form, and what to say
when a field is wrong.
Refuses to know: the other fields, dates, zones.
Protects: a text has one meaning. Ranges that run backwards, a step without a range and step zero have several
live meanings in other schedulers, so they are refused with the form to use instead; digits are ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.core.schedule.cron.field_kind import DOM, DOW, FieldKind, bad, is_number, parse_range, parse_value
from tickwork.core.schedule.cron.letters import has_letter, parse_hashed, parse_letter
from tickwork.core.schedule.refusal import ScheduleRefused


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
            if kind in (DOM, DOW) and has_letter(kind, item):
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
    return Field(kind, ",".join(dict.fromkeys(texts)), bits, text.startswith(("*", "?")), tuple(found))


def _parse_item(kind: FieldKind, item: str, whole: str, job_id: str) -> tuple[str, int]:
    if not item:
        raise bad(
            kind, "empty_item", f"{whole!r} has an empty list item", "take out the extra comma, or the space beside it"
        )
    body, slash, step_text = item.partition("/")
    step = _parse_step(kind, item, step_text) if slash else 1
    if body.upper().startswith("H"):
        return parse_hashed(kind, item, body, step if slash else None, job_id)
    if body in ("*", "?"):
        if body == "?" and (slash or kind not in (DOM, DOW)):
            raise bad(kind, "bad_value", f"'?' cannot stand in {item!r}", "write * instead of ?")
        low, high, name = kind.low, 6 if kind is DOW else kind.high, "*"
    elif "-" in body:
        low, high, name = parse_range(kind, item, body, step)
    else:
        low = high = parse_value(kind, body, item)
        name = str(low % 7 if kind is DOW else low)
        if slash:
            proposal = _step_proposal(kind, low, step)
            raise bad(
                kind, "step_without_range", f"{item!r} steps from a single value, which has several meanings",
                f"write {proposal} to step to the end of the range, or {body} alone", proposal,
            )  # fmt: skip
    bits = sum(1 << value for value in range(low, high + 1, step))
    return (f"{name}/{step}" if slash else name), bits


def _step_proposal(kind: FieldKind, low: int, step: int) -> str:
    """The steps to the end of the range. In a day field `*` would join the two day fields by AND; 7 is the last day of
    the week, so that there is nothing to step to."""
    if kind is DOW:
        return f"{low}-6/{step}" if low < 7 else "7"
    return f"*/{step}" if low == kind.low and kind is not DOM else f"{low}-{kind.high}/{step}"


def _parse_step(kind: FieldKind, item: str, text: str) -> int:
    if not is_number(text):
        raise bad(kind, "bad_step", f"the step of {item!r} is no number", "write the step as digits, such as */5")
    step = int(text)
    if step == 0:
        raise bad(kind, "step_zero", f"{item!r} has step zero", "use a step of at least 1, or leave it out")
    return step
