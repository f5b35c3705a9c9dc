"""Pools as answers show them."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from tickwork.api.answers import Moment


class PoolShown(TypedDict):
    """A pool of a team."""

    pool: str
    """What it is called everywhere: in its jobs, its messages, its workers' commands and its queue."""
    owner: str
    name: str
    worker: str
    timeout_s: NotRequired[int]
    queue: str
    """The name of its queue, behind the environment's prefix."""
    shared_with: list[str]
    shared_before: list[str]
    """Teams that may aim nothing new at it; what they have registered goes on."""
    version: int
    status: str
    """`open`, or `closed`: it is being deleted."""
    created_at: Moment
    created_by: str
    changed_at: Moment
    changed_by: str


class SharedPool(TypedDict):
    """Another team's pool at which this one may aim."""

    pool: str
    owner: str
    name: str


class PoolsAnswer(TypedDict):
    pools: list[PoolShown]
    """The team's own."""
    shared: list[SharedPool]
    """Other teams', at which it may aim."""
    deployed: list[str]
    """The platform's: of the deployment, for all."""


class DeletedPool(TypedDict):
    pool: str
    deleted: bool
