"""A request of a pair that arrived, and is served; and what the server then sends back."""

from __future__ import annotations

from dataclasses import replace

from replayfloor.core.message import Response
from replayfloor.server.flow import Answer, Answered, Recorded, Refused, Replayed
from replayfloor.server.margins import margin_ms, skew_ms
from replayfloor.testing.explore_flow import Place
from replayfloor.testing.server_process import Process

LEASE_MS = 1000
RETENTION_MS = 100_000
"""For so long the server keeps receipts."""

SLACK_MS = margin_ms(RETENTION_MS) - skew_ms(RETENTION_MS)
"""From the arrival of a request to its claim, and from a claim or a finish to the release."""

REPLAYED = (b"idempotent-replayed", b"true")


class Served(Process):
    """Serves the request of one attempt. `since_ms`: its arrival, or its last effect since."""

    attempt: int = 0
    since_ms: int = 0

    def key(self) -> object:
        """Return the process's value; the world has its own."""
        return (super().key(), self.attempt, self.since_ms)


def to_response(place: Place[Answer]) -> Response:
    """Return what is sent at the end of a flow."""
    match place.result:
        case Answered(captured):
            return captured.response
        case Recorded(receipt):
            return receipt.response
        case Replayed(receipt):
            return replace(receipt.response, headers=(*receipt.response.headers, REPLAYED))
        case Refused(problem):
            return problem.to_response()
        case _:
            return Response(500, (), b"")
