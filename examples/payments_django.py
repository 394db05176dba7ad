"""A Django payments API, in one file, in which no retry charges twice.

    DATABASE=payments.db gunicorn --threads 8 --pythonpath examples payments_django:application

What the view writes with the ORM and the receipt of the key are one commit, so a crash leaves both
or neither. `DATABASE` is a SQLite file, or the name of a Postgres database if PGHOST is set (with
PGPORT, PGUSER and PGPASSWORD); that is prepared with `replayfloor migrate`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import cast
from urllib.parse import quote

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection, models
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from replayfloor.server import WSGIIdempotencyMiddleware, idempotent
from replayfloor.server.adapters.django import DjangoReceipts

DATABASE = os.environ.get("DATABASE", "payments.db")
TABLE = "payments"
POSTGRES = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": DATABASE,
    "HOST": os.environ.get("PGHOST", ""),
    "PORT": os.environ.get("PGPORT", ""),
    "USER": os.environ.get("PGUSER", ""),
    "PASSWORD": os.environ.get("PGPASSWORD", ""),
}
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": POSTGRES if "PGHOST" in os.environ else SQLITE},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("SECRET_KEY", "only for the example"),
    USE_TZ=True,
)
django.setup(set_prefix=False)


class Payment(models.Model):
    """One charge. No unique constraint, on purpose: only the middleware prevents a second one."""

    payment_id = models.CharField(max_length=100)
    amount_minor = models.BigIntegerField()
    objects = models.Manager()

    class Meta:
        """Part of no application: this is a single file."""

        app_label = "payments"
        db_table = TABLE


@csrf_exempt
@idempotent(required=True, effects="atomic")
def pay(request: HttpRequest) -> HttpResponse:
    """Charge a payment, in the transaction that also stores this answer."""
    wanted = json.loads(request.body)
    if int(wanted["amount_minor"]) <= 0:
        return JsonResponse({"error": "amount_minor must be positive"}, status=400)
    Payment.objects.create(payment_id=wanted["id"], amount_minor=wanted["amount_minor"])
    answer = JsonResponse({"status": "charged", "id": wanted["id"]}, status=201)
    answer["Location"] = f"/payments/{quote(wanted['id'], safe='')}"
    return answer


def charges(_request: HttpRequest, payment_id: str) -> HttpResponse:
    """Say how often a payment was charged."""
    count = Payment.objects.filter(payment_id=payment_id).count()
    return JsonResponse({"id": payment_id, "charges": count})


urlpatterns = [path("payments", pay), path("payments/<str:payment_id>", charges)]


def create_table() -> None:
    """Make the ledger; a real project has migrations for that."""
    if TABLE not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Payment)


create_table()
application = WSGIIdempotencyMiddleware(
    cast("Callable[..., list[bytes]]", get_wsgi_application()),
    receipts=DjangoReceipts(),
    lock=os.environ.get("LOCK", "local"),
    lease_s=float(os.environ.get("LEASE_S", "30")),
    principal=None,  # one tenant; with several, a function that says whose key this is
)
