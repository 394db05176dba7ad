"""UUID version 7: the bits of RFC 9562, and the time that a key tells."""

from __future__ import annotations

from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core.uuid7 import RANDOM_BYTES, minted_ms, uuid7

TIMES = st.integers(min_value=0, max_value=(1 << 48) - 1)
ENTROPY = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)
# RFC 9562, appendix A.6: 2022-02-22T19:22:22Z, rand_a CC3, rand_b 18C4DC0C0C07398F.
VECTOR = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"
VECTOR_MS = 1645557742000


def test_the_vector_of_the_rfc_is_made_from_its_parts() -> None:
    entropy = (0xCC3 << 62 | 0x18C4DC0C0C07398F).to_bytes(RANDOM_BYTES, "big")

    assert uuid7(VECTOR_MS, entropy) == UUID(VECTOR)


@pytest.mark.parametrize("text", [VECTOR, VECTOR.lower()])
def test_the_vector_of_the_rfc_tells_its_time_in_either_letter_case(text: str) -> None:
    assert minted_ms(text) == VECTOR_MS


@given(TIMES, ENTROPY)
def test_the_time_is_read_back_and_the_fixed_bits_are_set(unix_ms: int, entropy: bytes) -> None:
    made = uuid7(unix_ms, entropy)

    assert minted_ms(str(made)) == unix_ms
    assert (made.version, made.variant) == (7, RFC_4122)


@given(TIMES, ENTROPY, ENTROPY)
def test_74_bits_of_the_entropy_count(unix_ms: int, one: bytes, other: bytes) -> None:
    used = (1 << 74) - 1
    same = (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")) & used == 0

    assert (uuid7(unix_ms, one) == uuid7(unix_ms, other)) is same


@given(TIMES, TIMES, ENTROPY, ENTROPY)
def test_a_later_one_sorts_after_an_earlier_one(a: int, b: int, one: bytes, other: bytes) -> None:
    if a != b:
        assert (str(uuid7(a, one)) < str(uuid7(b, other))) is (a < b)


@pytest.mark.parametrize("unix_ms", [-1, 1 << 48])
def test_a_time_that_does_not_fit_is_refused(unix_ms: int) -> None:
    with pytest.raises(ValueError, match="48 bits"):
        uuid7(unix_ms, bytes(RANDOM_BYTES))


@pytest.mark.parametrize("size", [0, 9, 11])
def test_entropy_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="10 bytes"):
        uuid7(0, bytes(size))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "order-1",
        "f0c0a202-bd3f-400f-87e4-bccea735d02c",
        VECTOR.replace("-", ""),
        f"{{{VECTOR}}}",
        f"urn:uuid:{VECTOR}",
        VECTOR + "\n",
        VECTOR.replace("7CC3", "8CC3"),
        VECTOR.replace("98C4", "58C4"),
        "\u0660" * 8 + VECTOR[8:],
    ],
)
def test_any_other_key_tells_no_time(key: str) -> None:
    assert minted_ms(key) is None


@given(st.text())
def test_no_text_makes_it_raise(key: str) -> None:
    assert minted_ms(key) is None or len(key) == 36
