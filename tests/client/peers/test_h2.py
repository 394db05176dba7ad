"""HTTP/2: what the server guarantees not to have processed is not sent, and nothing else is.

RFC 9113, 8.7: REFUSED_STREAM says that nothing was processed; 6.8: so does a GOAWAY, of streams
above the one that it names. httpcore sends again by itself after some of them, unseen.
"""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from h2.errors import ErrorCodes

from client.clients import POLICY, info, named
from client.peers.certificates import Identity
from client.peers.h2_server import (
    CANCEL,
    CANCEL_AFTER_ANSWER,
    GOAWAY_BELOW,
    GOAWAY_BELOW_AFTER_ANSWER,
    GOAWAY_COVERING,
    GOAWAY_NONE,
    GOAWAY_NONE_AFTER_ANSWER,
    H2_OK,
    REFUSED_AFTER_ANSWER,
    REFUSED_STREAM,
    H2Server,
    H2Step,
    serving_h2,
)
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack
from replayfloor.client import OutcomePending
from replayfloor.client.events import AttemptEnded
from replayfloor.core.journal import OperationState
from replayfloor.core.outcome import Outcome

pytestmark = on_each_stack

UNPROCESSED = {"refused stream": REFUSED_STREAM, "goaway that names no stream": GOAWAY_NONE}
MAYBE_PROCESSED = {
    "cancelled": CANCEL,
    "goaway that covers the stream": GOAWAY_COVERING,
    "cancelled after the answer began": CANCEL_AFTER_ANSWER,
    "refused after the answer began": REFUSED_AFTER_ANSWER,
    "goaway that names no stream after the answer began": GOAWAY_NONE_AFTER_ANSWER,
    "reset for a protocol error": replace(CANCEL, reset=ErrorCodes.PROTOCOL_ERROR),
}
unprocessed = pytest.mark.parametrize("step", UNPROCESSED.values(), ids=UNPROCESSED)
maybe_processed = pytest.mark.parametrize("step", MAYBE_PROCESSED.values(), ids=MAYBE_PROCESSED)


def h2_setup(stack: Stack) -> StackSetup:
    """A client that speaks HTTP/2 by prior knowledge."""
    return StackSetup(stack=stack, http1=False, http2=True)


def _post(client: httpx.Client, server: H2Server) -> httpx.Response:
    return client.post(server.url(), content=b"pay me once", extensions=named("invoice-1"))


@unprocessed
def test_what_was_not_processed_is_sent_again_with_the_same_key(step: H2Step, stack: Stack) -> None:
    with serving_h2() as server, h2_setup(stack).client() as client:
        server.script(step, step, H2_OK)
        response = _post(client, server)

    assert (response.status_code, response.http_version) == (201, "HTTP/2")
    assert (info(response).attempts, len(server.received)) == (3, 3)
    assert server.executed == [server.keys()[0]]
    assert {each.body for each in server.received} == {b"pay me once"}


@unprocessed
def test_what_was_never_processed_ends_with_what_the_library_raises(
    step: H2Step, stack: Stack
) -> None:
    setup = h2_setup(stack)
    with serving_h2() as server, setup.client() as client:
        server.script(step)
        with pytest.raises(stack.remote_protocol_error):
            _post(client, server)

    (entry,) = setup.journal.pending()
    assert (entry.known, entry.attempts) == (Outcome.NOT_SENT, POLICY.attempts_max)
    assert (len(server.received), server.executed) == (POLICY.attempts_max, [])


@pytest.mark.anyio
@on_each_loop
@unprocessed
async def test_asynchronously_what_was_never_processed_is_known_as_well(
    step: H2Step, stack: Stack
) -> None:
    setup = h2_setup(stack)
    with serving_h2() as server:
        server.script(step)
        async with setup.async_client() as client:
            with pytest.raises(stack.remote_protocol_error):
                await client.post(server.url(), content=b"pay", extensions=named("invoice-1"))

    assert [entry.known for entry in setup.journal.pending()] == [Outcome.NOT_SENT]
    assert server.executed == []


@maybe_processed
def test_what_may_have_been_processed_is_not_known_and_is_asked_for_again(
    step: H2Step, stack: Stack
) -> None:
    with serving_h2() as server, h2_setup(stack).client() as client:
        server.script(step, H2_OK)
        response = _post(client, server)

    assert (response.status_code, info(response).attempts) == (201, 2)
    assert server.executed == [server.keys()[0]]
    assert len(set(server.keys())) == 1


@maybe_processed
def test_what_may_have_been_processed_stays_open(step: H2Step, stack: Stack) -> None:
    setup = h2_setup(stack)
    with serving_h2() as server, setup.client() as client:
        server.script(step)
        with pytest.raises(OutcomePending) as caught:
            _post(client, server)

    assert caught.value.outcome is Outcome.UNKNOWN
    assert [entry.state for entry in setup.journal.pending()] == [OperationState.OPEN]
    assert server.executed == [f'"{caught.value.key}"']


