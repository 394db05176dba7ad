"""Fixtures of the client's tests: a server of real sockets, and transports that do not wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.loopback import Loopback, serving


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    """A scripted server on the loopback."""
    with serving() as server:
        yield server
