"""The FastAPI example with the idempotency specification in its OpenAPI document."""

from __future__ import annotations

import importlib
from typing import cast

from replayfloor.server.docs import document_openapi
from replayfloor.server.docs.application import OpenAPIApplication

app = cast("OpenAPIApplication", importlib.import_module("payments_fastapi").app)
document_openapi(app)
