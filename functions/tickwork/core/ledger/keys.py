"""The key schema, on one page. Byte order is time order; every number is zero-padded.

| item | table | partition key | sort key | written by | read by | bounded by |
|---|---|---|---|---|---|---|
| run of an occurrence | timers | `cell#shard#bucket` | `second#team#name#scheduled` | creators, scanner, workers' calls | scanner, ticker, audit, history | one minute of one shard |
| run that somebody asked for | timers | `cell#shard#bucket` | `second#team#name#scheduled#manual.UNIQUE`, or `backfill.UNIQUE` | API; of a backfill, the end of a run of it, reconciler | as of an occurrence | the team's creates; `CONCURRENCY_MAX` of a backfill at a time |
| retry of a run | timers | `cell#shard#bucket` | the run's, at its own second, and `#retry.N`, or `.retry.N` behind a kind | a failed attempt | scanner, audit | attempts of the run |
| look at a run that is buffered | timers | `cell#shard#bucket` | `second#team#name#scheduled#look` | whoever buffers it, or moves the look on | scanner, audit | one of a job |
| timer, job that bears a group's label | timers, jobs, index `by_group` | `team#group#spread`, `team#group` | `scheduled_at_ms`, `job_id` | whoever creates it, or changes it | lists of a group | time to live, quota of the team |
| dead run | timers, index `by_dead_letter` | `team#spread` | `ended_at_ms` | the attempt that ended it | lists of runs, dead letters, replay | time to live |
| run that expired, was skipped, or cancelled when it was due | timers, index `by_dead_letter` | `team#status#spread` | `ended_at_ms` | whoever ends it; the audit, of an older version's | lists of runs | time to live |
| job | jobs | `team:name` | - | API, scanner (its `next`) | scanner, reconciler, API | quota of the team |
| definition that a job had | job_versions | `team:name` | `through#version` | the change or deletion that replaced it | retries, replays, repeated windows, audit | time to live |
| slice | leases | `cell#slice` | - | scanner, ticker | creators, scanner, ticker | slices of the environment |
| set-aside row | set_aside | `cell#slice` | `kind#name` | scanner | scanner, reconciler | `ROWS_MAX` of a slice |
| client key | client_keys | `team#key` | - | API | API | time to live |
| calendar, its latest version; as it was at a version | calendars | `team:name`, `team:name@version` | - | API | scanner, reconciler, API; people | calendars of the team, their changes |
| slot of a resource | resources | `team#name` | `NNNN` | start; the attempt's end deletes it | start | `max_concurrency` |
| run that waits for a slot | resources | `team#name` | `~wait#due_ms#hash of its ref` | a start that found none; the start that finds one, or who would wake it, deletes it | start; the end of an attempt | time to live |
| how fast a team creates: what is lent in a window, what is taken in a second | resources | `team#@creates` | `window#number`, `second#number` | API | API | time to live |
| bucket with something unended | passes | `cell#slice` | `look_at#bucket` | audit | audit | buckets that hold a run without an end |
| team of which a run has ended badly | teams | `cell` | `team` | who ends it, audit | lists over all teams | teams |
| team | teams | `@teams` | `team` | API | API (creations) | teams |
| pool of a team | teams | `@pools` | `team#pool` | API | API (creations) | `POOLS_PER_TEAM_MAX` of the team |
| share in another team's pool | teams | `@shares` | `team it is shared with#pool` | API | API (creations), whoever fires | `SHARED_WITH_MAX` of the pool |
| team that is not registered and has created something | teams | `@seen` | `team` | API, reconciler | API (`teams adopt`) | teams |
| last test of a pager route | teams | `@tests` | `team#hash of the route` | API | API | `ROUTES_MAX` of the team at a time |
| what a team holds: timers and bytes of payloads, by week | teams | `@used` | `team` | API, reconciler | API, reconciler | one of the team, `WEEKS_MAX` weeks in it |
| how many jobs a team has | teams | `@used` | `team#jobs` | API | API | one of the team |
| backfill of a job | teams | `@backfills` | `team#job#UNIQUE` | API, the end of a run of it, reconciler | API, the end of a run of it, reconciler | `KEPT_MAX` of the job |
| backfill of a job whose list is made piece by piece | teams | `@ranges` | `team#job#UNIQUE` | API, the end of a run of it, reconciler | API, the end of a run of it, reconciler | `KEPT_MAX` of the job |
| what is paused: a team, a group of it, a pool, the cell; known for two weeks after its end | teams | `@pauses` | `owner#kind#name` | API, reconciler | scanner and starts (all at once), API, reconciler | teams and their pools |
| group that was cancelled: its epoch | teams | `@group#team#name` | `team#name` | API | starts, scanner, creators, reconciler | groups that were ever cancelled |
| deadline of a job's silence | teams | `@wheel#minute#spread` | `team#name` | API, watchdog | watchdog | one of a job, and some that are let go |
| how far the watchdog has come | teams | `@wheel` | `place` | watchdog | watchdog | one |
| incident: a job is silent, or cannot be read | teams | `@incidents`, `@incidents-past` | `team#name#kind` | watchdog, API | watchdog, API | one of a job and kind in each |
| day on which an owner was told that a quota is nearly used up | teams | `@paged` | `team#limit` | API | API | quotas of the team |
| in which cell what is new of a team, or of all, lies | teams | `@cells` | `team#name`, `all#` | API | whoever creates | teams that were ever placed |
| what the platform has said | teams | `@rules` | `unknown-teams-refused`, `platform-defaults` | API | all that plan jobs | two |
| until when P0 or P1 have said that they have a backlog | passes | `cell#load` | `backlog` | scanner of another cell than P2's | scanner of P2's cell | one |
| place of the walk over the definitions | passes | `cell#definitions` | `-` | reconciler | reconciler | one |
| API key | keys | `team:first 16 digits of its hash` | - | API | API | `KEYS_PER_TEAM_MAX` of the team |
| entry of the audit, about one thing, or about one call on many | audit | `team:kind:name`, `team:call:unique` | `begun_ms#number#start of its hash` | the change, in its transaction; the call, before it and after it | lists, verification, seal | time to live |
| seal of what a team's audit has gained | audit | `team:seal:entries` | `-#number#start of its hash` | reconciler | verification | time to live |
| how far a team's audit is sealed | passes | `cell#sealed` | `team` | first change of the team that a process makes; reconciler | reconciler, verification | teams |
| secret of the hashes of payloads | passes | `cell#audit` | `payloads` | API | API | one |
| payload; page of a backfill's list | payloads | `job or one-shot id#version.hash`, `job#backfill.UNIQUE#hash#page` | - | API | API (start), the end of a run of a backfill, reconciler | time to live |

`through` is the last nominal second that was fired by the definition, in ten digits: the one an occurrence runs by is
the first whose place lies at or behind its nominal second, and the one that stands in `jobs` when there is none.
`second` is the second the item is due to fire, `scheduled` the nominal one (before jitter), both since 1970 in ten
digits; `bucket` is the minute, `floor(second / 60)`, in eight; `shard` has four. A job id is written as its halves, so that
one second of a team is a range. `kind#name` of a row is whose it is: `pool#default`, `team#pay`, `pause#pay#team#pay`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from tickwork.core.ids import job_id_of, parse_one_shot_name, run_id_of
from tickwork.core.instants import SECOND_MS, iso, second_of
from tickwork.core.ledger import kinds, lifecycle

BUCKET_S = 60

_REF = re.compile(
    r"([a-z0-9-]{1,20})#(\d{4})#(\d{8})\|"
    r"(\d{10})#([a-z0-9][a-z0-9._-]{0,62})#([a-z0-9][a-z0-9._~-]{0,90})#(\d{10})"
    rf"(?:#(retry\.\d{{1,3}}|{kinds.LOOK}|{kinds.PATTERN}(?:\.retry\.\d{{1,3}})?))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """Where a ledger item is, and all that its place says of it. `kind`: '' for an occurrence (`kinds`)."""

    cell: str
    shard: int
    fire_at_ms: int
    team: str
    name: str
    scheduled_at_ms: int
    kind: str = ""

    @property
    def fire_second(self) -> int:
        return second_of(self.fire_at_ms)

    @property
    def job_id(self) -> str:
        return job_id_of(self.team, self.name)

    @property
    def run_id(self) -> str:
        return run_id_of(self.job_id, self.scheduled_at_ms, kinds.own(self.kind))

    @property
    def pk(self) -> str:
        return partition_of(self.cell, self.shard, bucket_of(self.fire_second))

    @property
    def sk(self) -> str:
        tail = f"#{self.kind}" if self.kind else ""
        return f"{self.fire_second:010d}#{self.team}#{self.name}#{second_of(self.scheduled_at_ms):010d}{tail}"

    @property
    def ref(self) -> str:
        """The key as one opaque string: what a message carries and a worker hands back."""
        return f"{self.pk}|{self.sk}"

    @property
    def occurrence(self) -> str:
        """The run as a person names it: a one-shot by its id, a job's by its nominal time, and its kind if it has one."""
        if parse_one_shot_name(self.name) is not None:
            return self.job_id
        own = kinds.own(self.kind)
        return f"{self.job_id}@{iso(self.scheduled_at_ms)}" + (f"~{own}" if own else "")

    def as_item(self) -> dict[str, object]:
        return {"pk": self.pk, "sk": self.sk}


