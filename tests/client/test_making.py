"""Values that a call makes in another way than by their classes: that they are the same values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.test_lean_calls import FULL
from replayfloor.client.conclusions import OperationInfo
from replayfloor.client.effects import Moment, Operation, Send, new_operation, new_send
from replayfloor.client.profile_keys import KEY_ENTROPY_BYTES, KeyForm, mint_key
from replayfloor.client.progress import Verdict
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.journal import EndAttempt, JournalEntry
from replayfloor.core.key import DEFAULT_RULES
from replayfloor.core.making import changer, maker
from replayfloor.core.outcome import Outcome
from replayfloor.core.uuid7 import RANDOM_BYTES, uuid7

MADE: list[type] = [Send, Operation, EndAttempt, Verdict, OperationInfo]


@pytest.mark.parametrize("cls", MADE, ids=lambda cls: cls.__name__)
def test_what_is_made_of_every_field_is_what_the_class_makes(cls: type) -> None:
    told = {field.name: object() for field in fields(cls)}

    assert maker(cls)(**told) == cls(**told)


@pytest.mark.parametrize("cls", MADE, ids=lambda cls: cls.__name__)
def test_what_is_left_out_is_what_the_class_puts_there(cls: type) -> None:
    needed = {f.name: object() for f in fields(cls) if f.default is f.default_factory}

    assert maker(cls)(**needed) == cls(**needed)


def test_what_the_class_does_not_take_is_not_taken() -> None:
    make: Callable[..., Moment] = maker(Moment)
    for refused in ({}, {"wall_ns": 1, "wal_ns": 1}):
        with pytest.raises(TypeError):
            make(**refused)
    assert make(1, 2, "boot") == Moment(1, 2, "boot")


def test_a_changed_value_keeps_what_was_not_named() -> None:
    for field in fields(JournalEntry):
        told = object()
        changed = changer(JournalEntry, field.name)(FULL, **{field.name: told})

        for each in fields(JournalEntry):
            expected = told if each is field else getattr(FULL, each.name)
            assert getattr(changed, each.name) is expected
    assert FULL.key == "k"


def test_a_change_that_was_announced_has_to_be_given() -> None:
    with pytest.raises(TypeError):
        changer(JournalEntry, "key", "method")(FULL, key="other")
    with pytest.raises(AssertionError):
        changer(JournalEntry, "keys")


@given(
    st.integers(min_value=0, max_value=2**48 - 1),
    st.binary(min_size=KEY_ENTROPY_BYTES, max_size=KEY_ENTROPY_BYTES),
)
def test_a_key_is_the_text_of_a_uuid_of_its_form(unix_ms: int, entropy: bytes) -> None:
    made = {form: mint_key(form, DEFAULT_RULES, unix_ms, entropy) for form in KeyForm}

    assert made[KeyForm.UUID7] == str(uuid7(unix_ms, entropy[:RANDOM_BYTES]))
    for form, version in ((KeyForm.UUID4, 4), (KeyForm.UUID5, 5), (KeyForm.UUID7, 7)):
        assert made[form] == str(UUID(made[form]))
        assert UUID(made[form]).version == version


def test_the_functions_of_the_flow_make_what_it_needs() -> None:
    operation = new_operation(
        method="POST", origin="http://h", path="/", fingerprint=Fingerprint(b"f")
    )
    send = new_send(
        key="k",
        now_ns=1,
        seen=Moment(1),
        send_deadline_ns=2,
        timeout_s=3.0,
        first_attempt_at_ns=4,
    )

    assert (operation.key, operation.key_yields) == (None, False)
    assert (send.key, send.seen.wall_ns, send.timeout_s) == ("k", 1, 3.0)
    assert EndAttempt("n", "o", 0, Outcome.UNKNOWN, "e") == maker(EndAttempt)(
        "n", "o", 0, Outcome.UNKNOWN, "e"
    )
