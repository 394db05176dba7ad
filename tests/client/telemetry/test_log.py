"""The records: who is woken up by which, what can be searched for, and what is not told."""

from __future__ import annotations

import logging

import pytest

from client.clients import Setup, named
from client.loopback import DROP, OK, Loopback
from client.telemetry.observed import ended, every_event, facts
from replayfloor.client import OutcomePending
from replayfloor.client.events import AttemptStarted, Ending
from replayfloor.client.telemetry import StructuredLog
from replayfloor.client.telemetry.fields import plain_fields

DEFAULT = "replayfloor.client.operations"


def _records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == DEFAULT]


def test_the_level_is_by_what_somebody_has_to_do(caplog: pytest.LogCaptureFixture) -> None:
    sink = StructuredLog()
    with caplog.at_level(logging.DEBUG, DEFAULT):
        for event in every_event():
            sink(event)

    levels = {vars(record)["idempotency"]["event"]: record.levelname for record in caplog.records}
    assert levels == {
        "AttemptStarted": "DEBUG",
        "AttemptLeft": "DEBUG",
        "AttemptEnded": "DEBUG",
        "WaitStarted": "DEBUG",
        "DeadlineFence": "WARNING",
        "ClockWentBack": "WARNING",
        "BudgetExhausted": "WARNING",
        "JournalFailed": "WARNING",
        "OperationEnded": "ERROR",
    }


@pytest.mark.parametrize(
    ("ending", "level"),
    [
        (Ending.UNKNOWN, "ERROR"),
        (Ending.PENDING, "WARNING"),
        (Ending.JOURNAL_UNAVAILABLE, "WARNING"),
        (Ending.MISMATCH, "WARNING"),
        (Ending.RETURNED, "INFO"),
        (Ending.KEPT, "INFO"),
        (Ending.NOT_EXECUTED, "INFO"),
        (Ending.CLOSED, "INFO"),
    ],
)
def test_the_level_of_an_end(ending: Ending, level: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, DEFAULT):
        StructuredLog()(ended(ending))

    assert [record.levelname for record in caplog.records] == [level]


def test_every_field_is_an_attribute_by_itself_and_in_one_dict(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, DEFAULT):
        for event in every_event():
            StructuredLog()(event)

    for event, record in zip(every_event(), caplog.records, strict=True):
        fields = plain_fields(event)
        assert vars(record).items() >= fields.items()
        assert vars(record)["idempotency"] == fields | {"event": type(event).__name__}


def test_the_message_is_plain_and_names_the_operation(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, DEFAULT):
        for event in every_event():
            StructuredLog()(event)

    assert caplog.messages == [
        "provider POST 'invoice-1': attempt 1 starts, 0.5 s after the first",
        "provider POST 'invoice-1': attempt 1 leaves, 0.5 s after the first",
        "provider POST 'invoice-1': attempt 1 took 0.250 s: status 503; unknown",
        "provider POST 'invoice-1': waits for 1.5 s (retry)",
        "provider POST 'invoice-1': the send deadline has passed, nothing is sent any more, "
        "0.5 s after the first",
        "provider POST 'invoice-1': the wall clock is 3.0 s behind, nothing is sent",
        "provider POST 'invoice-1': no further attempt: too many at https://api.example.com have "
        "failed",
        "provider POST 'invoice-1': the journal failed: disk full",
        "provider POST 'invoice-1': ended unknown after 1 attempt(s) in 0.5 s; unknown",
    ]


def test_an_operation_id_cannot_begin_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, DEFAULT):
        StructuredLog()(AttemptStarted(**facts(operation_id="invoice\nERROR all is lost")))

    assert "\n" not in caplog.messages[0]


def test_a_logger_that_was_given_gets_what_it_wants(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("application")
    with caplog.at_level(logging.WARNING, logger.name):
        for event in every_event():
            StructuredLog(logger)(event)

    assert {record.name for record in caplog.records} == {"application"}
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING"] * 4 + ["ERROR"]


def test_a_call_is_told_with_its_operation_id_and_without_its_key(
    loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.script(*[DROP] * 4, OK)
    with (
        caplog.at_level(logging.DEBUG, DEFAULT),
        Setup(on_event=StructuredLog()).client() as client,
    ):
        with pytest.raises(OutcomePending):
            client.post(loopback.url(), extensions=named("invoice-1", "key-secret"))
        client.post(loopback.url(), extensions=named("invoice-1", "key-secret"))

    records = _records(caplog)
    ends = [record.levelname for record in records if hasattr(record, "ending")]
    assert ends == ["WARNING", "INFO"]
    assert {vars(record)["operation_id"] for record in records} == {"invoice-1"}
    assert "secret" not in "".join(str(vars(record)) for record in records)
