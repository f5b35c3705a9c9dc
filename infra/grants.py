"""What each function may do, as values: exact actions on exact tables, indexes and queues.

Least privilege is checked from both sides: `tests/infra/test_infra_grants.py` reads from the source which calls each
function makes and refuses a grant too few as well as a grant too many, and the end-to-end test runs with enforcement.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tickwork.core.ledger.tables import (
    AUDIT,
    BAD_ENDS,
    BY_GROUP,
    BY_JOB,
    BY_TEAM,
    CALENDARS,
    CALENDARS_BY_TEAM,
    CLIENT_KEYS,
    ENTRIES_BY_TEAM,
    JOB_VERSIONS,
    JOBS,
    JOBS_BY_GROUP,
    KEYS,
    KEYS_BY_TEAM,
    LEASES,
    PASSES,
    PAYLOADS,
    RESOURCES,
    SET_ASIDE,
    TEAMS,
    TIMERS,
    Index,
    Table,
)

GET, GET_MANY, QUERY, SCAN = "GetItem", "BatchGetItem", "Query", "Scan"
PUT, UPDATE, DELETE, CHECK = "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"
URL, SEND, RECEIVE = "GetQueueUrl", "SendMessage", "ReceiveMessage"
HIDE, REMOVE = "ChangeMessageVisibility", "DeleteMessage"
MAKE, COUNT, RESET, UNMAKE = "CreateQueue", "GetQueueAttributes", "SetQueueAttributes", "DeleteQueue"
READ_SECRET = "GetSecretValue"
CONSUME = (RECEIVE, REMOVE, "GetQueueAttributes")
"""What the event source itself does in the function's name."""


@dataclass(frozen=True, slots=True)
class Grants:
    """DynamoDB actions by table and by index; SQS actions on `ticks`, on every ready queue, on those of workers, on
    that of pushes, and on those alone that teams make (`made`); SNS actions on teams' topics (`paged`); Secrets
    Manager's on the one secret there is."""

    tables: dict[Table, tuple[str, ...]]
    indexes: dict[tuple[Table, Index], tuple[str, ...]] = field(default_factory=dict)
    ticks: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    leased: tuple[str, ...] = ()
    pushed: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    paged: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()


