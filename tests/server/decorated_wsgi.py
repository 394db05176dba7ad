"""For the tests of decorated WSGI endpoints: the middleware on SQLite, its ledger, and a client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

from werkzeug.test import Client, EnvironBuilder, TestResponse

from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware
from server.backends import Ledger, sqlite_url
from server.wsgi_server import WSGIApp

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

KEY = '"k-1"'


@dataclass
class Workers:
    """Middlewares with stores of their own, and the ledger that their applications write to."""

    ledger: Ledger
    _made: list[WSGIIdempotencyMiddleware] = field(default_factory=list)

    def protect(
        self, app: Callable[..., object], **options: Unpack[MiddlewareOptions]
    ) -> WSGIIdempotencyMiddleware:
        """Return the middleware around an application."""
        made = WSGIIdempotencyMiddleware(
            cast("WSGIApp", app),
            receipts=self.ledger.url,
            principal=None,
            **options,
        )
        self._made.append(made)
        return made

    def close(self) -> None:
        """Close all stores."""
        for made in self._made:
            made.close()


@contextmanager
def workers(folder: Path) -> Iterator[Workers]:
    """Make an empty ledger and close what was made on it."""
    ledger = Ledger(sqlite_url(folder / "receipts.db"))
    ledger.create()
    made = Workers(ledger)
    try:
        yield made
    finally:
        made.close()


def send(
    app: Callable[..., object], method: str, path: str = "/pay", key: str | None = KEY
) -> TestResponse:
    """Send a request; an exception of the application comes out of here."""
    headers = {} if key is None else {"Idempotency-Key": key}
    client = Client(cast("WSGIApplication", app))
    return client.open(path, method=method, headers=headers, data=b"1")


def outcome(answer: TestResponse) -> tuple[int, str | None]:
    """Return status and the marker of a replay."""
    return answer.status_code, answer.headers.get("Idempotent-Replayed")


def environ(path: str, method: str = "POST", **changes: object) -> dict[str, object]:
    """Return the environ of a request, as a server makes it."""
    return {**EnvironBuilder(path, method=method, data=b"1").get_environ(), **changes}
