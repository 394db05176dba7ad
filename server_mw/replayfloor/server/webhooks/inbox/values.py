"""An event in the inbox, as it is written and as a worker gets it. Values; no I/O."""

from __future__ import annotations

import hashlib

from replayfloor.core.claims import Fence
from replayfloor.core.fingerprint import DIGEST_BYTES, ReceiptId
from replayfloor.core.values import frozen
from replayfloor.server.webhooks.inbox.request import StoredRequest

SUBJECT_CHARS_MAX = 256
"""Characters of a subject that are kept for people to read. The order goes by its digest, so two
subjects that begin alike stay two."""

_SUBJECT_LABEL = b"replayfloor inbox subject 1"


@frozen
class InboxItem:
    """An acknowledged event that was not applied yet.

    Attributes:
        id: the id of the receipt by which it was acknowledged.
        namespace: the middleware's.
        source: the sender's name.
        endpoint: the endpoint's name, or the path of the request.
        event_id: as the source writes it (`Event.id`).
        subject: what the event is about, if the source says so.
        ordered: whether events of one subject are applied one after the other.
        occurred_ms: when the event was created, in ms since 1970; None if its sender does not say.
        past_horizon: whether the event may have been applied before, and its receipt be gone.
        request: what the application is handed.
    """

    id: ReceiptId
    namespace: str
    source: str
    endpoint: str
    event_id: str
    subject: str | None
    ordered: bool
    occurred_ms: int | None
    past_horizon: bool
    request: StoredRequest

    @property
    def subject_id(self) -> bytes | None:
        """16 bytes that stand for the subject at its endpoint; None if order does not matter."""
        if not self.ordered or self.subject is None:
            return None
        parts = (self.namespace, self.endpoint, self.subject)
        digest = hashlib.sha256(_SUBJECT_LABEL)
        for part in (text.encode("utf-8", "surrogatepass") for text in parts):
            # Counted: "ab" and "c" are another subject than "a" and "bc".
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()[:DIGEST_BYTES]


@frozen
class Taken:
    """An event that a worker has taken, its request as it is stored.

    Attributes:
        fence: names this execution.
        age_ms: how old the event is, as its sender tells; None if the sender does not.
        received_ms: when it was stored, in ms since 1970, by the database's clock.
        attempts: how often it has been taken, this time included.
        taken_over: whether the worker that had it before let its lease run out, and so may have
            died in the middle.
        stored, sealed: the request.
    Others as in InboxItem.
    """

    id: ReceiptId
    fence: Fence
    namespace: str
    source: str
    endpoint: str
    event_id: str
    subject: str | None
    ordered: bool
    occurred_ms: int | None
    age_ms: int | None
    received_ms: int
    past_horizon: bool
    attempts: int
    taken_over: bool
    stored: bytes
    sealed: bool

    def item(self, request: StoredRequest) -> InboxItem:
        """Return the event with its request opened."""
        return InboxItem(
            id=self.id,
            namespace=self.namespace,
            source=self.source,
            endpoint=self.endpoint,
            event_id=self.event_id,
            subject=self.subject,
            ordered=self.ordered,
            occurred_ms=self.occurred_ms,
            past_horizon=self.past_horizon,
            request=request,
        )


def storable(text: str) -> str:
    """Return a text without what Postgres does not take in one: NUL, and halves of surrogates."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
