"""A consumer that is killed by its test while it applies a message.

    python -m once.consumer_process SIDE RECEIPTS LOCK EFFECTS

Prints a line when it has written its row, and then works on until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import cast

from once.consumers import SOURCE
from replayfloor.server.once import AsyncGuard, Guard
from replayfloor.server.routes import EffectsOption
from server.backends import Ledger

LEASE_S = 1.0
FOR_EVER_S = 600.0


async def consume(receipts: str, lock: str, effects: EffectsOption) -> None:
    """Apply m1, awaiting."""
    guard = AsyncGuard(receipts=receipts, lock=lock, effects=effects, lease_s=LEASE_S)
    ledger = Ledger(receipts)
    async with guard, guard.once("m1", source=SOURCE) as claim:
        if effects == "atomic":
            await ledger.write_in(claim.connection, "m1")
        else:
            ledger.write("m1")
        os.write(1, b"written\n")
        await asyncio.sleep(FOR_EVER_S)


def consume_blocking(receipts: str, lock: str, effects: EffectsOption) -> None:
    """Apply m1, blocking."""
    guard = Guard(receipts=receipts, lock=lock, effects=effects, lease_s=LEASE_S)
    ledger = Ledger(receipts)
    with guard, guard.once("m1", source=SOURCE) as claim:
        if effects == "atomic":
            claim.connection.execute(ledger.insert, ("m1",))
        else:
            ledger.write("m1")
        os.write(1, b"written\n")
        time.sleep(FOR_EVER_S)


if __name__ == "__main__":
    side, receipts_url, lock_url, chosen = sys.argv[1:]
    of_block = cast("EffectsOption", chosen)
    if side == "asgi":
        asyncio.run(consume(receipts_url, lock_url, of_block))
    else:
        consume_blocking(receipts_url, lock_url, of_block)