API = Grants(
    tables={
        TIMERS: (GET, GET_MANY, QUERY, PUT, UPDATE, CHECK),
        JOBS: (GET, GET_MANY, SCAN, PUT, UPDATE, CHECK),
        JOB_VERSIONS: (QUERY, PUT, UPDATE),
        LEASES: (GET, GET_MANY, PUT, UPDATE),
        SET_ASIDE: (QUERY,),
        CLIENT_KEYS: (GET_MANY, PUT),
        CALENDARS: (GET, GET_MANY, PUT),
        PAYLOADS: (GET, PUT, UPDATE),
        RESOURCES: (GET, GET_MANY, QUERY, PUT, UPDATE, DELETE),
        KEYS: (GET, GET_MANY, PUT, UPDATE),
        TEAMS: (GET, GET_MANY, QUERY, PUT, UPDATE, DELETE),
        AUDIT: (GET, GET_MANY, QUERY, PUT, UPDATE),
        PASSES: (GET, QUERY, PUT),
    },
    indexes={
        (AUDIT, ENTRIES_BY_TEAM): (QUERY,),
        (KEYS, KEYS_BY_TEAM): (QUERY,),
        (TIMERS, BY_JOB): (QUERY,),
        (TIMERS, BAD_ENDS): (QUERY,),
        (TIMERS, BY_GROUP): (QUERY,),
        (JOBS, BY_TEAM): (QUERY,),
        (JOBS, JOBS_BY_GROUP): (QUERY,),
        (CALENDARS, CALENDARS_BY_TEAM): (QUERY,),
    },
    ticks=(URL, SEND),
    ready=(URL, SEND),
    leased=(RECEIVE, HIDE, REMOVE),
    made=(MAKE, COUNT, RESET, UNMAKE),
    paged=("CreateTopic", "SetTopicAttributes", "Publish", "Subscribe", "ListSubscriptionsByTopic"),
)
AUTHORIZER = Grants(tables={KEYS: (GET,)})
TICKER = Grants(tables={TIMERS: (QUERY,), LEASES: (GET, PUT, UPDATE)}, ticks=(URL, SEND))
SCANNER = Grants(
    tables={
        TIMERS: (GET, GET_MANY, QUERY, PUT, UPDATE, CHECK),
        JOBS: (GET, GET_MANY, UPDATE, CHECK),
        JOB_VERSIONS: (QUERY, UPDATE),
        LEASES: (GET, PUT, UPDATE, CHECK),
        SET_ASIDE: (QUERY, PUT, DELETE),
        CALENDARS: (GET_MANY,),
        PAYLOADS: (UPDATE,),
        RESOURCES: (DELETE,),
        PASSES: (GET, PUT),
        TEAMS: (GET_MANY, QUERY),
    },
    indexes={(TIMERS, BY_JOB): (QUERY,)},
    ticks=(URL, SEND, HIDE, *CONSUME),
    ready=(URL, SEND),
)
RECONCILER = Grants(
    tables={
        TIMERS: (GET, GET_MANY, QUERY, PUT, UPDATE, DELETE, CHECK),
        JOBS: (GET, GET_MANY, SCAN, UPDATE, CHECK),
        JOB_VERSIONS: (QUERY, UPDATE),
        LEASES: (GET, GET_MANY, PUT, UPDATE),
        SET_ASIDE: (QUERY,),
        CALENDARS: (GET_MANY,),
        PAYLOADS: (GET, PUT, UPDATE),
        RESOURCES: (QUERY, PUT, DELETE),
        PASSES: (GET, QUERY, PUT, UPDATE, DELETE),
        AUDIT: (GET_MANY, PUT),
        TEAMS: (GET, GET_MANY, QUERY, PUT, UPDATE, DELETE),
    },
    indexes={(AUDIT, ENTRIES_BY_TEAM): (QUERY,), (TIMERS, BY_JOB): (QUERY,)},
    ticks=(URL, SEND),
    ready=(URL, SEND),
)
WATCHDOG = Grants(  # as a creator of timers too: a webhook's message is one
    tables={
        TIMERS: (GET, GET_MANY, PUT, UPDATE, CHECK),
        JOBS: (GET, GET_MANY, UPDATE, CHECK),
        JOB_VERSIONS: (QUERY, UPDATE),
        LEASES: (GET, PUT, UPDATE),
        CALENDARS: (GET_MANY,),
        CLIENT_KEYS: (GET_MANY, PUT),
        PAYLOADS: (PUT, UPDATE),
        RESOURCES: (DELETE,),
        TEAMS: (GET, GET_MANY, QUERY, PUT, UPDATE, DELETE),
    },
    indexes={(TIMERS, BY_JOB): (QUERY,)},
    ticks=(URL, SEND),
    ready=(URL, SEND),
    paged=("CreateTopic", "SetTopicAttributes", "Publish", "Subscribe", "ListSubscriptionsByTopic"),
)
PUSHER = Grants(
    tables={
        TIMERS: (GET, GET_MANY, PUT, UPDATE, CHECK),
        JOBS: (GET, GET_MANY, UPDATE, CHECK),
        JOB_VERSIONS: (QUERY, UPDATE),
        LEASES: (GET, PUT, UPDATE),
        CALENDARS: (GET_MANY,),
        PAYLOADS: (GET, PUT, UPDATE),
        RESOURCES: (GET, QUERY, PUT, UPDATE, DELETE),
        TEAMS: (GET, GET_MANY, QUERY, PUT, UPDATE),
    },
    indexes={(TIMERS, BY_JOB): (QUERY,)},
    ticks=(URL, SEND),
    ready=(URL, SEND),
    pushed=(HIDE, *CONSUME),
    secret=(READ_SECRET,),
)
