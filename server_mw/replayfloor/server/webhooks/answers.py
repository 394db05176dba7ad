"""What a sender of webhooks is answered that no application has answered, and by which of several
answers. Pure."""

from __future__ import annotations

from typing import Final

from replayfloor.core.message import Response

NOTHING_TOLD: Final = Response(200, (), b"")
"""The answer to a delivery that tells of no event: there is nothing to deliver again."""

PAST_HORIZON: Final = Response(200, ((b"content-type", b"text/plain"),), b"past its horizon")
"""What the sender of an event gets that is too old to be told from a repetition: a success, since
anything else would be delivered again, and it is nothing that the sender could mend."""

_LATER: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 that ask for the same again later (RFC 9110, 15.5.9 and 15.5.10; RFC 8470,
5.2; RFC 6585, 4)."""


def weight(status: int) -> int:
    """Return how much an event's status counts for the answer to a delivery of several.

    The heaviest is the delivery's. Any failure is more than a success: what failed has to be
    delivered again. And one that passes is more than one that stays, since senders give up on some
    of the latter, and what waits for the next delivery would be lost with it.
    """
    if 200 <= status < 300:
        return 0
    return 2 if status >= 500 or status in _LATER else 1
