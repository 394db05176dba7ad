"""Listens for what is put into the inbox, in both colours, on a connection of its own.

Only a matter of speed: whoever is not woken looks by himself before long. So a connection that is
lost, or that cannot be had, is told of once and tried again, and stops nobody.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

import psycopg

from replayfloor.server.stores.inbox_options import CHANNEL, is_for
from replayfloor.server.stores.postgres_options import CONNECT_S_MIN, conninfo_of

AGAIN_S: Final = 5.0
"""Between two attempts to connect: the inbox is looked into meanwhile anyway."""

LOOK_S: Final = 0.5
"""How often a listening thread looks whether it has to end."""

LISTEN: Final = f"listen {CHANNEL}"

log = logging.getLogger("replayfloor.server")


async def listen_async(url: str, namespace: str, ring: Callable[[], None]) -> None:
    """Call `ring` for each notification, until cancelled."""
    told = False
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(
                conninfo_of(url), autocommit=True, connect_timeout=CONNECT_S_MIN
            )
            async with connection:
                await connection.execute(LISTEN)
                told = False
                ring()  # what came before nobody listened to
                async for notification in connection.notifies():
                    if is_for(notification.payload, namespace):
                        ring()
        except psycopg.Error as error:
            told = _tell(error, told=told)
        await asyncio.sleep(AGAIN_S)


def listen(url: str, namespace: str, ring: Callable[[], None], stopping: threading.Event) -> None:
    """Call `ring` for each notification, until `stopping` is set."""
    told = False
    while not stopping.is_set():
        try:
            with psycopg.connect(
                conninfo_of(url), autocommit=True, connect_timeout=CONNECT_S_MIN
            ) as connection:
                connection.execute(LISTEN)
                told = False
                ring()
                while not stopping.is_set():
                    for notification in connection.notifies(timeout=LOOK_S):
                        if is_for(notification.payload, namespace):
                            ring()
        except psycopg.Error as error:
            told = _tell(error, told=told)
        stopping.wait(AGAIN_S)


def _tell(error: psycopg.Error, *, told: bool) -> bool:
    if not told:
        log.warning("inbox: nobody is woken, the inbox is looked into regularly: %s", error)
    return True
