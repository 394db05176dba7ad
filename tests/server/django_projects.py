"""Django, configured for a while, on the database of a ledger.

It is configured once in a process otherwise; and its model can only be imported once it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import django
from django.conf import settings
from django.db import connections
from django.utils.functional import empty

from contract.adapter_subjects import django_database
from server.backends import Ledger

if TYPE_CHECKING:
    from server.adapters_django import Site


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
