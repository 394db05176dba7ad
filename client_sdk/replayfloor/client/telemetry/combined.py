"""Several sinks as one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from replayfloor.client.events import Event, ScopedSink
from replayfloor.client.telemetry.scopes import scope_of


def all_of(*sinks: Callable[[Event], None]) -> ScopedSink:
    """Return a sink that passes everything on to each of `sinks`, in their order.

    One that raises does not keep the others from being told: what it raised rises afterwards, as
    it is, or as an ExceptionGroup if there were several.
    """
    return _All(sinks)


class _All:
    def __init__(self, sinks: tuple[Callable[[Event], None], ...]) -> None:
        self._sinks = sinks

    def __call__(self, event: Event) -> None:
        raised: list[Exception] = []
        for sink in self._sinks:
            try:
                sink(event)
            except Exception as error:  # noqa: BLE001 - it rises below
                raised.append(error)
        _raise(raised)

    def scope(self, provider: str, method: str) -> AbstractContextManager[None]:
        return self._scope(provider, method)

    @contextmanager
    def _scope(self, provider: str, method: str) -> Generator[None]:
        with ExitStack() as entered:
            for sink in self._sinks:
                entered.enter_context(scope_of(sink, provider, method))
            yield


def _raise(raised: list[Exception]) -> None:
    match raised:
        case []:
            return
        case [error]:
            raise error
        case _:
            raise ExceptionGroup("several sinks raised", raised)
