"""What an exception tells, and who catches it."""

from __future__ import annotations

import pickle
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from client.clients import PROFILE, START_NS, Setup, named
from client.loopback import DROP, Loopback, Reply
from replayfloor.client import OutcomePending, OutcomeUndetermined, errors
from replayfloor.client.errors import OperationError
from replayfloor.client.library_httpx import HTTPX
from replayfloor.core.errors import IdempotencyError

START = datetime.fromtimestamp(START_NS / 1e9, UTC)
EVERY = [getattr(HTTPX.errors, field.name) for field in fields(HTTPX.errors)]


def _pending(loopback: Loopback, *steps: Reply) -> OutcomePending:
    loopback.script(DROP, *steps)
    with Setup().client() as client, pytest.raises(OutcomePending) as caught:
        client.post(loopback.url(), extensions=named("invoice-1", "k"))
    return caught.value


@pytest.mark.parametrize("kind", EVERY)
def test_existing_handlers_catch_it_and_retry_loops_do_not(kind: type[OperationError]) -> None:
    assert issubclass(kind, httpx.HTTPError)
    assert issubclass(kind, IdempotencyError)
    assert not issubclass(kind, httpx.RequestError)
    assert issubclass(kind, getattr(errors, kind.__name__))
    undetermined = ("OutcomePending", "OutcomeUnknown")
    assert issubclass(kind, OutcomeUndetermined) is (kind.__name__ in undetermined)


def test_it_says_what_is_known_and_what_to_do(loopback: Loopback) -> None:
    error = _pending(loopback)

    assert (error.operation_id, error.key, error.provider) == ("invoice-1", "k", "provider")
    assert (error.attempts, error.elapsed_s) == (4, 3.5)
    assert error.first_attempt_at == START
    assert error.retry_until == START + timedelta(seconds=PROFILE.send_window_s)
    assert "RemoteProtocolError" in error.evidence
    assert error.last_response is None
    assert error.request.url == loopback.url()
    for words in ("invoice-1", "same operation id", "2027-01-", "do not use a new key"):
        assert words in str(error)


def test_it_keeps_the_last_answer_readable(loopback: Loopback) -> None:
    error = _pending(loopback, Reply(503, (("X-Reason", "busy"),), b'{"why": "busy"}'))

    assert error.last_response is not None
    assert error.last_response.status_code == 503
    assert error.last_response.headers["x-reason"] == "busy"
    assert error.last_response.json() == {"why": "busy"}


def test_it_can_be_pickled(loopback: Loopback) -> None:
    error = _pending(loopback, Reply(503, body=b"busy"))

    copy: object = pickle.loads(pickle.dumps(error))

    assert isinstance(copy, OutcomePending)
    assert (str(copy), repr(copy)) == (str(error), repr(error))
    assert (copy.key, copy.retry_until, copy.outcome) == (
        error.key,
        error.retry_until,
        error.outcome,
    )
    assert copy.last_response is not None
    assert copy.last_response.content == b"busy"
    assert copy.request.url == error.request.url
