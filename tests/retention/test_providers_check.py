"""Figures that are too old, or have no date, are to be read again."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from replayfloor.retention.providers import ProviderRow, get_provider, providers
from replayfloor.retention.providers_check import OLDER_THAN_S, overdue
from replayfloor.retention.providers_files import shipped_rows
from replayfloor.retention.providers_own import overridden

DAY_S = 86_400.0
READ_ON = date(2026, 8, 21)  # of Svix's schedule


def svix() -> list[ProviderRow]:
    return [get_provider("svix", direction="inbound")]


@pytest.mark.parametrize(("days", "names"), [(179, []), (180, []), (181, ["auto_retry"])])
def test_a_figure_is_overdue_from_the_day_after(days: int, names: list[str]) -> None:
    found = overdue(svix(), at=READ_ON + timedelta(days=days))

    assert [each.figure.name for each in found if each.figure.is_duration] == names
    assert all(each.age_days == days for each in found)


def test_the_limit_can_be_given() -> None:
    at = READ_ON + timedelta(days=31)

    assert overdue(svix(), at=at, older_than_s=30 * DAY_S)
    assert not overdue(svix(), at=at, older_than_s=31 * DAY_S)
    assert OLDER_THAN_S == 180 * DAY_S


def test_a_figure_without_a_date_is_overdue_at_once() -> None:
    (stripe,) = [get_provider("stripe", direction="inbound")]
    found = overdue([stripe], at=date(1970, 1, 1))

    assert {each.age_days for each in found} == {None}
    assert "auto_retry" in [each.figure.name for each in found]


def test_what_is_unknown_cannot_get_old() -> None:
    found = overdue(providers(), at=date(2100, 1, 1))

    assert all(each.figure.known for each in found)
    known = sum(figure.known for row in providers() for figure in row.figures)
    assert len(found) == known


def test_the_users_figures_count_too_and_can_settle_it() -> None:
    text = (
        "[providers.inbound.own]\n"
        'auto_retry = { value = "2d", read_on = 2026-11-01 }\nmanual_resend = "3d"'
    )
    rows = overridden(shipped_rows(), text, "replayfloor.toml")
    found = overdue([get_provider("own", rows=rows)], at=date(2026, 11, 30))

    assert [(each.figure.name, each.figure.given) for each in found] == [("manual_resend", True)]
