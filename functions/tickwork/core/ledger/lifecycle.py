"""The life of a run, as one table. A pair that is not here is refused: `InvariantViolated`.

`docs/lifecycle.md` is generated from this table. `queued` is not here because nothing is written when a run is
dispatched: it is *derived* (pending, and its second lies at or before the slice's `done`).
"""

from __future__ import annotations

from tickwork.core.errors import InvariantViolated

ABSENT = "absent"
"""What stands where no item does. Never stored."""

PENDING = "pending"
RUNNING = "running"
WAITING = "waiting"
BUFFERED = "buffered"
SUCCEEDED = "succeeded"
DEAD = "dead"
SKIPPED = "skipped"
CANCELLED = "cancelled"
SPENT = "spent"
EXPIRED = "expired"
QUEUED = "queued"
FORGOTTEN = "forgotten"
"""What a timer is shown as that has ended so long ago that its record is gone, while its client_key is still
remembered: it is not made a second time. Never stored."""

MEANING = {
    PENDING: "materialised, not yet started",
    RUNNING: "an attempt holds its lease (or let it lapse, or handed it back: the next start records that attempt)",
    WAITING: "the last attempt failed or was lost, or a hard calendar put the start off; a retry item is pending",
    BUFFERED: "due, and kept back until another run of its job has ended",
    SUCCEEDED: "an attempt completed it",
    DEAD: "out of attempts, or failed for good: dead-lettered, until a person replays it",
    SKIPPED: "decided not to run, with the reason",
    CANCELLED: "cancelled: before it started, while it waited for a retry, or by its worker when it was asked to",
    EXPIRED: "not started by its deadline, or for so long that it cannot run any more, with the reason",
    SPENT: "a retry item whose attempt has started, or is no longer wanted",
}
ENDED = frozenset({SUCCEEDED, DEAD, SKIPPED, CANCELLED, EXPIRED, SPENT})

START, RECLAIM, HEARTBEAT, SUCCEED = "start", "reclaim", "heartbeat", "succeed"
RETRY_LATER, BURY, SKIP, CANCEL, SPEND = "retry_later", "bury", "skip", "cancel", "spend"
REQUEST_CANCEL, REPLAY, HAND_BACK = "request_cancel", "replay", "hand_back"
EXPIRE, MATERIALISE, PUT_OFF = "expire", "materialise", "put_off"
BUFFER, RELEASE = "buffer", "release"

TRANSITIONS = {
    (ABSENT, MATERIALISE): PENDING,
    (ABSENT, SKIP): SKIPPED,
    (ABSENT, BUFFER): BUFFERED,
    (PENDING, START): RUNNING,
    (PENDING, SKIP): SKIPPED,
    (PENDING, CANCEL): CANCELLED,
    (PENDING, SPEND): SPENT,
    (PENDING, EXPIRE): EXPIRED,
    (PENDING, PUT_OFF): WAITING,
    (PENDING, BUFFER): BUFFERED,
    (BUFFERED, RELEASE): PENDING,
    (BUFFERED, SKIP): SKIPPED,
    (BUFFERED, CANCEL): CANCELLED,
    (WAITING, START): RUNNING,
    (WAITING, PUT_OFF): WAITING,
    (WAITING, CANCEL): CANCELLED,
    (WAITING, EXPIRE): EXPIRED,
    (RUNNING, RECLAIM): RUNNING,
    (RUNNING, HEARTBEAT): RUNNING,
    (RUNNING, HAND_BACK): RUNNING,
    (RUNNING, SUCCEED): SUCCEEDED,
    (RUNNING, RETRY_LATER): WAITING,
    (RUNNING, BURY): DEAD,
    (RUNNING, REQUEST_CANCEL): RUNNING,
    (RUNNING, CANCEL): CANCELLED,
    (DEAD, REPLAY): WAITING,
}


def after(status: str, event: str) -> str:
    """The status an event leads to; InvariantViolated when the event is not allowed there."""
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise InvariantViolated(f"a run that is {status!r} cannot {event!r}") from None


def born() -> str:
    """The status in which an item is materialised."""
    return after(ABSENT, MATERIALISE)
