"""What every settlement needs: to go on when it is cancelled, to look, and to announce. Pure."""

from __future__ import annotations

from typing import TypeVar

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Claimed, Release
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.problem import in_flight
from replayfloor.core.receipt import Receipt
from replayfloor.server.events import EventKind
from replayfloor.server.flow.values import Admitted, Refused, event
from replayfloor.server.policy import Options

T = TypeVar("T")


class Interruption:
    """A cancellation that came while an execution was settled. It waits until that is done.

    The handler has ended, so there is something to be recorded, whoever lost patience meanwhile.
    A driver shields what follows a failure; so the effect that was interrupted, which may or may
    not have been performed, is simply asked for again: each of them can be repeated.
    """

    __slots__ = ("error",)

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.error: BaseException | None = None

    def insist(self, effect: Effect[T]) -> Flow[T]:
        """Ask for an effect, and ask again if a cancellation got in between."""
        try:
            return (yield from effect)
        except (GeneratorExit, Exception):
            raise
        except BaseException as error:  # noqa: BLE001 - raised when everything is settled
            self.error = error
        return (yield from effect)

    def resume(self) -> None:
        """Let the cancellation take its course."""
        if self.error is not None:
            raise self.error


def ask(admitted: Admitted, options: Options, interruption: Interruption) -> Flow[ClaimAnswer]:
    """Ask with the execution's own fence: its own claim is answered Claimed and stays.

    If neither claim nor receipt is there, that is answered Claimed too, and the claim is made
    anew: what follows has to end it. Raises StoreUnavailable.
    """
    claim = Claim(admitted.id, admitted.fingerprint, admitted.fence, options.lease_ms)
    return (yield from interruption.insist(claim))


def look(admitted: Admitted, options: Options, interruption: Interruption) -> Flow[ClaimAnswer]:
    """See what stands where the claim was, and leave nothing behind. Raises StoreUnavailable."""
    found = yield from ask(admitted, options, interruption)
    if isinstance(found, Claimed):
        # Neither claim nor receipt was there: it was settled by other hands, and is free.
        yield from interruption.insist(Abandon(admitted.id, admitted.fence))
    return found


def give_way(admitted: Admitted, interruption: Interruption) -> Flow[Refused]:
    """Tell that another has the key, and ask the sender to come back for that one's answer."""
    yield from event(admitted, EventKind.LEASE_LOST)
    yield from interruption.insist(Release(admitted.id, admitted.fence))
    return Refused(in_flight(left_ms=0))


def announce(
    admitted: Admitted, receipt: Receipt, options: Options, interruption: Interruption
) -> Flow[None]:
    """Tell that the receipt is durable, and leave it in the lock's place."""
    if not options.quiet:
        yield from event(admitted, EventKind.FINISHED, str(receipt.response.status))
    keep_ms = options.kept_ms(options.retention_ms)
    release = Release(admitted.id, admitted.fence, receipt, keep_ms)
    yield from interruption.insist(release)
