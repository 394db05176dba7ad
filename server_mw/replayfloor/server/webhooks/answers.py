"""What a sender of webhooks is answered that no application has answered. Values."""

from __future__ import annotations

from typing import Final

from replayfloor.core.message import Response

NOTHING_TOLD: Final = Response(200, (), b"")
"""The answer to a delivery that tells of no event: there is nothing to deliver again."""

PAST_HORIZON: Final = Response(200, ((b"content-type", b"text/plain"),), b"past its horizon")
"""What the sender of an event gets that is too old to be told from a repetition: a success, since
anything else would be delivered again, and it is nothing that the sender could mend."""
