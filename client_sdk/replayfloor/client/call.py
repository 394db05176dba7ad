"""One call of a transport, in what both colours share: its effects without I/O, what came in."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Never, TypeAlias, cast

from replayfloor.client.budget import RetryBudget
from replayfloor.client.budget_rules import Refund, Spend
from replayfloor.client.effects import (
    Draw,
    Entropy,
    Failure,
    Moment,
    Now,
    Operation,
    Reply,
    Send,
)
from replayfloor.client.elapsed import passed_s
from replayfloor.client.events import AttemptStarted, Event, left
from replayfloor.client.fence import Fence
from replayfloor.client.journal import Journal
from replayfloor.client.library import Fields, Library, Lines
from replayfloor.client.profiles import Profile
from replayfloor.client.progress import Terms
from replayfloor.client.support import NoteSupport, RecallSupport
from replayfloor.client.support_memory import SupportMemory
from replayfloor.client.trail import Trail
from replayfloor.client.wire import as_library_error, decoded, to_failure, to_reply
from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint
from replayfloor.core.journal import (
    BeginOperation,
    CloseOperation,
    EndAttempt,
    ReadOperation,
    ReleaseLease,
    RenewLease,
    StartAttempt,
)
from replayfloor.core.journal_rules import NS_PER_S
from replayfloor.core.message import Response
from replayfloor.core.receipt import encode_receipt, keep

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

KEPT_BYTES_MAX: Final = 1 << 16
"""Bytes of an answer that the journal keeps: what a payment answers, not what a report does. A
larger answer is not kept, and is asked for again with the same key."""

Performer: TypeAlias = Callable[[Effect[object]], object]
Performers: TypeAlias = Mapping[type, Performer]
"""How effects are performed, by their type: to ask for one type after the other takes longer than
to perform most of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every call of one transport under one profile shares."""

    library: Library
    terms: Terms
    journal: Journal
    on_event: Callable[[Event], None] | None
    look: Callable[[], Moment]
    random: Callable[[], float]
    budget: RetryBudget
    support: SupportMemory
    alone: Performers = field(init=False, repr=False)
    """Those that wait for nothing."""
    journaled: Performers = field(init=False, repr=False)
    """Those of the journal."""
    at_once: Performers = field(init=False, repr=False)
    """Both."""

    def __post_init__(self) -> None:
        """Look up once what each effect is performed with."""
        alone, journaled = _alone(self), _journaled(self.journal)
        object.__setattr__(self, "alone", alone)
        object.__setattr__(self, "journaled", journaled)
        object.__setattr__(self, "at_once", {**alone, **journaled})

    @property
    def profile(self) -> Profile:
        """The profile, in which everything the wire needs is said."""
        return self.terms.profile


def _alone(settings: Settings) -> Performers:
    look, random = settings.look, settings.random
    performers: dict[type, Callable[[Never], object]] = {
        Now: lambda _: look(),
        Draw: lambda _: random(),
        Entropy: _entropy,
        Spend: settings.budget.spend,
        Refund: settings.budget.refund,
        RecallSupport: settings.support.recall,
        NoteSupport: settings.support.note,
    }
    return cast("Performers", performers)


def _entropy(effect: Entropy) -> bytes:
    return os.urandom(effect.count)


def _journaled(journal: Journal) -> Performers:
    performers: dict[type, Callable[[Never], object]] = {
        BeginOperation: journal.begin,
        StartAttempt: journal.start_attempt,
        EndAttempt: journal.end_attempt,
        CloseOperation: journal.close_operation,
        RenewLease: journal.renew_lease,
        ReleaseLease: journal.release_lease,
        ReadOperation: journal.read,
    }
    return cast("Performers", performers)


class Call:
    """One call: the request, its header fields and body, and what came of the last attempt."""

    open_response: httpx.Response | None = None
    """The answer to hand over. If it is still arriving, it holds a connection."""
    last_error: Exception | None = None
    _arriving = False
    _last_answer: tuple[httpx.Response, bytes] | None = None
    _started: AttemptStarted | None = None

    def __init__(
        self,
        settings: Settings,
        request: httpx.Request,
        fields: Fields,
        body: bytes,
        operation: Operation,
        trail: Trail,
    ) -> None:
        self.settings = settings
        self.request = request
        self.fields = fields
        self.body = body
        self.operation = operation
        self.trail = trail

    def tell(self, event: Event) -> None:
        """Tell the user's event sink; never raises."""
        if isinstance(event, AttemptStarted):
            self._started = event
        self._emit(event)

    def _emit(self, event: Event) -> None:
        if self.settings.on_event is None:
            return
        try:
            self.settings.on_event(event)
        except Exception:
            # Telemetry must not change what happens to a payment.
            logger.exception("on_event raised")

    def fence(self, send: Send) -> Fence:
        """Return the fence of an attempt that is about to be made."""
        told = self._leaves if self.settings.terms.listens else None
        return Fence(send, self.settings.look, told)

    def bound(self, send: Send) -> Callable[[], bool]:
        """Return whether the attempt, which the flow began just now, has taken too long."""

        return partial(_took_too_long, send, self.settings.look)

    def _leaves(self, moment: Moment) -> None:
        # Told from within the library's send: there an instrumentation's span is the current one.
        if self._started is not None:
            waited_ns = max(0, moment.wall_ns - self._started.at_ns)
            elapsed_s = self._started.elapsed_s + waited_ns / NS_PER_S
            self._emit(left(self._started, moment.wall_ns, elapsed_s))

    def answered(self, response: httpx.Response, lines: Lines, raw: bytes | None) -> Reply:
        """Take note of an answer, with its header lines; `raw` is None if it still arrives."""
        self.open_response = response
        self._arriving = raw is None
        self.last_error = None
        self._last_answer = (response, raw or b"")
        settings = self.settings
        reply = to_reply(settings.library, response, raw or b"", settings.terms.profile, lines)
        if raw is None or not self.settings.terms.keeps_responses:
            return reply
        return replace(reply, kept=encoded_answer(response, raw))

    def let_go(self) -> httpx.Response | None:
        """Forget the answer that holds a connection, and return it to be closed; None if none does.

        One that was read holds none, and is still the answer if no further attempt can be made.
        """
        if not self._arriving:
            return None
        self._arriving = False
        response, self.open_response = self.open_response, None
        return response

    def last_response(self) -> httpx.Response | None:
        """Return the last answer of this call, read; without its body if that was too large."""
        if self._last_answer is None:
            return None
        response, raw = self._last_answer
        headers = [pair for pair in response.headers.raw if pair[0].lower() != b"content-encoding"]
        library = self.settings.library
        return library.response(
            response.status_code,
            headers=headers,
            content=decoded(library, response, raw),
            request=self.request,
        )

    def failed(self, error: Exception, fence: Fence, status: int | None) -> Failure:
        """Take note of a failure."""
        self.open_response, self._arriving = None, False
        self.last_error = as_library_error(self.settings.library, error)
        return to_failure(self.settings.library, error, fence, status)


def _took_too_long(send: Send, look: Callable[[], Moment]) -> bool:
    return passed_s(send.seen, look()) > send.timeout_s


def encoded_answer(response: httpx.Response, raw: bytes) -> bytes | None:
    """Return an answer as the journal keeps it; None if it is too large to be kept."""
    headers = tuple((name.lower(), value) for name, value in response.headers.raw)
    # The entry holds the fingerprint, and the encoded form does not.
    unused = Fingerprint(bytes(DIGEST_BYTES))
    kept = encode_receipt(keep(unused, Response(response.status_code, headers, raw)))
    return kept if len(kept) <= KEPT_BYTES_MAX else None
