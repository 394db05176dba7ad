"""An ASGI server for one request: drives an application by hand, keeps what it sends."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio
from starlette.types import ASGIApp, Message, Scope

from replayfloor.core.problem import ProblemKind, problem_kind

KEY = b'"k-1"'


@dataclass(frozen=True)
class Request:
    """A request. `key` is one raw header value, or several, or None; `chunks` are the messages."""

    method: str = "POST"
    path: str = "/pay"
    query: bytes = b""
    key: bytes | Sequence[bytes] | None = KEY
    chunks: Sequence[bytes] = (b'{"amount": 1}',)
    content_type: bytes = b"application/json"
    headers: Sequence[tuple[bytes, bytes]] = ()
    disconnects: bool = False
    extensions: dict[str, dict[str, object]] = field(default_factory=dict)

    def but(self, **changes: object) -> Request:
        """Return the request with some parts replaced."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def scope(self) -> Scope:
        """Return the connection scope that a server makes."""
        lines = [self.key] if isinstance(self.key, bytes) else list(self.key or ())
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query,
            "root_path": "",
            "headers": [
                (b"host", b"test"),
                (b"content-type", self.content_type),
                *self.headers,
                *((b"idempotency-key", line) for line in lines),
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
            "extensions": self.extensions,
        }

    def messages(self) -> list[Message]:
        """Return what the client sends; a client that disconnects does so before the end."""
        parts: list[Message] = [
            {"type": "http.request", "body": chunk, "more_body": True} for chunk in self.chunks
        ]
        if self.disconnects:
            return [*parts, {"type": "http.disconnect"}]
        if not parts:
            return [{"type": "http.request"}]
        return [*parts[:-1], {**parts[-1], "more_body": False}]


@dataclass(frozen=True)
class Answer:
    """What came back. `raised` is what the application raised; without an answer that is a 500."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    complete: bool = True
    raised: Exception | None = None

    def all(self, name: bytes) -> list[bytes]:
        """Return the values of every line of a header."""
        return [value for field, value in self.headers if field.lower() == name]

    def first(self, name: bytes) -> bytes | None:
        """Return the value of the first line of a header."""
        return next(iter(self.all(name)), None)

    @property
    def replayed(self) -> bool:
        """Say whether the answer carries the marker of a replay."""
        return self.all(b"idempotent-replayed") == [b"true"]

    @property
    def problem(self) -> ProblemKind | None:
        """Return which refusal it is, if it is one and its status is the one it names."""
        kind = problem_kind(self.first(b"content-type") or b"", self.body)
        assert kind is None or json.loads(self.body)["status"] == self.status
        return kind

    @property
    def brief(self) -> tuple[int, ProblemKind | None, bool]:
        """Return status, refusal and whether it is a replay."""
        return self.status, self.problem, self.replayed


class Exchange:
    """One request under way: what has been sent so far, and when it began and ended."""

    def __init__(self, app: ASGIApp, request: Request) -> None:
        self._app, self._request = app, request
        self._inbox = request.messages()
        self.sent: list[Message] = []
        self.answered = anyio.Event()
        self.first_byte = anyio.Event()

    async def receive(self) -> Message:
        """Give the application the next message; after the answer, the client is gone."""
        if self._inbox:
            return self._inbox.pop(0)
        await self.answered.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a message of the answer."""
        self.sent.append(message)
        if message["type"] == "http.response.body":
            if message.get("body"):
                self.first_byte.set()
            if not message.get("more_body", False):
                self.answered.set()

    async def run(self, scope: Scope | None = None) -> Answer:
        """Serve the request to the end of the application's call."""
        raised: Exception | None = None
        try:
            await self._app(scope or self._request.scope(), self.receive, self.send)
        except Exception as error:  # noqa: BLE001 - as every server: 500 if nothing was sent
            raised = error
        return self.answer(raised)

    def answer(self, raised: Exception | None = None) -> Answer:
        """Return the answer as far as it was sent."""
        starts = [each for each in self.sent if each["type"] == "http.response.start"]
        if not starts:
            return Answer(500 if raised else 0, (), b"", complete=False, raised=raised)
        assert len(starts) == 1
        body = b"".join(each.get("body", b"") for each in self.sent)
        headers = tuple((bytes(name), bytes(value)) for name, value in starts[0]["headers"])
        complete = self.answered.is_set()
        return Answer(starts[0]["status"], headers, body, complete, raised)


async def send(app: ASGIApp, request: Request | None = None) -> Answer:
    """Send one request and return its answer."""
    return await Exchange(app, request or Request()).run()


async def send_all(calls: Sequence[Callable[[], Awaitable[Answer]]]) -> list[Answer]:
    """Send several requests at once; the answers are in the order of the calls."""
    answers: list[Answer | None] = [None] * len(calls)

    async def one(index: int) -> None:
        answers[index] = await calls[index]()

    async with anyio.create_task_group() as group:
        for index in range(len(calls)):
            group.start_soon(one, index)
    return [answer for answer in answers if answer is not None]
