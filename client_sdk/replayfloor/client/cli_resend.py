"""Sending one operation of a journal again through the transport. httpx is loaded only here.

Nothing is decided: that the request is the same, that it may still be sent and under which key,
is the transport's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from replayfloor.client.cli_common import complain, plain, say, span
from replayfloor.client.cli_request import Resent
from replayfloor.client.events import AttemptStarted, Event, WaitReason, WaitStarted
from replayfloor.client.journal import Journal
from replayfloor.client.library import fields_of
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.client.trail import content_of
from replayfloor.client.wire import fingerprint_of
from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import differing_parts
from replayfloor.core.journal import JournalEntry

if TYPE_CHECKING:
    import httpx

TIMEOUT_S: Final = 60.0
"""For each wait on the network. Payments take some seconds, and what is cut off is not known."""

ATTEMPTS_MAX: Final = 3
"""Somebody waits at the terminal, sees what comes, and can run the command again."""

BODY_SHOWN_BYTES: Final = 1 << 16
"""Of an answer. Longer ones are no payment's, and nothing to read on a terminal."""

_WAITS: Final = {
    WaitReason.RETRY: "to try again",
    WaitReason.IN_FLIGHT: "because the provider still carries it out",
    WaitReason.ANOTHER_CALL: "at most, because another call is sending it, or died lately",
}


def resend(
    journal: Journal,
    entry: JournalEntry,
    profile: Profile | None,
    request: Resent,
    attempts: int,
) -> None:
    """Send an operation again, at most `attempts` times; print the answer, or why there is none.

    Raises UsageError without httpx, or for what is no request.
    """
    try:
        import httpx

        from replayfloor.client import IdempotentTransport, KeyReuseMismatch
    except ImportError as error:
        raise UsageError(f"{error}: pip install 'replayfloor[client]', or use --with") from error
    retry = RetryPolicy(attempts_max=attempts)
    transport = IdempotentTransport(profile=profile, journal=journal, retry=retry, on_event=_tell)
    with httpx.Client(transport=transport, timeout=TIMEOUT_S) as client:
        try:
            again = client.build_request(
                entry.method,
                f"{entry.origin}{entry.path}{'?' + request.query if request.query else ''}",
                content=request.body,
                headers=list(request.headers),
                extensions={"idempotency": {"operation_id": entry.operation_id}},
            )
        except httpx.InvalidURL as error:
            raise UsageError(f"--query: {error}") from error
        try:
            _print(client.send(again))
        except KeyReuseMismatch as error:
            complain(f"{error}{_difference(entry, again, request.body)}")
        except httpx.HTTPError as error:
            complain(str(error) or type(error).__name__)


def _tell(event: Event) -> None:
    match event:
        case AttemptStarted():
            complain(f"attempt {event.attempt}")
        case WaitStarted():
            complain(f"waiting {span(event.wait_s)} {_WAITS[event.reason]}")
        case _:
            pass


def _difference(entry: JournalEntry, again: httpx.Request, body: bytes) -> str:
    """Return in which parts the request differs from the first one, as far as that can be told."""
    content = content_of(again, fields_of(again.headers), body)
    parts = ", ".join(differing_parts(entry.fingerprint, fingerprint_of(again, content)))
    return f". It differs in: {parts}" if parts else ""


def _print(response: httpx.Response) -> None:
    body = response.content
    say(f"status {response.status_code}")
    for line in body[:BODY_SHOWN_BYTES].decode("utf-8", "backslashreplace").splitlines():
        say(plain(line))
    if len(body) > BODY_SHOWN_BYTES:
        complain(f"{len(body) - BODY_SHOWN_BYTES} bytes more are not shown")
