"""Another service, which handlers charge: the ledger of what is outside of the receipts' database.

It lives in the harness, which nobody kills, and so remembers every call that came to its end. A
call under a name is repeatable, as with any provider that takes idempotency keys: the first one
charges, later ones are told what it did. One JSON object a line, in both directions.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of a ledger: a charge, the execution that made it, and the name it was made under.

    `repeated` marks a call of the bank that was recognised by its name and charged nothing.
    """

    payment: str
    charge: int
    amount: int
    run: str
    at: float
    name: str | None = None
    repeated: bool = False


class Bank:
    """The service; `port` is there once it listens, `effects` are all calls so far."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.port = 0
        self.effects: list[Effect] = []
        self._by_name: dict[str, Effect] = {}

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Listen on a free port."""
        server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            try:
                line = await reader.readline()
                # A line without its end is a call that never came whole: its sender was killed.
                if line.endswith(b"\n"):
                    writer.write(json.dumps({"charge": self.charge(**json.loads(line))}).encode())
                    writer.write(b"\n")
                    await writer.drain()
            finally:
                writer.close()

    def charge(self, payment: str, amount: int, run: str, name: str | None = None) -> int:
        """Charge, and return the number of the charge."""
        before = None if name is None else self._by_name.get(name)
        number = len(self.effects) + 1 if before is None else before.charge
        effect = Effect(payment, number, amount, run, time.time(), name, before is not None)
        self.effects.append(effect)
        if name is not None:
            self._by_name.setdefault(name, effect)
        return number


async def charge_at(port: int, payment: str, amount: int, run: str, name: str | None) -> int:
    """Charge at the bank that listens on a port; return the number of the charge."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        call = {"payment": payment, "amount": amount, "run": run, "name": name}
        writer.write(json.dumps(call).encode() + b"\n")
        return int(json.loads(await reader.readline())["charge"])
    finally:
        writer.close()
