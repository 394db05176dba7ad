"""A client that was made elsewhere, wrapped: every way out of it carries the key."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import cast

import httpx
import httpx2
import pytest

import replayfloor.client.httpx2 as for_httpx2
from client.clients import NO_TLS, PROFILE, info, named
from client.loopback import DROP, OK, Loopback, closed_port
from replayfloor.client import KeyReuseMismatch, MemoryJournal, wrap_client
from replayfloor.core.errors import ConfigurationError


@pytest.fixture
def forward_proxy(loopback: Loopback) -> Iterator[str]:
    """A proxy for plain HTTP that passes everything on to the loopback server."""
    listener = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            try:
                incoming, _ = listener.accept()
            except OSError:
                return
            outgoing = socket.create_connection(("127.0.0.1", loopback.port))
            for source, target in ((incoming, outgoing), (outgoing, incoming)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    stopped.set()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(65536):
            target.sendall(chunk)
    except OSError:
        pass
    finally:
        target.close()


def test_a_wrapped_client_keeps_one_key_over_a_lost_answer(loopback: Loopback) -> None:
    loopback.script(DROP, OK)
    journal = MemoryJournal()
    with httpx.Client(verify=NO_TLS) as made:
        client = wrap_client(made, profile=PROFILE, journal=journal, random=lambda: 0.0)
        response = client.post(loopback.url(), extensions=named("invoice-1"))

    assert client is made
    assert (response.status_code, info(response).attempts) == (201, 2)
    assert len(set(loopback.keys())) == 1


@pytest.mark.anyio
async def test_a_wrapped_async_client_keeps_one_key_over_a_lost_answer(
    loopback: Loopback,
) -> None:
    loopback.script(DROP, OK)
    async with httpx.AsyncClient(verify=NO_TLS) as client:
        wrap_client(client, profile=PROFILE, journal=MemoryJournal(), random=lambda: 0.0)
        response = await client.post(loopback.url())

    assert (response.status_code, info(response).attempts) == (201, 2)
    assert len(set(loopback.keys())) == 1


def test_a_wrapped_client_of_httpx2_keeps_one_key_over_a_lost_answer(loopback: Loopback) -> None:
    loopback.script(DROP, OK)
    with httpx2.Client(verify=NO_TLS) as client:
        for_httpx2.wrap_client(client, profile=PROFILE, journal=MemoryJournal(), random=lambda: 0.0)
        response = client.post(loopback.url())

    assert response.status_code == 201
    assert len(set(loopback.keys())) == 1


def test_what_goes_through_a_proxy_is_wrapped_too(loopback: Loopback, forward_proxy: str) -> None:
    """A client sends through the transport that belongs to the proxy, not through its own."""
    loopback.script(DROP, OK, path=loopback.url())
    journal = MemoryJournal()
    with httpx.Client(proxy=forward_proxy, verify=NO_TLS) as client:
        wrap_client(client, profile=PROFILE, journal=journal, random=lambda: 0.0)
        response = client.post(loopback.url(), extensions=named("invoice-1"))

    assert response.status_code == 201
    assert [each.path for each in loopback.received] == [loopback.url()] * 2
    assert len(set(loopback.keys())) == 1
    assert journal.pending() == ()


def test_every_mount_shares_the_journal(loopback: Loopback) -> None:
    journal = MemoryJournal()
    refused = f"http://127.0.0.1:{closed_port()}/"
    mounts = {refused: httpx.HTTPTransport(verify=NO_TLS), "all://none.example": None}
    with httpx.Client(mounts=mounts, verify=NO_TLS) as client:
        wrap_client(client, profile=PROFILE, journal=journal)
        client.post(loopback.url(), extensions=named("invoice-1"))
        with pytest.raises(KeyReuseMismatch, match="begun as"):
            client.post(refused, extensions=named("invoice-1"))


def test_a_client_is_wrapped_once(loopback: Loopback) -> None:
    with httpx.Client(verify=NO_TLS) as client:
        wrap_client(client, profile=PROFILE, journal="memory:")
        with pytest.raises(ConfigurationError, match="by itself"):
            wrap_client(client, profile=PROFILE, journal="memory:")
        client.post(loopback.url())

    assert len(loopback.received) == 1


def test_a_client_whose_mount_repeats_by_itself_stays_as_it_was(loopback: Loopback) -> None:
    mounts = {"http://127.0.0.1": httpx.HTTPTransport(retries=2, verify=NO_TLS)}
    with httpx.Client(mounts=mounts, verify=NO_TLS) as client:
        with pytest.raises(ConfigurationError, match="retries=2"):
            wrap_client(client, profile=PROFILE, journal="memory:")
        client.post(loopback.url())

    assert loopback.received[0].values("idempotency-key") == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (httpx2.Client(), r"httpx2\.Client.*replayfloor\.client\.httpx2"),
        (httpx2.AsyncClient(), r"httpx2\.AsyncClient.*replayfloor\.client\.httpx2"),
        (httpx.HTTPTransport(), r"httpx\.Client, not httpx\.HTTPTransport"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_client_of_the_library_is_refused(wrong: httpx.Client, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        wrap_client(wrong, profile=PROFILE, journal="memory:")


def test_a_client_of_httpx_is_refused_by_the_module_for_httpx2() -> None:
    with pytest.raises(ConfigurationError, match=r"httpx\.Client: .*replayfloor\.client$"):
        for_httpx2.wrap_client(
            cast("httpx2.Client", httpx.Client()), profile=PROFILE, journal="memory:"
        )
