"""A Django project in one module that is its own URLconf, with some views of REST framework.

Only the fixture imports it that has configured Django before (test_decorator_django.py).
"""

# Django and REST framework are untyped.
# mypy: disallow-subclassing-any=false, disallow-untyped-decorators=false

from __future__ import annotations

from typing import cast

from django.http import HttpRequest, HttpResponse
from django.urls import include, path, re_path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from rest_framework.decorators import action, api_view  # type: ignore[import-untyped]
from rest_framework.response import Response  # type: ignore[import-untyped]
from rest_framework.routers import SimpleRouter  # type: ignore[import-untyped]
from rest_framework.viewsets import ViewSet  # type: ignore[import-untyped]

from replayfloor.server.decorator import idempotent
from server.backends import Ledger

LEDGER = "test.ledger"
"""Where the environ carries the ledger of a test, or the state of an ASGI scope."""


def write(request: HttpRequest) -> HttpResponse:
    """Leave a row."""
    scope = getattr(request, "scope", None)
    carrier = request.META if scope is None else scope["state"]
    cast("Ledger", carrier[LEDGER]).write(str(request.method))
    return HttpResponse(b"paid", status=201)


@csrf_exempt
@idempotent(lease_s=1.0)
def function(request: HttpRequest) -> HttpResponse:
    """Carry A."""
    return write(request)


@idempotent(lease_s=2.0)
async def asynchronous(request: HttpRequest, number: int) -> HttpResponse:
    """Carry B."""
    return write(request)


def plain(request: HttpRequest) -> HttpResponse:
    """Carry nothing."""
    return write(request)


class Methods(View):
    """Two methods with options of their own, and one without."""

    @method_decorator(idempotent(lease_s=1.0))
    def post(self, request: HttpRequest) -> HttpResponse:
        """Carry A."""
        return write(request)

    @idempotent(lease_s=2.0)
    def put(self, request: HttpRequest) -> HttpResponse:
        """Carry B."""
        return write(request)

    def delete(self, request: HttpRequest) -> HttpResponse:
        """Carry nothing."""
        return write(request)


class Undecorated(View):
    """Two methods."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Read."""
        return HttpResponse(b"form")

    def post(self, request: HttpRequest) -> HttpResponse:
        """Write."""
        return write(request)

    def put(self, request: HttpRequest) -> HttpResponse:
        """Write."""
        return write(request)


@idempotent(lease_s=1.0)
class Decorated(Undecorated):
    """All methods, as everywhere."""


@method_decorator(idempotent(lease_s=1.0), name="dispatch")
class Dispatched(Undecorated):
    """All methods, as Django has it."""


class Asynchronous(View):
    """Django marks what `as_view` returns, which is no coroutine function, as one."""

    async def post(self, request: HttpRequest) -> HttpResponse:
        """Write."""
        return write(request)


@idempotent(lease_s=1.0)
@api_view(["POST"])
def rest(request: HttpRequest) -> Response:
    """Carry A."""
    return Response(write(request).content.decode(), status=201)


class Payments(ViewSet):
    """Actions of REST framework, two of them with options of their own."""

    @idempotent(lease_s=1.0)
    def create(self, request: HttpRequest) -> Response:
        """Carry A."""
        return Response(write(request).content.decode(), status=201)

    @action(detail=True, methods=["post"])
    @idempotent(lease_s=2.0)
    def refund(self, request: HttpRequest, pk: str) -> Response:
        """Carry B."""
        return Response(write(request).content.decode(), status=201)

    def update(self, request: HttpRequest, pk: str) -> Response:
        """Carry nothing."""
        return Response(write(request).content.decode(), status=201)


router = SimpleRouter()
router.register("payments", Payments, basename="payment")

urlpatterns = [
    path("function", function),
    path("async/<int:number>/", asynchronous),
    re_path(r"^plain$", plain),
    path(
        "shop/",
        include(
            [
                path("methods", Methods.as_view()),
                path("decorated", Decorated.as_view()),
                path("dispatched", Dispatched.as_view()),
                path("wrapped", idempotent(lease_s=1.0)(Undecorated.as_view())),
                path("async", idempotent(lease_s=1.0)(Asynchronous.as_view())),
            ]
        ),
    ),
    path("rest", rest),
    path("rest/", include(router.urls)),
]
