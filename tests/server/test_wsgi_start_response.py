"""How a WSGI application begins its answer, changes its mind, and pushes its body (PEP 3333)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator

import pytest

from replayfloor.core.claims import Finish
from replayfloor.core.errors import UsageError
from replayfloor.core.problem import ProblemKind
from replayfloor.server import EventKind, ServerEvent
from replayfloor.server.stores.sqlite import SQLiteReceipts
from server.wsgi_client import CREATED, Server, Worker, environ, serve
from server.wsgi_server import Environ, StartResponse, WSGIApp

FRESH, REPLAY = (201, None, False), (201, None, True)
FAILED = (500, ProblemKind.HANDLER_FAILED, True)
NOT_KEPT = (409, ProblemKind.ANSWER_NOT_KEPT, False)

Begin = Callable[[StartResponse], Iterable[bytes]]


def app_of(worker: Worker, begin: Begin) -> WSGIApp:
    """Return an application that writes a row and then does what the test is about."""

    def app(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        worker.ledger.write()
        return begin(start_response)

    return app


def test_what_is_pushed_is_sent_and_replayed_ahead_of_what_is_returned(worker: Worker) -> None:
    def begin(start_response: StartResponse) -> Iterable[bytes]:
        write = start_response("201 Created", list(CREATED))
        write(b"pushed ")
        write(b"")
        return [b"and ", b"returned"]

    app = worker.protect(app_of(worker, begin))

    answers = [serve(app) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert [each.body for each in answers] == [b"pushed and returned"] * 2
    assert worker.rows == 1


def test_an_application_that_pushes_too_much_is_sent_while_it_pushes(worker: Worker) -> None:
    server = Server()
    sent: list[list[bytes]] = []

    def begin(start_response: StartResponse) -> Iterable[bytes]:
        write = start_response("201 Created", list(CREATED))
        for chunk in (b"a" * 60, b"b" * 60, b"c"):
            write(chunk)
            sent.append(list(server.sent))
        return [b"d"]

    app = worker.protect(app_of(worker, begin), response_bytes_max=100)

    server.send(app(environ(), server.start_response))

    assert [len(chunks) for chunks in sent] == [0, 2, 3]
    assert server.answer().body == b"a" * 60 + b"b" * 60 + b"cd"
    assert serve(app).brief == NOT_KEPT
    assert worker.rows == 1


def test_what_is_pushed_by_an_execution_that_lost_its_claim_is_not_sent(worker: Worker) -> None:
    def begin(start_response: StartResponse) -> Iterable[bytes]:
        worker.ledger.run("delete from replayfloor_claims")
        write = start_response("201 Created", list(CREATED))
        write(b"x" * 200)
        write(b"y")
        return [b"z"]

    events: list[ServerEvent] = []
    app = worker.protect(
        app_of(worker, begin),
        effects="repeatable",
        response_bytes_max=100,
        on_event=events.append,
    )

    answer = serve(app)

    assert answer.raised is None
    assert answer.brief == (409, ProblemKind.IN_FLIGHT, False)
    assert b"xx" not in answer.body
    assert [event.kind for event in events] == [EventKind.CLAIMED, EventKind.LEASE_LOST]


def test_an_application_that_swallows_a_failure_to_settle_is_not_answered_for(
    worker: Worker,
) -> None:
    class Defective(SQLiteReceipts):
        def finish(self, finish: Finish) -> bool:
            raise LookupError("a defect")

    def begin(start_response: StartResponse) -> Iterable[bytes]:
        write = start_response("201 Created", list(CREATED))
        with contextlib.suppress(LookupError):
            write(b"x" * 200)
        return [b"all is well"]

    receipts = Defective(worker.folder / "receipts.db")
    app = worker.protect(app_of(worker, begin), receipts=receipts, response_bytes_max=100)

    answer = serve(app)
    receipts.close()

    assert (answer.status, answer.body) == (500, b"")
    assert isinstance(answer.raised, UsageError)
    assert worker.rows == 1


def test_a_second_start_response_without_an_exception_is_an_error(worker: Worker) -> None:
    def begin(start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", list(CREATED))
        start_response("201 Created", list(CREATED))
        return []

    app = worker.protect(app_of(worker, begin))

    first, again = serve(app), serve(app)

    # The validator has nothing against it, so the middleware is who says so.
    assert isinstance(first.raised, UsageError)
    assert again.brief == FAILED


def test_an_application_may_change_its_mind_until_something_is_sent(worker: Worker) -> None:
    """What it had produced belonged to the other answer; unsent, it is dropped."""

    def begin(start_response: StartResponse) -> Iterator[bytes]:
        start_response("201 Created", [*CREATED, ("X-First", "1")])
        yield b"half of an answer"
        try:
            raise LookupError("in the middle")
        except LookupError:
            start_response("404 Not Found", list(CREATED), sys.exc_info())
        yield b"none"

    app = worker.protect(app_of(worker, begin))

    answers = [serve(app) for _ in range(2)]

    assert [each.brief for each in answers] == [(404, None, False), (404, None, True)]
    assert [each.body for each in answers] == [b"none"] * 2
    assert not answers[0].all(b"x-first")


@pytest.mark.parametrize("pushes", [True, False])
def test_after_something_was_sent_the_exception_is_raised(worker: Worker, pushes: bool) -> None:
    def begin(start_response: StartResponse) -> Iterator[bytes]:
        write = start_response("201 Created", list(CREATED))
        if pushes:
            write(b"x" * 200)
        yield b"y" * 200
        try:
            raise LookupError("in the middle")
        except LookupError:
            start_response("404 Not Found", list(CREATED), sys.exc_info())
        yield b"never"

    app = worker.protect(app_of(worker, begin), response_bytes_max=100)

    first = serve(app)

    assert (first.status, str(first.raised)) == (201, "in the middle")
    assert first.body == b"x" * 200 * pushes + b"y" * 200
    assert serve(app).brief == NOT_KEPT
    assert worker.rows == 1


@pytest.mark.parametrize("chunks", [(), (b"",)])
def test_an_application_that_never_begins_its_answer_has_failed(
    worker: Worker, chunks: tuple[bytes, ...]
) -> None:
    # Without the validator, which raises before we do.
    app = worker.raw(app_of(worker, lambda _start: list(chunks)))

    first, again = serve(app), serve(app)

    assert isinstance(first.raised, UsageError)
    assert again.brief == FAILED
    assert worker.rows == 1


def test_a_generator_begins_its_answer_with_its_first_chunk(worker: Worker) -> None:
    def app(_environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        worker.ledger.write()
        start_response("201 Created", list(CREATED))
        yield b"a"
        yield b"b"

    protected = worker.protect(app)

    answers = [serve(protected) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert [each.body for each in answers] == [b"ab"] * 2
    assert worker.rows == 1


@pytest.mark.parametrize("chunks", [[], [b""], (), iter(())])
@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "304 Not Modified"])
def test_an_empty_iterable_is_an_answer(
    worker: Worker, status: str, chunks: Iterable[bytes]
) -> None:
    app = worker.protect(worker.answering(chunks, status))

    first, again = serve(app), serve(app)

    assert (first.status, first.body) == (again.status, again.body) == (int(status[:3]), b"")
    assert again.replayed
    assert again.first(b"content-length") == (b"0" if status == "200 OK" else None)


def test_a_304_announces_the_length_of_what_it_does_not_send(worker: Worker) -> None:
    """RFC 9110, 8.6: its Content-Length is that of a 200; the answer is whole without a body."""

    def begin(start_response: StartResponse) -> Iterable[bytes]:
        start_response("304 Not Modified", [("Content-Length", "500"), ("ETag", '"1"')])
        return []

    app = worker.protect(app_of(worker, begin))

    assert [serve(app).brief for _ in range(2)] == [(304, None, False), (304, None, True)]


def test_an_answer_shorter_than_it_announced_was_cut_off_and_is_not_replayed(
    worker: Worker,
) -> None:
    """A generator whose source breaks off may just end; only its Content-Length tells."""

    def begin(start_response: StartResponse) -> Iterable[bytes]:
        start_response("201 Created", [*CREATED, ("Content-Length", "500")])
        return [b"x" * 100]

    app = worker.protect(app_of(worker, begin))

    first, again = serve(app), serve(app)

    assert (first.status, first.body) == (201, b"x" * 100)
    assert again.brief == NOT_KEPT
    assert worker.rows == 1


def test_the_servers_start_response_gets_strings_as_the_application_gave_them(
    worker: Worker,
) -> None:
    headers = [("Content-Type", "text/plain"), ("X-Case", "caf\xe9"), ("x-case", "2")]

    def begin(start_response: StartResponse) -> Iterable[bytes]:
        start_response("201 Made It", headers)
        return [b"a"]

    server = Server()
    server.send(worker.protect(app_of(worker, begin))(environ(), server.start_response))

    assert (server.status, server.headers) == ("201 Made It", headers)


@pytest.mark.parametrize("chunks", [[b"one"], [b"one", b"two"]])
def test_a_server_can_tell_the_length_of_an_answer_that_is_complete(
    worker: Worker, chunks: list[bytes]
) -> None:
    """Servers make a Content-Length from a body of one chunk: wsgiref, waitress."""
    app = worker.raw(worker.answering(chunks))

    for _ in range(2):
        server = Server()
        body = app(environ(), server.start_response)
        assert len(list(body)) == len(body)  # type: ignore[arg-type]
        server.send(body)

    assert worker.rows == 1


def test_an_answer_that_the_server_refuses_is_closed_and_not_executed_again(
    worker: Worker,
) -> None:
    """A header with a line break, say: the server raises, after the effect was recorded."""
    closed: list[int] = []

    class Chunks(list[bytes]):
        def close(self) -> None:
            closed.append(1)

    def refuse(*_arguments: object) -> None:
        raise ValueError("a header with a line break")

    app = worker.raw(worker.answering(Chunks([b"a"])))

    with pytest.raises(ValueError, match="line break"):
        app(environ(), refuse)  # type: ignore[arg-type]

    assert closed == [1]
    assert serve(app).brief == REPLAY
    assert worker.rows == 1