def test_a_refusal_after_a_lost_answer_takes_nothing_back(stack: Stack) -> None:
    with serving_h2() as server, h2_setup(stack).client() as client:
        server.script(CANCEL, REFUSED_STREAM)
        with pytest.raises(OutcomePending) as caught:
            _post(client, server)

    assert caught.value.outcome is Outcome.UNKNOWN
    assert len(server.executed) == 1


# -- the re-send that httpcore hides --------------------------------------------------------------


def _warm(client: httpx.Client, server: H2Server) -> None:
    """Use stream 1 up, so that a GOAWAY can name a stream below the next one."""
    client.get(server.url("/warm"))
    server.received.clear()
    server.executed.clear()


@pytest.mark.parametrize("times", [1, 3])
def test_the_library_sends_again_by_itself_the_same_body_with_the_same_key(
    times: int, stack: Stack
) -> None:
    headers: list[str] = []

    def trace(name: str, _: object) -> None:
        if name == "http2.send_request_headers.started":
            headers.append(name)

    with serving_h2() as server, h2_setup(stack).client() as client:
        _warm(client, server)
        server.script(GOAWAY_BELOW, *[GOAWAY_NONE] * (times - 1), H2_OK)
        response = client.post(
            server.url(), content=iter([b"pay ", b"me"]), extensions={"trace": trace}
        )

    assert len(headers) == len(server.received) == times + 1
    assert info(response).attempts == times
    assert {each.body for each in server.received} == {b"pay me"}
    assert server.executed == [server.keys()[0]]
    assert len(set(server.keys())) == 1


def test_a_hidden_re_send_that_cannot_connect_has_sent_nothing_that_was_processed(
    stack: Stack,
) -> None:
    setup = h2_setup(stack)
    setup.retry = replace(POLICY, attempts_max=1)
    with serving_h2() as server, setup.client() as client:
        _warm(client, server)

        def trace(name: str, info: object) -> None:
            if name == "http2.send_request_body.complete":
                server.listener.refuse()

        server.script(GOAWAY_BELOW)
        with pytest.raises(stack.connect_error):
            client.post(server.url(), content=b"pay", extensions={"trace": trace})

    (entry,) = setup.journal.pending()
    assert entry.known is Outcome.NOT_SENT
    assert (len(server.received), server.executed) == (1, [])


def test_a_hidden_re_send_that_is_lost_may_have_been_processed(stack: Stack) -> None:
    setup = h2_setup(stack)
    setup.retry = replace(POLICY, attempts_max=1)
    with serving_h2() as server, setup.client() as client:
        _warm(client, server)
        server.script(GOAWAY_BELOW, CANCEL)
        with pytest.raises(OutcomePending):
            _post(client, server)

    (ended,) = [event for event in setup.events if isinstance(event, AttemptEnded)]
    assert (ended.maybe_sent, ended.outcome) == (True, Outcome.UNKNOWN)
    assert len(server.received) == 2


def test_a_goaway_that_takes_back_an_answer_that_began_is_not_believed(stack: Stack) -> None:
    """The library raises an exception for it that it has never told anybody about."""
    setup = h2_setup(stack)
    with serving_h2() as server, setup.client() as client:
        _warm(client, server)
        server.script(GOAWAY_BELOW_AFTER_ANSWER)
        with pytest.raises(OutcomePending) as caught:
            _post(client, server)

    assert caught.value.outcome is Outcome.UNKNOWN
    assert server.executed == [f'"{caught.value.key}"']


# -- what a server should not do ------------------------------------------------------------------

GARBAGE = bytes(9)
"""A DATA frame of stream 0, which there is not (RFC 9113, 6.1)."""
SOON_S = 0.3


@pytest.mark.parametrize("begun", [False, True])
def test_an_answer_that_is_not_http2_is_an_outcome_that_is_not_known(
    begun: bool, stack: Stack
) -> None:
    setup = h2_setup(stack)
    with serving_h2() as server, setup.client() as client:
        server.script(H2Step(headers=begun, ends=False, garbage=GARBAGE), H2_OK)
        response = _post(client, server)

    assert response.status_code == 201
    assert server.executed == [server.keys()[0]]


def test_a_large_body_that_is_refused_while_it_is_sent_does_not_end_the_operation(
    stack: Stack,
) -> None:
    """Nobody wakes httpcore, which waits to be allowed to send more: the time-out has to."""
    body = b"x" * 300_000
    setup = h2_setup(stack)
    setup.timeout_s = SOON_S
    with serving_h2() as server, setup.client() as client:
        server.script(replace(REFUSED_STREAM, early=True), H2_OK)
        response = client.post(server.url(), content=body)

    assert response.status_code == 201
    assert (len(server.received), server.received[-1].body) == (2, body)


# -- with TLS -------------------------------------------------------------------------------------


@unprocessed
def test_it_is_the_same_where_tls_has_agreed_on_http2(
    step: H2Step, stack: Stack, identity: Identity
) -> None:
    setup = StackSetup(stack=stack, http2=True, verify=identity.client())
    with serving_h2(identity.server("h2", "http/1.1")) as server, setup.client() as client:
        server.script(step, H2_OK)
        response = _post(client, server)

    assert response.http_version == "HTTP/2"
    assert (len(server.received), len(server.executed)) == (2, 1)
