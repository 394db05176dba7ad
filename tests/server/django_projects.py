"""Django, configured for a while, on the database of a ledger.

It is configured once in a process otherwise; and its model can only be imported once it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast
from unittest.mock import patch

import django
from django.conf import settings
from django.db import connection, connections, transaction
from django.http import HttpRequest
from django.utils.functional import empty

from contract.adapter_subjects import django_database
from replayfloor.server import ActiveClaim
from server.adapters_common import FRESH, IN_A_TRANSACTION
from server.backends import Ledger
from server.wire import Answer
from server.wsgi_client import environ, serve
from server.wsgi_server import WSGIApp

if TYPE_CHECKING:
    from server.adapters_django import Site

atomic = cast("Callable[[], AbstractContextManager[object]]", transaction.atomic)  # it is untyped


@contextmanager
def project(ledger: Ledger, url: str | None = None, /, **database: object) -> Iterator[Site]:
    """Serve the project of adapters_django.py; `url` is another way to the ledger's database."""
    prefix = "sqlite:///"
    at = url or ledger.url
    address = Path(at.removeprefix(prefix)) if at.startswith(prefix) else at
    before = settings._wrapped
    setattr(settings, "_wrapped", empty)  # noqa: B010 - its type is that of a configured one
    settings.configure(
        ALLOWED_HOSTS=["*"],
        LOGGING_CONFIG=None,
        ROOT_URLCONF="server.adapters_django",
        USE_I18N=False,
        USE_TZ=True,
    )
    django.setup(set_prefix=False)
    configured = connections.configure_settings({"default": django_database(address, **database)})
    try:
        with patch.object(connections, "settings", configured):
            from server.adapters_django import Site

            made = Site(ledger)
            try:
                yield made
            finally:
                made.close()
                connections["default"].close()
                # Another project's is another one.
                del connections["default"]
    finally:
        settings._wrapped = before


def write(_request: HttpRequest | None = None, entry: str = "atomic") -> None:
    """Write a row of the ledger; a view."""
    from server.adapters_django import Entry

    Entry.objects.create(entry=entry)


def fails(_request: HttpRequest) -> None:
    """Write a row and fail; a view."""
    write()
    raise RuntimeError("afterwards")


def closes_its_connection(_request: HttpRequest) -> None:
    """Write a row and close Django's connection; a view."""
    write()
    connection.close()


def claim_of(request: HttpRequest) -> ActiveClaim:
    """Return the claim that a view runs under."""
    return cast("ActiveClaim", request.META["replayfloor.claim"])


def at_once(app: WSGIApp, keys: Iterable[str]) -> list[Answer]:
    """Send a request for each key, each in a thread of its own."""
    keys = list(keys)
    with ThreadPoolExecutor(len(keys)) as threads:
        return list(threads.map(lambda key: serve(app, environ(key=key)), keys))


def check_nothing_happened(site: Site) -> None:
    """Nothing was written, and the key is free: the next request is executed."""
    assert site.ledger.rows() == []
    assert serve(site.protect(write)).brief == FRESH
    assert site.ledger.rows() == ["atomic"]


def session_of_the_view() -> int:
    """Return what names Django's connection on the server."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


def kill(site: Site, session: int) -> None:
    """End a session on the server."""
    site.ledger.run("select pg_terminate_backend(%s, 5000)", (session,))


def is_closed() -> bool:
    """Say whether Django has closed its connection."""
    return connections["default"].connection is None


def check_as_before(site: Site) -> None:
    """Nothing of ours is left on Django's connection, and no transaction on the server's side."""
    own = connections["default"]
    assert "close_if_unusable_or_obsolete" not in vars(own)
    assert own.execute_wrappers == []
    assert not own.in_atomic_block
    assert own.connection is None or own.get_autocommit()
    assert site.ledger.run(IN_A_TRANSACTION) == []
