"""What the transports share: which requests are protected and how, and the call of a request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from replayfloor.client.call import Call, Settings
from replayfloor.client.effects import Send
from replayfloor.client.events import ScopedSink
from replayfloor.client.fence import AsyncTrace, Trace
from replayfloor.client.library import Library, fields_of
from replayfloor.client.operations import PendingOperation, pending, settle
from replayfloor.client.options import EXTENSION
from replayfloor.client.refusals import refuse_redirect
from replayfloor.client.telemetry.scopes import scope_of
from replayfloor.client.trail import MARK, Trail, content_of, trail_of
from replayfloor.client.upkeep import Upkeep
from replayfloor.client.wire import build_attempt, origin_of, read_operation, without_ours
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import ReadOperation, Settlement

if TYPE_CHECKING:
    import httpx


class Shell:
    """The settings of a transport, one for each of its profiles."""

    def __init__(
        self, settings: Sequence[Settings], upkeep: Upkeep | None, *, owns_journal: bool
    ) -> None:
        self._settings = settings
        self._by_method = _by_method(settings)
        self._upkeep = upkeep
        self._owns_journal = owns_journal
        self._closing = threading.Lock()
        first = settings[0]
        self.library: Library = first.library
        self.journal = first.journal
        self.look = first.look
        self._sink = first.on_event if isinstance(first.on_event, ScopedSink) else None

    def admit(self, request: httpx.Request) -> Settings | None:
        """Return what the request is sent under; None if it passes through without a key.

        Raises UsageError for a request that asks for a key and is not covered by any profile, and
        RedirectRefused for a redirected write that may not take its key along.
        """
        if type(request) is not self.library.request:
            self.library.require_request(request)
        chosen = self._chosen(request)
        trail = trail_of(request)
        if trail is not None and not trail.is_first(request):
            return self._admit_hop(request, trail, chosen)
        if chosen is None and EXTENSION in request.extensions:
            names = ", ".join(each.profile.name for each in self._settings)
            raise UsageError(
                f"{request.method} {origin_of(request.url)}{request.url.path} asks for a key, and "
                f"is not covered by the profile(s) of the transport: {names}"
            )
        return chosen

    def _chosen(self, request: httpx.Request) -> Settings | None:
        if self._by_method is not None:
            return self._by_method.get(request.method.upper())
        for each in self._settings:
            if each.profile.covers(request.method, request.url.host, request.url.path):
                return each
        return None

    def _admit_hop(
        self, request: httpx.Request, trail: Trail, chosen: Settings | None
    ) -> Settings | None:
        """Decide on the target of a redirect: the key stays with its origin and its method."""
        begun = trail.operation
        method = request.method.upper()
        if chosen is not None and (method, origin_of(request.url)) == (begun.method, begun.origin):
            return chosen
        if any(method in each.profile.methods for each in self._settings):
            profile = self._settings[0].profile
            raise refuse_redirect(self.library, profile, request, trail)
        return None

    def passing(self, request: httpx.Request) -> httpx.Request:
        """Return a request that passes through: a redirect's hop leaves the key behind."""
        trail = trail_of(request)
        if trail is None or trail.is_first(request):
            return request
        names = {each.profile.header.lower().encode() for each in self._settings}
        return self.library.request(
            request.method,
            request.url,
            headers=[pair for pair in request.headers.raw if pair[0].lower() not in names],
            stream=request.stream,
            extensions=without_ours(request),
        )

    def open_call(self, settings: Settings, request: httpx.Request, body: bytes) -> Call:
        """Return the call of a request; raises UsageError if its key cannot be honoured."""
        trail = trail_of(request)
        fields = fields_of(request.headers)
        content = content_of(request, fields, body)
        operation = read_operation(request, fields, content, settings.profile, trail)
        if trail is None or trail.operation is not operation:
            trail = Trail(request, content, operation)
            request.extensions[MARK] = trail
        return Call(settings, request, fields, body, operation, trail)

    def attempt(self, call: Call, send: Send, trace: Trace | AsyncTrace) -> httpx.Request:
        """Return the request of one attempt."""
        call.trail.knows_key(send.key)
        profile = call.settings.profile
        return build_attempt(
            self.library, call.request, call.fields, call.body, send, profile, trace
        )

    def scope(
        self, settings: Settings, request: httpx.Request
    ) -> AbstractContextManager[None] | None:
        """Return what the event sink wants to be entered around a call; it disturbs nothing."""
        if self._sink is None:
            return None
        return scope_of(self._sink, settings.profile.name, request.method)

    def sweep_due(self, now_ns: int) -> Callable[[], object] | None:
        """Return what removes old entries of the journal, if it is time to do so. Never raises.

        `now_ns` is the wall clock as the call saw it last: a clock that fails now must not take its
        answer away.
        """
        upkeep = self._upkeep
        if upkeep is None or not upkeep.due(now_ns):
            return None
        return partial(upkeep.sweep, self.journal, now_ns)

    def pending(self) -> tuple[PendingOperation, ...]:
        """Return what is pending under the transport's profiles, the oldest first."""
        moment = self.look()
        found = [
            each for name in self._namespaces() for each in pending(self.journal, moment, name)
        ]
        return tuple(sorted(found, key=lambda each: each.first_attempt_at))

    def settle(
        self, operation_id: str, settlement: Settlement, note: str, namespace: str | None
    ) -> None:
        """Settle an operation of one of the profiles; see `operations.settle`."""
        names = self._namespaces() if namespace is None else [namespace]
        if len(names) > 1:
            standing = [
                name for name in names if self.journal.read(ReadOperation(name, operation_id))
            ]
            if len(standing) > 1:
                raise UsageError(f"{operation_id!r} is in several namespaces, name one: {standing}")
            names = standing or names
        settle(self.journal, names[0], operation_id, settlement, note, self.look())

    def _namespaces(self) -> list[str]:
        return list(dict.fromkeys(each.profile.namespace for each in self._settings))

    def close_journal(self) -> None:
        """Close the journal if it was opened here."""
        if self._owns_journal:
            with self._closing:
                self.journal.close()


def _by_method(settings: Sequence[Settings]) -> dict[str, Settings] | None:
    """Return what decides if every profile speaks of all hosts and paths; else None."""
    if any(each.profile.hosts or each.profile.paths for each in settings):
        return None
    # Of several the first counts.
    return {method: each for each in reversed(settings) for method in each.profile.methods}
