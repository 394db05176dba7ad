"""The retention that a database was told of: values, and what a new one means beside it. Pure.

One row per namespace. A store reads and writes it in one atomic operation; who may not go on is
decided by whoever asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import cast

from replayfloor.server.stores.protocols import Row


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a deployment is about to do: keep the receipts of a namespace for `retention_s`.

    `text` says why, `digest` is its hex SHA-256. A shorter retention than the one that is noted is
    noted only with `accept_shorter`.
    """

    namespace: str
    digest: str
    retention_s: float
    text: str
    accept_shorter: bool = False


@dataclass(frozen=True, slots=True)
class NotedPolicy:
    """What a database was told before, and when, by its own clock."""

    namespace: str
    digest: str
    retention_s: float
    text: str
    noted_at: datetime


class PolicyState(StrEnum):
    """What became of a declaration."""

    FIRST = "first"
    """Nothing was noted for the namespace; this is now."""
    SAME = "same"
    """The same is noted already."""
    CHANGED = "changed"
    """Another one was noted, with a retention that was not longer; this is now."""
    SHORTENED = "shortened"
    """A longer one was noted, and the shorter was accepted; this is now."""
    REFUSED = "refused"
    """A longer one is noted, and stays."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What became of a declaration; `before` is what was noted, None if nothing."""

    state: PolicyState
    before: NotedPolicy | None = None

    @property
    def is_new(self) -> bool:
        """Whether another policy was replaced."""
        return self.state in (PolicyState.CHANGED, PolicyState.SHORTENED)


def state_of(declaration: Declaration, noted: NotedPolicy | None) -> PolicyState:
    """Say what becomes of a declaration; what declare_policy_v1 says in Postgres."""
    if noted is None:
        return PolicyState.FIRST
    if noted.digest == declaration.digest:
        return PolicyState.SAME
    if declaration.retention_s >= noted.retention_s:
        return PolicyState.CHANGED
    return PolicyState.SHORTENED if declaration.accept_shorter else PolicyState.REFUSED


def declared_of(declaration: Declaration, row: Row) -> Declared:
    """Return what the row of declare_policy.sql says."""
    state, digest, retention_s, text, noted_at = cast("tuple[str, str, float, str, datetime]", row)
    if state == PolicyState.FIRST:
        return Declared(PolicyState.FIRST)
    before = NotedPolicy(declaration.namespace, digest, retention_s, text, noted_at)
    return Declared(PolicyState(state), before)


def declaration_parameters(declaration: Declaration) -> dict[str, object]:
    """Return the parameters of declare_policy.sql."""
    return {
        "namespace": declaration.namespace,
        "digest": declaration.digest,
        "retention_s": declaration.retention_s,
        "text": declaration.text,
        "accept_shorter": declaration.accept_shorter,
    }
