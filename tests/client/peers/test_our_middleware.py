"""The transport against our own middleware, over real sockets, with a network that loses and cuts.

The ledger counts what was executed. Neither side is told anything but by HTTP.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest

from client.clients import PATIENCE_S, FakeTime
from client.peers.colours import Colour, in_every_colour, in_two_colours
from client.peers.our_caller import NAP_S, OURS, Caller, Post
from client.peers.our_server import OurServer, serving_ours
from replayfloor.client import (
    OutcomePending,
    OutcomeUnknown,
    Profile,
    RetryPolicy,
)
from replayfloor.client.events import WaitReason, WaitStarted
from replayfloor.core.journal import ReadHistory
from replayfloor.core.outcome import Outcome
from replayfloor.core.problem import ProblemKind, problem_kind
from replayfloor.testing.proxy import FaultProxy, serving
from replayfloor.testing.proxy_plan import (
    DUPLICATE,
    LOSE_REPLY,
    PASS,
    REFUSE,
    Cut,
    CutAfter,
    Delay,
    LoseReply,
    Plan,
    scripted,
    shuffled,
)
from support.fork_server import ForkServer
from support.ledger import Ledger
from support.worker import Worker

RETENTION_S = 7 * 86_400
BAD_NETWORK = (
    PASS,
    PASS,
    REFUSE,
    LOSE_REPLY,
    LoseReply(Cut.CLOSE),
    DUPLICATE,
    Delay(0.02),
    CutAfter(30),
    CutAfter(200),
)
OPERATIONS = 24
AT_ONCE = 4
CALLS_MAX = 50
"""For one operation. An unknown server is asked again only when another call was answered."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OurServer]:
    """A server that keeps receipts for a week."""
    with serving_ours(tmp_path, retention_s=RETENTION_S) as found:
        yield found


@contextmanager
def behind(server: OurServer, plan: Plan) -> Iterator[FaultProxy]:
    """Give a proxy before the server."""
    with serving(FaultProxy(server.port, plan)) as proxy:
        yield proxy


@in_every_colour
@pytest.mark.parametrize("known", [OURS, None], ids=["profile", "unprofiled"])
def test_whatever_the_network_loses_each_operation_is_executed_once(
    colour: Colour, known: Profile | None, server: OurServer
) -> None:
    names = [f"invoice-{number}" for number in range(OPERATIONS)]
    with behind(server, shuffled(7, BAD_NETWORK)) as proxy:
        caller = Caller(colour=colour, port=proxy.port, profile=known)
        with caller.calling() as post, ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda name: until_answered(post, name), names))

    assert sorted(server.ledger) == sorted(names)
    assert [answer.json()["payment"] for answer in answers] == names
    entries = {answer.json()["entry"] for answer in answers}
    assert len(entries) == OPERATIONS
    assert sum(event.replayed for event in caller.attempts()) > OPERATIONS / 10


def until_answered(post: Post, name: str) -> httpx.Response:
    """Call again, as the transport advises; it does so only a few times."""
    for _ in range(CALLS_MAX):
        try:
            return post(name)
        except OutcomePending:
            time.sleep(NAP_S)
    raise AssertionError(f"{name} was not answered")


@in_every_colour
def test_the_lifetime_that_the_server_advertises_is_learned(
    colour: Colour, server: OurServer
) -> None:
    caller = Caller(colour=colour, port=server.port)
    with caller.calling() as post:
        for name in ("invoice-1", "invoice-2"):
            post(name)

    kept = caller.journal.history(ReadHistory())
    assert [entry.retention_s for entry in kept] == [RETENTION_S, RETENTION_S]
    begun = [event for event in caller.events if event.operation_id == "invoice-2"]
    assert begun[0].retention_s == RETENTION_S, "known before the first attempt of the next one"
    assert OURS.retention_s < RETENTION_S


@in_every_colour
def test_each_attempt_says_when_the_first_one_was_sent(colour: Colour, server: OurServer) -> None:
    with behind(server, scripted(LOSE_REPLY, LOSE_REPLY)) as proxy:
        caller = Caller(colour=colour, port=proxy.port)
        with caller.calling() as post:
            post("invoice-1")

    told = {tuple(each.values("repeatability-first-sent")) for each in server.received}
    (entry,) = caller.journal.history(ReadHistory())
    ((said,),) = told
    assert int(parsedate_to_datetime(said).timestamp()) == entry.first_attempt_at_ns // 10**9
    assert len(server.received) == 3
    assert server.ledger == ["invoice-1"]


@in_every_colour
def test_an_unknown_server_is_asked_again_once_it_has_shown_that_it_knows_keys(
    colour: Colour, server: OurServer
) -> None:
    with behind(server, scripted(LOSE_REPLY)) as proxy:
        caller = Caller(colour=colour, port=proxy.port, profile=None)
        with caller.calling() as post:
            with pytest.raises(OutcomePending):
                post("invoice-1")
            assert len(server.received) == 1, "it might have been executed again"
            post("invoice-2")
            answer = post("invoice-1")

    assert answer.headers["idempotent-replayed"] == "true"
    assert server.ledger == ["invoice-1", "invoice-2"]


@in_two_colours
def test_a_request_in_flight_is_waited_out_and_not_executed_again(
    colour: Colour, tmp_path: Path
) -> None:
    """The client gives up on an answer that takes 0.9 s, and meets its own first request."""
    with serving_ours(tmp_path, retention_s=RETENTION_S, lease_s=2) as server:
        caller = Caller(colour=colour, port=server.port, nap=time.sleep, timeout_s=0.4)
        with caller.calling() as post:
            answer = post("invoice-1", after_s=0.9)

    assert answer.headers["idempotent-replayed"] == "true"
    assert server.ledger == ["invoice-1"]
    assert any(event.in_flight for event in caller.attempts())
    waits = [event for event in caller.events if isinstance(event, WaitStarted)]
    assert all(wait.wait_s >= 1 for wait in waits if wait.reason is WaitReason.IN_FLIGHT)


