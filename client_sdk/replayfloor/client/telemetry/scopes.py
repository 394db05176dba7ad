"""Entering a sink around a call, so that nothing that the sink does can disturb the call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager

from replayfloor.client.events import Event, ScopedSink

logger = logging.getLogger(__name__)


@contextmanager
def scope_of(sink: Callable[[Event], None] | None, provider: str, method: str) -> Generator[None]:
    """Enter the scope of a sink that has one; what entering or leaving it raises is logged."""
    if not isinstance(sink, ScopedSink):
        yield
        return
    scope = _enter(sink, provider, method)
    try:
        yield
    except BaseException as error:
        _leave(scope, error)
        raise
    _leave(scope, None)


def _enter(sink: ScopedSink, provider: str, method: str) -> AbstractContextManager[None] | None:
    try:
        scope = sink.scope(provider, method)
        scope.__enter__()
    except Exception:
        logger.exception("the scope of on_event raised")
        return None
    return scope


def _leave(scope: AbstractContextManager[None] | None, error: BaseException | None) -> None:
    if scope is None:
        return
    traceback = error.__traceback__ if error is not None else None
    try:
        scope.__exit__(type(error) if error is not None else None, error, traceback)
    except Exception as risen:
        if risen is not error:
            logger.exception("the scope of on_event raised")
    except BaseException as risen:
        # What it was given it may hand on; anything else here wants to end the program.
        if risen is not error:
            raise
