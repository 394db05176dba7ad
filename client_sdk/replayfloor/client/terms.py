"""What every call of one transport goes by, and the entry that they begin with. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.client.support import Learning
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.journal import JournalEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What every call of one transport goes by.

    `learning`: what an advertised lifetime may change. `keeps_responses`: the journal keeps the
    answers. `listens`: somebody is told of events; if nobody is, most are not even made.
    """

    profile: Profile
    policy: RetryPolicy
    learning: Learning = Learning.SHORTEN
    keeps_responses: bool = False
    listens: bool = True
    requires: bool = field(init=False, repr=False, compare=False)
    """Whether nothing is known of a server before it says so."""
    blank: JournalEntry = field(init=False, repr=False, compare=False)
    """The entry of every call, in what all of them share."""

    def __post_init__(self) -> None:
        """Make the blank entry."""
        requires = self.learning is Learning.REQUIRE
        object.__setattr__(self, "requires", requires)
        blank = JournalEntry(
            namespace=self.profile.namespace,
            operation_id="",
            key="",
            provider=self.profile.name,
            method="",
            origin="",
            path="",
            fingerprint=Fingerprint(b""),
            first_attempt_at_ns=0,
            retention_s=0.0 if requires else self.profile.retention_s,
            send_deadline_ns=0,
            last_attempt_at_ns=0,
            last_seen_at_ns=0,
        )
        object.__setattr__(self, "blank", blank)
