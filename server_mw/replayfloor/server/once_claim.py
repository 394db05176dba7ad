"""What a block sees of its claim: as in a request, but that there is no answer to store."""

from __future__ import annotations

from typing import Final

from replayfloor.core.message import Response
from replayfloor.server.claim import ActiveClaim, AsyncActiveClaim

APPLIED: Final = Response(204, (), b"")
"""What the receipt of a message that was applied holds: that it was."""


class AsyncMessageClaim(AsyncActiveClaim):
    """The claim under which the block of a message runs. See AsyncActiveClaim for what it has."""

    __slots__ = ()

    async def finish_in(self, connection: object, response: object = APPLIED) -> None:
        """Write the receipt in the block's own open transaction; commit it inside the block.

        For effects="external" or "repeatable". See AsyncActiveClaim.finish_in, also for what it
        raises; `response` may be left out, nobody reads it.
        """
        await super().finish_in(connection, response)


class MessageClaim(ActiveClaim):
    """The claim under which the block of a message runs. See ActiveClaim for what it has."""

    __slots__ = ()

    def finish_in(self, connection: object, response: object = APPLIED) -> None:
        """Write the receipt in the block's own open transaction; commit it inside the block.

        See AsyncMessageClaim.finish_in.
        """
        super().finish_in(connection, response)
