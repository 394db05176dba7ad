"""One Request object that is sent again: an auth flow continues, another address does not."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import httpx
import pytest

from client.clients import Setup, info
from client.loopback import Loopback, Reply, serving


@pytest.fixture
def elsewhere() -> Iterator[Loopback]:
    """A second origin."""
    with serving() as server:
        yield server


def test_the_same_request_to_another_path_is_another_operation(loopback: Loopback) -> None:
    with Setup().client() as client:
        request = client.build_request("POST", loopback.url("/orders/1/capture"))
        client.send(request)
        request.url = httpx.URL(loopback.url("/orders/2/capture"))
        response = client.send(request)

    assert [each.path for each in loopback.received] == ["/orders/1/capture", "/orders/2/capture"]
    assert len(set(loopback.keys())) == 2
    assert not info(response).resumed


def test_the_same_request_to_another_origin_does_not_take_the_key_along(
    loopback: Loopback, elsewhere: Loopback
) -> None:
    with Setup().client() as client:
        request = client.build_request("POST", loopback.url())
        client.send(request)
        request.url = httpx.URL(elsewhere.url())
        client.send(request)

    assert set(loopback.keys()).isdisjoint(elsewhere.keys())


class SignedQuery(httpx.Auth):
    """Signs in the query, and asks for a new signature after a 401."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        for number in range(2):
            request.url = request.url.copy_set_param("signature", number)
            response = yield request
            if response.status_code != 401:
                return


def test_an_auth_flow_that_signs_in_the_query_goes_on_with_the_key(loopback: Loopback) -> None:
    loopback.script(Reply(401), path="/charges?signature=0")
    with Setup().client() as client:
        response = client.post(loopback.url(), auth=SignedQuery())

    assert (response.status_code, info(response).attempts) == (201, 2)
    assert len(set(loopback.keys())) == 1
