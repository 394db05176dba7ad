"""What the two transports share: settings, which requests are protected, the flow of a call."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import httpx

from replayfloor.client.budget import RetryBudget
from replayfloor.client.call import Call, Settings
from replayfloor.client.clock import Clock
from replayfloor.client.conclusions import conclude
from replayfloor.client.effects import Send
from replayfloor.client.events import Event
from replayfloor.client.fence import AsyncTrace, Trace
from replayfloor.client.flow import operate
from replayfloor.client.journal import Journal, open_journal
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.client.progress import Terms
from replayfloor.client.support import UNPROFILED, learning_of
from replayfloor.client.support_memory import SupportMemory
from replayfloor.client.wire import build_attempt, read_operation
from replayfloor.core.effects import Flow


class Shell:
    """The settings of a transport, and the keys of the requests it sent."""

    def __init__(self, settings: Settings, *, owns_journal: bool) -> None:
        self.settings = settings
        self._owns_journal = owns_journal
        # An auth flow sends the same Request object again after a 401: the same logical request.
        # The key is kept here and not on the Request, where a redirect would inherit it.
        self._keys: weakref.WeakKeyDictionary[httpx.Request, str] = weakref.WeakKeyDictionary()

    def protects(self, request: httpx.Request) -> bool:
        """Return whether the profile gives the request a key."""
        return request.method.upper() in self.settings.profile.methods

    def flow(self, call: Call) -> Flow[httpx.Response]:
        """Return the flow of a call: it ends with an answer or an exception for the caller."""
        profile = self.settings.profile
        remembered = self._keys.get(call.request)
        operation = read_operation(call.request, call.body, profile, remembered)
        verdict = yield from operate(operation, self.settings.terms)
        return conclude(call, verdict)

    def attempt(self, call: Call, send: Send, trace: Trace | AsyncTrace) -> httpx.Request:
        """Return the request of one attempt."""
        self._keys.setdefault(call.request, send.key)
        return build_attempt(call.request, call.body, send, self.settings.profile, trace)

    def close_journal(self) -> None:
        """Close the journal if it was opened here."""
        if self._owns_journal:
            self.settings.journal.close()


def open_shell(
    profile: Profile | None,
    journal: Journal | str,
    retry: RetryPolicy,
    on_event: Callable[[Event], None] | None,
    clock: Clock,
    random: Callable[[], float],
    *,
    budget: RetryBudget | None = None,
    keep_responses: bool = False,
) -> Shell:
    """Return the shell of a transport; the journal may be the URL of one.

    Without a profile the server has to show that it knows keys. A `budget` may be shared by
    transports; each has its own otherwise.
    """
    terms = Terms(
        profile=UNPROFILED if profile is None else profile,
        policy=retry,
        learning=learning_of(profile),
        keeps_responses=keep_responses,
    )
    settings = Settings(
        terms=terms,
        journal=open_journal(journal) if isinstance(journal, str) else journal,
        on_event=on_event,
        clock=clock,
        random=random,
        budget=RetryBudget() if budget is None else budget,
        support=SupportMemory(),
    )
    return Shell(settings, owns_journal=isinstance(journal, str))
