"""RabbitMQ: what a queue's settings say of redelivery, as its management API tells them. Pure.

A message is handed out again until its time to live ends, and without one for ever: a limit of
deliveries and a consumer's time-out end nothing while no consumer runs. What became a dead letter
may come back, by hand or by a queue that sends it on by itself. The asking is done in
`brokers_rabbitmq_api`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from replayfloor.retention.brokers import Setting, Window, check_moves_back, whole_number
from replayfloor.retention.durations import in_words

CONSUMER_TIMEOUT_S: Final = 1800.0
"""What a node goes by if nothing else is set. A node's own setting cannot be read over HTTP."""

TIMEOUT_CHECK_S: Final = 60.0
"""How often a node looks for deliveries that timed out."""

DELIVERY_LIMIT: Final = 20
"""That of a quorum queue from 4.0 on, if nothing else is set."""

QUORUM, STREAM = "quorum", "stream"

_MS_PER_S: Final = 1000.0
_ONLY_QUORUM: Final = (4, 3)
_LIMIT_BY_DEFAULT: Final = (4, 0)
_NO_LIMIT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue as the management API describes it.

    `dead_letters` are the queues to which its dead letters go, and `returns` whether one of those
    sends them back by itself.
    """

    name: str
    type: str
    arguments: Mapping[str, object]
    policy: Mapping[str, object]
    consumer_timeouts_ms: Sequence[int] = ()
    dead_letters: Sequence[Queue] = ()
    dead_letter_exchange: str | None = None
    returns: bool = False

    def least_ms(self, argument: str, policy: str, *, least: int = 0) -> int | None:
        """Return a setting, in ms or a count: the smaller of the queue's and the policy's."""
        given = (self.arguments.get(argument), self.policy.get(policy))
        found = [
            whole_number(f"{argument} of {self.name}", value, least=least)
            for value in given
            if value is not None
        ]
        return min(found, default=None)

    @property
    def time_to_live_s(self) -> float | None:
        """After how many seconds a message is not handed out any more; None for never."""
        # A stream ignores it.
        found = None if self.type == STREAM else self.least_ms("x-message-ttl", "message-ttl")
        return None if found is None else found / _MS_PER_S


def rabbitmq_window(
    queue: Queue, *, version: str, source: str, read_on: date, moves_back: int = 1
) -> Window:
    """Return how long a queue may hand out a message again.

    Args:
        queue: what the API says.
        version: the broker's, such as "4.1.3".
        source: where that was read.
        read_on: today, which stands beside the figure.
        moves_back: how often a person moves one dead letter back.

    Raises BrokerUnavailable for settings that are not understood.
    """
    check_moves_back(moves_back)
    ttl_s = queue.time_to_live_s
    timeout = _timeout(queue, _numbers(version))
    limit = _delivery_limit(queue, _numbers(version))
    dead = _dead_letters(queue, ttl_s, moves_back)
    unbounded = (*_endless(queue, ttl_s), *dead.unbounded)
    settings = (
        Setting("version", version, "decides which queues take deliveries back"),
        Setting("type", queue.type, "of the queue"),
        _shown_ttl(queue.name, ttl_s),
        _shown_limit(limit),
        timeout.setting,
        *dead.settings,
    )
    total_s = None if ttl_s is None or unbounded else ttl_s + dead.extra_s
    return Window(
        broker="RabbitMQ",
        queue=queue.name,
        seconds=total_s,
        driver="" if total_s is None else dead.driver or "message TTL",
        settings=settings,
        reasons=(*_reasons(ttl_s), *dead.reasons),
        unbounded=unbounded,
        while_consumed_s=_while_consumed_s(limit, timeout.seconds),
        source=source,
        read_on=read_on,
    )


def _endless(queue: Queue, ttl_s: float | None) -> tuple[str, ...]:
    if queue.type == STREAM:
        return ("a stream hands out whatever it still has, and deletes by whole segments only",)
    if ttl_s is None:
        return ("it has no time to live: without a consumer a message waits, and comes again then",)
    return ()


def _reasons(ttl_s: float | None) -> tuple[str, ...]:
    if ttl_s is None:
        return ()
    return (
        f"a message that is given back keeps its time to live, {in_words(ttl_s)} from its arrival",
        "a publisher may give a message less (expiration), and never more",
    )


def _shown_ttl(name: str, ttl_s: float | None) -> Setting:
    value = "none" if ttl_s is None else in_words(ttl_s)
    return Setting("message TTL", value, f"ends the life of a message in {name}")


def _numbers(version: str) -> tuple[int, int]:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (
        whole_number("the version of the broker", major),
        whole_number("the version of the broker", minor or "0"),
    )


@dataclass(frozen=True, slots=True)
class _Timeout:
    """After how long a delivery without an answer is taken back; `seconds` is None for never."""

    seconds: float | None
    setting: Setting


def _timeout(queue: Queue, version: tuple[int, int]) -> _Timeout:
    name = "consumer timeout"
    if version >= _ONLY_QUORUM and queue.type != QUORUM:
        return _Timeout(
            None,
            Setting(name, "none", f"from 4.3 on a {queue.type} queue takes no delivery back"),
        )
    on_queue = queue.least_ms("x-consumer-timeout", "consumer-timeout")
    # A consumer's own argument goes before all others, so the longest of them counts.
    found = max((*queue.consumer_timeouts_ms, on_queue or 0))
    if on_queue is None:
        found = max(found, int(CONSUMER_TIMEOUT_S * _MS_PER_S))
    seconds = found / _MS_PER_S
    told = "" if on_queue is not None else ", by default: look up consumer_timeout of your nodes"
    return _Timeout(
        seconds,
        Setting(name, in_words(seconds), f"then a delivery without an answer is taken back{told}"),
    )


def _delivery_limit(queue: Queue, version: tuple[int, int]) -> int | None:
    """Return how often a message is handed out again; None for no limit."""
    if queue.type != QUORUM:
        return None
    found = queue.least_ms("x-delivery-limit", "delivery-limit", least=_NO_LIMIT)
    if found is None and version >= _LIMIT_BY_DEFAULT:
        return DELIVERY_LIMIT
    return None if found in (None, _NO_LIMIT) else found


def _shown_limit(limit: int | None) -> Setting:
    value = "none" if limit is None else str(limit)
    return Setting("delivery limit", value, "how often a message is given back and handed out")


def _while_consumed_s(limit: int | None, timeout_s: float | None) -> float | None:
    if limit is None or timeout_s is None:
        return None
    return limit * (timeout_s + TIMEOUT_CHECK_S)


@dataclass(frozen=True, slots=True)
class _DeadLetters:
    extra_s: float = 0.0
    driver: str = ""
    settings: tuple[Setting, ...] = ()
    reasons: tuple[str, ...] = ()
    unbounded: tuple[str, ...] = ()


def _dead_letters(queue: Queue, ttl_s: float | None, moves_back: int) -> _DeadLetters:
    if queue.dead_letter_exchange is None:
        return _DeadLetters()
    exchange = queue.dead_letter_exchange or "the default exchange"
    settings = (
        Setting("dead letters", exchange, "is where they go"),
        *(_shown_ttl(dead.name, dead.time_to_live_s) for dead in queue.dead_letters),
    )
    names = ", ".join(dead.name for dead in queue.dead_letters)
    if queue.returns:
        return _DeadLetters(
            settings=settings,
            unbounded=(f"{names} sends dead letters back by itself, as often as they fail",),
        )
    if not queue.dead_letters:
        return _DeadLetters(
            settings=settings, reasons=("dead letters reach no queue: they are gone",)
        )
    if not moves_back:
        reason = "dead letters are never moved back, by your word (moves_back = 0)"
        return _DeadLetters(settings=settings, reasons=(reason,))
    lives = [dead.time_to_live_s for dead in queue.dead_letters]
    known = [life for life in lives if life is not None]
    if ttl_s is None or len(known) < len(lives):
        endless = [dead.name for dead in queue.dead_letters if dead.time_to_live_s is None]
        unbounded = (
            (f"a person may move a message back from {', '.join(endless)} at any time",)
            if endless
            else ()
        )
        return _DeadLetters(settings=settings, unbounded=unbounded)
    round_s = ttl_s + max(known)
    times = "once" if moves_back == 1 else f"{moves_back} times"
    return _DeadLetters(
        extra_s=moves_back * round_s,
        driver=f"message TTL of {queue.name} and of {names}",
        settings=settings,
        reasons=(
            f"moved back {times} by hand, a message begins anew, up to "
            f"{in_words(moves_back * round_s)} later",
        ),
    )
