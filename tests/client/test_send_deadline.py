"""No byte leaves at or past the send deadline: at the start, after a wait, and at the fence."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from client.clients import START_NS, FakeTime, Setup, info, named
from client.loopback import DROP, OK, Loopback, Reply
from replayfloor.client import (
    OperationClosed,
    OutcomePending,
    OutcomeUnknown,
    Profile,
    SQLiteJournal,
)
from replayfloor.client.effects import Moment
from replayfloor.core.journal import OperationState
from replayfloor.core.outcome import Outcome

RETENTION_S = 1000.0
WINDOW_S = RETENTION_S - 60.0
PROFILE = Profile(name="provider", retention_s=RETENTION_S)
DEADLINE_NS = START_NS + int(WINDOW_S * 1e9)


def _setup() -> Setup:
    return Setup(profile=PROFILE)


def _post(setup: Setup, loopback: Loopback, operation_id: str = "invoice-1") -> httpx.Response:
    with setup.client() as client:
        return client.post(loopback.url(), content=b"pay", extensions=named(operation_id))


def test_past_the_deadline_nothing_is_sent_ever_again(loopback: Loopback) -> None:
    loopback.script(DROP)
    setup = _setup()
    with pytest.raises(OutcomePending):
        _post(setup, loopback)
    connections = loopback.connections
    setup.time.now_ns = DEADLINE_NS

    for _ in range(3):
        with pytest.raises(OutcomeUnknown, match="Do not retry with the old key or a new one"):
            _post(setup, loopback)
    setup.time.now_ns = START_NS
    with pytest.raises(OutcomeUnknown) as caught:
        _post(setup, loopback)

    assert (loopback.connections, len(loopback.received)) == (connections, 4)
    assert [entry.state for entry in setup.journal.pending()] == [OperationState.UNKNOWN_FINAL]
    assert (caught.value.attempts, caught.value.outcome) == (4, Outcome.UNKNOWN)
    assert caught.value.elapsed_s >= WINDOW_S


@pytest.mark.parametrize(("early_ns", "sent"), [(1, 1), (0, 0), (-1, 0)])
def test_the_edge_is_exact(early_ns: int, sent: int, loopback: Loopback) -> None:
    loopback.script(*[DROP] * 4, OK)
    setup = _setup()
    with pytest.raises(OutcomePending):
        _post(setup, loopback)
    setup.time.now_ns = DEADLINE_NS - early_ns

    if sent:
        assert _post(setup, loopback).status_code == 201
    else:
        with pytest.raises(OutcomeUnknown):
            _post(setup, loopback)

    assert len(loopback.received) == 4 + sent


def test_the_latch_holds_in_another_process(loopback: Loopback, tmp_path: Path) -> None:
    loopback.script(DROP)
    journal = SQLiteJournal(tmp_path / "outbound.db")
    first = Setup(profile=PROFILE, journal=journal)
    with pytest.raises(OutcomePending):
        _post(first, loopback)
    first.time.now_ns = DEADLINE_NS
    with pytest.raises(OutcomeUnknown):
        _post(first, loopback)
    journal.close()
    received = len(loopback.received)

    with pytest.raises(OutcomeUnknown):
        _post(Setup(profile=PROFILE, journal=SQLiteJournal(tmp_path / "outbound.db")), loopback)

    assert len(loopback.received) == received


def test_a_done_operation_is_replayed_before_the_deadline_and_closed_after_it(
    loopback: Loopback,
) -> None:
    loopback.script(OK, Reply(201, (("Idempotent-Replayed", "true"),)))
    setup = _setup()
    _post(setup, loopback)

    again = _post(setup, loopback)
    setup.time.now_ns = DEADLINE_NS
    with pytest.raises(OperationClosed) as caught:
        _post(setup, loopback)

    assert info(again).replayed
    assert len(loopback.received) == 2
    assert (caught.value.final_status, caught.value.outcome) == (201, Outcome.DEFINITIVE)


# -- real retentions ------------------------------------------------------------------------------

DAY_S = 86_400.0
HOUR_S = 3600.0


class _Clocks(FakeTime):
    """Both clocks of a machine; only the wall clock can be set."""

    boot_ns = 7 * 10**12
    boot_id = "boot-1"

    def look(self) -> Moment:
        return Moment(self.now_ns, self.boot_ns, self.boot_id)

    def pass_time(self, seconds: float) -> None:
        super().pass_time(seconds)
        self.boot_ns += int(seconds * 1e9)

    def boot(self) -> None:
        self.boot_ns, self.boot_id = 10**9, "boot-2"


@dataclass
class _Payments:
    """A process that pays one invoice, and can be started again."""

    loopback: Loopback
    path: Path
    retention_s: float
    time: _Clocks = field(default_factory=_Clocks)

    @property
    def window_s(self) -> float:
        return 0.98 * self.retention_s

    def pay(self) -> str:
        """Call once, in a process of its own; return how it ended."""
        journal = SQLiteJournal(self.path)
        profile = Profile(name="provider", retention_s=self.retention_s)
        setup = Setup(profile=profile, journal=journal, time=self.time, clock=self.time.look)
        try:
            return str(_post(setup, self.loopback).status_code)
        except (OutcomePending, OutcomeUnknown) as error:
            return type(error).__name__
        finally:
            journal.close()

    def lose_the_first_answers(self) -> None:
        self.loopback.script(*[DROP] * 4, OK)
        assert self.pay() == "OutcomePending"
        assert len(self.loopback.received) == 4

    def to_deadline(self, early_s: float) -> None:
        passed_s = (self.time.now_ns - START_NS) / 1e9
        self.time.pass_time(self.window_s - early_s - passed_s)


@pytest.fixture(params=[1, 7, 30], ids=["24 hours", "7 days", "30 days"])
def payments(request: pytest.FixtureRequest, loopback: Loopback, tmp_path: Path) -> _Payments:
    return _Payments(loopback, tmp_path / "outbound.db", request.param * DAY_S)


def test_one_second_before_the_deadline_an_attempt_leaves(payments: _Payments) -> None:
    payments.lose_the_first_answers()
    payments.to_deadline(1.0)

    assert payments.pay() == "201"
    assert len(payments.loopback.received) == 5
    assert len(set(payments.loopback.keys())) == 1


@pytest.mark.parametrize("late_s", [0.0, 1.0, 40 * DAY_S])
def test_at_the_deadline_and_past_it_none_leaves(late_s: float, payments: _Payments) -> None:
    payments.lose_the_first_answers()
    payments.to_deadline(-late_s)

    assert payments.pay() == "OutcomeUnknown"
    payments.time.boot()
    assert payments.pay() == "OutcomeUnknown"
    assert len(payments.loopback.received) == 4


@pytest.mark.parametrize("boots", [False, True])
def test_past_the_deadline_a_wall_clock_that_is_set_back_reopens_nothing(
    boots: bool, payments: _Payments
) -> None:
    payments.lose_the_first_answers()
    payments.to_deadline(0.0)
    payments.pay()
    payments.time.now_ns = START_NS + int(HOUR_S * 1e9)
    if boots:
        payments.time.boot()

    assert payments.pay() == "OutcomeUnknown"
    assert len(payments.loopback.received) == 4


def test_a_wall_clock_that_is_set_back_unseen_is_found_out_by_the_boots_clock(
    payments: _Payments,
) -> None:
    """It shows an hour after the first attempt, and the whole retention has passed."""
    payments.lose_the_first_answers()
    payments.to_deadline(0.0)
    payments.time.now_ns = START_NS + int(HOUR_S * 1e9)

    assert payments.pay() == "OutcomeUnknown"
    assert len(payments.loopback.received) == 4


def test_after_a_boot_a_wall_clock_that_went_back_lets_nothing_leave(payments: _Payments) -> None:
    payments.lose_the_first_answers()
    payments.to_deadline(0.0)
    payments.time.boot()
    payments.time.now_ns = START_NS - int(HOUR_S * 1e9)

    assert payments.pay() == "OutcomePending"
    assert len(payments.loopback.received) == 4

    payments.time.now_ns = START_NS + int((payments.window_s - 1) * 1e9)
    assert payments.pay() == "201"


# -- the fence ------------------------------------------------------------------------------------


@contextmanager
def _silent_server() -> Iterator[tuple[int, Callable[[], bytes]]]:
    """A server that accepts and never answers; the second value is all it was ever sent."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as thread:

        def take() -> bytes:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(5)
                sent = b""
                while chunk := connection.recv(65536):
                    sent += chunk
                return sent

        sent = thread.submit(take)
        yield server.getsockname()[1], sent.result


