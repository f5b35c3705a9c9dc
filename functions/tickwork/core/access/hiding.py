"""What of a payload is shown to people, and what a mask means that they send back.

Owns which values are hidden: what a definition marks as secret, what stands under the name of a credential, and what
has a credential's form. Refuses to know who looks, and what carries a payload. Protects: no hidden value is in what is
shown; and no mask is ever stored, for it stands for the value that it hides, or is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tickwork.core.access.masking import MASK, is_credentials_name, masked
from tickwork.core.errors import InvalidField
from tickwork.core.spelling import canonical

ANY = "*"
"""Of a path: every member."""


@dataclass(frozen=True, slots=True)
class _Marks:
    """What hides the value that one stands at: the rest of each path that leads on from here, or the name above it.

    A list is passed through: a path means each of its entries. One that ends in something else than an object is taken
    to mean that: what was marked is not shown because it has another shape than somebody thought."""

    rests: tuple[tuple[str, ...], ...] = ()
    is_credentials: bool = False

    @classmethod
    def of(cls, secret_fields: Sequence[str]) -> Self:
        return cls(tuple(tuple(path.split(".")) for path in secret_fields))

    def under(self, name: str) -> _Marks:
        rests = tuple(rest[1:] for rest in self.rests if rest[0] in (ANY, name))
        return _Marks(rests, self.is_credentials or is_credentials_name(name))

    @property
    def hide_all(self) -> bool:
        return () in self.rests

    def hide(self, value: object) -> bool:
        """Of a value that is neither a list nor an object."""
        return bool(self.rests) or (self.is_credentials and value is not None and not isinstance(value, bool))


def shown(payload: Any, secret_fields: Sequence[str]) -> Any:
    """A payload as people see it: `***masked***` in the place of what is hidden."""
    return _shown(payload, _Marks.of(secret_fields))


def _shown(value: Any, marks: _Marks) -> Any:
    if marks.hide_all:
        return MASK
    if isinstance(value, Mapping):
        return {masked(name): _shown(one, marks.under(name)) for name, one in value.items()}
    if isinstance(value, list):
        return [_shown(one, marks) for one in value]
    if marks.hide(value):
        return MASK
    return masked(value) if isinstance(value, str) else value


def masks_in(value: Any, path: str) -> list[str]:
    """Where something is hidden in what is shown, or was sent: as dotted paths that begin with `path`."""
    return list(_masks(value, path))


def _masks(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, one in value.items():
            here = f"{path}.{name}"
            yield from (here,) if MASK in name else _masks(one, here)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _masks(one, f"{path}.{index}")
    elif isinstance(value, str) and MASK in value:
        yield path


def restored(sent: Any, standing: Any, secret_fields: Sequence[str], path: str) -> Any:
    """What somebody means who sends a payload with what he was shown of the one that stands: whatever he has left as it
    was shown is what it hides. InvalidField names the first mask that stands for nothing: it has moved, or what is
    around it has another text than before. Of a list, the whole has to be as it was shown: nobody can tell which entry
    is which."""
    return _restored(sent, standing, _Marks.of(secret_fields), path)


def _restored(sent: Any, standing: Any, marks: _Marks, path: str) -> Any:
    found = masks_in(sent, path)
    if not found:
        return sent
    if canonical(sent) == canonical(_shown(standing, marks)):
        return standing
    if not (isinstance(sent, Mapping) and isinstance(standing, Mapping)) or marks.hide_all:
        raise stray_mask(found[0])
    for name in sent.keys() - standing.keys():
        if strays := masks_in({name: sent[name]}, path):
            raise stray_mask(strays[0])
    return {
        name: _restored(one, standing[name], marks.under(name), f"{path}.{name}") if name in standing else one
        for name, one in sent.items()
    }


def stray_mask(field: str) -> InvalidField:
    return InvalidField(
        f"it has {MASK}, which is shown in the place of a secret and is none",
        field=field[:FIELD_CHARS_MAX],
        remedy="send the value itself; or leave what you were shown as it was, in the place where it was",
    )


FIELD_CHARS_MAX = 200
"""Of a path in a refusal: names in a payload may be as long as the payload."""


def refuse_masks(payload: Any, path: str) -> None:
    """InvalidField when a payload that takes no other's place has a mask."""
    if found := masks_in(payload, path):
        raise stray_mask(found[0])


TOLD_CHARS_MIN = 4
"""A value that is shorter stands in any text by chance, and says nothing."""


def without_values(text: str, payload: Any) -> str:
    """A text of somebody who was sent a payload, without what is in it: he may have sent it back."""
    told = {str(one) for one in _values(payload) if not isinstance(one, bool) and one is not None}
    # As it is, and as it stands in JSON. The longest first: what is in it goes with it.
    written = {form for one in told for form in (one, json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1])}
    for one in sorted((one for one in written if len(one) >= TOLD_CHARS_MIN), key=len, reverse=True):
        text = _without_beginning(text.replace(one, MASK), one)
    return text


def _without_beginning(text: str, value: str) -> str:
    """A text that was cut may end in the middle of a value."""
    if value[:TOLD_CHARS_MIN] in text:
        for length in range(min(len(value), len(text)), TOLD_CHARS_MIN - 1, -1):
            if text.endswith(value[:length]):
                return text[:-length] + MASK
    return text


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _values(one)
    elif isinstance(value, list):
        for one in value:
            yield from _values(one)
    else:
        yield value
