"""What the server says about keys: whether it knows them, and for how long it keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from client.worlds import POLICY, PROFILE, RETENTION_S
from replayfloor.client.events import Ending
from replayfloor.client.profiles import RETENTION_MAX_S
from replayfloor.client.support import (
    RETENTION_SEEN_S,
    UNPROFILED,
    Learning,
    NoteSupport,
    RecallSupport,
    Support,
    read_support,
)
from replayfloor.client.support_memory import PLACES_MAX, SupportMemory
from replayfloor.core.journal import OperationState
from replayfloor.core.message import Response
from replayfloor.core.problem import in_flight
from replayfloor.testing.client_faults import Attempt, Fate
from replayfloor.testing.client_world import ClientWorld

ORIGIN = "https://api.example"
PLACE = f"{ORIGIN}/charges"


def _unprofiled(*fates: Fate) -> ClientWorld:
    world = ClientWorld(UNPROFILED, POLICY, map(Attempt, fates))
    world.learning = Learning.REQUIRE
    return world


# -- without a profile ----------------------------------------------------------------------------


def test_without_a_profile_a_request_that_may_have_been_sent_is_not_sent_again() -> None:
    world = _unprofiled(Fate.REPLY_LOST)

    verdicts = [world.call(), world.call(), world.call()]

    assert [each.ending for each in verdicts] == [Ending.PENDING] * 3
    assert "has not shown that it knows idempotency keys" in verdicts[-1].detail
    assert len(world.departures) == 1


def test_without_a_profile_one_that_was_not_sent_is_sent_again() -> None:
    world = _unprofiled(Fate.REFUSED, Fate.REFUSED)

    assert world.call().ending is Ending.RETURNED


def test_without_a_profile_an_answer_is_handed_over_as_it_is() -> None:
    world = _unprofiled(Fate.BROKEN_GATEWAY)

    assert world.call().ending is Ending.RETURNED
    assert len(world.departures) == 1


def test_without_a_profile_an_operation_that_was_answered_is_not_sent_again() -> None:
    world = _unprofiled()
    world.call()

    assert world.call().ending is Ending.CLOSED
    assert len(world.departures) == 1


def test_a_server_of_ours_that_is_still_executing_is_asked_again() -> None:
    world = _unprofiled(Fate.IN_FLIGHT, Fate.IN_FLIGHT)

    assert world.call().ending is Ending.RETURNED
    assert len(world.departures) == 3


def test_once_support_was_seen_a_lost_answer_is_asked_for_again() -> None:
    world = _unprofiled(Fate.ANSWERED, Fate.REPLY_LOST)
    world.lifetime_s = 200
    world.call()
    world.operation_id = "invoice-2"

    verdict = world.call()

    assert (verdict.ending, verdict.replayed) == (Ending.RETURNED, True)
    assert verdict.entry.retention_s == 200
    assert verdict.entry.send_deadline_ns == verdict.entry.first_attempt_at_ns + 140 * 10**9


def test_support_at_one_path_says_nothing_of_another() -> None:
    world = _unprofiled(Fate.REPLY_LOST)
    world.support.note(NoteSupport(f"{ORIGIN}/refunds", Support(RETENTION_S)))

    assert world.call().ending is Ending.PENDING
    assert len(world.departures) == 1


def test_a_lifetime_that_was_told_at_one_path_holds_for_the_server() -> None:
    world = ClientWorld(PROFILE, POLICY, [])
    world.learning = Learning.REPLACE
    world.support.note(NoteSupport(ORIGIN, Support(500)))

    world.call()

    assert world.journal.versions[0].retention_s == 500


def test_an_operation_that_was_stuck_goes_on_when_support_was_seen_meanwhile() -> None:
    world = _unprofiled(Fate.REPLY_LOST)
    stuck = world.call()
    world.support.note(NoteSupport(PLACE, Support(RETENTION_S)))

    verdict = world.call()

    assert (stuck.ending, verdict.ending) == (Ending.PENDING, Ending.RETURNED)
    assert len(set(world.provider.executions)) == len(world.provider.executions) == 1


def test_an_operation_that_was_stuck_for_longer_than_the_lifetime_is_closed() -> None:
    world = _unprofiled(Fate.REPLY_LOST)
    world.call()
    world.pass_time(RETENTION_S)
    world.support.note(NoteSupport(PLACE, Support(RETENTION_S)))

    assert world.call().ending is Ending.UNKNOWN
    assert world.journal.versions[-1].state is OperationState.UNKNOWN_FINAL


# -- an advertised lifetime -----------------------------------------------------------------------


def _told(lifetime_s: int, learning: Learning) -> ClientWorld:
    world = ClientWorld(PROFILE, POLICY, [])
    world.learning, world.lifetime_s = learning, lifetime_s
    world.call()
    return world


def test_a_shorter_lifetime_shortens_the_deadline_and_is_kept() -> None:
    world = _told(40, Learning.SHORTEN)
    (entry,) = world.journal.versions[-1:]
    world.support = SupportMemory()
    world.pass_time(21)

    assert (entry.retention_s, entry.send_deadline_ns - entry.first_attempt_at_ns) == (40, 20e9)
    assert world.call().ending is Ending.CLOSED
    assert len(world.departures) == 1


def test_a_longer_lifetime_is_believed_of_a_server_of_ours_only() -> None:
    for learning, retention_s in ((Learning.SHORTEN, RETENTION_S), (Learning.REPLACE, 1000.0)):
        world = _told(1000, learning)

        assert world.journal.versions[-1].retention_s == retention_s


def test_a_lifetime_that_was_learned_holds_for_the_next_operation() -> None:
    world = _told(40, Learning.SHORTEN)
    world.operation_id = "invoice-2"
    world.lifetime_s = None

    assert world.call().entry.retention_s == 40


def test_a_margin_that_exceeds_the_lifetime_leaves_no_time() -> None:
    world = ClientWorld(replace(PROFILE, margin_s=60), POLICY, [])
    world.lifetime_s = 50
    entry = world.call().entry

    assert entry.send_deadline_ns == entry.first_attempt_at_ns


@pytest.mark.parametrize(
    ("value", "retention_s"),
    [(b"86400", 86_400), (b" 1 ", 1), (b"0", None), (b"-1", None), (b"1.5", None), (b"", None),
     (b"PT24H", None), (b"9" * 11, None), (str(int(RETENTION_MAX_S) + 1).encode(), None)],
)  # fmt: skip
def test_a_lifetime_is_a_number_of_seconds(value: bytes, retention_s: float | None) -> None:
    support = read_support(Response(201, ((b"idempotency-key-lifetime", value),), b""))

    assert (support.retention_s if support else None) == retention_s


def test_what_shows_that_a_server_knows_keys() -> None:
    replayed = Response(201, ((b"idempotency-replayed", b"true"),), b"")

    assert read_support(replayed) == Support()
    assert read_support(in_flight(1000).to_response()) == Support()
    assert read_support(Response(201, (), b"")) is None
    assert RETENTION_SEEN_S < RETENTION_MAX_S


def test_what_was_seen_is_bounded_and_not_taken_back_by_silence() -> None:
    memory = SupportMemory()
    memory.note(NoteSupport(ORIGIN, Support(100)))
    memory.note(NoteSupport(ORIGIN, Support()))
    assert memory.recall(RecallSupport(ORIGIN)) == Support(100)

    for number in range(PLACES_MAX):
        memory.note(NoteSupport(f"https://{number}.example", Support()))

    assert memory.recall(RecallSupport(ORIGIN)) is None
