"""What a sink keeps of the call that is going on in this thread or task. No sink is here."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar, cast

State = TypeVar("State")

_entered: Final[ContextVar[tuple[tuple[object, object], ...]]] = ContextVar(
    "replayfloor.client.telemetry.calls", default=()
)
"""Whose it is, and the state, the innermost call last. One variable for all sinks: a context
variable is never freed, so that it cannot be an attribute of a sink."""


class Calls(Generic[State]):
    """The calls of one sink. A call inside another one, of the same sink, has a state of its own;
    threads and tasks see only what was entered in them, or around them."""

    @contextmanager
    def entered(self, state: State) -> Generator[State]:
        """Keep a state for as long as the block lasts."""
        token = _entered.set((*_entered.get(), (self, state)))
        try:
            yield state
        finally:
            _entered.reset(token)

    def current(self) -> State | None:
        """Return the state of the innermost call; None outside of every call."""
        for owner, state in reversed(_entered.get()):
            if owner is self:
                return cast("State", state)
        return None
