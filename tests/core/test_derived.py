"""Keys derived from a claim: the same in every process, different for every call and operation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core.derived import DERIVED_CHARS, derived_key
from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import ReceiptId, receipt_id

ID = receipt_id("default", "acme", "k-1")
AMAZON_PAY = re.compile(r"[A-Za-z0-9_-]{1,32}")

ids = st.binary(min_size=16, max_size=16).map(ReceiptId)
names = st.text(min_size=1)


def test_a_derived_key_does_not_change_from_release_to_release() -> None:
    """Another value would charge again whatever was under way when a release was rolled out."""
    assert derived_key(ID, "charge") == "6f3cd22f399c6635109c3d5f34b17b43"
    assert derived_key(ReceiptId(bytes(16)), "é") == "47ee58642b56204814c2adf338d0dfd6"


@given(ids, names)
def test_a_derived_key_fits_the_tightest_limit_of_a_provider(id_: ReceiptId, name: str) -> None:
    key = derived_key(id_, name)

    assert AMAZON_PAY.fullmatch(key)
    assert len(key) == DERIVED_CHARS
    assert key == derived_key(id_, name)


@given(st.sets(st.tuples(ids, names), min_size=2, max_size=8))
def test_two_calls_or_two_operations_never_share_a_key(calls: set[tuple[ReceiptId, str]]) -> None:
    assert len({derived_key(id_, name) for id_, name in calls}) == len(calls)


def test_where_the_id_ends_and_the_name_begins_makes_a_difference() -> None:
    assert derived_key(ReceiptId(b"a" * 16), "ab") != derived_key(ReceiptId(b"a" * 17), "b")


def test_neither_the_id_nor_the_callers_key_is_seen_in_it() -> None:
    key = derived_key(ID, "k-1")

    assert key != ID.hex()
    assert "k-1" not in key


def test_a_call_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="name the call"):
        derived_key(ID, "")
