"""Which requests a transport protects: those that one of its profiles covers, and no others."""

from __future__ import annotations

import httpx
import pytest

from client.clients import NO_TLS, Setup, info, named
from client.loopback import DROP, OK, Loopback
from replayfloor.client import IdempotentTransport, MemoryJournal, Profile
from replayfloor.core.errors import ConfigurationError, UsageError

ORDERS = Profile(name="orders", retention_s=6 * 3600, paths=("/v2/orders",), header="Request-Id")
PAYMENTS = Profile(name="payments", retention_s=45 * 86_400, paths=("/v2/payments",))
ELSEWHERE = Profile(name="elsewhere", retention_s=3600, hosts=("api.elsewhere.example",))


def _client(journal: MemoryJournal, *profiles: Profile) -> httpx.Client:
    transport = IdempotentTransport(
        httpx.HTTPTransport(verify=NO_TLS), profile=profiles, journal=journal, sleep=lambda _: None
    )
    return httpx.Client(transport=transport)


def test_each_path_goes_by_its_own_profile(loopback: Loopback) -> None:
    loopback.script(DROP, OK, path="/v2/orders")
    journal = MemoryJournal()
    with _client(journal, ORDERS, PAYMENTS) as client:
        order = client.post(loopback.url("/v2/orders"), extensions=named("1"))
        payment = client.post(loopback.url("/v2/payments/7/capture"), extensions=named("1"))

    assert len(set(loopback.received[0].values("request-id"))) == 1
    assert loopback.received[0].values("request-id") == loopback.received[1].values("request-id")
    assert loopback.received[2].values("request-id") == []
    assert len(loopback.received[2].values("idempotency-key")) == 1
    assert info(order).key != info(payment).key


def test_the_first_profile_that_covers_a_request_is_used(loopback: Loopback) -> None:
    general = Profile(name="general", retention_s=3 * 3600, header="General-Key")
    with _client(MemoryJournal(), ORDERS, general) as client:
        client.post(loopback.url("/v2/orders/5"))
        client.post(loopback.url("/v1/anything"))

    assert loopback.received[0].values("request-id")
    assert loopback.received[0].values("general-key") == []
    assert loopback.received[1].values("general-key")


def test_a_request_that_no_profile_covers_passes_through_once(loopback: Loopback) -> None:
    loopback.script(DROP, path="/oauth/token")
    with _client(MemoryJournal(), ORDERS) as client, pytest.raises(httpx.RemoteProtocolError):
        client.post(loopback.url("/oauth/token"), content=iter([b"grant"]))

    (received,) = loopback.received
    assert received.body == b"grant"
    assert received.values("request-id") == received.values("idempotency-key") == []


@pytest.mark.parametrize(("method", "path"), [("POST", "/oauth/token"), ("GET", "/v2/orders")])
def test_a_request_that_asks_for_a_key_and_would_get_none_is_refused(
    method: str, path: str, loopback: Loopback
) -> None:
    with _client(MemoryJournal(), ORDERS) as client, pytest.raises(UsageError, match="orders"):
        client.request(method, loopback.url(path), extensions=named("1"))

    assert loopback.received == []


def test_a_profile_is_for_its_providers_hosts_and_for_a_double_on_the_loopback(
    loopback: Loopback,
) -> None:
    sent: list[str] = []

    def see(request: httpx.Request) -> httpx.Response:
        sent.append(f"{request.url.host} {'idempotency-key' in request.headers}")
        return httpx.Response(201)

    transport = IdempotentTransport(
        httpx.MockTransport(see), profile=ELSEWHERE, journal=MemoryJournal()
    )
    with httpx.Client(transport=transport) as client:
        client.post("https://api.elsewhere.example/pay")
        client.post("https://API.ELSEWHERE.EXAMPLE/pay")
        client.post("https://api.elsewhere.example./pay")
        client.post("https://api.example/pay")
        client.post("http://127.0.0.1:9/pay")

    assert sent == [
        "api.elsewhere.example True",
        "api.elsewhere.example True",
        "api.elsewhere.example. True",
        "api.example False",
        "127.0.0.1 True",
    ]


def test_no_profile_at_all_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no profile"):
        IdempotentTransport(profile=(), journal="memory:")


def test_with_no_profile_known_every_origin_has_to_show_that_it_knows_keys(
    loopback: Loopback,
) -> None:
    setup = Setup()
    transport = IdempotentTransport(
        httpx.HTTPTransport(verify=NO_TLS), profile=None, journal=setup.journal
    )
    with httpx.Client(transport=transport) as client:
        client.post(loopback.url("/anything"))

    assert len(loopback.keys()) == 1
