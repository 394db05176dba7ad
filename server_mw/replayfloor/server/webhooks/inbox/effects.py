"""The effects of applying what is in the inbox, and their answers. What each promises is here.

Beside these, the flow uses Begin, Rollback and Renew of `replayfloor.core.claims`, which mean the
same for an event as for a claim.
"""

from __future__ import annotations

from typing import TypeAlias

from replayfloor.core.claims import Fence
from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.core.values import frozen
from replayfloor.server.flow.values import Admitted
from replayfloor.server.policy import Effects
from replayfloor.server.webhooks.inbox.values import InboxItem, Taken


@frozen
class Go(Effect[bool]):
    """Say whether another event may be taken: the worker was not told to stop."""


@frozen
class Take(Effect[Taken | None]):
    """Take the event that has been due for longest, for one execution, durably; or none.

    The event's `fence` is new, or the last one's with `again`: the answer to that was lost. Raises
    StoreUnavailable.
    """

    lease_ms: int
    again: bool = False


@frozen
class Handling:
    """How an event is applied: what the application is handed, and where its handler writes."""

    item: InboxItem
    effects: Effects


@frozen
class Prepare(Effect[Handling | None]):
    """Open the stored request and find its route; None if there is no such route any more.

    Raises whatever is wrong with what is stored.
    """

    taken: Taken


@frozen
class Handed:
    """The application has answered.

    `failure` names the type of an exception that followed a refusal, `recorded` says whether the
    handler has called `claim.finish_in`.
    """

    status: int
    failure: str = ""
    recorded: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the event counts as applied."""
        return 200 <= self.status < 300


@frozen
class CutOff:
    """The application was stopped before it had answered, since the worker has to end."""


HandAnswer: TypeAlias = Handed | CutOff


@frozen
class Hand(Effect[HandAnswer]):
    """Hand the event to the application and wait for its answer; the lease is renewed meanwhile.

    After a success the application is held at the end of its answer until Rest. May raise.
    """

    admitted: Admitted
    handling: Handling


@frozen
class Rest(Effect[None]):
    """Let the application go on after its answer, to its end. Never raises."""


@frozen
class Done(Effect[bool]):
    """Remove the event, durably, if it is still the fence's; say whether it was.

    Raises StoreUnavailable.
    """

    id: ReceiptId
    fence: Fence


@frozen
class CommitDone(Effect[bool]):
    """Do it in the open transaction and commit that; if the event is another's, roll back.

    The handler's writes and the removal appear together or not at all. After StoreUnavailable it
    is not known which.
    """

    id: ReceiptId
    fence: Fence


@frozen
class Later(Effect[bool]):
    """Make the event due after a while, if it is still the fence's; say whether it was.

    Unless it `counts`, the attempt is as if it had not been made. Raises StoreUnavailable.
    """

    id: ReceiptId
    fence: Fence
    after_ms: int
    error: str = ""
    counts: bool = True


@frozen
class Bury(Effect[bool]):
    """Move the event to the dead letters, if it is still the fence's; say whether it was.

    Raises StoreUnavailable.
    """

    id: ReceiptId
    fence: Fence
    error: str


@frozen
class Draw(Effect[float]):
    """Draw a number at random, from 0 to below 1."""


@frozen
class Idle(Effect[bool]):
    """Wait for that long, or until something has been put into the inbox, or the worker has to
    stop. Say whether it was not for nothing: something has been put in."""

    pause_ms: int
