"""What the documentation says of options, compared with the functions that decide."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core.problem import TYPE_PREFIX, Problem, ProblemKind
from replayfloor.server.docs import facts
from replayfloor.server.docs.problems import (
    EXPLANATIONS,
    OF_DELIVERIES,
    example,
    explain,
    kinds,
    retry_after,
)
from replayfloor.server.perform_common import REPLAYED, UNPROTECTED
from replayfloor.server.policy import (
    Disposition,
    Effects,
    Options,
    Outage,
    ambiguous_disposition,
    disposition,
)
from replayfloor.server.requests import FIRST_SENT_HEADER, KEY_HEADER
from replayfloor.server.settings import Settings
from server.docs_settings import every_settings, settings_of, some_examples

FEW = some_examples(40)


def _expanded(ranges: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for each in ranges:
        first, _, last = each.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


@FEW
@given(every_settings())
def test_the_ranges_say_of_every_status_what_is_done(drawn: Settings) -> None:
    for options in (drawn.routes.defaults, *(each for _, each in drawn.routes.routes)):
        said = facts.statuses(options)
        stored, freed = _expanded(said.stored), _expanded(said.freed)

        assert stored | freed >= set(range(200, 600)) | options.store | options.free
        assert not stored & freed
        assert all(disposition(status, options) is Disposition.STORE for status in stored)
        assert all(disposition(status, options) is Disposition.FREE for status in freed)
        assert said.raised is ambiguous_disposition(options)


def test_the_ranges_of_the_defaults() -> None:
    said = facts.statuses(Options())

    assert " ".join(said.freed) == "307-308 401 403 408 425 429 503"
    assert said.stored[0] == "200-306"
    assert said.stored[-1] == "504-599"


UNIT_MS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000}


@some_examples(100)
@given(st.integers(1, 10**12))
def test_a_time_is_the_same_in_words_seconds_and_as_a_duration(ms: int) -> None:
    words = re.findall(r"([\d.]+) (day|hour|minute|second)", facts.words(ms))
    iso = re.fullmatch(
        r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?", facts.iso_duration(ms)
    )

    assert sum(round(float(count) * UNIT_MS[unit]) for count, unit in words) == ms
    assert iso is not None
    assert any(iso.groups())
    parts = zip(iso.groups(), UNIT_MS.values(), strict=True)
    assert sum(round(float(count or 0) * unit) for count, unit in parts) == ms
    assert round(float(facts.seconds(ms)) * 1000) == ms


@pytest.mark.parametrize(
    ("ms", "words", "iso"),
    [
        (1000, "1 second", "PT1S"),
        (1500, "1.5 seconds", "PT1.5S"),
        (86_400_000, "1 day", "P1D"),
        (90_000_000, "1 day 1 hour", "P1DT1H"),
        (35 * 86_400_000, "35 days", "P35D"),
        (5_400_000, "1 hour 30 minutes", "PT1H30M"),
    ],
)
def test_times_read_well(ms: int, words: str, iso: str) -> None:
    assert (facts.words(ms), facts.iso_duration(ms)) == (words, iso)


@FEW
@given(every_settings())
def test_the_expiry_policy_has_the_configured_retention(drawn: Settings) -> None:
    options = drawn.routes.defaults
    text = facts.expiry(options)
    if options.retention_ms is None:
        assert "does not expire" in text
        assert facts.lifetime(drawn) is None
    else:
        assert f"{facts.seconds(options.retention_ms)} s" in text
        assert facts.words(options.retention_ms) in text
        assert facts.lifetime(drawn) == str(options.retention_ms // 1000)
        assert ("Any other key" in text) is not options.require_uuid7


def test_the_names_of_the_fields_are_those_that_are_sent_and_read() -> None:
    (lifetime, _), *_ = settings_of(retention=60).lifetime_headers
    sent = (KEY_HEADER, FIRST_SENT_HEADER, REPLAYED[0], lifetime, UNPROTECTED[0])
    said = (
        facts.KEY_FIELD,
        facts.FIRST_SENT_FIELD,
        facts.REPLAYED_FIELD,
        facts.LIFETIME_FIELD,
        facts.UNPROTECTED_FIELD,
    )

    assert tuple(name.lower().encode() for name in said) == sent


# -- refusals ------------------------------------------------------------------------------------


def test_the_refusals_that_are_explained_are_those_that_there_are() -> None:
    assert list(EXPLANATIONS) == list(ProblemKind)


@pytest.mark.parametrize("kind", list(ProblemKind))
def test_every_refusal_is_explained_and_has_an_example_of_its_kind(kind: ProblemKind) -> None:
    told = explain(kind, settings_of(retention=60, required=True))

    assert told.meaning.endswith(".")
    assert told.advice.endswith(".")
    for effects in Effects:
        assert example(kind, Options(effects=effects, retention_ms=60_000)).kind is kind


KEYED = set(ProblemKind) - OF_DELIVERIES
"""What a client with a key can be refused with."""


def test_each_refusal_can_occur_under_the_options_that_cause_it_and_no_others() -> None:
    everything = {kind for effects in Effects for kind in kinds(_all_but(effects=effects))}
    assert everything == KEYED

    def without(**options: object) -> set[ProblemKind]:
        return KEYED - set(kinds(_all_but(**options)))

    assert without(effects=Effects.EXTERNAL) == set()
    assert without(required=False) == {ProblemKind.MISSING_KEY}
    assert without(retention_ms=None) == {ProblemKind.KEY_EXPIRED}
    assert without(effects=Effects.REPEATABLE) == {ProblemKind.OUTCOME_UNKNOWN}
    assert without(effects=Effects.ATOMIC) == {ProblemKind.HANDLER_FAILED}
    assert without(on_outage=Outage.EXECUTE) == {ProblemKind.STORE_UNAVAILABLE}
    assert without(on_outage=Outage.EXECUTE, effects=Effects.ATOMIC) == {ProblemKind.HANDLER_FAILED}


def _all_but(**options: object) -> Options:
    return Options(**{"required": True, "retention_ms": 60_000} | options)  # type: ignore[arg-type]


def test_retry_after_is_said_where_it_is_sent_and_only_there() -> None:
    for effects in Effects:
        options = _all_but(effects=effects)
        for kind in kinds(options):
            sent = example(kind, options).retry_after_s is not None
            assert bool(retry_after(kind, [options])) is sent, kind
    assert "45 seconds at most" in retry_after(
        ProblemKind.IN_FLIGHT, [Options(lease_ms=1000), Options(lease_ms=44_001)]
    )


def test_what_is_said_of_a_request_names_what_is_left_out_of_it() -> None:
    excluded = settings_of(exclude=["/a~1b", "/c/0"]).routes.defaults.body_rule

    assert facts.pointers(excluded) == ("/a~1b", "/c/0")
    assert "`/a~1b` and `/c/0`" in facts.compared(excluded)
    assert "does not count" in facts.compared(
        settings_of(fingerprint="off").routes.defaults.body_rule
    )


def test_a_refusal_is_named_by_its_whole_type() -> None:
    assert all(Problem(kind, "").type == TYPE_PREFIX + kind.value for kind in ProblemKind)
