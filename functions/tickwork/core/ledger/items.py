"""How records become items and back: both derived from their fields, so that none is written and never read.

Owns the one mechanism: a plan for each kind of record, made once from its fields and their types. Refuses to know any
record. Protects that what is stored is carried: an attribute that this version does not know (a newer one wrote it) is
kept in `extra` and written back, and what cannot be read is `Unreadable`, never a guess and never another error.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar, NotRequired, Self, Union, get_args, get_origin, get_type_hints, is_typeddict

from tickwork.core.errors import TickworkError
from tickwork.core.ledger.values import WHOLE_MAX, flag, listed, mapping, seconds, text, whole
from tickwork.core.ledger.writes import Item


class _Nothing(dict[str, Any]):
    """What nearly every record carries unknown: one for all of them, hence with a hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class Unreadable(TickworkError):
    """A stored item that this version cannot read."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a table holds, or a part of it. Fields that have their default are not written (`WHOLE`: all are)."""

    WHOLE: ClassVar[bool] = False
    DERIVED: ClassVar[tuple[str, ...]] = ()
    """Attributes that follow from others and are written for an index or a reader outside: never read back."""

    extra: Mapping[str, Any] = field(default=_Nothing(), kw_only=True, repr=False, hash=False)
    """The attributes that this version does not know, as they were read."""

    def to_item(self) -> Item:
        return written(self)

    @classmethod
    def from_item(cls, item: Item) -> Self:
        return read(cls, item)


@dataclass(frozen=True, slots=True)
class Spelling:
    """A field that is not stored under its own name, or not as it is: the attributes it takes, and both ways.

    `read` gets the whole item, and is asked when the first of its attributes is there; `is_required`: it must be.
    """

    names: tuple[str, ...]
    write: Callable[[Any], Item]
    read: Callable[[Item], Any]
    is_required: bool = False


def spelled(spelling: Spelling) -> dict[str, Any]:
    """The metadata of a field with a spelling of its own."""
    return {"spelling": spelling}


def always[T](default: T, **marks: bool) -> T:
    """A field that is written also where it has its default, and has to be there when it is read."""
    value: T = field(default=default, metadata={"always": True, "required": True, **marks})
    return value


def read_by[T](reader: Callable[[Any], T], default: T) -> T:
    """A field with a reader of its own, which raises ValueError for what it cannot read."""
    value: T = field(default=default, metadata={"read": reader})
    return value


NOT_STORED: Mapping[str, Any] = {"stored": False}
"""The metadata of a field that is read from elsewhere."""


# --- reading and writing --------------------------------------------------------------------------------------


def written(record: Record) -> Item:
    """The item of a record."""
    plan = _plan_of(record.__class__)
    item: Item = {**record.extra}
    for name, default, write in plan.writers:
        value = getattr(record, name)
        if value is not default and value != default:
            item[name] = value if write is None else write(value)
    for name, write_spelled in plan.spellers:
        item.update(write_spelled(getattr(record, name)))
    return item


def without_defaults(record: Record) -> Item:
    """What a record says that is not its default, without what it carries unknown."""
    return {name: value for name, value in written(record).items() if name not in record.extra}


def read[R: Record](kind: type[R], item: Item) -> R:
    """The record of an item; Unreadable when it is none that this version can read."""
    try:
        found: R = _plan_of(kind).read(item)
        return found
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise Unreadable(f"{kind.__name__.lower()} {_place_of(item)}: {error!r}"[:500]) from error


def values_of(record: Record, kind: type[Record] | None = None) -> dict[str, Any]:
    """The fields of a record (those that `kind` has) by name, without what it carries unknown."""
    return {one.name: getattr(record, one.name) for one in fields(kind or record) if one.name != "extra"}


def attributes_of(kind: type[Record], mark: str = "") -> frozenset[str]:
    """The attributes of all stored fields, or of those whose metadata has a mark."""
    marked = [one for one in _stored(kind) if not mark or one.metadata.get(mark)]
    return frozenset(name for one in marked for name in _names_of(one))


def carrying[R: Record](new: R, old: Record) -> R:
    """A record that takes the place of an old one, with what that carries unknown, also inside its parts."""
    parts = {
        name: carrying(part, before)
        for name in _plan_of(new.__class__).parts
        if isinstance(part := getattr(new, name), Record) and isinstance(before := getattr(old, name), Record)
    }
    return replace(new, extra={**old.extra, **new.extra}, **parts)


# --- plans ----------------------------------------------------------------------------------------------------


