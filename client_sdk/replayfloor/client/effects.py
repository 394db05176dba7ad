"""What the client's flow asks for and what it is told, besides the journal's effects. Values only.

They know no HTTP library: a shell (`wire`) translates them to and from the one it serves.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Final, TypeAlias

from replayfloor.client.events import Event
from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.making import maker
from replayfloor.core.message import Response
from replayfloor.core.values import frozen


@frozen
class Operation:
    """One logical request. Without an operation id the key identifies it.

    `key_yields`: the key is one that was made for this call only, by an SDK that does not know the
    operation; if the operation has a key already, that one is used.
    `fingerprint_before`: what earlier releases kept of the same request, which did not know in what
    form the key was written.
    """

    _: KW_ONLY
    method: str
    origin: str
    path: str
    fingerprint: Fingerprint
    operation_id: str | None = None
    key: str | None = None
    key_yields: bool = False
    fingerprint_before: Fingerprint | None = None


# -- time and chance --------------------------------------------------------------------------


@frozen
class Moment:
    """One look at the clocks.

    `wall_ns` counts from 1970 (UTC) and may be set. `boot_ns` counts from a boot of the machine,
    suspended time included, and cannot be set; it compares only with those of the same `boot_id`,
    which is empty where there is no such clock.
    """

    wall_ns: int
    boot_ns: int = 0
    boot_id: str = ""


@frozen
class Now(Effect[Moment]):
    """Return what the clocks show."""


NOW: Final = Now()
"""The only one of its kind: the question is asked some three times in a call."""


@frozen
class Draw(Effect[float]):
    """Return a uniform random number within [0, 1)."""


@frozen
class Entropy(Effect[bytes]):
    """Return `count` bytes from a cryptographic source."""

    count: int


@frozen
class Sleep(Effect[None]):
    """Wait for so many seconds."""

    wait_s: float


# -- one attempt ------------------------------------------------------------------------------


@frozen
class Reply:
    """An answer. The body is decoded, and empty if it was too large to be read here.

    `kept`: the whole answer in the form of `replayfloor.core.receipt`, if it is to be kept.
    """

    response: Response
    kept: bytes | None = None


@frozen
class Failure:
    """No usable answer.

    `maybe_sent`: a byte of the request may have left. `transient`: another attempt may succeed.
    `fenced`: the send deadline had passed when the headers were about to be written.
    """

    evidence: str
    maybe_sent: bool
    transient: bool = True
    fenced: bool = False


@frozen
class Send(Effect["Reply | Failure"]):
    """Send the request once, with this key, and read the answer.

    Nothing may leave at or past `send_deadline_ns`; the clock is at `now_ns` or later, whatever
    it says, and `seen` is the look at the clocks from which that follows. No single wait on the
    network is longer than `timeout_s`. `first_attempt_at_ns` is for a server that wants to be told
    (Repeatability-First-Sent, OASIS Repeatable Requests 1.0, 3.3).
    """

    _: KW_ONLY
    key: str
    now_ns: int
    seen: Moment
    send_deadline_ns: int
    timeout_s: float
    first_attempt_at_ns: int


new_operation: Final = maker(Operation)
new_send: Final = maker(Send)
"""What every call makes; see `making`."""


@frozen
class Emit(Effect[None]):
    """Tell the user's event sink. Never raises."""

    event: Event


Attempted: TypeAlias = Reply | Failure
