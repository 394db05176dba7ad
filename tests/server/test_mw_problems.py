"""The refusals as they reach a client: problem details (RFC 9457) with what the draft asks for."""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

import anyio
import pytest
from starlette.types import ASGIApp

from replayfloor.core.problem import DOCUMENTATION, ProblemKind
from server.apps import Gate, LedgerApp
from server.backends import Backend
from server.doubles import unavailable, watched_receipts
from server.test_mw_age import RETENTION_S, minted
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

K = ProblemKind
SECRET = b"somebody's payload"
FIRST = Request(key=b'"secret-key"', chunks=(SECRET,))
PLAIN = {
    K.MISSING_KEY: Request(key=None),
    K.INVALID_KEY: Request(key=b"not-quoted"),
    K.KEY_EXPIRED: Request(key=minted(RETENTION_S + 1)),
    K.BODY_TOO_LARGE: Request(chunks=(b"x" * 101,)),
    K.KEY_REUSED: FIRST.but(chunks=(b"other",)),
}
"""Requests that are refused while the first one runs and after it."""


class Refusing:
    """A worker in whose handler one request stands still, and that has each reason to refuse."""

    def __init__(self, backend: Backend) -> None:
        self.gate = Gate()
        self.receipts = watched_receipts(backend.receipts())
        self.app = backend.protect(
            LedgerApp(backend, after=self.gate),
            receipts=self.receipts,
            required=True,
            retention=RETENTION_S,
            body_bytes_max=100,
            lease_s=7.0,
        )

    async def refusals(self) -> dict[ProblemKind, Answer]:
        """Send one request of every kind; the handler is left."""
        answers: dict[ProblemKind, Answer] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(send, self.app, FIRST)
            await self.gate.entered.wait()
            for kind, request in PLAIN.items():
                answers[kind] = await send(self.app, request)
            answers[K.IN_FLIGHT] = await send(self.app, FIRST)
            self.receipts.before["claim"] = unavailable(times=2)
            answers[K.STORE_UNAVAILABLE] = await send(self.app, Request(key=b'"another"'))
            self.receipts.before.clear()
            self.gate.opened.set()
        return answers


async def test_every_refusal_is_a_problem_that_a_program_can_tell_apart(backend: Backend) -> None:
    refusals = await Refusing(backend).refusals()

    assert {kind: each.problem for kind, each in refusals.items()} == {k: k for k in refusals}
    contents = {kind: json.loads(each.body) for kind, each in refusals.items()}
    types = [content["type"] for content in contents.values()]
    assert len(set(types)) == len(types)
    for kind, answer in refusals.items():
        content = contents[kind]
        assert answer.all(b"content-type") == [b"application/problem+json"]
        assert answer.all(b"content-length") == [str(len(answer.body)).encode()]
        assert content["status"] == answer.status
        assert urlsplit(content["type"]).scheme
        assert "iana.org" not in content["type"]
        assert content["title"]
        assert content["detail"]
        assert content.get("instance") is None
        assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{2,}", name) for name in content)


async def test_every_refusal_links_to_documentation_in_body_and_header(backend: Backend) -> None:
    for answer in (await Refusing(backend).refusals()).values():
        page = json.loads(answer.body)["documentation"]
        assert page == DOCUMENTATION
        assert urlsplit(page).scheme == "https"
        assert answer.all(b"link") == [f'<{page}>; rel="describedby"; type="text/html"'.encode()]


async def test_only_who_should_come_back_unchanged_is_told_when(backend: Backend) -> None:
    refusals = await Refusing(backend).refusals()

    told = {kind: each.all(b"retry-after") for kind, each in refusals.items()}
    waits = {kind: lines for kind, lines in told.items() if lines}
    assert waits.keys() == {K.IN_FLIGHT, K.STORE_UNAVAILABLE}
    for kind, lines in waits.items():
        (line,) = lines
        assert re.fullmatch(rb"[1-9][0-9]*", line)
        assert json.loads(refusals[kind].body)["retry_after"] == int(line)
    assert 1 <= int(waits[K.IN_FLIGHT][0]) <= 7  # what is left of the lease


async def test_no_refusal_repeats_a_key_or_a_payload_or_looks_like_a_replay(
    backend: Backend,
) -> None:
    for answer in (await Refusing(backend).refusals()).values():
        everything = answer.body + b"".join(name + value for name, value in answer.headers)
        assert SECRET not in everything
        assert b"secret-key" not in everything
        assert not answer.all(b"idempotent-replayed")


async def test_a_request_that_was_refused_is_refused_again_until_it_is_corrected(
    backend: Backend,
) -> None:
    worker = Refusing(backend)
    first = await worker.refusals()

    again = {kind: await send(worker.app, request) for kind, request in PLAIN.items()}

    assert {kind: each.problem for kind, each in again.items()} == {kind: kind for kind in PLAIN}
    for kind in PLAIN:
        assert _titles(first[kind]) == _titles(again[kind])
    assert len(backend.ledger.rows()) == 1
    assert (await send(worker.app, FIRST)).brief == (201, None, True)


def _titles(answer: Answer) -> tuple[object, object]:
    content = json.loads(answer.body)
    return content["type"], content["title"]


async def test_the_title_of_a_problem_is_the_same_whatever_was_wrong(sqlite: Backend) -> None:
    app: ASGIApp = sqlite.protect(LedgerApp(sqlite))

    answers = [await send(app, Request(key=key)) for key in (b"bare", b'""', b'"a", "b"', b"?1")]

    contents = [json.loads(each.body) for each in answers]
    assert len({content["title"] for content in contents}) == 1
    assert len({content["detail"] for content in contents}) > 1


async def test_a_422_of_the_application_is_told_apart_from_a_reused_key(backend: Backend) -> None:
    inner = LedgerApp(backend, status=422, bodies=(b'{"detail": []}',))
    app = backend.protect(inner)

    own, replayed = [await send(app) for _ in range(2)]
    reused = await send(app, Request(chunks=(b"other",)))

    assert [own.brief, replayed.brief] == [(422, None, False), (422, None, True)]
    assert reused.brief == (422, K.KEY_REUSED, False)
    assert own.all(b"content-type") == [b"application/json"]
