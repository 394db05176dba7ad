"""Reading files of JSON lines: torn ones, foreign ones, endless ones."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from client.tail.invented import AT, gathered, line, story, write
from replayfloor.client.tail.scratch import open_scratch
from replayfloor.client.tail.sources import LINE_BYTES_MAX, expand, read
from replayfloor.core.errors import UsageError


def test_a_torn_last_line_is_skipped_and_counted(tmp_path: Path) -> None:
    lines = list(story("a", [0, 60], first_ago_s=900))
    path = tmp_path / "l.jsonl"
    path.write_text("\n".join(lines)[:-20])

    (found,) = gathered(path).found

    assert (found.count, found.skipped, found.torn) == (len(lines), 1, True)


def test_a_last_line_without_its_end_is_read_if_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text("\n".join(story("a", [0], first_ago_s=900)))

    found = gathered(path)

    assert found.found[0].skipped == 0
    assert found.groups[0].open.count == 0


def test_lines_of_something_else_are_skipped_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = list(story("a", [0], first_ago_s=900))
    path = tmp_path / "l.jsonl"
    path.write_text("\n\n".join(["starting up", lines[0], '{"v":', *lines[1:], "bye"]) + "\n")

    found = gathered(path)

    assert (found.found[0].skipped, found.found[0].torn) == (3, False)
    assert found.groups[0].operations == 1


def test_a_line_without_an_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    whole = line("AttemptLeft", "a", first_ago_s=9)
    path = tmp_path / "l.jsonl"
    path.write_text("x" * (3 * LINE_BYTES_MAX + 7) + "\n" + whole + "\n" + "y" * LINE_BYTES_MAX)

    found = gathered(path)

    assert (found.found[0].count, found.found[0].skipped, found.found[0].torn) == (3, 2, True)
    assert found.groups[0].operations == 1


def test_memory_does_not_grow_with_the_lines(tmp_path: Path) -> None:
    """Of what is put together, SQLite keeps a bounded part in memory, and Python nothing."""
    told = (
        text for n in range(4_000) for text in story(f"op{n}", [0], first_ago_s=900, ending=None)
    )
    (source,) = expand(str(write(tmp_path / "l.jsonl", told)))

    with open_scratch() as scratch:
        tracemalloc.start()
        try:
            scratch.add(read(source, AT))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert source.count == 12_000
    assert most < 1_000_000


def test_a_line_of_a_later_version_is_refused_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "l", [line("AttemptLeft", "a", first_ago_s=9, v=v) for v in (1, 2)])

    with pytest.raises(UsageError, match=rf"{path}, line 2: .*version 2"):
        gathered(path)
