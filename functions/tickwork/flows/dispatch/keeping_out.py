"""Keeping out at dispatch what aims at another team's pool: nothing of a team goes to workers that are not its own or
shared with it (tenant-wall).

Registration has refused it before; this holds for what got past that, by whatever way. Its occurrence is recorded as
skipped, with the reason, after the step of its chain and instead of the send; a retry's run is cancelled. A share that
was taken back still opens: what was registered while it was there goes on. What cannot be decided now waits for its own
job, and never for the pool: that is others' to use. Costs a read where a pool is another team's, and nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickwork.core.access import pools
from tickwork.core.dispatch import set_aside
from tickwork.core.errors import WorldError
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.pending import end_pending
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Committed, Write
from tickwork.core.runs.cancellations import decide_cancel
from tickwork.flows.dispatch.fencing import commit_fenced, left_busy
from tickwork.flows.dispatch.fired import Fenced, Fired, Firing
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports


def keep_out(
    ports: Ports,
    messages: Sequence[ReadyMessage],
    retried: Mapping[str, Run | None],
    firing: Firing,
    fired: Fired,
) -> list[ReadyMessage]:
    """The messages that may go. `retried`: the runs of those that are retries, by ref."""
    abroad = {_aim(message) for message in messages if pools.is_anothers(message.work.pool, message.key.team)}
    if not abroad:
        return list(messages)
    keys = [pools.share_key(team, pool) for team, pool in sorted(abroad)]
    try:
        shares = read_many(ports, TEAMS, keys)
    except WorldError as error:
        ports.signals.log("shares_unread", pools=len(keys), why=repr(error))
        for message in (one for one in messages if _aim(one) in abroad):
            fired.unsent += 1
            due = _due(message)
            fired.leave(set_aside.job(due.job_id), due)
        return [message for message in messages if _aim(message) not in abroad]
    closed = {aim for aim, share in zip(sorted(abroad), shares, strict=True) if share is None}
    for message in (one for one in messages if _aim(one) in closed):
        _refuse(ports, message, retried, firing, fired)
    return [message for message in messages if _aim(message) not in closed]


def _aim(message: ReadyMessage) -> tuple[str, str]:
    return message.key.team, message.work.pool


def _due(message: ReadyMessage) -> LedgerKey:
    return parse_ref(message.retry_ref) if message.retry_ref else message.key


def _refuse(
    ports: Ports, message: ReadyMessage, retried: Mapping[str, Run | None], firing: Firing, fired: Fired
) -> None:
    """Skip an occurrence. A run that waits for a retry is cancelled with it: left, it would come again for ever."""
    team, pool = _aim(message)
    ports.signals.count("scheduler.aimed_at_others_total")
    ports.signals.log("aimed_at_another_team", ref=message.key.ref, pool=pool, team=team)
    if not firing.keep():
        raise Fenced
    reason = f"the pool {pool} is another team's, and is not shared with {team}"
    now_ms = ports.clock.now_ms()
    writes: Sequence[Write] = (end_pending(message.key, lifecycle.SKIP, reason, now_ms, ports.layout.retention_s),)
    if message.retry_ref:
        run = retried[message.key.ref]
        verdict = None if run is None else decide_cancel(run, reason, now_ms, ports.layout.retention_s)
        assert verdict is not None, "a retry has a message when its run waits for it"
        writes = verdict.writes
    try:
        done = commit_fenced(ports, writes, firing, fired)
    except WorldError:
        left_busy(ports, _due(message), fired)
        return
    if isinstance(done, Committed):  # else it was started or cancelled meanwhile, or skipped by our own lost commit
        fired.skipped += 1
