"""Ends a wait for a database that hangs: its own time limits count only while it runs itself."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import psycopg

from replayfloor.server.stores.protocols import Row


@contextmanager
def cut_off_after(limit_s: float, connection: psycopg.Connection[Row]) -> Generator[None]:
    """Cut a connection after a time, so that whoever waits for its answer gets an error."""

    def cut() -> None:
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(connection.fileno())) as twin,
        ):
            twin.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
