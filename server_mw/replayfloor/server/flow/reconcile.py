"""Settle one orphan: take it over, ask what became of it, record that. Pure.

The order is what makes it safe. The orphan's owner may be alive: a process that stood still wakes
up and finishes. Asked first, a reconciler could say "not applied" of an operation that is recorded
a moment later. So the claim passes to a fence of our own before anybody is asked. From then on the
old owner's writes are refused, a second reconciler finds the claim in flight, and what we write is
refused as soon as our own lease ran out and somebody else took over. Whatever happens in between,
a crash of ours included, the claim stands until someone settles it; nothing is executed meanwhile.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from replayfloor.core.claims import Abandon, Claim, Claimed, Fence, Finish, Renew
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.effects import Emit
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.responses import to_response
from replayfloor.server.verdicts import Applied, Ask, NotApplied, Orphan, StillUnknown

AT_ONCE_MS = 1
"""The shortest lease there is: the claim is an orphan again at once."""


class Settled(StrEnum):
    """What became of an orphan. SKIPPED: somebody else finished, freed or took it first."""

    APPLIED = "applied"
    NOT_APPLIED = "not-applied"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


def settle_orphan(orphan: Orphan, fence: Fence, lease_ms: int) -> Flow[Settled]:
    """Take an orphan over and settle it by the reconciler's verdict.

    `fence` must be new: it was in no effect before. `lease_ms` is longer than the reconciler is
    given to answer. A failure of the reconciler counts as UNKNOWN. Raises StoreUnavailable if it
    is not known whether the orphan was taken over, or settled: if it was not settled, our lease
    runs out and it is an orphan again. Other failures, and a cancellation, pass through after it
    was given back.
    """
    try:
        elsewhere = yield from _take_over(orphan, fence, lease_ms)
        if elsewhere:
            return Settled.SKIPPED
        return (yield from _settle(orphan, fence))
    except GeneratorExit:
        raise
    except StoreUnavailable as error:
        yield from _event(orphan, EventKind.STORE_UNAVAILABLE, str(error))
        raise
    except BaseException:
        yield from _give_back(orphan, fence, AT_ONCE_MS)
        raise


def _take_over(orphan: Orphan, fence: Fence, lease_ms: int) -> Flow[bool]:
    """Make the orphan ours; say whether it is not one any more.

    The claim is asked for once, and not again when its answer was lost. A store answers a
    repeated claim "claimed" without saying that the first one took an orphan over, which is also
    what it says of a key that was free; and a claim on a free key is given up here. Mixed up, an
    orphan of unknown outcome would be freed.
    """
    claim = Claim(orphan.receipt_id, orphan.fingerprint, fence, lease_ms, takeover=True)
    answer = yield from claim
    if answer == Claimed(taken_over=True):
        return False
    if isinstance(answer, Claimed):
        # Settled and freed since it was listed: the claim that we made by asking goes again.
        yield from Abandon(orphan.receipt_id, fence)
    return True


def _settle(orphan: Orphan, fence: Fence) -> Flow[Settled]:
    try:
        found = yield from _ask(orphan)
    except GeneratorExit:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a user's function raises
        # Our own text says what is wrong with the verdict. Anybody else's may hold anything; the
        # shell logs it where only the operator reads.
        detail = str(error) if isinstance(error, UsageError) else type(error).__name__
        yield from _event(orphan, EventKind.LEFT_ORPHANED, detail)
        yield from _give_back(orphan, fence, AT_ONCE_MS)
        return Settled.UNKNOWN
    match found:
        case StillUnknown(why, ask_again_after_s):
            yield from _event(orphan, EventKind.LEFT_ORPHANED, why or "still-unknown")
            yield from _give_back(orphan, fence, max(AT_ONCE_MS, round(ask_again_after_s * 1000)))
            return Settled.UNKNOWN
        case NotApplied():
            settled, detail = Settled.NOT_APPLIED, "not-applied"
            recorded = yield from Abandon(orphan.receipt_id, fence)
        case Receipt(response=response):
            settled, detail = Settled.APPLIED, f"applied {response.status}"
            recorded = yield from Finish(orphan.receipt_id, fence, found)
        case _:
            assert_never(found)
    if not recorded:
        yield from _event(orphan, EventKind.LEASE_LOST)
        return Settled.SKIPPED
    yield from _event(orphan, EventKind.RECONCILED, detail)
    return settled


def _ask(orphan: Orphan) -> Flow[Receipt | NotApplied | StillUnknown]:
    """Return the verdict, with the receipt in the place of Applied."""
    verdict = yield from Ask(orphan)
    match verdict:
        case Applied(response, sensitive=sensitive):
            return keep(orphan.fingerprint, to_response(response), sensitive=sensitive)
        case NotApplied() | StillUnknown():
            return verdict
    raise UsageError(
        f"a reconciler answers Applied, NotApplied or StillUnknown, not {type(verdict).__name__}"
    )


def _give_back(orphan: Orphan, fence: Fence, after_ms: int) -> Flow[None]:
    """Make it an orphan again, `after_ms` from now; if the store is gone, the lease does it."""
    try:
        yield from Renew(orphan.receipt_id, fence, after_ms)
    except StoreUnavailable as error:
        yield from _event(orphan, EventKind.STORE_UNAVAILABLE, str(error))


def _event(orphan: Orphan, kind: EventKind, detail: str = "") -> Effect[None]:
    return Emit(ServerEvent(kind, orphan.id, detail))
