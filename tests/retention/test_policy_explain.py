"""`replayfloor policy explain`: the derivation, line by line, and a picture for every terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import cast

import pytest

from replayfloor.retention.picture import COLUMNS, cells
from retention.policy_cli import HOOKS, REFUNDS, SHOP, Folder
from support.sources import ROOT, SOURCE_ROOTS

START_S = 60.0


def _after(lines: list[str], start: str) -> list[str]:
    """Return the lines behind the one that begins so, up to an empty one."""
    at = next(at for at, line in enumerate(lines) if line.strip().startswith(start))
    rest = lines[at + 1 :]
    return rest[: rest.index("")] if "" in rest else rest


def test_the_derivation_is_shown_line_by_line_with_where_it_comes_from(folder: Folder) -> None:
    folder.write(HOOKS)

    done = folder.policy("explain")

    assert done.code == 0
    assert done.lines[0] == "inbound.hooks (replayfloor.toml:5)"
    assert [line.split() for line in done.lines[2:12]] == [
        ["The", "longest", "of"],
        ["shop:", "automatic", "retry", "3", "d"],
        ["https://shop.example/hooks,", "read", "2026-09-30", "(documented)"],
        ["shop:", "manual", "resend", "30", "d", "◀", "decides"],
        ["https://shop.example/hooks,", "read", "2025-01-31", "(documented)"],
        ["plus"],
        ["reconciliation", "cadence", "0", "s", "not", "stated"],
        ["planned", "outage", "0", "s", "not", "stated"],
        ["safety", "margin", "5", "d"],
        ["replayfloor.toml:7", "(given)"],
    ]
    assert "      max(3 d, 30 d) + 5 d = 35 d; shop: manual resend decides" in done.lines
    assert any(
        line.startswith("  Receipts are kept for") and "35 d, the floor" in line
        for line in done.lines
    )


def test_the_picture_shows_what_a_day_instead_would_cover(folder: Folder) -> None:
    folder.write(HOOKS)

    lines = folder.policy("explain").lines

    assert [line.split("100 %")[0].strip()[-30:] for line in _after(lines, "Covered by 35 d")] == [
        "█" * 30,
        "█" * 30,
    ]
    day = _after(lines, "It would be, by 1 d")
    assert day[0].endswith("██████████░░░░░░░░░░░░░░░░░░░░ 33.3 %, 2 d open")
    assert day[1].endswith("█░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 3.33 %, 29 d open")
    assert "  35 d instead of 1 d buys 97.1 % of the floor: 34 d" in lines


def test_a_horizon_of_nothing_is_in_the_derivation_and_not_in_the_picture(folder: Folder) -> None:
    folder.write(HOOKS + "broker_redelivery = 0\n")

    lines = folder.policy("explain").lines

    assert any(line.split() == ["broker", "redelivery", "0", "s"] for line in lines)
    assert not any("broker" in line for line in _after(lines, "Covered by 35 d"))


def test_it_can_be_compared_with_any_retention(folder: Folder) -> None:
    folder.write(HOOKS)

    lines = folder.policy("explain", "--against", "7d").lines

    assert _after(lines, "It would be, by 7 d")[1].endswith("23.3 %, 23 d open")
    assert folder.policy("explain", "--against", "7 days").code == 2


def test_layout_and_cost_are_for_the_rate_and_the_default_is_called_one(folder: Folder) -> None:
    folder.write(HOOKS)

    default = folder.policy("explain").text
    given = folder.policy("explain", "--rate", "40").text
    little = folder.policy("explain", "--rate", "0.5").text

    assert "At 20 new keys a second (the default; say yours with --rate)" in default
    assert "partitions of 140 h" in default
    assert "7.98 GB" in default
    assert "At 40 new keys a second\n" in given
    assert "16.0 GB" in given
    assert "one plain table: below about 1 write a second" in little
    assert "partition that waits" not in little


def test_a_client_is_shown_how_much_of_its_window_it_uses(folder: Folder) -> None:
    folder.write(REFUNDS)

    done = folder.policy("explain")

    assert done.code == 0
    assert "20 h ◀ the longest pause" in done.text
    assert "2 min + 20 h + 2 min = 20 h 4 min" in done.text
    assert "█████████████████████████░░░░ 85.3 %, 3 h 27 min 12 s to spare" in done.text
    assert "28 min 48 s the default" in done.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HOOKS + 'retention = "24h"\n', "REFUSED: hooks: retention is 1 d, below the floor of"),
        (HOOKS.replace("shop\"]\n", "shop\"]\nplanned_outage = \"unknown\"\n"), "NO FLOOR: hooks:"),
        (REFUNDS.replace("20h", "24h"), "REFUSED: refunds: by plan an operation is sent again"),
        (REFUNDS.replace("24h", "unknown"), "NO SEND WINDOW: refunds: unknown"),
    ],
)  # fmt: skip
def test_what_is_refused_is_explained_too(folder: Folder, text: str, says: str) -> None:
    folder.write(text)

    done = folder.policy("explain")

    assert done.code == 0
    assert says in " ".join(done.text.split())


def test_without_utf_8_the_picture_is_drawn_in_ascii(folder: Folder) -> None:
    folder.write(HOOKS)

    done = folder.policy("explain", charset="latin-1")

    assert "##########.................... 33.3 %, 2 d open" in done.text
    assert "30 d < decides" in done.text
    assert done.text.isascii()


def test_a_terminal_that_knows_ascii_only_gets_ascii_only(folder: Folder) -> None:
    folder.write(HOOKS.replace("/hooks", "/h\u00f6ks"))
    command = "from replayfloor.retention.cli import app; app()"
    sources = os.pathsep.join(str(ROOT / each) for each in SOURCE_ROOTS)
    done = subprocess.run(
        [sys.executable, "-c", command, "policy", "explain"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": sources},
        capture_output=True,
        timeout=START_S,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"https://shop.example/h\\xf6ks, read" in done.stdout
    assert b"#..." in done.stdout


def test_what_a_note_holds_cannot_speak_to_the_terminal(folder: Folder) -> None:
    note = SHOP.replace('"https://shop.example/hooks"', '"https://shop.example/\\u001B[2J"')
    folder.write(note + '[inbound.hooks]\nsenders = ["shop"]\n')

    done = folder.policy("explain")
    folder.write(note + '[inbound."\\u001B[2J"]\nsenders = ["shop"]\n')
    named = folder.policy("explain")

    assert done.code == 0
    assert "\x1b" not in done.text
    assert "\\x1b[2J" in done.text
    assert named.code == 2
    assert "\x1b" not in named.errors


def test_every_line_fits_eighty_columns_but_for_an_address(folder: Folder) -> None:
    address = f"https://shop.example/{'x' * 90}"
    long_names = HOOKS.replace("shop", "the-shop-with-a-very-long-name-and-a-日本語-branch")
    text = long_names.replace("[senders.the-shop", '[senders."the-shop').replace(
        "branch]", 'branch"]'
    )
    folder.write(
        text.replace(
            "https://the-shop-with-a-very-long-name-and-a-日本語-branch.example/hooks", address
        )
        + 'planned_outage = "23h59m59.999999s"\n'
        + REFUNDS
    )

    done = folder.policy("explain", "--against", "23h59m59.999999s")

    assert done.code == 0, done.errors
    wide = [line for line in done.lines if cells(line) > COLUMNS]
    assert wide
    assert all(line.strip().startswith(address) for line in wide)
    assert any("░" in line for line in done.lines)


def test_one_of_several_is_explained_by_name(folder: Folder) -> None:
    folder.write(HOOKS + REFUNDS)

    both = folder.policy("explain").text
    one = folder.policy("explain", "--name", "refunds").text

    assert "inbound.hooks" in both
    assert "outbound.refunds" in both
    assert "inbound.hooks" not in one
    assert folder.policy("explain", "--name", "refundz").code == 2


def test_a_program_gets_everything_with_its_unit(folder: Folder) -> None:
    folder.write(HOOKS + REFUNDS)

    hooks, refunds = folder.policy("explain", "--json").data

    assert (hooks["floor_s"], hooks["retention_s"], hooks["refused"]) == (
        3_024_000,
        3_024_000,
        None,
    )
    assert cast("dict[str, object]", hooks["driver"])["sender"] == "shop"
    assert cast("dict[str, object]", hooks["layout"])["width_s"] == 140 * 3600
    assert cast("dict[str, object]", hooks["cost"])["receipt_bytes"] == 132 * 1_728_000 * 35
    assert [
        cast("dict[str, object]", each)["against_open_s"]
        for each in cast("list[object]", hooks["coverage"])
    ] == [172_800, 2_505_600]
    assert (refunds["send_window_s"], refunds["reach_s"]) == (84_672, 72_240)
    assert len(str(hooks["digest"])) == 64


def test_what_a_program_gets_of_a_refused_policy_says_why(folder: Folder) -> None:
    folder.write(HOOKS + 'retention = "24h"\n' + REFUNDS.replace("24h", "unknown"))

    hooks, refunds = folder.policy("explain", "--json").data

    assert "below the floor" in str(hooks["refused"])
    assert (hooks["floor_s"], hooks["retention_s"]) == (3_024_000, None)
    assert "unknown" in str(refunds["refused"])


def test_a_mistake_in_the_file_is_told_with_its_line(folder: Folder) -> None:
    folder.write(HOOKS + 'ttl = "24h"\n')

    done = folder.policy("explain")

    assert (done.code, done.text) == (2, "")
    assert done.errors.startswith("replayfloor.toml:8: 'ttl' is unknown in inbound.hooks")


def test_without_a_file_or_a_policy_it_says_what_to_write(folder: Folder) -> None:
    nothing = folder.policy("explain")
    folder.write("")
    empty = folder.policy("explain")

    assert (nothing.code, empty.code) == (2, 2)
    assert "no replayfloor.toml" in nothing.errors
    assert "[inbound.NAME]" in empty.errors
