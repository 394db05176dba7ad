"""A policy file: what is read from it, and that each mistake is told on its line with advice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from replayfloor.retention import (
    Confidence,
    InboundPolicy,
    OutboundPolicy,
    PolicyError,
    Provider,
    Sender,
    load_inbound,
    load_outbound,
    load_policies,
    load_policy,
    parse_policies,
)

FULL = """\
[senders.shop]
automatic_retry = "72h"
manual_resend = { value = "P30D", source = "https://shop.example", read_on = 2026-09-30 }

[inbound.hooks]
senders = ["shop"]
client_retry_budget = "4h"
broker_redelivery = 0
reconciliation_cadence = "1h"
safety_margin.value = "1d"
safety_margin.note = "queues lag"

[inbound.hooks.planned_outage]
value = "4d"
source = "runbook"
confidence = "presumed"

[outbound.refunds]
key_retention = "24h"
retry_budget = "120s"
manual_rerun = "20h"
"""


class Published:
    """A catalogue with one sender and one provider."""

    def sender(self, name: str) -> Sender | None:
        """Return the sender `shop`."""
        shop = Sender("shop", automatic_retry="72h", manual_resend="unknown")
        return shop if name == "shop" else None

    def provider(self, name: str) -> Provider | None:
        """Return the provider `bank`."""
        return Provider("bank", key_retention="24h") if name == "bank" else None

    def sender_names(self) -> tuple[str, ...]:
        """Return its one name."""
        return ("shop",)

    def provider_names(self) -> tuple[str, ...]:
        """Return its one name."""
        return ("bank",)


def test_every_figure_is_read_with_where_it_comes_from() -> None:
    policies = parse_policies(FULL, "here.toml")
    hooks, refunds = policies.inbound["hooks"], policies.outbound["refunds"]
    (shop,) = hooks.senders

    assert hooks.floor.formula == "max(4 h, 0, 72 h, 720 h) + 1 h + 96 h + 24 h = 841 h"
    assert shop.manual_resend is not None
    assert shop.manual_resend.provenance.source == "https://shop.example"
    assert shop.manual_resend.provenance.read_on == date(2026, 9, 30)
    assert shop.automatic_retry is not None
    assert shop.automatic_retry.provenance.source == "here.toml:2"
    assert hooks.planned_outage is not None
    assert hooks.planned_outage.provenance.confidence is Confidence.PRESUMED
    assert hooks.safety_margin is not None
    assert hooks.safety_margin.provenance.note == "queues lag"
    assert refunds.provider.name == "refunds"
    assert refunds.reach.reach_s == 20 * 3600 + 240
    assert policies.place(hooks) == "here.toml:5"
    assert policies.place(hooks, "safety_margin") == "here.toml:10"


def _mistakes() -> Iterator[tuple[str, int, str]]:
    """Yield texts with one mistake, its line, and a part of what is said."""
    handler = '[inbound.p]\nclient_retry_budget = "1h"\n'
    client = '[outbound.p]\nretry_budget = "2min"\nkey_retention = "1d"\n'
    yield handler + 'planed_outage = "1h"', 3, "did you mean 'planned_outage'?"
    yield handler + '\n# a comment\nttl = "1h"', 5, "did you mean 'retention'?"
    yield handler + 'planned-outage = "1h"', 3, "did you mean 'planned_outage'?"
    yield handler + 'planned_outage = "-5m"', 3, "negative"
    yield handler + "planned_outage = -5", 3, "negative"
    yield handler + 'planned_outage = "11000d"', 3, "ten years"
    yield handler + 'planned_outage = "5M"', 3, 'write "5min"'
    yield handler + 'planned_outage = "1 month"', 3, "in days"
    yield handler + 'planned_outage = "P1M"', 3, "P30D"
    yield handler + "planned_outage = 3600", 3, 'write planned_outage = "3600s"'
    yield handler + "planned_outage = 1.5", 3, 'write planned_outage = "1.5s"'
    yield handler + "planned_outage = true", 3, "not a length"
    yield handler + "planned_outage = 01:30:00", 3, "a time of day"
    yield handler + 'planned_outage = ["1h"]', 3, "not a length"
    yield handler + 'planned_outage = { source = "x" }', 3, "has no value"
    yield handler + 'reconciliation_cadence = "0s"', 3, "leave it out"
    yield handler + 'retention = "0s"', 3, "leave it out"
    yield handler + 'retention = "unknown"', 3, "cannot be unknown"
    yield handler + "senders = [\n  'shop',\n  'hop',\n]", 5, "did you mean 'shop'?"
    yield handler + "senders = 'shop'", 3, "is a list"
    yield handler + "senders = [1]", 3, "list of names"
    yield handler + "senders = ['shop', 'shop']", 1, "named twice"
    yield '[inbound.p]\nplanned_outage = "1h"\nretention = "24h"', 3, "derived, not chosen"
    yield '[inbound.p]\nplanned_outage = "1h"', 1, "derived, not chosen"
    yield '\nretention = "24h"', 2, "derived, not chosen"
    yield '[inbound]\nretention = "24h"', 2, "write [inbound.NAME]"
    yield "inbound = 3", 1, "is a table"
    yield '[inbuond.p]\nclient_retry_budget = "1h"', 1, "did you mean 'inbound'?"
    yield '[senders.new]\nmanual_resent = "1h"', 2, "did you mean 'manual_resend'?"
    yield "[senders.new]", 1, "states no horizon"
    yield '[senders.shop]\nautomatic_retry = "71h"', 2, "shorter than what is published, 3 d"
    yield client + 'retention = "1d"', 4, "did you mean 'key_retention'?"
    yield '[outbound.p]\nkey_retention = "1d"', 1, "retry_budget is missing"
    yield '[outbound.p]\nretry_budget = "0s"', 2, "state how long one call"
    yield '[outbound.p]\nretry_budget = "2min"', 1, "how long the provider keeps a key"
    yield '[outbound.p]\nretry_budget = "2min"\nprovider = "bnak"', 3, "did you mean 'bank'?"
    yield client + "provider = 3", 4, "a text in quotes"
    yield client + "provider = 'bank'\n[outbound.q]\nretry_budget = '1s'", 5, "keeps a key"
    yield client.replace("1d", "25h") + "provider = 'bank'", 3, "longer than what is published"
    yield handler + 'planned_outage = { value = "1h", sorce = "x" }', 3, "did you mean 'source'?"
    yield handler + 'planned_outage = { value = "1h", read_on = "May" }', 3, "2026-11-30"
    yield handler + 'planned_outage = { value = "1h", confidence = "documentd" }', 3, "'documented'"
    yield handler + "[inbound.p.planned_outage]\nsource = 'x'\nvalue = '5x'", 5, "no unit of time"
    yield handler + 'planned_outage = "1h', 3, "not TOML"
    yield handler + "planned_outage = ", 3, "not TOML"
    yield handler + 'client_retry_budget = "2h"', 3, "not TOML"


MISTAKES = list(_mistakes())


@pytest.mark.parametrize(("text", "line", "says"), MISTAKES)
def test_a_mistake_is_told_on_its_line_with_what_to_write(text: str, line: int, says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policies(text, "here.toml", catalogue=Published())

    assert (caught.value.file, caught.value.line) == ("here.toml", line)
    assert str(caught.value).startswith(f"here.toml:{line}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(("text", "line", "says"), MISTAKES[:8])
def test_below_a_table_of_another_file_the_line_is_right_too(
    text: str, line: int, says: str
) -> None:
    moved = '[project]\nname = "x"\n\n' + text.replace("[inbound.", "[tool.replayfloor.inbound.")

    with pytest.raises(PolicyError) as caught:
        parse_policies(moved, "pyproject.toml", prefix=("tool", "replayfloor"))

    assert caught.value.line == line + 3
    assert says in str(caught.value)


def test_a_sender_of_the_file_changes_one_of_the_catalogue_figure_by_figure() -> None:
    text = '[senders.shop]\nmanual_resend = "15d"\n[inbound.p]\nsenders = ["shop"]\n'
    (shop,) = parse_policies(text, "f", catalogue=Published()).inbound["p"].senders

    assert [str(term) for term in shop.terms] == ["3 d", "15 d"]


def test_a_figure_on_the_dangerous_side_needs_a_source() -> None:
    said = '{ value = "48h", source = "ticket 4711" }'
    text = f'[senders.shop]\nautomatic_retry = {said}\n[inbound.p]\nsenders = ["shop"]\n'
    (shop,) = parse_policies(text, "f", catalogue=Published()).inbound["p"].senders
    agreed = '[outbound.p]\nprovider = "bank"\nretry_budget = "1s"\nkey_retention = '
    policy = parse_policies(agreed + said, "f", catalogue=Published()).outbound["p"]

    assert [str(term) for term in shop.terms] == ["2 d", "unknown"]
    assert (policy.provider.name, str(policy.provider.key_retention)) == ("bank", "2 d")


def test_what_is_refused_later_can_be_read_now() -> None:
    text = '[inbound.p]\nclient_retry_budget = "2d"\nretention = "1d"\n'

    assert parse_policies(text, "f").inbound["p"].retention is not None


def test_tables_of_the_catalogue_stand_in_the_same_file() -> None:
    text = '[providers.x]\nany = 1\n[brokers]\n[inbound.p]\nclient_retry_budget = "2d"\n'

    assert list(parse_policies(text, "f").inbound) == ["p"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a folder two levels down, which is the current one."""
    below = tmp_path / "src" / "shop"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    return tmp_path


