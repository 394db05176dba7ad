"""What a user's file changes of the catalogue, and adds to it, and how that is marked."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from replayfloor.retention import PolicyError
from replayfloor.retention.providers import Direction, ProviderRow, get_provider
from replayfloor.retention.providers_files import load_rows, shipped_rows
from replayfloor.retention.providers_own import overridden
from replayfloor.retention.providers_terms import RowCatalogue, keep_at_least, rely_on
from replayfloor.retention.terms import Confidence

HOUR_S, DAY_S = 3600.0, 86_400.0


def row(text: str, name: str, direction: str) -> ProviderRow:
    rows = overridden(shipped_rows(), text, "replayfloor.toml")
    return get_provider(name, direction=direction, rows=rows)


def test_a_figure_of_the_user_takes_the_place_of_an_unknown_one() -> None:
    changed = row(
        '[providers.inbound.paypal]\nmanual_resend = { value = "30d", source = "ticket 4711", '
        'read_on = 2026-11-30, note = "told by support" }',
        "paypal",
        "inbound",
    )
    figure = changed.figure("manual_resend")

    assert (figure.given, figure.seconds, figure.confidence) == (True, 30 * DAY_S, Confidence.GIVEN)
    assert figure.sources[0].at == "ticket 4711"
    assert figure.read_on == date(2026, 11, 30)
    assert figure.published is not None
    assert not figure.published.known
    assert not changed.given
    assert (keep_at_least(changed).seconds, keep_at_least(changed).is_lower_bound) == (
        30 * DAY_S,
        False,
    )
    # The rest of the row is as it is shipped.
    assert changed.figure("auto_retry") == get_provider("paypal", direction="inbound").figure(
        "auto_retry"
    )


def test_a_plain_figure_says_in_which_line_it_stands() -> None:
    figure = row('\n[providers.inbound.stripe]\nauto_retry = "5d"', "stripe", "inbound").figure(
        "auto_retry"
    )

    assert figure.sources[0].at == "replayfloor.toml:3"
    assert figure.read_on is None


def test_a_row_of_the_user_is_one_like_any_other() -> None:
    text = '[providers.outbound.ledger]\ntitle = "Our ledger"\nretention = "30d"'
    made = row(text, "ledger", "outbound")

    assert (made.given, made.title, made.direction) == (True, "Our ledger", Direction.OUTBOUND)
    assert rely_on(made).seconds == 30 * DAY_S
    assert not made.figure("key").known
    rows = overridden(shipped_rows(), text, "replayfloor.toml")
    assert RowCatalogue(rows).provider("ledger") is not None


def test_the_users_word_makes_solid_what_was_not() -> None:
    assert rely_on(get_provider("shopify", direction="outbound")).seconds is None

    text = '[providers.outbound.shopify]\nretention = { value = "24h", source = "our contract" }'
    assert rely_on(row(text, "shopify", "outbound")).seconds == 24 * HOUR_S


@pytest.mark.parametrize(
    "figure", ['{ value = "30d", confidence = "third-party" }', '"unlimited"', '"unknown"']
)
def test_what_is_hearsay_or_without_end_is_nothing_to_rely_on(figure: str) -> None:
    made = row(f"[providers.outbound.ledger]\nretention = {figure}", "ledger", "outbound")

    assert made.figure("retention").given
    assert rely_on(made).seconds is None


@pytest.mark.parametrize(
    ("table", "figure", "side"),
    [
        ("inbound.stripe", 'manual_resend = "15d"', "shorter"),
        ("inbound.square", 'auto_retry = "48h"', "shorter"),
        ("outbound.stripe-v1", 'retention = "25h"', "longer"),
        ("broker.sns", 'horizon = "22d"', "shorter"),
    ],
)
def test_a_figure_beyond_the_published_one_has_to_name_its_source(
    table: str, figure: str, side: str
) -> None:
    name, _, value = figure.partition(" = ")
    with pytest.raises(PolicyError, match=f"is {side} than what is published") as caught:
        overridden(shipped_rows(), f"[providers.{table}]\n{figure}", "replayfloor.toml")
    assert caught.value.line == 2

    told = f'[providers.{table}]\n{name} = {{ value = {value}, source = "our contract" }}'
    direction, _, provider = table.partition(".")
    assert row(told, provider, direction).figure(name).given


@pytest.mark.parametrize(
    ("table", "figure"),
    [
        ("inbound.stripe", 'manual_resend = "45d"'),
        ("outbound.stripe-v1", 'retention = "12h"'),
        ("inbound.stripe", 'ack_timeout = "1s"'),
    ],
)
def test_a_figure_on_the_safe_side_needs_no_source(table: str, figure: str) -> None:
    assert overridden(shipped_rows(), f"[providers.{table}]\n{figure}", "replayfloor.toml")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[providers.stripe]\n", 1, "write [providers.inbound.stripe]"),
        ("[providers.inbound.stripe]\nautomatic_retry = '5d'", 2, "did you mean 'auto_retry'"),
        ("[providers.inbound.stripe]\nauto_retry = '5 days'", 2, "auto_retry: '5 days' is no"),
        ("[providers.inbound.stripe]\nauto_retry = 5", 2, "auto_retry is a duration, not 5"),
        ("[providers.inbound.stripe]\nauto_retry = { source = 'x' }", 2, "not None"),
        ("[providers.inbound.stripe]\nauto_retry = { value = '5d', url = 'x' }", 2, "'source'"),
        ("[providers.inbound.stripe]\nauto_retry = { value = '5d', read_on = '?' }", 2, "a date"),
        ("[providers.inbound.stripe]\nauto_retry = { value = '5d', confidence = '?' }", 2, "no c"),
        ("[providers.inbound.stripe]\nship = true", 2, "'ship' is unknown"),
        ("[providers.inbound.'No']\nauto_retry = '5d'", 1, "is no name of a row"),
        ("[providers]\ninbound = 1", 2, "is a table"),
        ("providers = 1", 1, "is a table"),
        ("[providers", 1, "this is not TOML"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_on_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(message)) as caught:
        overridden(shipped_rows(), text, "replayfloor.toml")

    assert (caught.value.file, caught.value.line) == ("replayfloor.toml", line)


def test_the_file_is_found_upwards_and_pyproject_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert load_rows() == shipped_rows()

    text = '[tool.replayfloor.providers.inbound.own]\nauto_retry = "2d"'
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    assert get_provider("own", rows=load_rows()).given

    other = tmp_path / "other.toml"
    other.write_text('[providers.inbound.other]\nauto_retry = "2d"', encoding="utf-8")
    assert get_provider("other", rows=load_rows(other)).given


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no such file"):
        load_rows(tmp_path / "none.toml")
