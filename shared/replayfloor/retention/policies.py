"""All policies of one file, by direction and name, and where each of them stands. Values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.inbound import InboundPolicy
from replayfloor.retention.outbound import OutboundPolicy
from replayfloor.retention.toml_table import Document, did_you_mean

Policy: TypeAlias = InboundPolicy | OutboundPolicy
PolicyT = TypeVar("PolicyT", bound=Policy)

INBOUND: Final = "inbound"
OUTBOUND: Final = "outbound"


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a document, below a table of it."""

    document: Document
    prefix: tuple[str, ...]
    inbound: Mapping[str, InboundPolicy]
    outbound: Mapping[str, OutboundPolicy]

    def __iter__(self) -> Iterator[Policy]:
        """Yield every policy, the inbound ones first."""
        yield from self.inbound.values()
        yield from self.outbound.values()

    def by_full_name(self) -> dict[str, Policy]:
        """Return every policy by direction and name, as "inbound.hooks"."""
        return {full_name(policy): policy for policy in self}

    def select(self, name: str | None = None) -> Policy:
        """Return one policy: by name, by direction and name, or the only one there is.

        Raises PolicyError if that leaves none, or more than one.
        """
        return _only(self, self.by_full_name(), name)

    def select_inbound(self, name: str | None = None) -> InboundPolicy:
        """Return one of the policies for receipts; see `select`."""
        every = {full_name(policy): policy for policy in self.inbound.values()}
        return _only(self, every, name)

    def select_outbound(self, name: str | None = None) -> OutboundPolicy:
        """Return one of the policies for the client; see `select`."""
        every = {full_name(policy): policy for policy in self.outbound.values()}
        return _only(self, every, name, OUTBOUND)

    def stands(self, policy: Policy, *below: str) -> bool:
        """Return whether a key of a policy is in the file."""
        path = (*self.prefix, direction(policy), policy.name, *below)
        return path in self.document.lines

    def place(self, policy: Policy, *below: str) -> str:
        """Return the file and the line of a policy, or of a key of it."""
        return self.document.place((*self.prefix, direction(policy), policy.name, *below))


def direction(policy: Policy) -> str:
    """Return which of the two types a policy is, by the name of its table."""
    return INBOUND if isinstance(policy, InboundPolicy) else OUTBOUND


def full_name(policy: Policy) -> str:
    """Return direction and name, as "inbound.hooks"."""
    return f"{direction(policy)}.{policy.name}"


def _only(
    policies: Policies, every: Mapping[str, PolicyT], name: str | None, wanted: str = INBOUND
) -> PolicyT:
    file = policies.document.file
    if not every:
        raise PolicyError(
            "there is no such policy", advice=f"write a table [{wanted}.NAME]", file=file
        )
    found = {
        full: each
        for full, each in every.items()
        if name is None or name in (full, full.partition(".")[2])
    }
    if len(found) == 1:
        return next(iter(found.values()))
    names = ", ".join(found or every)
    if not found:
        known = [*every, *(full.partition(".")[2] for full in every)]
        raise PolicyError(
            f"no policy {name!r}", advice=did_you_mean(name or "", known, {}), file=file
        )
    raise PolicyError(
        f"several policies are meant: {names}", advice="say which, by that name", file=file
    )
