"""Which requests carry a key, which one, and how it is written: read from real sockets."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import httpx
import pytest
import respx

from client.clients import PROFILE, START_NS, Setup, info, named
from client.loopback import DROP, OK, Loopback, Reply
from replayfloor.core.errors import InvalidKey, UsageError
from replayfloor.core.uuid7 import minted_ms


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_write_carries_a_key_that_tells_its_time(method: str, loopback: Loopback) -> None:
    with Setup().client() as client:
        response = client.request(method, loopback.url())

    (written,) = loopback.keys()
    key = info(response).key
    assert written == f'"{key}"'
    assert UUID(key).version == 7
    assert minted_ms(key) == START_NS // 1_000_000
    assert info(response).operation_id == key


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_other_methods_pass_through_untouched(method: str, loopback: Loopback) -> None:
    loopback.script(Reply(503))
    setup = Setup()
    with setup.client() as client:
        response = client.request(method, loopback.url())

    assert response.status_code == 503
    assert len(loopback.received) == 1
    assert loopback.received[0].values("idempotency-key") == []
    assert (setup.events, setup.journal.pending()) == ([], ())


def test_the_methods_are_the_profiles(loopback: Loopback) -> None:
    setup = Setup(profile=replace(PROFILE, methods=("put",), header="X-Request-Key"))
    with setup.client() as client:
        client.put(loopback.url())
        client.post(loopback.url())

    assert [len(each.values("x-request-key")) for each in loopback.received] == [1, 0]


def test_all_attempts_carry_the_same_key(loopback: Loopback) -> None:
    loopback.script(DROP, Reply(503), OK)
    with Setup().client() as client:
        response = client.post(loopback.url())

    assert loopback.keys() == [f'"{info(response).key}"'] * 3
    assert info(response).attempts == 3


def test_two_requests_carry_different_keys(loopback: Loopback) -> None:
    with Setup().client() as client:
        client.post(loopback.url())
        client.post(loopback.url())

    assert len(set(loopback.keys())) == 2


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
@pytest.mark.parametrize("value", ['"my key"', "my-key"])
def test_the_callers_own_header_is_kept(name: str, value: str, loopback: Loopback) -> None:
    loopback.script(DROP, Reply(502), OK)
    with Setup().client() as client:
        response = client.post(loopback.url(), headers={name: value})

    key = value.strip('"')
    assert loopback.keys() == [f'"{key}"'] * 3
    assert (info(response).key, info(response).operation_id) == (key, key)


def test_a_key_in_the_extension_is_kept(loopback: Loopback) -> None:
    with Setup().client() as client:
        response = client.post(loopback.url(), extensions=named("invoice-1", 'a "key"'))

    assert loopback.keys() == [r'"a \"key\""']
    assert info(response).operation_id == "invoice-1"


def test_a_provider_may_want_the_bare_value(loopback: Loopback) -> None:
    setup = Setup(profile=replace(PROFILE, quoted=False))
    with setup.client() as client:
        minted = client.post(loopback.url())
        client.post(loopback.url(), headers={"Idempotency-Key": "mine"})

    assert loopback.keys() == [info(minted).key, "mine"]


def test_header_and_extension_may_say_the_same(loopback: Loopback) -> None:
    with Setup().client() as client:
        client.post(
            loopback.url(), headers={"Idempotency-Key": "k"}, extensions=named("invoice-1", "k")
        )

    assert loopback.keys() == ['"k"']


def test_header_and_extension_may_not_differ(loopback: Loopback) -> None:
    with Setup().client() as client, pytest.raises(UsageError, match="different keys"):
        client.post(
            loopback.url(), headers={"Idempotency-Key": "k"}, extensions=named("invoice-1", "x")
        )

    assert loopback.received == []


@pytest.mark.parametrize(
    "headers",
    [
        [("Idempotency-Key", "")],
        [("Idempotency-Key", '""')],
        [("Idempotency-Key", '"unterminated')],
        [("Idempotency-Key", "two words")],
        [("Idempotency-Key", '"a"'), ("Idempotency-Key", '"b"')],
        [("Idempotency-Key", "x" * 300)],
    ],
)
def test_a_key_that_is_none_is_refused(headers: list[tuple[str, str]], loopback: Loopback) -> None:
    with Setup().client() as client, pytest.raises(InvalidKey):
        client.post(loopback.url(), headers=headers)

    assert loopback.received == []


@pytest.mark.parametrize(
    "extension",
    [
        "invoice-1",
        {"operation_id": ""},
        {"operation_id": 7},
        {"operation_id": "x" * 256},
        {"operationid": "invoice-1"},
        {"key": b"bytes"},
        {"key": "ümlaut"},
    ],
)
def test_options_that_are_not_understood_are_refused(extension: object, loopback: Loopback) -> None:
    """A mistyped operation id would mean a new key at every call."""
    with Setup().client() as client, pytest.raises(UsageError):
        client.post(loopback.url(), extensions={"idempotency": extension})

    assert loopback.received == []


def test_the_callers_request_is_left_without_key(loopback: Loopback) -> None:
    with Setup().client() as client:
        request = client.build_request("POST", loopback.url(), json={"a": 1})
        before = list(request.headers.raw)
        client.send(request)

    assert list(request.headers.raw) == before
    assert "idempotency" not in request.extensions
    assert "trace" not in request.extensions


def test_an_auth_flow_sends_the_same_key_again(loopback: Loopback) -> None:
    """After a lost answer and a 401, the request with fresh credentials is still the same one."""
    loopback.script(DROP, Reply(401, (("WWW-Authenticate", "Digest realm=r, nonce=n"),)), OK)
    with Setup().client() as client:
        response = client.post(
            loopback.url(), content=iter([b"pay"]), auth=httpx.DigestAuth("user", "word")
        )

    assert len(set(loopback.keys())) == 1
    assert loopback.bodies() == [b"pay"] * 3
    assert (info(response).attempts, info(response).resumed) == (3, True)


def test_the_key_is_on_the_wire_below_every_layer_of_httpx() -> None:
    """respx replaces httpcore: what it sees is what would be written."""
    with respx.mock(using="httpcore") as router, Setup().client() as client:
        route = router.post("https://api.example/charges").respond(201)

        client.post("https://api.example/charges", headers={"IDEMPOTENCY-KEY": "k"})

    (call,) = route.calls
    assert call.request.headers.get_list("idempotency-key") == ['"k"']
