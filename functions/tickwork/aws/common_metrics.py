"""Which metrics sound together: failures that many functions can meet are counted once more under a common name, so
that one alarm hears them all; which it was, the metric's own name and the log say.

Owns the names that infra's shared alarms listen to, and the list of what is said under each. Publishes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tickwork.core.dispatch.outcomes import ALREADY, SERVED

EVERYWHERE = "all"
"""The `service` of a metric that all functions of an environment count together."""

ATTENTION = "service.attention_total"
"""One of these is enough: something will not happen by itself until a person of the platform has looked."""
STRAIN = "service.strain_total"
"""These pass, and are tried again; minute after minute they mean that something stays broken."""
TEAMS_ATTENTION = "teams.attention_total"
"""One of these is enough for the team whose job it is."""

TOGETHER: dict[str, frozenset[str]] = {
    ATTENTION: frozenset(
        {
            "scheduler.set_aside_total",
            "scheduler.jobs_parked_total",
            "scheduler.definitions_without_next_timer",
            "scheduler.definitions_unreadable",
            "scheduler.overdue_total",
            "runs.retries_restored_total",
            "scheduler.bad_ticks_total",
            "runs.bad_messages_total",
            "resources.foreign_slot_total",
            "scheduler.aimed_at_others_total",
            "api.internal_errors_total",
            "runs.internal_errors_total",
            "watch.unknown_total",
        }
    ),
    STRAIN: frozenset(
        {
            "scheduler.windows_failed_total",
            "scheduler.audit_failed_total",
            "scheduler.unsent_total",
            "scheduler.rows_set_aside_total",
            "scheduler.shards_unread_total",
            "scheduler.windows_unsure_total",
            "scheduler.ticker_slice_failed_total",
            "scheduler.chains_contended_total",
            "store.throttled_total",
            "scheduler.clocks_differ_total",
            "scheduler.definitions_unread_total",
            "runs.calls_busy_total",
        }
    ),
    TEAMS_ATTENTION: frozenset(
        {
            "runs.unsafe_not_repeated_total",
            "runs.expired_total",
            "runs.overlong_total",
            "push.breaker_opened_total",
            "watch.not_told_total",
        }
    ),
}

PUBLISHED = frozenset({"scheduler.slowest_slice_lag_seconds", "scheduler.fire_lag_seconds", "runs.unhandled_total"})
"""Metrics under their own names, 0.30 $ a month each while they have values: those that an alarm listens to. All else
is counted in the log alone."""

_WENT_WELL = frozenset({SERVED, ALREADY})


def says_nothing(metric: str, value: float, labels: Mapping[str, str]) -> bool:
    """Whether a count is not worth a line either: nothing was found, or a window went as nearly all of them do."""
    return not value or (metric == "scheduler.windows_total" and labels.get("outcome") in _WENT_WELL)


def together_with(metric: str) -> Iterator[str]:
    """The common names under which a metric is counted once more."""
    return (common for common, metrics in TOGETHER.items() if metric in metrics)
