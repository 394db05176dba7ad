"""The idempotency specification of an API, made from the settings that requests are served with.

An API that takes the header has to publish one (draft -07, 2.5.2). It is made for a terminal
(`describe`), as Markdown (`markdown`) and for OpenAPI (`add_to_openapi`; `document_openapi` for a
FastAPI application). Nothing here changes what is served.
"""

from replayfloor.server.docs.application import document_openapi
from replayfloor.server.docs.describe import describe
from replayfloor.server.docs.endpoints import endpoints_of
from replayfloor.server.docs.markdown import markdown
from replayfloor.server.docs.openapi import add_to_openapi
from replayfloor.server.docs.operations import Endpoint

__all__ = [
    "Endpoint",
    "add_to_openapi",
    "describe",
    "document_openapi",
    "endpoints_of",
    "markdown",
]