def bucket_of(second: int) -> int:
    return second // BUCKET_S


def partition_of(cell: str, shard: int, bucket: int) -> str:
    return f"{cell}#{shard:04d}#{bucket:08d}"


def second_range(first: int, last: int) -> tuple[str, str]:
    """Sort-key bounds (inclusive) of everything due from second `first` to second `last`."""
    return f"{first:010d}#", f"{last:010d}#~"


def second_in(sk: str) -> int:
    """The second a sort key begins with, also of an item that only a newer version can read."""
    return int(sk[:10])


def parse_ledger_key(pk: str, sk: str) -> LedgerKey:
    """The inverse of `LedgerKey.pk` and `.sk`. ValueError for anything else, also for a bucket that is not the
    second's own: a forged ref must not reach a partition it does not belong to."""
    found = _REF.fullmatch(f"{pk}|{sk}")
    if not found:
        raise ValueError(f"not a ledger key: {str(pk)[:60]!r}, {str(sk)[:200]!r}")
    cell, shard, bucket, second, team, name, scheduled, kind = found.groups()
    if bucket_of(int(second)) != int(bucket):
        raise ValueError(f"second {second} is not in bucket {bucket}")
    return LedgerKey(cell, int(shard), int(second) * SECOND_MS, team, name, int(scheduled) * SECOND_MS, kind or "")


