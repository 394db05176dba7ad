"""A process that applies an inbox until it is killed, at the place that its test has chosen.

python -m webhooks.inbox_process URL SIDE EFFECTS WHERE
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal, TypeAlias, cast

from replayfloor.server.claim import BaseClaim
from replayfloor.server.policy import Effects
from replayfloor.server.webhooks.inbox.options import WorkerOptions
from replayfloor.server.webhooks.inbox.workers import InboxWorkers
from replayfloor.server.webhooks.inbox.workers_async import AsyncInboxWorkers
from webhooks.inbox_crews import Handler, Side
from webhooks.inboxes import Database

Where: TypeAlias = Literal["before the write", "after the write", "never"]

TESTS = Path(__file__).resolve().parent.parent
LEASE_S = 0.5


def started(url: str, side: Side, effects: Effects, where: Where) -> subprocess.Popen[bytes]:
    """Start such a process."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "webhooks.inbox_process", url, side, effects.value, where],
        env={**os.environ, "PYTHONPATH": path},
    )


def die(_event_id: str, _claim: BaseClaim) -> int:
    """End as by a power cut: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)
    return 500


def main(url: str, side: Side, effects: Effects, where: Where) -> None:
    """Work until killed."""
    handler = Handler(Database(url), effects, run="killed")
    if where == "before the write":
        handler.before = die
    elif where == "after the write":
        handler.after = die
    options: WorkerOptions = {"lease_s": LEASE_S, "poll_s": 0.05}
    if side == "asgi":
        asyncio.run(_work(AsyncInboxWorkers(url, handler.asgi, lambda _: effects, **options)))
    else:
        InboxWorkers(url, handler.wsgi, lambda _: effects, **options).start()
        time.sleep(60)


async def _work(workers: AsyncInboxWorkers) -> None:
    await workers.start()
    await asyncio.sleep(60)


if __name__ == "__main__":
    _url, _side, _effects, _where = sys.argv[1:]
    main(_url, cast("Side", _side), Effects(_effects), cast("Where", _where))
