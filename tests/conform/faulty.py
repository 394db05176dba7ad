"""A small server that keeps the rules, in memory, and breaks one of them if it is told to.

It is no example: it exists so that each check of the kit is seen to fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Pairs = list[tuple[bytes, bytes]]
STRING = re.compile(rb' *"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)" *(;[a-z]+=[0-9]+)* *')
HEX = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
KEY_MAX = 255
LARGE = 1 << 20
DAY = b"Mon, 01 Jan 2024 00:00:00 GMT"
LATE_S = 0.2
RACE_S = 0.02
PAGE = b'<https://shop.example/keys>; rel="describedby"'
OPEN = [(b"access-control-allow-origin", b"*")]
EXPOSED = [(b"access-control-expose-headers", b"Idempotent-Replayed")]
TYPES = {
    "missing": 400,
    "malformed": 400,
    "reused": 422,
    "in-flight": 409,
}


@dataclass
class Answer:
    """What the shop said."""

    status: int
    headers: Pairs
    chunks: list[bytes]


@dataclass
class Record:
    """What is known of a key; without an answer it is in flight."""

    fingerprint: tuple[object, ...]
    answer: Answer | None = None


class Refused(Exception):
    """A refusal, by kind."""


@dataclass
class FaultyServer:
    """The server; `faults` may be changed between two runs."""

    shop: ASGIApp
    faults: frozenset[str] = frozenset()
    records: dict[object, Record] = field(default_factory=dict[object, Record])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            await self._preflight(send)
            return
        protected = ["POST", "PATCH", *(["GET"] if self.has("get-too") else [])]
        if scope["type"] != "http" or scope["method"] not in protected or _is_count(scope):
            await self.shop(scope, receive, send)
            return
        try:
            body = await self._body(receive)
            key = self._key([v for n, v in scope["headers"] if n == b"idempotency-key"])
            if key is None:
                await self._say(send, await self._execute(scope, body), replay=False)
            else:
                await self._protected(scope, body, key, receive, send)
        except ConnectionError:
            return
        except Refused as refused:
            await self._refuse(send, str(refused))

    def has(self, fault: str) -> bool:
        """Say whether this fault is on."""
        return fault in self.faults

    async def _body(self, receive: Receive) -> bytes:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                if self.has("half-a-body"):
                    return body
                raise ConnectionError
            body += bytes(message.get("body", b""))
            if not message.get("more_body", False):
                return body

    def _key(self, lines: Sequence[bytes]) -> str | None:
        if self.has("first-line"):
            lines = [line.partition(b",")[0] for line in lines[:1]]
        if not lines:
            raise Refused("missing")
        if self.has("empty-is-none") and lines[0].strip(b'" ') == b"":
            return None
        if self.has("opaque"):
            return lines[0].decode("latin-1")
        found = STRING.fullmatch(lines[0]) if len(lines) == 1 else None
        key = found[1].decode() if found else ""
        if len(key) > KEY_MAX and self.has("long-500"):
            raise Refused("long")
        wrong = not key.strip() or len(key) > KEY_MAX
        if wrong and self.has("malformed-is-none"):
            return None
        if wrong or (self.has("uuid-only") and not HEX.fullmatch(key)):
            raise Refused("malformed")
        return key.lower() if self.has("lower-cased") else key

    def _names(self, scope: Scope, body: bytes, key: str) -> tuple[object, tuple[object, ...]]:
        headers = dict(scope["headers"])
        if self.has("no-chunks") and b"content-length" not in headers:
            body = b""
        parts: list[object] = []
        parts += [] if self.has("no-path") else [scope["path"], scope["method"]]
        parts += [] if self.has("no-query") else [scope["query_string"]]
        parts += [] if self.has("no-body") else [body]
        user = b"" if self.has("one-scope") else headers.get(b"x-user", b"")
        if self.has("by-body"):
            return (user, body), tuple(parts)
        return (user, key, body if self.has("key-and-body") else b""), tuple(parts)

    async def _protected(
        self, scope: Scope, body: bytes, key: str, receive: Receive, send: Send
    ) -> None:
        name, fingerprint = self._names(scope, body, key)
        record = self.records.get(name)
        if self.has("check-then-act"):
            await anyio.sleep(RACE_S)
        elif record is not None:
            await self._again(record, fingerprint, send)
            return
        elif self.has("forgets"):
            record = None
        if record is not None and record.answer is not None:
            await self._say(send, record.answer, replay=True)
            return
        record = self.records[name] = Record(fingerprint)
        answer = await self._execute(scope, body)
        if self.has("frees-on-disconnect"):
            with anyio.move_on_after(RACE_S):
                await receive()
                del self.records[name]
                return
        await self._finish(name, record, answer, send)

    async def _finish(self, name: object, record: Record, answer: Answer, send: Send) -> None:
        if self.has("stuck") and answer.status == 500:
            await self._say(send, answer, replay=False)
            return
        if not self._stored(answer):
            del self.records[name]
        elif not self.has("late"):
            record.answer = answer
        await self._say(send, answer, replay=False)
        if self.has("late"):
            await anyio.sleep(LATE_S)
            record.answer = answer

    def _stored(self, answer: Answer) -> bool:
        size = sum(map(len, answer.chunks))
        return not (
            self.has("forgets")
            or (self.has("no-empty") and size == 0)
            or (self.has("only-2xx") and not 200 <= answer.status < 300)
            or (self.has("no-large") and size > LARGE)
        )

    async def _again(self, record: Record, fingerprint: tuple[object, ...], send: Send) -> None:
        if record.answer is None and self.has("409-first"):
            raise Refused("in-flight")
        if record.fingerprint != fingerprint:
            if self.has("poisoned"):
                record.answer = Answer(422, [], [b"{}"])
            if self.has("refused-once"):
                record.fingerprint = fingerprint
            raise Refused("reused")
        if record.answer is None:
            raise Refused("in-flight")
        await self._say(send, record.answer, replay=True)

    async def _execute(self, scope: Scope, body: bytes) -> Answer:
        answer = Answer(500, [], [])
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not waiting:
                # A handler never hears of a client that leaves; the faults are not about that.
                await anyio.sleep_forever()
            return waiting.pop()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status, answer.headers = message["status"], list(message["headers"])
            else:
                answer.chunks.append(message.get("body", b""))

        try:
            await self.shop(scope, receive, send)
        except RuntimeError:
            answer.status = 500
        return answer

    async def _say(self, send: Send, answer: Answer, *, replay: bool) -> None:
        headers, chunks = self._replayed(answer) if replay else (answer.headers, answer.chunks)
        if self.has("marks-first") or (replay and not self.has("unmarked")):
            headers = [*headers, (b"idempotent-replayed", b"true")]
        headers = [*headers, *OPEN, *([] if self.has("hidden-mark") else EXPOSED)]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"".join(chunks)})

    def _replayed(self, answer: Answer) -> tuple[Pairs, list[bytes]]:
        headers, chunks = list(answer.headers), list(answer.chunks)
        if not self.has("cookies"):
            headers = [line for line in headers if line[0] != b"set-cookie"]
        if self.has("no-headers"):
            headers = [line for line in headers if line[0] in (b"content-type", b"content-length")]
        if self.has("dict-headers"):
            headers = list(dict(headers).items())
        if self.has("date"):
            headers.append((b"date", DAY))
        if self.has("first-chunk") and len(chunks) > 1:
            chunks = chunks[:1]
        if self.has("as-text"):
            chunks = [b"".join(chunks).decode("utf-8", "replace").encode()]
        length = str(sum(map(len, chunks))).encode()
        return [(n, length if n == b"content-length" else v) for n, v in headers], chunks

    async def _preflight(self, send: Send) -> None:
        allowed = b"content-type" if self.has("no-preflight") else b"idempotency-key"
        headers = [*OPEN, (b"access-control-allow-headers", allowed)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body"})

    async def _refuse(self, send: Send, kind: str) -> None:
        status = TYPES.get(kind, 500)
        if kind == "missing" and self.has("missing-422"):
            status = 422
        if kind == "in-flight":
            status = 423 if self.has("423") else 500 if self.has("loser-500") else status
        problem = {
            "type": "urn:shop:" + ("problem" if self.has("one-type") else kind),
            "title": kind,
            "status": 200 if self.has("wrong-status") else status,
        }
        plain = self.has("plain")
        headers = [(b"content-type", b"text/plain" if plain else b"application/problem+json")]
        if not self.has("hidden-refusals"):
            headers += OPEN
        if not self.has("no-link"):
            headers.append((b"link", PAGE))
        if kind == "in-flight" and not self.has("no-retry-after"):
            headers.append((b"retry-after", b"1"))
        if self.has("marks-refusals"):
            headers.append((b"idempotent-replayed", b"true"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(problem).encode()})


def _is_count(scope: Scope) -> bool:
    return bool(scope["path"] == "/count")