HANDLER = '[{}inbound.p]\nclient_retry_budget = "2d"\n'


def test_the_file_is_found_upwards(project: Path) -> None:
    (project / "replayfloor.toml").write_text(HANDLER.format(""))

    assert load_policy() == load_policy(project / "replayfloor.toml") == load_policy(project)


def test_the_nearest_file_wins(project: Path) -> None:
    (project / "replayfloor.toml").write_text(HANDLER.format(""))
    (project / "src" / "replayfloor.toml").write_text(HANDLER.format("").replace("2d", "3d"))

    assert load_inbound().retention_s == 3 * 86_400


def test_a_table_of_pyproject_counts_and_one_without_it_does_not(project: Path) -> None:
    (project / "src" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "x"\n' + HANDLER.format("tool.replayfloor.")
    )

    policies = load_policies()

    assert list(policies.inbound) == ["p"]
    assert policies.place(policies.inbound["p"]).endswith("pyproject.toml:3")


def test_two_files_in_one_folder_are_refused_and_one_of_them_can_be_named(project: Path) -> None:
    (project / "replayfloor.toml").write_text(HANDLER.format(""))
    (project / "pyproject.toml").write_text(HANDLER.format("tool.replayfloor."))

    with pytest.raises(PolicyError, match=r"two files.*neither wins.*move everything into one"):
        load_policies()
    for name in ("pyproject.toml", "replayfloor.toml"):
        assert load_inbound(project / name).retention_s == 2 * 86_400


