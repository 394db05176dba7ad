"""A Django project in one module, whose view is what a test says, served by its WSGI handler.

Only what has configured Django before may import it: it has a model.
"""

# Django is untyped.
# mypy: disallow-subclassing-any=false, disallow-untyped-decorators=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Unpack, cast

from django.core.handlers.wsgi import WSGIHandler
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import path

from replayfloor.server.adapters.django import DjangoReceipts
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.stores import Receipts
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware
from server.backends import Ledger
from server.wsgi_server import Environ, StartResponse, WSGIApp, validated

Handler = Callable[[HttpRequest], HttpResponse | None]


class Entry(models.Model):
    """A row of the ledger, which has no key; Django wants one."""

    entry = models.TextField(primary_key=True)
    objects = models.Manager()

    class Meta:
        """Part of no application."""

        app_label = "ledger"
        db_table = "ledger"
        managed = False


@dataclass
class Site:
    """The project on one database, and the ledger in it."""

    ledger: Ledger
    _made: list[WSGIIdempotencyMiddleware] = field(default_factory=list)

    @property
    def is_sqlite(self) -> bool:
        """Say which of the two databases it is."""
        return self.ledger.url.startswith("sqlite")

    def protect(
        self,
        handler: Handler,
        receipts: str | Receipts | None = None,
        **options: Unpack[MiddlewareOptions],
    ) -> WSGIApp:
        """Return a worker with this view; without an answer of its own it answers 201."""
        inner = cast("WSGIApp", WSGIHandler())

        def call(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            environ["test.handler"] = handler
            return inner(environ, start_response)

        options.setdefault("effects", "atomic")
        made = WSGIIdempotencyMiddleware(
            call,
            receipts=DjangoReceipts(receipts=receipts),
            principal=None,
            **options,
        )
        self._made.append(made)
        return validated(made)

    def close(self) -> None:
        """Close what was made."""
        for made in self._made:
            made.close()


def view(request: HttpRequest) -> HttpResponse:
    """Do what the test says."""
    handler = cast("Handler", request.META["test.handler"])
    return handler(request) or HttpResponse(b"done", status=201)


urlpatterns = [path("pay", view)]