def parse_ref(ref: str) -> LedgerKey:
    """The key a `ref` names; ValueError when it is none."""
    pk, _, sk = ref.partition("|")
    return parse_ledger_key(pk, sk)


def open_bucket_place(look_at_s: int, bucket: int) -> str:
    """Sort key of a bucket that is to be read again: what is due comes first."""
    return f"{look_at_s:010d}#{bucket:08d}"


def open_buckets_due(now_s: int) -> tuple[str, str]:
    """Sort-key bounds (inclusive) of the buckets that are to be read by now."""
    return "0", f"{now_s:010d}#~"


def version_place(through_ms: int, version: int) -> str:
    """Sort key of a definition that a job had: the last nominal instant that it has fired, then its version."""
    return f"{second_of(through_ms):010d}#{version:010d}"


def versions_reaching(scheduled_at_ms: int) -> tuple[str, str]:
    """Sort-key bounds (inclusive) of the definitions that have fired up to an instant or further, the oldest first."""
    return f"{second_of(scheduled_at_ms):010d}#", "~"


def slice_key(cell: str, slice_no: int) -> str:
    return f"{cell}#{slice_no:04d}"


def who_key(kind: str, name: str) -> str:
    """Whom a set-aside row of a slice waits for."""
    return f"{kind}#{name}"


def parse_who(text: str) -> tuple[str, str]:
    """(kind, name) of whom a row waits for; ValueError when it names nobody."""
    kind, sign, name = text.partition("#")
    if not kind or not sign:
        raise ValueError(f"not the key of a set-aside row: {text[:80]!r}")
    return kind, name


