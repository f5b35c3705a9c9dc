"""What a team writes against: the registry of job functions, and how each one takes its payload and fails.

    @app.job("charge", permanent=(CardDeclined,))
    def charge(ctx: Context, order: Order) -> None: ...

A second parameter receives the payload, validated as its annotation (a pydantic model, a dataclass, a TypedDict,
`list[int]`, ...). A job without one reads `ctx.payload`. Job functions may be coroutine functions.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from tickwork.worker.context import FailPermanently, RetryLater, UnknownHandler

type JobFunction = Callable[..., Any]
type Errors = tuple[type[Exception], ...]

RETRY, PERMANENT = "failed", "failed_permanent"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


FAULTS_MAX = 20


def _told(error: ValidationError) -> str:
    """Where a payload does not fit, and what was expected there."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(str(part) for part in one['loc']) or 'all of it'}: {one['msg']}" for one in faults[:FAULTS_MAX]]
    return "; ".join(told)


@dataclass(frozen=True, slots=True)
class Registered:
    """A job function, the type of its payload if it has one, and which of its errors a retry can help."""

    function: JobFunction
    payload_type: TypeAdapter[Any] | None = None
    takes_payload: bool = False
    retryable: Errors = ()
    permanent: Errors = ()

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def read_payload(self, payload: object) -> Any:
        """The payload as its type. FailPermanently when it does not fit: a retry would not help."""
        if self.payload_type is None:
            return payload
        try:
            return self.payload_type.validate_python(payload)
        except ValidationError as error:
            # Without what was found there, and without its cause, which has it: a failure is recorded, and shown.
            raise FailPermanently(f"the payload does not fit: {_told(error)}") from None

    def outcome_of(self, error: Exception) -> str:
        """`failed` when a retry may help. Of the classes named, the one nearest to the error's own decides; when
        only `retryable` ones are named, every other is permanent."""
        if isinstance(error, FailPermanently):
            return PERMANENT
        if isinstance(error, RetryLater):
            return RETRY
        for cls in type(error).__mro__:
            if cls in self.permanent:
                return PERMANENT
            if cls in self.retryable:
                return RETRY
        return PERMANENT if self.retryable and not self.permanent else RETRY


class App:
    """The job functions of one worker process, by name."""

    def __init__(self) -> None:
        self._jobs: dict[str, Registered] = {}

    def job[F: JobFunction](
        self, name: str, *, payload: Any = None, retryable: Errors = (), permanent: Errors = ()
    ) -> Callable[[F], F]:
        """Register a job function under the handler name that jobs and timers give as their target.

        `payload` names the payload's type where the annotation cannot. `permanent`: exceptions no retry can help;
        `retryable`: the only ones a retry can help. By default every exception is retried.
        """

        def register(function: F) -> F:
            if name in self._jobs:
                raise ValueError(f"job {name!r} is registered twice")
            takes_payload = _takes_payload(name, function)
            annotation = payload if payload is not None else _annotation(name, function) if takes_payload else None
            adapter = None if annotation is None else _adapter(name, annotation)
            self._jobs[name] = Registered(function, adapter, takes_payload, retryable, permanent)
            return function

        return register

    @property
    def names(self) -> list[str]:
        return sorted(self._jobs)

    def find(self, name: str) -> Registered:
        try:
            return self._jobs[name]
        except KeyError:
            raise UnknownHandler(
                f"no job function {name!r} in this worker (it has {', '.join(self.names) or 'none'})"
            ) from None


def _takes_payload(name: str, function: JobFunction) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not parameters or parameters[0].kind not in _POSITIONAL or len(required) > 2:
        raise TypeError(f"job {name!r} takes (ctx) or (ctx, payload), nothing else")
    return (
        len(parameters) > 1 and parameters[1].kind in _POSITIONAL and parameters[1].default is inspect.Parameter.empty
    )


def _annotation(name: str, function: JobFunction) -> Any:
    parameter = list(inspect.signature(function).parameters)[1]
    try:
        return typing.get_type_hints(function, include_extras=True).get(parameter)
    except NameError as error:
        raise TypeError(
            f"job {name!r}: the type of {parameter!r} is not known here ({error}): give it as payload=..."
        ) from error


def _adapter(name: str, annotation: Any) -> TypeAdapter[Any] | None:
    if annotation is Any:
        return None
    try:
        return TypeAdapter(annotation)
    except PydanticUserError as error:
        raise TypeError(f"job {name!r}: {annotation!r} cannot be read from JSON: {error}") from error
