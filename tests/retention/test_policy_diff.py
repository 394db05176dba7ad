"""`replayfloor policy diff`: what changed, what it does to the floor, and when that is refused."""

from __future__ import annotations

import pytest

from retention.policy_cli import HOOKS, REFUNDS, Folder

SHORTER = HOOKS.replace('"30d"', '"15d"')
LONGER = HOOKS.replace('"30d"', '"40d"')


def test_a_figure_that_shortens_the_floor_is_shown_and_refused(folder: Folder) -> None:
    folder.write(HOOKS, "old.toml")
    folder.write(SHORTER, "new.toml")

    done = folder.policy("diff", "old.toml", "new.toml")

    assert done.code == 1
    assert [" ".join(line.split()) for line in done.lines[:4]] == [
        "inbound.hooks",
        "shop: manual resend 30 d -> 15 d",
        "floor 35 d -> 20 d",
        "kept for 35 d -> 20 d",
    ]
    assert "receipts are gone 15 d earlier" in " ".join(done.text.split())
    assert "--accept-shorter" in done.text


def test_shorter_can_be_accepted(folder: Folder) -> None:
    folder.write(HOOKS, "old.toml")
    folder.write(SHORTER, "new.toml")

    done = folder.policy("diff", "old.toml", "new.toml", "--accept-shorter")

    assert done.code == 0
    assert "accepted" in done.text


def test_longer_and_unchanged_pass(folder: Folder) -> None:
    folder.write(HOOKS, "old.toml")
    folder.write(LONGER, "new.toml")

    longer = folder.policy("diff", "old.toml", "new.toml")
    same = folder.policy("diff", "old.toml", "old.toml")

    assert (longer.code, same.code) == (0, 0)
    assert "35 d -> 45 d" in longer.text
    assert same.text == "No figure changed.\n"


@pytest.mark.parametrize(
    "new",
    [
        HOOKS.replace("hooks", "events"),
        REFUNDS,
        HOOKS.replace('safety_margin = "5d"', "") + 'planned_outage = "4d"\n',
        HOOKS + 'planned_outage = "unknown"\n',
    ],
    ids=["renamed", "gone", "added up to less", "unknown"],
)
def test_whatever_takes_away_from_what_was_kept_is_refused(folder: Folder, new: str) -> None:
    folder.write(HOOKS, "old.toml")
    folder.write(new, "new.toml")

    assert folder.policy("diff", "old.toml", "new.toml").code == 1


def test_an_explicit_retention_that_shortens_is_refused_though_the_floor_stays(
    folder: Folder,
) -> None:
    folder.write(HOOKS + 'retention = "60d"\n', "old.toml")
    folder.write(HOOKS + 'retention = "50d"\n', "new.toml")

    done = folder.policy("diff", "old.toml", "new.toml")

    assert done.code == 1
    assert "10 d earlier" in " ".join(done.text.split())
    assert "floor" not in done.text


def test_a_floor_that_shortens_is_refused_though_the_retention_stays(folder: Folder) -> None:
    folder.write(HOOKS + 'retention = "60d"\n', "old.toml")
    folder.write(SHORTER + 'retention = "60d"\n', "new.toml")

    assert folder.policy("diff", "old.toml", "new.toml").code == 1


def test_what_cannot_be_used_is_refused_even_if_shorter_is_accepted(folder: Folder) -> None:
    folder.write(HOOKS, "old.toml")
    folder.write(HOOKS + 'retention = "24h"\n', "new.toml")

    done = folder.policy("diff", "old.toml", "new.toml", "--accept-shorter")

    assert done.code == 1
    assert "REFUSED: hooks: retention is 1 d" in " ".join(done.text.split())


def test_a_client_may_stop_earlier_but_not_plan_beyond_its_window(folder: Folder) -> None:
    folder.write(REFUNDS, "old.toml")
    folder.write(REFUNDS.replace("24h", "22h"), "earlier.toml")
    folder.write(REFUNDS.replace("20h", "24h"), "beyond.toml")

    earlier = folder.policy("diff", "old.toml", "earlier.toml")
    beyond = folder.policy("diff", "old.toml", "beyond.toml")

    assert earlier.code == 0
    assert "refunds: key retention" in earlier.text
    assert beyond.code == 1


def test_a_program_gets_the_changes_and_by_how_much_it_shortens(folder: Folder) -> None:
    folder.write(HOOKS, "old.toml")
    folder.write(SHORTER, "new.toml")

    done = folder.policy("diff", "old.toml", "new.toml", "--json")

    (change,) = done.data
    assert done.code == 1
    assert change["policy"] == "inbound.hooks"
    assert (change["is_shorter"], change["shortened_by_s"]) == (True, 15 * 86_400)
    assert change["changes"] == [
        {"label": "shop: manual resend", "before": "30 d", "after": "15 d"}
    ]


def test_the_file_as_it_is_is_compared_with_any_revision(folder: Folder) -> None:
    folder.write(HOOKS)
    folder.commit()
    folder.write(SHORTER)

    for spec in ("HEAD", "HEAD:replayfloor.toml"):
        done = folder.policy("diff", spec)
        assert done.code == 1
        assert "30 d -> 15 d" in done.text
    assert folder.policy("diff", "HEAD", "HEAD").code == 0


def test_a_table_of_pyproject_is_compared_with_its_revision(folder: Folder) -> None:
    below = HOOKS.replace("[senders.", "[tool.replayfloor.senders.")
    below = below.replace("[inbound.", "[tool.replayfloor.inbound.")
    folder.write('[project]\nname = "x"\n' + below, "pyproject.toml")
    folder.commit()
    folder.write('[project]\nname = "x"\n' + below.replace("30d", "15d"), "pyproject.toml")

    assert folder.policy("diff", "HEAD").code == 1
    assert folder.policy("diff", "HEAD:pyproject.toml").code == 1


@pytest.mark.parametrize("spec", ["nowhere", "HEAD~9", "nowhere:x.toml", "--output=x:y", ":x.toml"])
def test_what_is_neither_file_nor_revision_is_told_so(folder: Folder, spec: str) -> None:
    folder.write(HOOKS)
    folder.commit()

    done = folder.policy("diff", "--", spec)

    assert done.code == 2
    assert "neither a file nor" in " ".join(done.errors.split())
    assert not (folder.path / "x:y").exists()


def test_without_a_repository_a_revision_is_told_so(folder: Folder) -> None:
    folder.write(HOOKS)

    assert folder.policy("diff", "HEAD").code == 2
