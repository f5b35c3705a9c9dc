"""The outcomes that a corpus must have seen: a run that never met one has shown nothing about it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulator.parts import PARTS, PENDING_ISOLATION

_WINDOWS = ("served", "already", "held", "early", "fenced", "out_of_time")
"""`unsure` needs a pause of eight seconds in the one call that renews a lease: a scenario (test_isolation) holds it."""
_STARTS = ("held", "succeeded", "dead", "cancelled", "superseded")
_ITEMS = (
    *("new -> pending", "new -> skipped", "pending -> running", "pending -> skipped", "pending -> cancelled"),
    *("pending -> spent", "running -> running", "running -> waiting", "running -> succeeded", "running -> dead"),
    *("waiting -> running", "cancelled -> pending", "skipped_outage", "too_late", "replanned"),
)
_FAULTS = (
    *("crash_before", "crash_after", "pause_before", "pause_after", "freeze", "throttle", "conflict", "stale_scan"),
    *("unknown_lost", "unknown_done", "unknown_late", "send_failed", "send_failed_but_sent", "send_refused"),
    *("tick_lost", "tick_doubled", "tick_late", "message_lost", "message_doubled", "message_late"),
    *("outage", "queue outage", "faulty_worker", "schedule garbled"),
    *("stale_index", "split_read", "clock jumped", "expired timers", "deleted from timers"),
    *("deleted from resources", "message outlived its queue", "zone data changed", "bad messages", "api outage"),
)
_WORKERS = (
    *("worker session", "worker session ended", "worker session gave runs up", "real job done", "lambda batch"),
    *("odd_answer", "late_call", "slow_answer", "real job went on", "real job ended without its lease"),
    *("worker's api call failed", "worker met a bad message", "pushed", "push.breaker_opened_total"),
    *("payload kept apart", "unsafe started", "runs.unsafe_not_repeated_total", "retried by its class"),
)
_READERS = (
    *("jobs listed", "runs listed", "dead letters listed", "run cancelled by time"),
    *("calendar created", "calendar changed", "item pending -> waiting", "item waiting -> waiting"),
    *("run_put_off", "started after a freeze"),
    *("fired under skip", "item overlap", "item pending -> buffered", "item buffered -> pending"),
    *("item buffered -> skipped", "2 wait"),
    *("defaults published", "defaults rolled out", "decided by what it was planned by"),
    *("run asked for", "run asked for before", "told Held"),
    *("backfill made", "backfill run launched", "backfill cancelled", "backfill paused", "backfill resumed"),
    "backfill piece listed",
    *("occurrence skipped", "skip taken back", "item skipped by ann: closed"),
    *("scope paused skip", "scope paused latest", "scope paused all", "scope resumed", "resume starts something"),
    *("group cancelled", "timer gone with its group", "run ended with its group", "job ended with its group"),
    *("started in a group", "told that its group was cancelled"),
    *("start declined expired", "started by its deadline", "item pending -> expired"),
)

REQUIRED = (
    *(f"scheduler.windows_total {outcome}" for outcome in _WINDOWS),
    *(f"start declined {reason}" for reason in _STARTS),
    *(f"item {change}" for change in _ITEMS),
    *_FAULTS,
    *_WORKERS,
    *_READERS,
    *(f"part {name}" for name in PARTS if name not in PENDING_ISOLATION),
    "broken part throttled",
    *("start granted", "start granted again", "heartbeat accepted", "heartbeat declined stale_token"),
    *("end declined stale_token", "ended succeeded", "ended waiting", "ended dead", "refused", "orphan"),
    *("timer created", "timer existed", "timer cancelled", "job created", "job existed", "job deleted"),
    *("job deleted before", "job active -> error", "job error -> active", "job active -> finished"),
    *("run cancelled at once", "run cancelled on request", "ended cancelled", "replay ordered"),
    *("job changed", "job paused", "job resumed", "item paused by ops: maintenance", "told VersionConflict"),
    *("start declined no_slot", "slots_recovered", "heartbeat declined timed_out", "runs.timed_out_total"),
    *("item waiting -> cancelled", "item running -> cancelled", "item dead -> waiting"),
    *("backlog_opened", "backlog_closed"),
    *("row of a team written", "row of a team deleted", "row of a team served in part or wider"),
    *("told AlreadyExists", "told TooLate", "busy Throttled", "busy Unsent", "window_failed", "timer_overdue"),
    *("scheduler.dispatch_rejected_stale_token_total", "scheduler.slice_owner_changes_total", "item_set_aside"),
)
"""What 2,000 seeds must show. Not among them: a definition that expires, of which so many may show none."""


def missing(seen: Mapping[str, int]) -> list[str]:
    """The required outcomes that were not seen."""
    return [name for name in REQUIRED if not seen.get(name)]
