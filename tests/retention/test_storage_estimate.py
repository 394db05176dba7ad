"""What receipts cost, to three digits, and what is refused as no rate, time or size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.retention import PolicyError
from replayfloor.retention.storage import (
    PROOF_BYTES,
    TOMBSTONE_BYTES,
    Estimate,
    render_estimate,
    size_text,
)

MONTH = Estimate(20, 30)


def test_twenty_a_second_are_228_megabytes_a_day() -> None:
    assert MONTH.keys_per_day == 1_728_000
    assert MONTH.bytes_per_day == 132 * 1_728_000
    assert size_text(MONTH.bytes_per_day) == "228 MB"


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (MONTH, "6.84 GB"),
        (Estimate(20, 35), "7.98 GB"),
        (Estimate(40, 30), "13.7 GB"),
        (Estimate(20, 30, bytes_per_key=528), "27.4 GB"),
    ],
)
def test_a_month_has_its_price(estimate: Estimate, text: str) -> None:
    assert size_text(estimate.receipt_bytes) == text
    assert size_text(estimate.total_bytes) == text


def test_tombstones_cost_what_outlives_the_receipt() -> None:
    with_proofs = replace(MONTH, tombstone_days=335)

    assert with_proofs.tombstone_total_bytes == TOMBSTONE_BYTES * 1_728_000 * 335
    assert with_proofs.total_bytes == MONTH.receipt_bytes + with_proofs.tombstone_total_bytes
    assert MONTH.tombstone_total_bytes == 0
    assert replace(with_proofs, tombstone_bytes=PROOF_BYTES).tombstone_total_bytes == (
        16 * 1_728_000 * 335
    )


def test_the_lines_show_the_computation() -> None:
    assert render_estimate(MONTH) == [
        "132 B a key x 1,728,000 keys a day (20 a second) = 228 MB a day",
        "for 30 days: 6.84 GB",
    ]
    more = render_estimate(replace(MONTH, tombstone_days=335))
    assert more[:2] == render_estimate(MONTH)
    assert more[2:] == [
        "and 96 B a tombstone (the proof itself is 16 B) for 335 more days: 55.6 GB",
        "together: 62.4 GB",
    ]
    assert render_estimate(Estimate(1, 1))[1] == "for 1 day: 11.4 MB"


def test_a_program_gets_every_figure() -> None:
    assert MONTH.as_dict() == {
        "rate_per_s": 20,
        "days": 30,
        "bytes_per_key": 132,
        "keys_per_day": 1_728_000,
        "bytes_per_day": 228_096_000,
        "receipt_bytes": 6_842_880_000,
        "tombstone_days": 0,
        "tombstone_bytes_per_key": TOMBSTONE_BYTES,
        "tombstone_bytes": 0,
        "total_bytes": 6_842_880_000,
    }


def test_a_tenth_is_a_tenth() -> None:
    assert Estimate(0.1, 1).keys_per_day == 8640
    assert Estimate(0.1, 0.1, bytes_per_key=10).receipt_bytes == 8640


def test_what_waits_for_its_partition_is_one_width_of_receipts() -> None:
    assert MONTH.bytes_until_dropped(86_400) == MONTH.bytes_per_day


@given(st.floats(0.001, 1e6), st.floats(0.01, 3000), st.integers(1, 100_000))
def test_twice_the_rate_days_or_bytes_is_twice_the_size(
    rate: float, days: float, size: int
) -> None:
    once = Estimate(rate / 2, days / 2, size)
    exact = once.receipt_bytes

    for twice in (replace(once, rate_per_s=rate), replace(once, days=days)):
        assert abs(twice.receipt_bytes - 2 * exact) <= 2 + exact * 1e-12
    assert abs(replace(once, bytes_per_key=2 * size).receipt_bytes - 2 * exact) <= 2


@pytest.mark.parametrize(
    "values",
    [
        {"rate_per_s": 0}, {"rate_per_s": -1}, {"rate_per_s": float("nan")}, {"rate_per_s": 2e6},
        {"days": 0}, {"days": float("inf")}, {"days": 4000}, {"bytes_per_key": 0},
        {"bytes_per_key": 2**31}, {"tombstone_days": -1}, {"tombstone_days": 4000},
        {"tombstone_bytes": 0},
    ],
)  # fmt: skip
def test_what_is_no_rate_time_or_size_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(PolicyError, match="at most"):
        Estimate(**{"rate_per_s": 20.0, "days": 30.0, **values})


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (999_499, "999 kB"), (999_500, "1.00 MB"),
     (10**18, "1.00 EB"), (10**22, "10000 EB")],
)  # fmt: skip
def test_a_size_has_three_digits(size: int, text: str) -> None:
    assert size_text(size) == text
