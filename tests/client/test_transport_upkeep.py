"""What a transport tells of the journal behind it, and how it keeps that journal small."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import httpx
import pytest

from client.clients import NO_TLS, START_NS, FakeTime, named
from client.loopback import DROP, OK, Loopback, Reply
from client.stacks import slots_in_use
from replayfloor.client import (
    AsyncIdempotentTransport,
    IdempotentTransport,
    MemoryJournal,
    OperationClosed,
    OutcomePending,
    OutcomeUnknown,
    Profile,
    SQLiteJournal,
)
from replayfloor.client.upkeep import FINISHED_KEPT_S
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import OperationState, PruneOperations, ReadHistory, Settlement

DAY_S = 86_400.0
ONE = Profile(name="one", retention_s=DAY_S, paths=("/one",))
TWO = Profile(name="two", retention_s=30 * DAY_S, paths=("/two",))


def _transport(
    time: FakeTime, journal: MemoryJournal | SQLiteJournal, *profiles: Profile, **keep: float | None
) -> IdempotentTransport:
    return IdempotentTransport(
        httpx.HTTPTransport(verify=NO_TLS),
        profile=profiles or (ONE, TWO),
        journal=journal,
        clock=time.clock,
        sleep=time.sleep,
        random=lambda: 0.5,
        keep_finished_s=keep.get("keep_finished_s", FINISHED_KEPT_S),
    )


def test_what_is_pending_is_listed_and_resumed_with_its_key(loopback: Loopback) -> None:
    loopback.script(DROP, path="/one")
    time, journal = FakeTime(), MemoryJournal()
    with httpx.Client(transport=_transport(time, journal)) as client:
        for name in ("1", "2"):
            with pytest.raises(OutcomePending):
                client.post(loopback.url("/one"), extensions=named(name))
            time.pass_time(1)
        client.post(loopback.url("/two"), extensions=named("3"))
    transport = _transport(time, journal)
    pending = transport.pending()
    loopback.script(OK, path="/one")
    with httpx.Client(transport=transport) as client:
        for each in pending:
            assert each.resumable
            client.request(each.method, each.url, extensions=named(each.operation_id))

    assert [each.operation_id for each in pending] == ["1", "2"]
    assert transport.pending() == ()
    assert len(set(loopback.keys())) == 3


def test_only_the_transports_own_namespaces_are_listed(loopback: Loopback) -> None:
    loopback.script(DROP, path="/one")
    time, journal = FakeTime(), MemoryJournal()
    with httpx.Client(transport=_transport(time, journal)) as client, pytest.raises(OutcomePending):
        client.post(loopback.url("/one"), extensions=named("1"))

    assert len(_transport(time, journal, ONE).pending()) == 1
    assert _transport(time, journal, TWO).pending() == ()


def test_a_settled_operation_is_never_sent_again(loopback: Loopback) -> None:
    loopback.script(DROP, path="/one")
    time, journal = FakeTime(), MemoryJournal()
    transport = _transport(time, journal)
    with httpx.Client(transport=transport) as client:
        with pytest.raises(OutcomePending):
            client.post(loopback.url("/one"), extensions=named("1"))
        sent = len(loopback.received)
        transport.settle("1", Settlement.EXECUTED, "seen in the statement of 30 November")
        with pytest.raises(OperationClosed, match="statement of 30 November"):
            client.post(loopback.url("/one"), extensions=named("1"))

    assert len(loopback.received) == sent
    assert transport.pending() == ()


def test_an_operation_that_two_profiles_have_is_settled_by_its_namespace(
    loopback: Loopback,
) -> None:
    loopback.script(DROP, path="/one")
    loopback.script(DROP, path="/two")
    time = FakeTime()
    transport = _transport(time, MemoryJournal())
    with httpx.Client(transport=transport) as client:
        for path in ("/one", "/two"):
            with pytest.raises(OutcomePending):
                client.post(loopback.url(path), extensions=named("1"))
        with pytest.raises(UsageError, match=r"one.*two"):
            transport.settle("1", Settlement.NOT_EXECUTED, "not in the statement")
        transport.settle("1", Settlement.NOT_EXECUTED, "not in the statement", namespace="two")
        (left,) = transport.pending()

    assert left.namespace == "one"


def test_settling_what_is_not_there_is_refused() -> None:
    transport = _transport(FakeTime(), MemoryJournal())
    with pytest.raises(UsageError, match="no operation '1'"):
        transport.settle("1", Settlement.EXECUTED, "seen")


@pytest.mark.anyio
async def test_the_same_with_await(loopback: Loopback) -> None:
    loopback.script(DROP, path="/one")
    time = FakeTime()
    transport = AsyncIdempotentTransport(
        httpx.AsyncHTTPTransport(verify=NO_TLS),
        profile=ONE,
        journal=MemoryJournal(),
        clock=time.clock,
        sleep=time.sleep_async,
    )
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(OutcomePending):
            await client.post(loopback.url("/one"), extensions=named("1"))
        (left,) = await transport.pending()
        await transport.settle("1", Settlement.EXECUTED, "seen")

        assert left.operation_id == "1"
        assert await transport.pending() == ()


def _ids(journal: MemoryJournal | SQLiteJournal) -> list[str]:
    return [each.operation_id for each in journal.history(ReadHistory())]


def test_old_finished_operations_are_removed_while_the_transport_works(
    loopback: Loopback, tmp_path: Path
) -> None:
    journal = SQLiteJournal(tmp_path / "outbound.db")
    time = FakeTime()
    transport = _transport(time, journal, ONE)
    with httpx.Client(transport=transport) as client:
        for name in ("1", "2"):
            client.post(loopback.url("/one"), extensions=named(name))
            time.pass_time(60)
        time.pass_time(FINISHED_KEPT_S - 60)
        client.post(loopback.url("/one"), extensions=named("3"))
        kept_as_long_as_promised = _ids(journal)
        time.pass_time(DAY_S + 3601)
        client.post(loopback.url("/one"), extensions=named("4"))

    assert kept_as_long_as_promised == ["1", "2", "3"]
    assert _ids(journal) == ["3", "4"]


def test_what_others_keep_in_a_shared_journal_is_left_to_them(loopback: Loopback) -> None:
    journal, time = MemoryJournal(), FakeTime()
    with httpx.Client(transport=_transport(time, journal, TWO, keep_finished_s=None)) as client:
        client.post(loopback.url("/two"), extensions=named("theirs"))
    with httpx.Client(transport=_transport(time, journal, ONE, keep_finished_s=0.0)) as client:
        for name in ("ours", "later", "last"):
            client.post(loopback.url("/one"), extensions=named(name))
            time.pass_time(400 * DAY_S)

    assert "theirs" in _ids(journal)
    assert "ours" not in _ids(journal)


def test_what_is_unknown_is_kept_for_good(loopback: Loopback) -> None:
    loopback.script(DROP, path="/one")
    journal, time = MemoryJournal(), FakeTime()
    with httpx.Client(transport=_transport(time, journal, ONE, keep_finished_s=0.0)) as client:
        with pytest.raises(OutcomePending):
            client.post(loopback.url("/one"), extensions=named("1"))
        time.pass_time(2 * DAY_S)
        with pytest.raises(OutcomeUnknown):
            client.post(loopback.url("/one"), extensions=named("1"))
        loopback.script(OK, path="/one")
        for _ in range(3):
            time.pass_time(400 * DAY_S)
            client.post(loopback.url("/one"), extensions=named("later"[: 2 + _]))

    (left,) = journal.pending()
    assert (left.operation_id, left.state) == ("1", OperationState.UNKNOWN_FINAL)


def test_a_key_that_may_still_be_sent_is_never_forgotten(loopback: Loopback) -> None:
    """Forgotten, the same operation id would get a second key."""
    journal, time = MemoryJournal(), FakeTime()
    with httpx.Client(transport=_transport(time, journal, TWO, keep_finished_s=0.0)) as client:
        for _ in range(6):
            client.post(loopback.url("/two"), extensions=named("1"))
            client.post(loopback.url("/two"), extensions=named(f"other-{_}"))
            time.pass_time(4.9 * DAY_S)

    assert time.now_ns < START_NS + 30 * DAY_S * 1e9
    keys = [each.values("idempotency-key")[0] for each in loopback.received]
    assert len(set(keys[::2])) == 1


def test_finished_operations_can_be_kept_for_good(loopback: Loopback) -> None:
    journal, time = MemoryJournal(), FakeTime()
    with httpx.Client(transport=_transport(time, journal, ONE, keep_finished_s=None)) as client:
        for name in ("1", "2", "3"):
            client.post(loopback.url("/one"), extensions=named(name))
            time.pass_time(400 * DAY_S)

    assert _ids(journal) == ["1", "2", "3"]


def test_a_journal_that_cannot_be_pruned_does_not_disturb_a_call(
    loopback: Loopback, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "outbound.db"
    time = FakeTime()
    with httpx.Client(transport=_transport(time, SQLiteJournal(path), ONE)) as client:
        client.post(loopback.url("/one"), extensions=named("1"))
        with sqlite3.connect(path) as other:
            other.execute(
                "create trigger no_delete before delete on operations "
                "begin select raise(abort, 'not today'); end"
            )
        time.pass_time(400 * DAY_S)
        response = client.post(loopback.url("/one"), extensions=named("2"))

    assert response.status_code == 201
    assert "could not be pruned" in caplog.text


class Interrupted(MemoryJournal):
    """Somebody presses a key while it is pruned."""

    def prune(self, effect: PruneOperations) -> int:
        raise KeyboardInterrupt


def test_an_interrupted_removal_gives_the_connection_back(loopback: Loopback) -> None:
    loopback.script(Reply(body=b"x" * (3 << 20)), path="/one")
    time, inner = FakeTime(), httpx.HTTPTransport(verify=NO_TLS)
    transport = IdempotentTransport(inner, profile=ONE, journal=Interrupted(), clock=time.clock)
    with httpx.Client(transport=transport) as client:
        client.post(loopback.url("/one"))
        time.pass_time(DAY_S)
        with pytest.raises(KeyboardInterrupt):
            client.post(loopback.url("/one"))

        assert slots_in_use(inner) == 0