@in_every_colour
def test_a_key_that_was_used_for_another_request_is_asked_about_once(
    colour: Colour, server: OurServer
) -> None:
    """Two processes that do not share a journal give one key to two payments."""
    answers: list[httpx.Response] = []
    for amount in (5, 6):
        with Caller(colour=colour, port=server.port).calling() as post:
            answers.append(post("invoice-1", key="k", amount=amount))

    assert [answer.status_code for answer in answers] == [201, 422]
    body = answers[1].content
    assert problem_kind(answers[1].headers["content-type"].encode(), body) is ProblemKind.KEY_REUSED
    assert len(server.received) == 2
    assert server.ledger == ["invoice-1"]


@in_every_colour
def test_a_handler_that_failed_after_its_effect_leaves_the_outcome_unknown_for_good(
    colour: Colour, server: OurServer
) -> None:
    caller = Caller(colour=colour, port=server.port)
    for _ in range(2):
        with caller.calling() as post, pytest.raises(OutcomeUnknown):
            post("invoice-1", path="/broken")

    assert len(server.received) == 2, "the failure, and its replay"
    assert server.ledger == ["invoice-1"]


@in_every_colour
def test_past_the_advertised_lifetime_nothing_is_sent(colour: Colour, tmp_path: Path) -> None:
    clock = FakeTime()
    with (
        serving_ours(tmp_path, retention_s=RETENTION_S, clock=clock.clock) as server,
        behind(server, scripted(PASS, then=LOSE_REPLY)) as proxy,
    ):
        policy = RetryPolicy(attempts_max=2, wait_base_s=0)
        caller = Caller(colour=colour, port=proxy.port, clock=clock.clock, retry=policy)
        with caller.calling() as post:
            post("invoice-0")  # what tells how long keys are kept
            with pytest.raises(OutcomePending):
                post("invoice-1")
            clock.pass_time(RETENTION_S)
            with pytest.raises(OutcomeUnknown) as caught:
                post("invoice-1")

    assert caught.value.retention_s == RETENTION_S
    assert len(server.received) == 3
    assert server.ledger == ["invoice-0", "invoice-1"]


@in_every_colour
def test_a_server_that_keeps_receipts_for_less_than_presumed_refuses_and_the_call_ends_unknown(
    colour: Colour, tmp_path: Path
) -> None:
    """It never said so: the only answer that would have told was lost. Its own guard holds."""
    clock = FakeTime()
    with (
        serving_ours(tmp_path, retention_s=60, clock=clock.clock) as server,
        behind(server, scripted(LOSE_REPLY, LOSE_REPLY)) as proxy,
    ):
        policy = RetryPolicy(attempts_max=2, wait_base_s=0)
        caller = Caller(colour=colour, port=proxy.port, clock=clock.clock, retry=policy)
        with caller.calling() as post:
            with pytest.raises(OutcomePending):
                post("invoice-1")
            clock.pass_time(120)
            with pytest.raises(OutcomeUnknown) as caught:
                post("invoice-1")

    last = caught.value.last_response
    assert last is not None
    media_type = last.headers["content-type"].encode()
    assert problem_kind(media_type, last.content) is ProblemKind.KEY_EXPIRED
    assert len(server.received) == 3
    assert server.ledger == ["invoice-1"]


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    """The process that workers are forked from."""
    with ForkServer() as found:
        yield found


@in_two_colours
def test_a_worker_that_dies_with_a_request_is_reported_as_of_unknown_outcome(
    colour: Colour, forks: ForkServer, tmp_path: Path
) -> None:
    """The next worker finds the claim without its owner, and says so: it executes nothing."""
    receipts = f"sqlite:///{tmp_path}/receipts.db"
    ledger = Ledger(receipts)
    ledger.create()
    environment = {"LEDGER_RECEIPTS": receipts, "LEDGER_LEASE_S": "0.5"}
    worker = Worker(forks, tmp_path / "log", environment).start()
    policy = RetryPolicy(attempts_max=12, wait_base_s=0.05, wait_cap_s=0.2, budget_s=600)
    caller = Caller(colour=colour, port=worker.port, retry=policy)

    def kill_and_start() -> None:
        while not worker.pausing("after"):
            time.sleep(NAP_S)
        worker.kill()
        worker.start()

    killing = threading.Thread(target=kill_and_start)
    killing.start()
    try:
        with caller.calling() as post:
            found = until_answered_at_all(post)
    finally:
        killing.join()
        worker.kill()

    assert found.last_response is not None
    media_type = found.last_response.headers["content-type"].encode()
    assert problem_kind(media_type, found.last_response.content) is ProblemKind.OUTCOME_UNKNOWN
    assert found.outcome is Outcome.UNKNOWN
    assert len(ledger.runs("invoice-1")) == 1


def until_answered_at_all(post: Post) -> OutcomePending:
    """Call again until the worker is there, and the lease of the dead one has ended."""
    until = time.monotonic() + PATIENCE_S
    while True:
        with pytest.raises(OutcomePending) as caught:
            post("invoice-1", path="/external", headers={"x-after-ms": "10000"})
        last = caught.value.last_response
        if (last is not None and b"in-flight" not in last.content) or time.monotonic() > until:
            return caught.value
