"""drf-idempotency's middleware around Django, its database backend on Postgres."""

import os
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

url = urlsplit(os.environ["PEER_POSTGRES"])
settings.configure(
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=["rest_framework", "drf_idempotency"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path[1:],
            "HOST": url.hostname,
            "PORT": url.port,
            "USER": url.username,
            "CONN_MAX_AGE": None,
        }
    },
    MIDDLEWARE=[
        "django.middleware.common.CommonMiddleware",
        "drf_idempotency.middleware.IdempotencyMiddleware",
    ],
    IDEMPOTENCY={"BACKEND": "drf_idempotency.backends.database.DatabaseBackend"},
    ROOT_URLCONF="benchmarks.peer_apps.django_app",
    SECRET_KEY="only for the benchmark",
    USE_TZ=True,
)
django.setup(set_prefix=False)
call_command("migrate", verbosity=0)
app = get_wsgi_application()
