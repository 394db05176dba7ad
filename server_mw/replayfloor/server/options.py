"""The options that both middlewares take, by name and type. Checked in `settings.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import TypeAlias, TypedDict

from replayfloor.retention import InboundPolicy
from replayfloor.server.body_rules import FingerprintOption
from replayfloor.server.events import ServerEvent
from replayfloor.server.routes import (
    AfterExpiryOption,
    AmbiguousOption,
    EffectsOption,
    OutageOption,
    Route,
)
from replayfloor.server.sealing import Cipher

RetentionOption: TypeAlias = InboundPolicy | timedelta | float | None

OnEvent: TypeAlias = Callable[[ServerEvent], None]


class MiddlewareOptions(TypedDict, total=False):
    """Options of IdempotencyMiddleware and WSGIIdempotencyMiddleware; all may be left out.

    Which requests
        routes: options per route; the first match counts. Default: none.
        methods: which methods are protected where no route matches. Default: POST, PATCH.
        required: whether a request without a key is refused with 400. Default: False.

    What the handler does
        effects: where handlers write. "atomic": in the receipt's own transaction, through
            `claim.connection`. "external" (default): anywhere. "repeatable": anywhere, and
            harmless when run again.
        ambiguous: whether a 5xx or an exception of a handler that cannot be rolled back is stored
            ("store", default) or frees the key ("release").
        store, free: statuses that are stored, or free the key, against the default table.
        lease_s: how soon a dead worker is noticed, in seconds; a handler may take longer, its
            lease is renewed. Default: 30.
        wait_for_s: how long a duplicate waits for the first answer before it gets the 409, in
            seconds. Over ASGI that holds neither a thread nor a connection, over WSGI the request's
            own thread. Default: 0.
        on_outage: what to do while the receipts cannot be reached. "refuse" (default): 503.
            "execute": run the handler unprotected; the answer then carries the header
            `Idempotency-Unprotected: true`, and a repeated request may be executed twice.
            Routes with effects="atomic" are refused in either case.

    Keys and requests
        namespace: separates the keys of applications that share one store. Default: "default".
        accept_unquoted: also take a bare key, as most providers' SDKs send it. Default: False.
        key_length_min, key_length_max: characters of a key. Default: 1 and 255.
        key_pattern: a regular expression that a key has to match as a whole. Default: none.
        require_uuid7: refuse keys that do not tell their age; needs `retention`. Default: False.
        fingerprint: a function that stands for the body in the fingerprint, or "off" if the body
            does not count. Method, path, query and content type always do.
        exclude: JSON pointers (RFC 6901) to members of the body that do not count.
        body_bytes_max: largest request body; above it 413, nothing executed. Default: 1 MiB.

    Receipts
        retention: how long receipts are kept: an InboundPolicy, which derives it, or seconds or
            a timedelta. Advertised in the header Idempotency-Key-Lifetime. Default: they are kept
            for good, and nothing is advertised.
        policy: an InboundPolicy; a `retention` beside it that is below its floor is refused.
        accept_shorter: whether this deployment may keep receipts for a shorter time than the one
            before it, of the same namespace, has declared to the database. Default: False; it is
            refused at start-up then.
        after_expiry: what becomes of a repeated key whose receipt has expired, as far as that is
            known: "refuse" (default): 400 `key-expired`, nothing is executed. "execute": it is a
            new operation, unless the key or its sender tells that it is too old. "handler": the
            handler is run, and finds it in `claim.past_horizon`.
        audit_retention: how long a key is known as used, receipt included, so that a late
            repetition is refused after its answer is gone; 16 bytes a key. Default: no longer than
            the receipt.
        maintain: make partitions ahead and drop what has expired, in a thread of the application;
            of all workers one does it. The other ways are `replayfloor partitions maintain` and
            pg_cron. Needs a retention, and the receipts as a URL. Default: False.
        inbox_workers: how many events of webhooks with ack="first" this process applies at a
            time. 0: none, they are applied by `replayfloor inbox work`. Default: 4.
        response_bytes_max: largest answer kept for a replay; a larger one passes through, and a
            repeated request is told that it was executed. Default: 1 MiB.
        response_headers_max: the same for the number of header lines. Default: 100.
        response_cipher: enciphers what is kept of an answer; `cryptography.fernet.MultiFernet`.

    Around
        documentation: the page that problem details link to.
        on_event: called with a ServerEvent for everything that happens to a keyed request.
    """

    routes: Sequence[Route] | None
    methods: Sequence[str]
    required: bool
    effects: EffectsOption
    ambiguous: AmbiguousOption
    store: Collection[int]
    free: Collection[int]
    lease_s: float
    wait_for_s: float
    on_outage: OutageOption
    namespace: str
    accept_unquoted: bool
    key_length_min: int
    key_length_max: int
    key_pattern: str | re.Pattern[str] | None
    require_uuid7: bool
    fingerprint: FingerprintOption | None
    exclude: Sequence[str]
    body_bytes_max: int
    retention: RetentionOption
    policy: InboundPolicy | None
    accept_shorter: bool
    after_expiry: AfterExpiryOption
    audit_retention: timedelta | float | None
    maintain: bool
    inbox_workers: int
    response_bytes_max: int
    response_headers_max: int
    response_cipher: Cipher | None
    documentation: str
    on_event: OnEvent | None
