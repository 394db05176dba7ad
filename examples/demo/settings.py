"""Every number of the demo, with its reason. No behaviour lives here.

The times are a demo's, chosen so that it ends while somebody watches. In production a lease covers
the slowest handler, and retries wait seconds to minutes.
"""

from __future__ import annotations

from pathlib import Path

from replayfloor.testing.proxy_plan import (
    DUPLICATE,
    LOSE_REPLY,
    PASS,
    REFUSE,
    Cut,
    Fault,
    LoseReply,
)

DEMO = Path(__file__).resolve().parent
EXAMPLES = DEMO.parent
PAYMENTS = EXAMPLES / "data" / "payments.jsonl"

SEED = 2026
PARALLEL = 12
"""Payments under way at a time: enough that a kill always hits some."""

DECK: tuple[Fault, ...] = (
    *[LOSE_REPLY] * 3,
    *[LoseReply(Cut.CLOSE)] * 3,
    *[DUPLICATE] * 6,
    *[REFUSE] * 5,
    *[PASS] * 33,
)
"""What happens to 50 requests: 12 % lose their answer after the commit, half of them by a reset and
half by an orderly end; 12 % arrive twice; 10 % are refused."""

SERVER_KILLS_AT = (0.25, 0.60)
SENDER_KILL_AT = 0.45
"""Shares of the payments that are answered when SIGKILL is sent, so that each kill meets another
state: the server in the first rush, the sender with a used journal, the server while keys of the
killed sender are open."""

IN_FLIGHT_MIN = 2
"""Requests that the server must have and not have answered, at the moment of a kill."""

LEASE_S = 2.0
"""A killed server's keys stay taken for this long. A payment here takes milliseconds."""

RETENTION_S = 3600.0
"""For how long the sender counts on the server to know a key, and sends it again. The server of
the example keeps its receipts, so any number is safe; an hour, of which the last minute is left
unused as a margin, is far more than a demo of one minute needs."""

ATTEMPTS_MAX = 40
"""A payment that meets both kills and a fault each time still has room."""

WAIT_MIN_S, WAIT_MAX_S = 0.05, 1.0
"""Between two attempts: short enough that a restarted server is met at once."""

REQUEST_TIMEOUT_S = 5.0
"""Longer than a commit on a slow disk; a request beyond it is repeated like any other."""

TIME_MAX_S = 55.0
"""The whole demo is given up after this, with exit status 1: it promises to end in a minute."""

START_TIME_MAX_S = 20.0
"""For a server or a sender to start, on a machine that is busy with other things."""

STOP_TIME_MAX_S = 3.0
"""For a clean stop before SIGKILL."""

PAYMENTS_MAX = 2000
"""More than this does not end within the time on two cores."""