class _SlowToConnect:
    """A trace callable that lets the deadline pass while the connection is made."""

    def __init__(self, setup: Setup, event: str = "connection.connect_tcp.complete") -> None:
        self.setup = setup
        self.event = event
        self.names: list[str] = []

    def __call__(self, name: str, info: object) -> None:
        self.names.append(name)
        if name == self.event:
            self.setup.time.now_ns = DEADLINE_NS

    async def asynchronous(self, name: str, info: object) -> None:
        self(name, info)


def test_a_connection_that_took_too_long_is_closed_without_a_byte() -> None:
    setup = _setup()
    slow = _SlowToConnect(setup)
    with _silent_server() as (port, sent), setup.client() as client:
        with pytest.raises(OutcomeUnknown) as caught:
            client.post(f"http://127.0.0.1:{port}/", extensions={"trace": slow})
        bytes_sent = sent()

    assert bytes_sent == b""
    assert caught.value.outcome is Outcome.NOT_SENT
    assert "was not executed" in str(caught.value)
    assert "http11.send_request_headers.started" in slow.names


@pytest.mark.anyio
async def test_the_fence_holds_back_an_asynchronous_request_too() -> None:
    setup = _setup()
    slow = _SlowToConnect(setup)
    with _silent_server() as (port, sent):
        async with setup.async_client() as client:
            with pytest.raises(OutcomeUnknown):
                await client.post(
                    f"http://127.0.0.1:{port}/", extensions={"trace": slow.asynchronous}
                )
        assert sent() == b""

    assert "http11.send_request_headers.started" in slow.names