ALL_WHO = ("a", "~")
"""Sort-key bounds (inclusive) of all rows of a slice: kinds are words."""


def client_key_of(team: str, client_key: str) -> str:
    return f"{team}#{client_key}"


def payload_key(owner_id: str, version: int, payload: str) -> str:
    """Of a payload kept apart. Two that would register a job at once write two: one overwriting the other's would
    give its content to a job that was registered with another."""
    return f"{owner_id}#{version}.{hashlib.sha256(payload.encode()).hexdigest()[:12]}"


DEAD_SPREAD = 4
"""Partitions of a team's dead runs: its outage may kill more of them a second than one partition takes, and a
throttled index would hold up the ledger's own writes. Older versions read and write just these."""

END_SPREAD = 32
"""Partitions of a team's runs of each other bad end: 25,000 skips in a second may be one team's, and one takes 1,000."""


def bad_end_of(team: str, status: str, run_id: str) -> str:
    """The partition of the index of bad ends that a run of this status belongs to."""
    partitions = bad_end_partitions(team, status)
    return partitions[int(run_id[:8], 16) % len(partitions)]


def bad_end_partitions(team: str, status: str) -> tuple[str, ...]:
    if status == lifecycle.DEAD:
        return tuple(f"{team}#{spread}" for spread in range(DEAD_SPREAD))
    return tuple(f"{team}#{status}#{spread:02d}" for spread in range(END_SPREAD))


def resource_key(team: str, name: str) -> str:
    return f"{team}#{name}"


_WAIT = "~wait#"
"""Sorts behind every slot's number, and behind the state of a push target."""


def wait_place(due_ms: int, ref: str) -> str:
    """Sort key of a run that waits for a slot of a resource: who was due first comes first."""
    return f"{_WAIT}{due_ms:013d}#{hashlib.sha256(ref.encode()).hexdigest()[:16]}"


def is_wait_place(sort_key: str) -> bool:
    return sort_key.startswith(_WAIT)


def wait_range() -> tuple[str, str]:
    """Sort-key bounds (inclusive) of all that wait for a slot of a resource."""
    return _WAIT, f"{_WAIT}~"


def line_range() -> tuple[str, str]:
    """Sort-key bounds (inclusive) of a resource's slots, and of all that wait for one."""
    return f"{0:04d}", f"{_WAIT}~"


def slot_number(sort_key: str) -> int:
    """The number of a slot from its sort key; ValueError when it is none."""
    if not re.fullmatch(r"\d{4}", sort_key, re.ASCII):
        raise ValueError(f"not a slot: {sort_key[:40]!r}")
    return int(sort_key)


def slot_name(resource: str, number: int) -> str:
    """A slot as a run names the ones it holds: `reporting-db#0003`."""
    return f"{resource}#{number:04d}"


def parse_slot_name(name: str) -> tuple[str, str]:
    """(resource, slot's sort key) of a slot's name."""
    resource, _, number = name.rpartition("#")
    return resource, number


def entry_stream(team: str, kind: str, name: str) -> str:
    """The partition of all entries of the audit about one thing."""
    return f"{team}:{kind}:{name}"


def entry_place(begun_ms: int, number: int, digest: str) -> str:
    """Sort key of an entry: when its chain begins, which of it this is. With the start of its hash, so that what is
    restored to an older state can go on beside what it does not know of: a change is never kept from its entry."""
    return f"{begun_ms:013d}#{number:010d}#{digest[:8]}"


def seal_place(number: int, digest: str) -> str:
    """Sort key of a seal: the how-manieth it is. With the start of its hash, as an entry."""
    return f"-#{number:010d}#{digest[:8]}"


def is_entry_place(text: str) -> bool:
    """Whether it is the sort key of an entry of the audit, or of a seal."""
    return re.fullmatch(r"(?:-|\d{13})#\d{10}#[0-9A-Za-z_-]{8}", text, re.ASCII) is not None


ALL_ENTRIES = ("-", "~")
"""Sort-key bounds (inclusive) of everything in a stream."""
