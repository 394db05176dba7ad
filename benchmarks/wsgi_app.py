"""The Django application that is measured under gunicorn, bare and behind the middleware.

`BENCH_APP` says which, as `AppSpec` writes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import cast

import django
from benchmarks.app_spec import AppSpec
from benchmarks.collector import settle
from django.conf import settings
from django.core.wsgi import get_wsgi_application

from replayfloor.server import WSGIIdempotencyMiddleware

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={},
    # It writes Content-Length, without which gunicorn would send chunks.
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    ROOT_URLCONF="benchmarks.peer_apps.django_app",
    SECRET_KEY="only for the benchmark",
)
django.setup(set_prefix=False)

Application = Callable[..., list[bytes]]


def make_application(spec: AppSpec) -> object:
    """Return the application of a specification."""
    bare = cast("Application", get_wsgi_application())
    if spec.protection == "bare":
        return bare
    return WSGIIdempotencyMiddleware(bare, receipts=spec.receipts, lock=spec.lock, principal=None)


application = make_application(AppSpec.of_json(os.environ["BENCH_APP"]))
settle()
