"""`close()` of what an application returned: once, after its answer (PEP 3333)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from wsgiref.util import FileWrapper

import pytest

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.stores.sqlite import SQLiteReceipts
from server.wsgi_client import CREATED, Server, Worker, environ, serve
from server.wsgi_server import Environ, StartResponse, WSGIApp

FRESH, REPLAY = (201, None, False), (201, None, True)
MIB = 1024 * 1024


@dataclass
class Closing:
    """Chunks that are their own iterator, as Werkzeug's are, and remember their end."""

    chunks: Iterator[bytes]
    on_close: Callable[[], None] = lambda: None
    closed: int = 0
    taken_when_closed: list[int] = field(default_factory=list)
    taken: int = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self.chunks)
        self.taken += 1
        return chunk

    def close(self) -> None:
        self.closed += 1
        self.taken_when_closed.append(self.taken)
        self.on_close()


def returning(worker: Worker, body: Iterable[bytes]) -> WSGIApp:
    return worker.answering(body)


def breaking() -> Iterator[bytes]:
    yield b"a"
    raise LookupError("in the middle")


def test_it_is_called_once_after_the_whole_answer_was_sent(worker: Worker) -> None:
    server, sent = Server(), list[bytes]()
    body = Closing(iter((b"a", b"b")), on_close=lambda: sent.extend(server.sent))

    server.send(worker.protect(returning(worker, body))(environ(), server.start_response))

    assert (body.closed, body.taken_when_closed, sent) == (1, [2], [b"a", b"b"])


def test_a_server_that_closes_twice_closes_the_application_once(worker: Worker) -> None:
    body = Closing(iter((b"a",)))
    server = Server()
    returned = worker.raw(returning(worker, body))(environ(), server.start_response)

    server.send(returned)
    server.send(())
    returned.close()  # type: ignore[attr-defined]

    assert body.closed == 1


def test_it_is_called_although_the_server_never_iterates(worker: Worker) -> None:
    """After a HEAD, or when the client is gone before the first byte."""
    body = Closing(iter((b"a", b"b")))
    returned = worker.raw(returning(worker, body))(environ(), Server().start_response)

    assert body.closed == 0
    returned.close()  # type: ignore[attr-defined]

    assert body.closed == 1
    assert serve(worker.protect(worker.answering())).brief == REPLAY


@pytest.mark.parametrize("stop_after", [1, 2, None])
def test_it_is_called_once_when_the_client_leaves_in_the_middle_of_a_large_answer(
    worker: Worker, stop_after: int | None
) -> None:
    body = Closing(iter((b"x" * 200, b"y" * 200, b"z")))
    server = Server()
    app = worker.raw(returning(worker, body), response_bytes_max=100)

    server.send(app(environ(), server.start_response), stop_after)

    assert len(server.sent) == (stop_after or 3)
    assert (body.closed, body.taken) == (1, stop_after or 3)


def test_it_is_called_once_when_the_application_raises_while_it_answers(worker: Worker) -> None:
    body = Closing(breaking())

    answer = serve(worker.protect(returning(worker, body)))

    assert str(answer.raised) == "in the middle"
    assert body.closed == 1


def test_a_claim_is_settled_although_closing_fails_too(worker: Worker) -> None:
    def fail() -> None:
        raise LookupError("while closing")

    body = Closing(breaking(), on_close=fail)
    app = worker.protect(returning(worker, body))

    first, again = serve(app), serve(worker.protect(worker.answering()))

    assert str(first.raised) == "while closing"
    assert (again.status, again.replayed) == (500, True)
    assert worker.rows == 1


def test_it_is_called_once_when_the_answer_cannot_be_settled(worker: Worker) -> None:
    class Failing(SQLiteReceipts):
        def finish(self, finish: object) -> bool:
            raise LookupError("a defect")

    receipts = Failing(worker.folder / "receipts.db")
    body = Closing(iter((b"a",)))

    answer = serve(worker.protect(returning(worker, body), receipts=receipts))
    receipts.close()

    assert str(answer.raised) == "a defect"
    assert body.closed == 1


def test_it_is_called_once_when_another_answer_is_sent_in_its_place(worker: Worker) -> None:
    class Away(SQLiteReceipts):
        def begin(self, _id: object = None, /) -> object:  # type: ignore[override]
            transaction = super().begin()

            class Lost:
                connection = transaction.connection
                rollback = transaction.rollback

                def commit(self, _finish: object) -> bool:
                    raise StoreUnavailable("away", performed=False)

            return Lost()

    receipts = Away(worker.folder / "receipts.db")
    body = Closing(iter((b"secret",)))

    def app(request: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("201 Created", list(CREATED))
        return body

    answer = serve(worker.protect(app, receipts=receipts, effects="atomic"))
    receipts.close()

    assert (answer.status, b"secret" in answer.body) == (503, False)
    assert body.closed == 1


def test_what_is_done_in_it_is_done_after_the_receipt(worker: Worker) -> None:
    """Where WSGI has its background tasks; a retry that comes meanwhile is replayed."""
    answers: list[object] = []
    other = worker.protect(worker.answering())
    body = Closing(iter((b"a",)), on_close=lambda: answers.append(serve(other).brief))

    first = serve(worker.protect(returning(worker, body)))

    assert (first.brief, answers) == (FRESH, [REPLAY])
    assert worker.rows == 1


def test_what_it_raises_reaches_the_server_and_loses_no_receipt(worker: Worker) -> None:
    def fail() -> None:
        raise LookupError("while closing")

    body = Closing(iter((b"a",)), on_close=fail)

    first = serve(worker.protect(returning(worker, body)))

    assert (first.status, str(first.raised)) == (201, "while closing")
    assert serve(worker.protect(worker.answering())).brief == REPLAY


def test_a_file_that_the_application_returns_is_read_and_closed(worker: Worker) -> None:
    path = worker.folder / "answer"
    path.write_bytes(b"x" * 20_000)
    files = []

    def app(request: Environ, start_response: StartResponse) -> Iterable[bytes]:
        worker.ledger.write()
        start_response("201 Created", list(CREATED))
        files.append(path.open("rb"))
        return FileWrapper(files[0])

    protected = worker.protect(app)

    answers = [serve(protected) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert [each.body for each in answers] == [b"x" * 20_000] * 2
    assert files[0].closed


@pytest.mark.parametrize("ends", ["answered", "raised", "replayed", "refused", "not iterated"])
def test_a_large_request_body_is_given_up_with_its_request(worker: Worker, ends: str) -> None:
    body = b"x" * (MIB + 1)
    before = _deleted_files()
    app = worker.raw(
        returning(worker, breaking() if ends == "raised" else [b"a"]), body_bytes_max=2 * MIB
    )
    if ends == "replayed":
        serve(app, environ(body))
    elif ends == "refused":
        serve(app, environ(body + b"y"))

    if ends == "not iterated":
        app(environ(body), Server().start_response).close()  # type: ignore[attr-defined]
    else:
        serve(app, environ(body))

    assert _deleted_files() == before


def _deleted_files() -> list[str]:
    """Open files without a name: a spooled body is one, and a test runner has some of its own."""
    descriptors = Path("/proc/self/fd")  # Linux only; elsewhere nothing is looked at
    if not descriptors.exists():
        return []
    names = []
    for link in descriptors.iterdir():
        try:
            names.append(os.readlink(link))
        except OSError:
            continue
    return [name for name in sorted(names) if name.endswith("(deleted)")]