def test_after_the_fence_the_client_works_as_before(loopback: Loopback) -> None:
    setup = Setup(profile=PROFILE, limits=httpx.Limits(max_connections=1))
    with setup.client() as client:
        with pytest.raises(OutcomeUnknown):
            client.post(loopback.url(), extensions={"trace": _SlowToConnect(setup)})
        setup.time.now_ns = START_NS
        response = client.post(loopback.url())

    assert response.status_code == 201
    assert len(loopback.received) == 1


def test_what_httpcore_calls_the_moment_before_the_headers_has_not_changed(
    loopback: Loopback,
) -> None:
    """The names are no contract; if they change, the fence is blind and every failure is 'sent'."""
    names: list[str] = []
    with Setup().client() as client:
        client.post(loopback.url(), extensions={"trace": lambda name, info: names.append(name)})

    before = names.index("http11.send_request_headers.started")
    assert before < names.index("http11.send_request_body.started")
    assert "connection.connect_tcp.started" in names[:before]


def test_a_transport_that_tells_nothing_is_presumed_to_have_sent() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("says nothing about an earlier hop", request=request)

    with Setup().client(httpx.MockTransport(refuse)) as client, pytest.raises(OutcomePending):
        client.post("https://api.example/")


def test_a_proxy_that_refuses_the_tunnel_has_sent_nothing(loopback: Loopback) -> None:
    """The CONNECT has headers of its own, and they are not the request's."""
    proxy = httpx.HTTPTransport(proxy=loopback.url(""))
    setup = Setup()
    with setup.client(proxy) as client, pytest.raises(httpx.ProxyError):
        client.post("https://api.example/", extensions=named("invoice-1"))

    (entry,) = setup.journal.pending()
    assert entry.worst is Outcome.NOT_SENT
