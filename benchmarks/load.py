"""The load generator's process: reads plans from its input, one a line, answers with outcomes.

A client of its own, because a general one costs several times what the bare application does: the
bytes of a request are made beforehand, and an answer is known by its head, which is looked at in
full whenever it differs from those seen before. `python -m benchmarks.load`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Final, cast

import uvloop
from benchmarks.cpu import cpu_s
from benchmarks.figures import P99, percentile
from benchmarks.load_plan import BODY, Outcome, Plan, key_of, uuid4_of

RANDOM_BYTES: Final = 16 * 4096
"""Of the system's random numbers, at a time."""

HEADS_MAX: Final = 4096
"""Heads that are remembered. Answers differ in their date, or in how long a key still lives."""

CHUNKED: Final = -1
"""For a length: the body comes in chunks, and ends with an empty one."""

LAST_CHUNK: Final = b"\r\n0\r\n\r\n"

HOST: Final = "127.0.0.1"
COUNTED_S: Final = 600.0
"""For a plan that ends after a number of requests."""

ENDS_WITHIN_S: Final = 60.0
"""For the last answers, after the time is up: longer than any server's own deadlines."""


class WrongAnswer(Exception):
    """An answer is not the one that is to be measured."""


def requests_of(plan: Plan) -> Iterator[bytes]:
    """Return the requests to send, one after the other."""
    head = (
        f"POST {plan.path} HTTP/1.1\r\nHost: {HOST}:{plan.port}\r\nAccept: */*\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n"
    )
    quote = "" if plan.bare_keys else '"'
    before = f"{head}{plan.header}: {quote}".encode()
    after = f"{quote}\r\n\r\n".encode() + BODY
    if plan.keys == "none":
        request = f"{head}\r\n".encode() + BODY
        while True:
            yield request
    elif plan.keys == "pool":
        made = [before + key_of(plan.seed, n).encode() + after for n in range(plan.pool)]
        while True:
            yield from made
    else:
        while True:
            block = os.urandom(RANDOM_BYTES).hex()
            for at in range(0, len(block), 32):
                yield before + uuid4_of(block[at : at + 32]).encode() + after


class Run:
    """One plan under way: what its connections share."""

    def __init__(self, plan: Plan) -> None:
        """Send nothing yet."""
        self.plan = plan
        self.next_request = requests_of(plan).__next__
        self.times: list[float] = []
        self.left = plan.requests or sys.maxsize
        self.under_way = 0
        self.stopped = False
        self.ended = asyncio.get_running_loop().create_future()
        self._known: dict[bytes, int] = {}

    def length_of(self, head: bytes) -> int:
        """Return the length of the body after a head, or CHUNKED. Raises WrongAnswer."""
        length = self._known.get(head)
        if length is None:
            length = self._read(head)
            if len(self._known) >= HEADS_MAX:
                self._known.clear()
            self._known[head] = length
        return length

    def _read(self, head: bytes) -> int:
        text = head.decode("latin-1").lower()
        expected = self.plan.expected
        status = text[9:12]
        if (
            status != str(expected.status)
            or expected.present not in text
            or (expected.absent and expected.absent in text)
        ):
            raise WrongAnswer(text)
        for line in text.split("\r\n"):
            name, _, value = line.partition(":")
            if name == "content-length":
                return int(value)
            if name == "transfer-encoding":
                return CHUNKED
        raise WrongAnswer(f"no length: {text}")

    def fail(self, why: str) -> None:
        """End the run: nothing that it measured counts."""
        self.stopped = True
        if not self.ended.done():
            self.ended.set_exception(WrongAnswer(why))

    def one_less(self) -> None:
        """A connection has nothing under way any more."""
        self.under_way -= 1
        if self.stopped and not self.under_way and not self.ended.done():
            self.ended.set_result(None)


class Connection(asyncio.Protocol):
    """A connection: one request at a time, the next one as soon as the answer is whole."""

    __slots__ = ("_began", "_buffer", "_run", "_transport", "_write")

    def __init__(self, run: Run) -> None:
        """Belong to a run."""
        self._run = run
        self._buffer = b""
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._write: Callable[[bytes], None] = self._transport.write

    def send(self) -> None:
        """Send the next request, unless the run is over."""
        run = self._run
        if run.stopped or not run.left:
            run.stopped = True
            run.one_less()
            return
        run.left -= 1
        self._began = perf_counter()
        self._write(run.next_request())

    def data_received(self, data: bytes) -> None:
        """Read an answer, or a part of one."""
        if self._buffer:
            data = self._buffer + data
        end = data.find(b"\r\n\r\n")
        run = self._run
        if end >= 0:
            try:
                length = run.length_of(data[:end])
            except WrongAnswer as wrong:
                run.fail(f"{wrong}\n{data[end:].decode('latin-1')}")
                return
            # One answer is under way at a time, so what ends with the last chunk is whole.
            if data.endswith(LAST_CHUNK) if length == CHUNKED else len(data) == end + 4 + length:
                self._buffer = b""
                run.times.append(perf_counter() - self._began)
                self.send()
                return
        self._buffer = data

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the run, unless it is over."""
        if not self._run.stopped:
            self._run.fail(f"the connection was lost: {exc!r}")

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


async def carry_out(plan: Plan) -> Outcome:
    """Do what a plan says."""
    run = Run(plan)
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Connection(run), HOST, plan.port)
        for _ in range(plan.connections)
    ]
    connections = [connection for _transport, connection in made]
    run.under_way = len(connections)
    try:
        for connection in connections:
            connection.send()
        outcome = await _measure(run)
        await asyncio.wait_for(run.ended, ENDS_WITHIN_S)
    except WrongAnswer as wrong:
        return Outcome(len(run.times), 1.0, 0.0, 0.0, 0.0, 0.0, str(wrong))
    finally:
        run.stopped = True
        for connection in connections:
            connection.close()
    return outcome


async def _measure(run: Run) -> Outcome:
    plan = run.plan
    if not plan.requests:
        await _pass(run, plan.warm_up_s)
    first = len(run.times)
    began, own, worker = perf_counter(), process_time(), cpu_s(plan.pids)
    await _pass(run, COUNTED_S if plan.requests else plan.seconds)
    took_s = perf_counter() - began
    worker_s, own_s = cpu_s(plan.pids) - worker, process_time() - own
    taken = [round(took * 1e9) for took in run.times[first:]]
    run.stopped = True
    p50, p99 = (percentile(taken, share) / 1e6 if taken else 0.0 for share in (0.5, P99))
    return Outcome(len(taken), took_s, worker_s, own_s, p50, p99)


async def _pass(run: Run, seconds: float) -> None:
    """Let time pass, or the run end."""
    await asyncio.wait([run.ended], timeout=seconds)


async def serve() -> None:
    """Carry out the plans on the input, one after the other."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        outcome = await carry_out(Plan.of_json(line))
        print(outcome.as_json(), flush=True)


if __name__ == "__main__":
    uvloop.run(serve())
