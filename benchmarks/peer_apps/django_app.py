"""The Django application of the WSGI rows, bare; Django and nothing else."""

import json
import threading

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

released = threading.Event()


@csrf_exempt
def pay(request: HttpRequest) -> HttpResponse:
    """Answer as a payment would be answered."""
    payment = json.loads(request.body)
    if "x-hold" in request.headers:
        released.wait()
    return JsonResponse({"status": "charged", "id": payment["id"]}, status=201)


def ready(_request: HttpRequest) -> HttpResponse:
    """Say that the worker serves."""
    return HttpResponse()


def release(_request: HttpRequest) -> HttpResponse:
    """Let the handlers that wait go on."""
    released.set()
    return HttpResponse()


urlpatterns = [path("payments", pay), path("ready", ready), path("release", release)]
