"""Where the key goes when a server sends the request elsewhere, and where it does not."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import httpx
import pytest

from client.clients import PROFILE, Setup, info, named
from client.loopback import DROP, OK, Loopback, Reply, serving
from replayfloor.client import OutcomePending, Profile
from replayfloor.client.errors import RedirectRefused
from replayfloor.core.outcome import Outcome

KEY = "Idempotency-Key"


@pytest.fixture
def elsewhere() -> Iterator[Loopback]:
    """A second origin."""
    with serving() as server:
        yield server


def _to(address: str, status: int = 307) -> Reply:
    return Reply(status, (("Location", address),))


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("extensions", [{}, named("invoice-1")])
def test_the_key_stays_with_the_origin_and_the_method(
    status: int, extensions: dict[str, object], loopback: Loopback
) -> None:
    loopback.script(_to("/moved?page=2", status))
    setup = Setup()
    with setup.client() as client:
        response = client.post(
            loopback.url(), content=b"pay", extensions=extensions, follow_redirects=True
        )

    assert [each.path for each in loopback.received] == ["/charges", "/moved?page=2"]
    assert len(set(loopback.keys())) == 1
    assert loopback.bodies() == [b"pay"] * 2
    assert (info(response).attempts, info(response).outcome) == (2, Outcome.DEFINITIVE)


def test_a_lost_answer_behind_a_redirect_is_asked_for_with_the_same_key(
    loopback: Loopback,
) -> None:
    loopback.script(_to("/moved"))
    loopback.script(DROP, DROP, OK, path="/moved")
    with Setup().client() as client:
        response = client.post(loopback.url(), content=b"pay", follow_redirects=True)

    assert response.status_code == 201
    assert [each.path for each in loopback.received] == ["/charges", *["/moved"] * 3]
    assert len(set(loopback.keys())) == 1


def test_an_operation_that_was_redirected_is_resumed_from_its_first_address(
    loopback: Loopback,
) -> None:
    loopback.script(_to("/moved"))
    loopback.script(DROP, DROP, DROP, DROP, OK, path="/moved")
    setup = Setup()
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url(), extensions=named("invoice-1"), follow_redirects=True)
    with setup.client() as client:
        response = client.post(loopback.url(), extensions=named("invoice-1"), follow_redirects=True)

    assert response.status_code == 201
    assert len(set(loopback.keys())) == 1


def test_a_write_is_not_sent_to_another_origin(loopback: Loopback, elsewhere: Loopback) -> None:
    loopback.script(_to(elsewhere.url("/charges")))
    setup = Setup()
    with setup.client() as client, pytest.raises(RedirectRefused) as caught:
        client.post(
            loopback.url(), content=b"pay", extensions=named("invoice-1"), follow_redirects=True
        )

    assert isinstance(caught.value, httpx.HTTPError)
    assert caught.value.operation_id == "invoice-1"
    assert caught.value.key is not None
    assert elsewhere.url("/charges") in str(caught.value)
    assert (len(loopback.received), elsewhere.received) == (1, [])


@pytest.mark.anyio
async def test_a_write_is_not_sent_to_another_origin_with_await(
    loopback: Loopback, elsewhere: Loopback
) -> None:
    loopback.script(_to(elsewhere.url("/charges"), 308))
    async with Setup().async_client() as client:
        with pytest.raises(RedirectRefused), anyio.fail_after(10):
            await client.patch(loopback.url(), content=b"pay", follow_redirects=True)

    assert elsewhere.received == []


def test_a_write_is_not_sent_to_where_the_profile_does_not_reach(loopback: Loopback) -> None:
    loopback.script(_to("/elsewhere"))
    profile = Profile(name="provider", retention_s=86_400, paths=("/charges",))
    with Setup(profile=profile).client() as client, pytest.raises(RedirectRefused):
        client.post(loopback.url(), content=b"pay", follow_redirects=True)

    assert [each.path for each in loopback.received] == ["/charges"]


@pytest.mark.parametrize("status", [301, 302, 303])
@pytest.mark.parametrize("far", [False, True])
def test_a_look_at_the_result_carries_no_key(
    status: int, far: bool, loopback: Loopback, elsewhere: Loopback
) -> None:
    """httpx copies the headers to the GET, a key that the caller wrote included."""
    target = elsewhere if far else loopback
    loopback.script(_to(target.url("/result"), status))
    setup = Setup()
    with setup.client() as client:
        response = client.post(
            loopback.url(),
            content=b"pay",
            headers={KEY: "k"},
            extensions=named("invoice-1"),
            follow_redirects=True,
        )

    look = target.received[-1]
    assert (look.method, look.path, response.status_code) == ("GET", "/result", 201)
    assert look.values(KEY) == []
    assert loopback.received[0].values(KEY) == ['"k"']


def test_a_write_in_a_callers_copy_of_the_extensions_is_a_new_operation(
    loopback: Loopback,
) -> None:
    with Setup(profile=PROFILE).client() as client:
        first = client.build_request("POST", loopback.url(), content=b"one")
        client.send(first)
        second = httpx.Request(
            "POST", loopback.url("/other"), content=b"two", extensions=first.extensions
        )
        client.send(second)

    assert len(set(loopback.keys())) == 2
