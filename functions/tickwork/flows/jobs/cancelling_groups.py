"""Cancelling a group: its epoch is raised, whatever it holds (F12).

One item and its entry of the audit, in one transaction: a million timers cost what one does. Protects: what is answered
is written, and a call whose reply was lost finds its own write by its token.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.access.entries import Change
from tickwork.core.errors import Conflict
from tickwork.core.ledger.epochs import Group, Label
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Absent, Committed, Is, Put
from tickwork.flows.access.recording import recorded
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.groups import read_groups
from tickwork.ports import Ports

CANCEL_TRIES_MAX = 4
"""Each refusal means that somebody else has cancelled the same group just then."""


def get_group(ports: Ports, label: Label) -> Group:
    """The group as it stands: in epoch 0 while nobody has cancelled it."""
    return read_groups(ports, [label])[label] or Group(label)


def cancel_group(ports: Ports, label: Label, by: str, reason: str) -> Group:
    """Cancel what bears the label and has not started. What is made from the answer on is in the epoch that follows."""
    token, began = ports.ids.unique(), get_group(ports, label)
    standing = began
    for _ in range(CANCEL_TRIES_MAX):
        if standing.epoch > began.epoch:
            # Our own first try, its reply lost; or somebody else's since we began, which is as good as ours. Raised
            # once more by a try that comes late, it would touch what was made after the answer to its repeat.
            return standing
        now_ms = ports.clock.now_ms()
        after = replace(standing, epoch=standing.epoch + 1, cancelled_at_ms=now_ms, by=by, reason=reason, token=token)
        change = Change(
            label.team,
            "group",
            label.name,
            "group.cancelled",
            head=standing.audit_head,
            version_before=standing.epoch,
            version=after.epoch,
            facts={"by": by, "reason": reason, "epoch": after.epoch},
        )
        entry, head = recorded(ports, change)
        after = replace(after, audit_head=head)
        condition = Is("epoch", standing.epoch) if standing.epoch else Absent()
        if isinstance(commit(ports, Put(TEAMS, after.to_item(), condition), entry), Committed):
            ports.signals.log("group_cancelled", group=label.text, by=by, reason=reason, epoch=after.epoch)
            return after
        standing = get_group(ports, label)
    raise Conflict(f"the group {label.name} was cancelled {CANCEL_TRIES_MAX} times meanwhile")