type _Reader = Callable[[Any], Any]
type _Writer = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one kind is read and written. `parts`: the fields that are records themselves."""

    read: _Reader
    writers: tuple[tuple[str, Any, _Writer | None], ...]
    spellers: tuple[tuple[str, Callable[[Any], Item]], ...]
    parts: tuple[str, ...]


def _make_plan(kind: type[Record]) -> _Plan:
    hints = get_type_hints(kind)
    stored = _stored(kind)
    plain = [one for one in stored if "spelling" not in one.metadata]
    return _Plan(
        read=_compiled(kind, hints),
        writers=tuple((one.name, _left_out(kind, one), _writer_for(hints[one.name])) for one in plain),
        spellers=tuple((one.name, one.metadata["spelling"].write) for one in stored if one not in plain),
        parts=tuple(one.name for one in plain if _is_record(hints[one.name])),
    )


def _compiled(kind: type[Record], hints: Mapping[str, Any]) -> _Reader:
    """The reader of a kind, as a function of one line or two for each field, made as `dataclasses` makes `__init__`:
    a window reads up to a million items, and a loop over the fields takes half as long again."""
    names: set[str] = set(kind.DERIVED)
    scope: dict[str, Any] = {"kind": kind, "WHOLE_MAX": WHOLE_MAX}
    lines = ["def read(item):", " get = item.get"]
    stored = _stored(kind)
    for one in stored:
        names.update(_names_of(one))
        scope[f"default_{one.name}"] = _default_of(one)
        lines += _lines_for(one, hints[one.name], scope)
    scope["names"] = frozenset(names)
    given = ", ".join(one.name for one in stored)
    lines += [
        f" if item.keys() <= names: return kind({given})",
        f" return kind({given}, extra={{name: item[name] for name in item if name not in names}})",
    ]
    exec("\n".join(lines), scope)
    reader: _Reader = scope["read"]
    return reader


def _lines_for(one: Field[Any], hint: Any, scope: dict[str, Any]) -> list[str]:
    name = one.name
    if (spelling := one.metadata.get("spelling")) is not None:
        scope[f"read_{name}"] = spelling.read
        absent = "" if spelling.is_required else f" if {spelling.names[0]!r} in item else default_{name}"
        return [f" {name} = read_{name}(item){absent}"]
    scope[f"read_{name}"] = reader = _reader_of(one, hint)
    if _default_of(one) is MISSING or one.metadata.get("required"):
        return [f" {name} = read_{name}(item[{name!r}])"]
    wrong = _WRONG.get(reader, "True").format(name)
    return [
        f" {name} = get({name!r}, default_{name})",
        f" if {name} is not default_{name} and ({wrong}): {name} = read_{name}({name})",
    ]


_plan_of: Callable[[Any], _Plan] = cache(_make_plan)


def _stored(kind: type[Record]) -> list[Field[Any]]:
    return [one for one in fields(kind) if one.name != "extra" and one.metadata.get("stored", True)]


def _names_of(one: Field[Any]) -> tuple[str, ...]:
    spelling = one.metadata.get("spelling")
    return (one.name,) if spelling is None else spelling.names


def _default_of(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _left_out(kind: type[Record], one: Field[Any]) -> Any:
    """The value with which a field is not written; MISSING (which none has): it always is."""
    if kind.WHOLE or one.metadata.get("always"):
        return MISSING
    return _default_of(one)


def _reader_of(one: Field[Any], hint: Any) -> _Reader:
    if "read" in one.metadata:
        reader: _Reader = one.metadata["read"]
        return reader
    return seconds if hint is int and one.name.endswith("_s") else _reader_for(hint)


def _reader_for(hint: Any) -> _Reader:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType) and types.NoneType in inner:
        (some,) = (_reader_for(one) for one in inner if one is not types.NoneType)
        return lambda value: None if value is None else some(value)
    if origin is NotRequired:
        return _reader_for(inner[0])
    if origin is tuple and inner[1:] == (...,):
        one = _reader_for(inner[0])
        return lambda value: tuple(map(one, listed(value)))
    if is_typeddict(hint):
        return _shape_reader(hint)
    if _is_record(hint):
        return lambda value: _plan_of(hint).read(value)
    return _SIMPLE[origin or hint]


def _shape_reader(shape: Any) -> _Reader:
    """A mapping that has what its TypedDict says; what it has beside stays in it."""
    hints = get_type_hints(shape, include_extras=True)
    readers = [(name, _reader_for(hint), get_origin(hint) is not NotRequired) for name, hint in hints.items()]

    def read_shape(value: Any) -> Any:
        found = mapping(value)
        for name, read_value, is_required in readers:
            if is_required or name in found:
                one = found[name]
                if read_value is not text or one.__class__ is not str:
                    read_value(one)
        return found

    return read_shape


def _writer_for(hint: Any) -> _Writer | None:
    """None: the value is stored as it is."""
    inner = get_args(hint)
    if types.NoneType in inner:  # None is what such a field has when it is not written
        return _writer_for(next(one for one in inner if one is not types.NoneType))
    if get_origin(hint) is tuple:
        one = _writer_for(inner[0])
        return list if one is None else lambda values: [one(value) for value in values]
    if _is_record(hint):
        return written
    if get_origin(hint) is Mapping or is_typeddict(hint):
        return dict
    return None


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Record)


_SIMPLE: Mapping[Any, _Reader] = {int: whole, str: text, bool: flag, Mapping: mapping}

_WRONG: Mapping[_Reader, str] = {
    whole: "{0}.__class__ is not int or not 0 <= {0} <= WHOLE_MAX",
    text: "{0}.__class__ is not str",
    flag: "{0}.__class__ is not bool",
}
"""What tells, without a call, that a value has to be looked at by its reader."""


def _place_of(item: Any) -> str:
    """Whatever names an item, for the line that says it cannot be read."""
    names = ("job_id", "pk", "sk", "slice", "resource", "slot")
    return "|".join(str(item[name]) for name in names if name in item) if isinstance(item, dict) else ""