def test_no_file_anywhere_is_an_error_that_says_what_was_looked_for(project: Path) -> None:
    with pytest.raises(PolicyError, match=r"no replayfloor\.toml.*or above"):
        load_policies(project / "src")
    with pytest.raises(PolicyError, match="no such file"):
        load_policies(project / "absent.toml")


def test_a_broken_pyproject_that_speaks_of_us_is_told_with_its_line(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.replayfloor]\nx = \n")

    with pytest.raises(PolicyError, match=r"pyproject\.toml:2: this is not TOML"):
        load_policies()


def test_what_is_not_text_is_an_error_of_ours(project: Path) -> None:
    (project / "replayfloor.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(PolicyError, match="not UTF-8"):
        load_policies()


def test_a_byte_order_mark_is_no_mistake(project: Path) -> None:
    (project / "replayfloor.toml").write_bytes(b"\xef\xbb\xbf" + HANDLER.format("").encode())

    assert load_inbound().name == "p"


def test_one_of_several_has_to_be_named(project: Path) -> None:
    text = FULL + '[inbound.refunds]\nclient_retry_budget = "2d"\n'
    (project / "replayfloor.toml").write_text(text)

    assert isinstance(load_policy(name="hooks"), InboundPolicy)
    assert isinstance(load_policy(name="outbound.refunds"), OutboundPolicy)
    assert load_inbound(name="refunds").retention_s == 2 * 86_400
    assert load_outbound().name == "refunds"
    with pytest.raises(PolicyError, match=r"several policies.*inbound\.refunds, outbound\.refunds"):
        load_policy(name="refunds")
    with pytest.raises(PolicyError, match="several policies"):
        load_policy()
    with pytest.raises(PolicyError, match=r"no policy 'hoks'.*did you mean 'hooks'"):
        load_policy(name="hoks")


def test_a_file_without_a_policy_says_what_to_write(project: Path) -> None:
    (project / "replayfloor.toml").write_text("")

    with pytest.raises(PolicyError, match=r"\[inbound\.NAME\]"):
        load_policy()
    with pytest.raises(PolicyError, match=r"\[outbound\.NAME\]"):
        load_outbound()


def test_senders_and_providers_of_the_shipped_catalogue_are_found(project: Path) -> None:
    (project / "replayfloor.toml").write_text(
        '[inbound.hooks]\nsenders = ["stripe"]\nsafety_margin = "5d"\n'
        '[outbound.charges]\nprovider = "stripe-v1"\nretry_budget = "2min"\n'
    )

    policies = load_policies()
    hooks, charges = policies.inbound["hooks"], policies.outbound["charges"]

    assert hooks.floor.formula == "max(3 d, 30 d) + 5 d = 35 d"
    assert hooks.floor.driver.term.provenance.source.startswith("https://docs.stripe.com/")
    assert charges.key_retention_s == 86_400
