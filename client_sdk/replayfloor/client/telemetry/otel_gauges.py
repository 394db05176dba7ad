"""The gauges that are read from a journal when metrics are collected. Needs opentelemetry-api.

An operation that a crash left behind tells no event: without these it would be missing, and the
elapsed times of those that ended would look better than they are.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from replayfloor.client.clock import Clock, look
from replayfloor.client.journal import Journal
from replayfloor.client.telemetry.otel_metrics import PREFIX, PROVIDER
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import OperationState, PendingCount
from replayfloor.core.journal_rules import NS_PER_S

STATE: Final = "idempotency.state"

logger = logging.getLogger(__name__)

Place: TypeAlias = tuple[str, OperationState]


@dataclass(slots=True)
class _Group:
    count: int = 0
    oldest_s: float = 0.0


class Gauges:
    """Operations that are open or stay unknown, by provider and state: how many, and how old.

    A group without an operation is not observed. A journal that does not answer is logged, and
    nothing of it is observed: zero would say that all is well.
    """

    def __init__(self, meter: Meter) -> None:
        self._journals: list[tuple[Journal, Clock]] = []
        self._lock = threading.Lock()
        meter.create_observable_gauge(
            f"{PREFIX}operations.open",
            [self._open],
            unit="{operation}",
            description="Operations in the journal whose outcome is not known.",
        )
        meter.create_observable_gauge(
            f"{PREFIX}operation.oldest_age",
            [self._oldest],
            unit="s",
            description="Since the first attempt of the oldest of them.",
        )

    def add(self, journal: Journal, clock: Clock) -> None:
        """Read this journal too, once however often it is added."""
        with self._lock:
            if all(known is not journal for known, _ in self._journals):
                self._journals.append((journal, clock))

    def _open(self, options: CallbackOptions) -> Iterable[Observation]:
        for (provider, state), group in self._groups().items():
            yield Observation(group.count, {PROVIDER: provider, STATE: state.value})

    def _oldest(self, options: CallbackOptions) -> Iterable[Observation]:
        for (provider, state), group in self._groups().items():
            yield Observation(group.oldest_s, {PROVIDER: provider, STATE: state.value})

    def _groups(self) -> dict[Place, _Group]:
        groups: dict[Place, _Group] = {}
        for each, now_ns in self._counts():
            group = groups.setdefault((each.provider, each.state), _Group())
            age_s = (now_ns - each.oldest_first_attempt_at_ns) / NS_PER_S
            group.count += each.count
            group.oldest_s = max(group.oldest_s, age_s)
        return groups

    def _counts(self) -> Generator[tuple[PendingCount, int]]:
        with self._lock:
            journals = list(self._journals)
        for journal, clock in journals:
            try:
                counts = journal.count_pending()
            except StoreUnavailable:
                logger.warning("the journal does not say what is open", exc_info=True)
                continue
            now_ns = look(clock).wall_ns
            yield from ((each, now_ns) for each in counts)


# The SDK ignores the callbacks of a gauge that it knows already, without a word: the journals of
# all sinks that share a provider are read by one pair of gauges.
_lock: Final = threading.Lock()
_of_provider: Final[weakref.WeakKeyDictionary[MeterProvider, Gauges]] = weakref.WeakKeyDictionary()
_of_the_global_provider: Final[list[Gauges]] = []


def gauges_of(provider: MeterProvider | None, meter: Meter) -> Gauges:
    """Return the gauges of a provider, made with its `meter` if there are none; None means the
    global one, whichever that will be."""
    with _lock:
        if provider is None:
            if not _of_the_global_provider:
                _of_the_global_provider.append(Gauges(meter))
            return _of_the_global_provider[0]
        found = _of_provider.get(provider)
        if found is None:
            found = _of_provider[provider] = Gauges(meter)
        return found
