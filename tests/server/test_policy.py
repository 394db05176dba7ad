"""The table of what becomes of an answer: stored, or the key is freed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.policy import (
    Ambiguous,
    Disposition,
    Effects,
    Options,
    Outage,
    ambiguous_disposition,
    disposition,
)

NOT_EXECUTED = {401, 403, 408, 425, 429, 503}
# What a redirect that repeats the request means is no question of this table.
SAME_REQUEST_ELSEWHERE = {307, 308}
STORED = set(range(200, 500)) - NOT_EXECUTED - SAME_REQUEST_ELSEWHERE
AMBIGUOUS = set(range(500, 600)) - NOT_EXECUTED
STORE, FREE = Disposition.STORE, Disposition.FREE

every_option = pytest.mark.parametrize(
    "options",
    [
        Options(effects=effects, ambiguous=ambiguous)
        for effects in Effects
        for ambiguous in Ambiguous
    ],
)


def _dispositions(statuses: set[int], options: Options) -> set[Disposition]:
    return {disposition(status, options) for status in statuses}


@every_option
def test_answers_given_before_the_operation_always_free_the_key(options: Options) -> None:
    assert _dispositions(NOT_EXECUTED, options) == {FREE}


@every_option
def test_every_other_2xx_3xx_and_4xx_is_always_stored(options: Options) -> None:
    assert _dispositions(STORED, options) == {STORE}


@pytest.mark.parametrize(
    ("effects", "ambiguous", "expected"),
    [
        (Effects.ATOMIC, Ambiguous.STORE, FREE),
        (Effects.ATOMIC, Ambiguous.RELEASE, FREE),
        (Effects.EXTERNAL, Ambiguous.STORE, STORE),
        (Effects.EXTERNAL, Ambiguous.RELEASE, FREE),
        (Effects.REPEATABLE, Ambiguous.STORE, STORE),
        (Effects.REPEATABLE, Ambiguous.RELEASE, FREE),
    ],
)
def test_a_failure_is_freed_where_it_was_rolled_back_or_the_route_says_so(
    effects: Effects, ambiguous: Ambiguous, expected: Disposition
) -> None:
    options = Options(effects=effects, ambiguous=ambiguous)

    assert _dispositions(AMBIGUOUS, options) == {expected}
    assert ambiguous_disposition(options) is expected


@every_option
def test_a_route_can_move_single_statuses_and_moves_no_others(options: Options) -> None:
    moved = replace(options, store=frozenset({429, 500}), free=frozenset({404, 502}))

    assert _dispositions({429, 500}, moved) == {STORE}
    assert _dispositions({404, 502}, moved) == {FREE}
    for status in set(range(200, 600)) - {429, 500, 404, 502}:
        assert disposition(status, moved) is disposition(status, options)


@pytest.mark.parametrize(
    ("effects", "takes_over"),
    [(Effects.ATOMIC, True), (Effects.EXTERNAL, False), (Effects.REPEATABLE, True)],
)
def test_only_what_may_have_had_an_effect_is_not_executed_again(
    effects: Effects, takes_over: bool
) -> None:
    assert Options(effects=effects).takes_over is takes_over


@pytest.mark.parametrize("effects", Effects)
def test_without_receipts_nothing_is_executed_unless_the_route_says_so_and_is_not_atomic(
    effects: Effects,
) -> None:
    assert not Options(effects=effects).executes_openly
    openly = Options(effects=effects, on_outage=Outage.EXECUTE).executes_openly
    assert openly is (effects is not Effects.ATOMIC)


@pytest.mark.parametrize("lease_ms", [0, -1])
def test_a_lease_that_has_no_length_is_refused(lease_ms: int) -> None:
    with pytest.raises(ConfigurationError, match="lease_s"):
        Options(lease_ms=lease_ms)


def test_times_below_zero_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="wait_for_s"):
        Options(wait_ms=-1)
    with pytest.raises(ConfigurationError, match="cache_s"):
        Options(cache_ms=-1)


def test_the_defaults_are_the_careful_ones() -> None:
    options = Options()

    assert (options.effects, options.ambiguous) == (Effects.EXTERNAL, Ambiguous.STORE)
    assert (options.required, options.wait_ms, options.lease_ms) == (False, 0, 30_000)
    assert (options.on_outage, options.store, options.free) == (
        Outage.REFUSE,
        frozenset(),
        frozenset(),
    )
