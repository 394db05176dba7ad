"""Several sinks as one, and scopes that fail."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

import pytest

from client.clients import Setup
from client.loopback import DROP, Loopback
from client.telemetry.observed import facts
from replayfloor.client import OutcomePending
from replayfloor.client.events import AttemptStarted, Event, ScopedSink
from replayfloor.client.telemetry import JSONLines, OpenTelemetry, StructuredLog, all_of

EVENT = AttemptStarted(**facts())


class _Scoped:
    """Notes what is done with it; `fails` says where it raises."""

    def __init__(self, *fails: str) -> None:
        self.fails = fails
        self.noted: list[str] = []

    def __call__(self, event: Event) -> None:
        self._note(type(event).__name__)

    def scope(self, provider: str, method: str) -> AbstractContextManager[None]:
        self._note(f"scope {provider} {method}")
        return self._scope()

    @contextmanager
    def _scope(self) -> Generator[None]:
        self._note("enter")
        try:
            yield
        except BaseException as error:
            self._note(f"leave {type(error).__name__}")
            raise
        self._note("leave")

    def _note(self, what: str) -> None:
        self.noted.append(what)
        if what in self.fails:
            raise RuntimeError(what)


def test_which_sinks_have_a_scope() -> None:
    scoped = {JSONLines: True, OpenTelemetry: True, StructuredLog: False}

    assert {kind: issubclass(kind, ScopedSink) for kind in scoped} == scoped
    assert isinstance(all_of(), ScopedSink)


def test_each_is_told_in_order_and_entered_around_the_call(loopback: Loopback) -> None:
    first, second = _Scoped(), _Scoped()
    told: list[Event] = []
    loopback.script(DROP)
    setup = Setup(on_event=all_of(first, told.append, second))
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url())

    assert first.noted[:3] == ["scope provider POST", "enter", "AttemptStarted"]
    assert first.noted[-2:] == ["OperationEnded", "leave OutcomePending"]
    assert second.noted == first.noted
    assert [type(event).__name__ for event in told] == first.noted[2:-1]


def test_one_that_raises_does_not_keep_the_others_from_being_told() -> None:
    before, after, failing = _Scoped(), _Scoped(), _Scoped("AttemptStarted")
    with pytest.raises(RuntimeError, match="AttemptStarted"):
        all_of(before, failing, after)(EVENT)
    with pytest.raises(ExceptionGroup) as raised:
        all_of(failing, after, failing)(EVENT)

    assert len(raised.value.exceptions) == 2
    assert before.noted == ["AttemptStarted"]
    assert after.noted == ["AttemptStarted"] * 2


@pytest.mark.parametrize("where", ["scope provider POST", "enter", "leave"])
def test_a_scope_that_raises_does_not_keep_the_others_from_being_entered(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = _Scoped(), _Scoped()
    sink = all_of(before, _Scoped(where), after)
    with caplog.at_level(logging.ERROR), sink.scope("provider", "POST"):
        pass

    assert before.noted == after.noted == ["scope provider POST", "enter", "leave"]
    assert caplog.messages == ["the scope of on_event raised"]


@pytest.mark.parametrize("raised", [KeyError("the call's"), KeyboardInterrupt()])
def test_what_the_call_raises_rises_through_every_scope(raised: BaseException) -> None:
    first, failing, last = _Scoped(), _Scoped(f"leave {type(raised).__name__}"), _Scoped()
    sink = all_of(first, failing, last)
    with pytest.raises(type(raised)) as risen, sink.scope("provider", "POST"):
        raise raised

    assert risen.value is raised
    assert first.noted[-1] == last.noted[-1] == f"leave {type(raised).__name__}"


class _HandsOn(_Scoped):
    """Its scope raises what it was left with, as some do."""

    def scope(self, provider: str, method: str) -> AbstractContextManager[None]:
        return _RaisesAgain()


class _RaisesAgain(AbstractContextManager[None]):
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_value is not None:
            raise exc_value


@pytest.mark.parametrize("raised", [KeyError("the call's"), KeyboardInterrupt()])
def test_a_scope_that_hands_on_what_the_call_raised_has_not_failed(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(type(raised)) as risen, all_of(_HandsOn()).scope("provider", "POST"):
        raise raised

    assert risen.value is raised
    assert caplog.messages == []


@pytest.mark.parametrize("where", ["scope provider POST", "enter", "leave"])
def test_a_scope_that_raises_does_not_disturb_a_call(
    where: str, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), Setup(on_event=_Scoped(where)).client() as client:
        assert client.post(loopback.url()).status_code == 201

    assert caplog.messages == ["the scope of on_event raised"]
